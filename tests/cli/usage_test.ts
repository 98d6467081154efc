/**
 * Wrong calls: each is one line on standard error that says what, where, what was found and what was expected, and exit
 * code 2; nothing was opened, written or sent.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { openHost } from "../../src/runtime/open_host.ts";
import { assertRefused, callCli, CliProcess, LOOPBACK } from "../testing/run_cli.ts";

const MAIN = new URL("../../src/cli/main.ts", import.meta.url).href;

const HOST = ["--address", "10.7.0.1/24", "--listen", "127.0.0.1:0", "--peer", "b=127.0.0.1:9,10.7.0.2"];

/** Wrong command lines, and texts that their messages have. */
const LINES: Record<string, [args: string[], ...texts: string[]]> = {
  "an unknown command": [["pign"], 'no command "pign"', 'did you mean "ping"?'],
  "an unknown command that is near to none": [["frobnicate"], "expected one of up, ping, perf, rpc, demo"],
  "an unknown flag": [["ping", "--cuont", "3", ...HOST, "10.7.0.2"], "ping: unknown flag", "did you mean --count?"],
  "an unknown short flag": [["perf", "-c", "10.7.0.2", "-z", ...HOST], 'perf: unknown flag "-z"', "perf --help"],
  "a flag without its value": [["ping", "10.7.0.2", ...HOST, "--count"], "--count: found nothing, expected a value"],
  "a flag given twice": [["ping", "-c", "1", "-c", "2", ...HOST, "10.7.0.2"], "--count: given twice"],
  "a switch with a value": [["ping", "--quiet=yes", ...HOST, "10.7.0.2"], "--quiet", "expected none"],
  "a word too many": [["ping", ...HOST, "10.7.0.2", "10.7.0.3"], 'found "10.7.0.3", expected only DESTINATION'],
  "a word where there are none": [["rpc", "10.7.0.2", ...HOST], 'rpc: found "10.7.0.2", expected flags only'],
  "a word beside the flags": [["perf", "-s", "now", ...HOST], 'found "now", expected flags only'],
  "no destination": [["ping", ...HOST], "found no destination"],
  "a name for a destination": [["ping", ...HOST, "example.org"], 'destination: found "example.org"', "10.7.0.2"],
  "the other family": [["ping", "-6", ...HOST, "10.7.0.2"], "with -6, expected an IPv6 address"],
  "a count that is no number": [
    ["ping", "-c", "three", ...HOST, "10.7.0.2"],
    '--count: found "three"',
    "a whole number of at least 1",
  ],
  "a negative count": [["ping", "-c", "-1", ...HOST, "10.7.0.2"], '--count: found "-1"', "at least 1"],
  "a count beyond what is whole": [["ping", "-c", "9007199254740993", ...HOST, "10.7.0.2"], "1 to 9007199254740991"],
  "a fraction of a count": [["ping", "--count=1.5", ...HOST, "10.7.0.2"], '--count: found "1.5"'],
  "an interval of nothing": [["ping", "-i", "0", ...HOST, "10.7.0.2"], '--interval: found "0"', "at least 0.001 s"],
  "an interval in an unknown unit": [["ping", "-i", "3h", ...HOST, "10.7.0.2"], '--interval: found "3h"', "200ms"],
  "an interval without end": [["ping", "-i", "3600001", ...HOST, "10.7.0.2"], "--interval", "at most 3600000 s"],
  "a TTL beyond 255": [["ping", "-t", "256", ...HOST, "10.7.0.2"], '--ttl: found "256"', "from 1 to 255"],
  "a size beyond a datagram": [["ping", "-s", "65508", ...HOST, "10.7.0.2"], "--size", "from 0 to 65507"],
  "no host": [["ping", "10.7.0.2"], "found no host, expected --config FILE or --address"],
  "an address without length": [["ping", "--address", "10.7.0.1", "10.7.0.2"], '--address: found "10.7.0.1"', "/24"],
  "an address that is none": [["up", "--address", "10.7.0.256/24"], '--address: found "10.7.0.256/24"'],
  "the second of two addresses": [
    ["up", "--address", "10.7.0.1/24", "--address", "fd07::/129"],
    '--address number 2: found "fd07::/129"',
  ],
  "a listen endpoint without port": [
    ["up", "--address", "10.7.0.1/24", "--listen", "127.0.0.1"],
    "--listen",
    "endpoint",
  ],
  "a peer without prefix": [["up", "--address", "10.7.0.1/24", "--peer", "127.0.0.1:9"], "--peer: found", "PREFIX"],
  "a peer with a bad prefix": [
    ["up", "--address", "10.7.0.1/24", "--peer", "127.0.0.1:9,10.7.0.2/33"],
    "--peer: allowed",
    "10.7.0.2/33",
  ],
  "a peer with a bad endpoint": [
    ["up", "--address", "10.7.0.1/24", "--peer", "b=127.0.0.1:99999,10.7.0.2"],
    "--peer: endpoint",
    "127.0.0.1:99999",
  ],
  "two peers at one endpoint": [
    ["up", "--address", "10.7.0.1/24", "--peer", "127.0.0.1:9,10.7.0.2", "--peer", "127.0.0.1:9,10.7.0.3"],
    "--peer number 2",
  ],
  "a route without peer": [["up", ...HOST, "--route", "10.9.0.0/16"], "--route: found", "PREFIX,PEER"],
  "a metric twice": [["up", ...HOST, "--route", "10.9.0.0/16,b,metric 1,metric 2"], "--route: found", "PREFIX,PEER"],
  "a TUN device without address": [["up", ...HOST, "--tun", "culv0"], '--tun: found "culv0"', "ADDRESS/LENGTH"],
  "an MTU twice": [["up", ...HOST, "--tun", "10.9.0.2/24,mtu 1300,mtu 1400"], "--tun: found", "[,mtu N]"],
  "a route to nobody": [["up", ...HOST, "--route", "10.9.0.0/16,c"], "--route: via", "the name of a peer"],
  "an impairment without unit": [["ping", ...HOST, "--impair", "delay 20", "10.7.0.2"], "--impair", "word 2", "20ms"],
  "an impairment's file that is not there": [
    ["ping", ...HOST, "--impair-in", "trace no/such/file", "10.7.0.2"],
    '--impair-in: found "trace no/such/file"',
    "whose files can be read",
  ],
  "an impairment of what comes in": [["ping", ...HOST, "--impair-in", "los 1%", "10.7.0.2"], "--impair-in", "word 1"],
  "an unknown qdisc": [["ping", ...HOST, "--qdisc", "codel", "10.7.0.2"], "--qdisc", '"fq", "pfifo"'],
  "an unknown congestion control": [["ping", ...HOST, "--congestion", "vegas", "10.7.0.2"], "--congestion", "reno"],
  "an MTU too small": [["ping", ...HOST, "--mtu", "68", "10.7.0.2"], '--mtu: found "68"', "from 576 to 1900"],
  "an unknown encapsulation": [["up", ...HOST, "--encapsulation", "geneve"], "--encapsulation", "vxlan-gpe"],
  "a VNI beyond 24 bits": [["up", ...HOST, "--vni", "16777216"], '--vni: found "16777216"'],
  "a VNI for another encapsulation": [["up", ...HOST, "--vni", "3", "--encapsulation", "raw"], "--vni: found with raw"],
  "a key for another encapsulation": [
    ["up", ...HOST, "--key", "3", "--encapsulation", "vxlan-gpe"],
    "--key: found with vxlan-gpe, expected with gre",
  ],
  "a VNI and a key": [["up", ...HOST, "--vni", "3", "--key", "3"], "found both --vni and --key"],
  "a seed that is no number": [["up", ...HOST, "--seed", "x"], '--seed: found "x"'],
  "neither server nor client": [["perf", ...HOST], "found neither, expected --server or --client ADDRESS"],
  "server and client": [["rpc", "-s", "-c", "10.7.0.2", ...HOST], "found both, expected --server or --client ADDRESS"],
  "a client's flag for a server": [["perf", "-s", "-t", "3", ...HOST], "--time: found with --server"],
  "a server's flag for a client": [["rpc", "-c", "10.7.0.2", "-1", ...HOST], "--one-off: found with --client"],
  "a port beyond 65535": [["perf", "-s", "-p", "65536", ...HOST], '--port: found "65536"', "from 1 to 65535"],
  "a rate in bytes": [["perf", "-c", "10.7.0.2", "-b", "10MB", ...HOST], '--bitrate: found "10MB"', "10M"],
  "a rate in what tc takes for bytes": [
    ["perf", "-c", "10.7.0.2", "-b", "10mbps", ...HOST],
    '--bitrate: found "10mbps"',
  ],
  "a rate beyond all": [["perf", "-c", "10.7.0.2", "-b", "1000T", ...HOST], '--bitrate: found "1000T"', "at most 999T"],
  "a ping of a family that the host has not": [
    ["ping", ...HOST, "fd07::2"],
    'destination: found "fd07::2", expected an IPv4 address',
  ],
  "a perf of a family that the host has not": [["perf", "-c", "fd07::2", ...HOST], '--client: found "fd07::2"'],
  "an rpc of a family that the host has not": [["rpc", "-c", "fd07::2", ...HOST], '--client: found "fd07::2"'],
  "too many streams": [["perf", "-c", "10.7.0.2", "-P", "129", ...HOST], "--parallel", "from 1 to 128"],
  "a time of nothing": [["perf", "-c", "10.7.0.2", "-t", "0", ...HOST], '--time: found "0"'],
  "a time without end": [["perf", "-c", "10.7.0.2", "-t", "1000000", ...HOST], "--time", "86400"],
  "a datagram without its head": [["perf", "-c", "10.7.0.2", "-u", "-l", "10", ...HOST], "--length", "from 20"],
  "a rate of nothing": [["rpc", "-c", "10.7.0.2", "--rate", "0", ...HOST], '--rate: found "0"'],
  "a reply of nothing": [["rpc", "-c", "10.7.0.2", "--reply-size", "0", ...HOST], '--reply-size: found "0"'],
  "a demo with a bad seed": [["demo", "--seed", "-1"], 'demo: --seed: found "-1"'],
  "a demo with a flag behind --": [["demo", "--", "--json"], 'demo: found "--json", expected flags only'],
  "a demo with a bad impairment": [["demo", "--impair", "delay"], "demo: --impair", "word 2 is missing"],
  "a demo captured into a folder": [["demo", "--pcap", "no/such/"], 'demo: --pcap: found "no/such/"', "demo.pcapng"],
  "a file without a name": [["up", ""], "up: found a file without a name"],
  "a file that is not there": [["up", "no/such/host.yaml"], "up: no/such/host.yaml: found no such file"],
  "two files": [["up", "a.yaml", "--config", "b.yaml"], '"a.yaml" and "b.yaml", expected one'],
  "a capture that cannot be written": [
    ["ping", "-c", "1", ...HOST, "--pcap", "no/such/x.pcapng", "10.7.0.2"],
    '--pcap: found "no/such/x.pcapng"',
    "a file that can be written",
  ],
};

/** Wrong files, and texts that their messages have; `FILE` stands for the path. */
const FILES: Record<string, [text: string | Uint8Array<ArrayBuffer>, ...texts: string[]]> = {
  "an empty file": ["", "FILE:1:1: found nothing", "address: 10.7.0.1/24"],
  "a list": ["- 1\n- 2\n", "FILE:1:1: found a list"],
  "no YAML": ["address: [10.7.0.1/24\nlisten: 1\n", "FILE:2:1", "valid YAML"],
  "an indentation too deep": ["address: 10.7.0.1/24\n  listen: 127.0.0.1:1\n", "FILE:1:10", "valid YAML"],
  "a key twice": ["address: 10.7.0.1/24\naddress: 10.7.0.2/24\n", "FILE:2:1", "unique"],
  "bytes that are no text": [new Uint8Array([0x61, 0xff, 0xfe]), "FILE: found bytes that are not UTF-8"],
  "aliases without end": [
    `a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n${
      [..."bcdefg"].map((c, i) => `${c}: &${c} [${Array(9).fill(`*${"abcdef"[i]}`).join(", ")}]\n`).join("")
    }`,
    "FILE: expected YAML without excessive aliases",
  ],
  "an alias of nothing": ["address: 10.7.0.1/24\npeers: *b\n", 'FILE:2:8: found "peers: *b"', 'no anchor "&b"'],
  "two documents": ["address: 10.7.0.1/24\n---\nmtu: 1400\n", "FILE:2:1", "valid YAML (one document, not several)"],
  "too many bytes": [`#${"x".repeat(1 << 20)}\n`, "FILE: found more than 1048576 bytes"],
  "a key that every object has": [
    "address: 10.7.0.1/24\nconstructor: 1\n",
    "FILE:2:1: constructor: unknown key, expected one of address",
  ],
  "no address": ["listen: 127.0.0.1:1\n", "FILE:1:1: address: found nothing"],
  "a bad address": ["listen: 127.0.0.1:1\naddress: 10.7.0.1\n", 'FILE:2:10: address: found "10.7.0.1"'],
  "a bad address in a list": [
    "address:\n  - 10.7.0.1/24\n  - fd07::1\n",
    'FILE:3:5: address[1]: found "fd07::1", expected an address with its prefix length',
  ],
  "an unknown key": ["address: 10.7.0.1/24\nadress: 1\n", "FILE:2:1: adress: unknown key", 'did you mean "address"?'],
  "an unknown key of a peer": [
    "address: 10.7.0.1/24\npeers:\n  - name: b\n    endpont: 127.0.0.1:1\n    allowed: 10.7.0.2\n",
    "FILE:4:5: peers[0].endpont: unknown key",
    "endpoint",
  ],
  "a bad endpoint": [
    "address: 10.7.0.1/24\npeers:\n  - { endpoint: 127.0.0.1, allowed: 10.7.0.2 }\n",
    'FILE:3:17: peers[0].endpoint: found "127.0.0.1"',
  ],
  "a bad impairment": [
    'address: 10.7.0.1/24\nimpair:\n  out: "delay 20ms loss"\n',
    "FILE:3:8: impair.out",
    "word 4 is missing",
  ],
  "a route to nobody": [
    "address: 10.7.0.1/24\nroutes:\n  - to: 10.9.0.0/16\n    via: b\n",
    'FILE:4:10: routes[0].via: found "b"',
  ],
  "several faults": ["address: x\nmtu: 1\n", "FILE:1:10: address", "(and 1 more)"],
  "an unknown service": [
    "address: 10.7.0.1/24\nservices:\n  ehco: 7\n",
    'FILE:3:3: services.ehco: unknown key, did you mean "echo"?',
  ],
  "a service without port": ["address: 10.7.0.1/24\nservices: { echo: yes }\n", "FILE:2:19: services.echo", "a port"],
  "two services on a port": [
    "address: 10.7.0.1/24\nservices: { echo: 7, discard: 7 }\n",
    "FILE:2:31: services.discard: found 7",
    "echo has that one",
  ],
  "services that are a list": ["address: 10.7.0.1/24\nservices: [7]\n", "FILE:2:11: services: found [7]"],
  "services misspelt": [
    "address: 10.7.0.1/24\nservises: { echo: 7 }\n",
    "FILE:2:1: servises",
    'did you mean "services"?',
  ],
};

for (const [name, [args, ...texts]] of Object.entries(LINES)) {
  Deno.test(`usage: ${name}`, async () => {
    assertRefused(await callCli(...args), ...texts);
  });
}

for (const [name, [text, ...texts]] of Object.entries(FILES)) {
  Deno.test(`usage: a file with ${name}`, async () => {
    const folder = await Deno.makeTempDir();
    const path = `${folder}/host.yaml`;
    try {
      await (typeof text === "string" ? Deno.writeTextFile(path, text) : Deno.writeFile(path, text));
      const expected = texts.map((text) => text.replaceAll("FILE", path));
      assertRefused(await callCli("up", "--check", path), "up: ", ...expected);
      // The same file says the same to another command, which writes nothing.
      const capture = `${folder}/x.pcapng`;
      const result = await callCli("ping", "--config", path, "--pcap", capture, "10.7.0.2");
      assertRefused(result, "ping: ", ...expected);
      assertEquals([...Deno.readDirSync(folder)].map((entry) => entry.name), ["host.yaml"]);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}

/** Impairments in a file, beside one that a flag gives, and where the fault stands; `FILE` stands for the path. */
const IMPAIRMENTS: Record<string, [impair: string, flags: string[], ...texts: string[]]> = {
  "of the wrong kind for all": ["impair: 5", ["--impair", "delay 1ms"], "FILE:2:9: impair: found 5"],
  "that are a list for all": ["impair: [a]", ["--impair-in", "delay 1ms"], 'FILE:2:9: impair: found ["a"]'],
  "of an unknown direction": ["impair: { ouch: delay 1ms }", ["--impair", "delay 1ms"], "FILE:2:11: impair.ouch"],
  "wrong the other way": ["impair: { in: bad }", ["--impair", "delay 1ms"], 'FILE:2:15: impair.in: found "bad"'],
  "of the wrong kind for a peer": [
    "peers: [{ name: b, endpoint: 127.0.0.1:9, allowed: 10.7.0.2, impair: 5 }]",
    ["--impair", "delay 1ms"],
    "FILE:2:70: peers[0].impair: found 5",
  ],
  "right for a peer, beside a wrong flag": [
    "peers: [{ name: b, endpoint: 127.0.0.1:9, allowed: 10.7.0.2, impair: { in: delay 1ms } }]",
    ["--impair", "bad"],
    'up: --impair: found "bad"',
  ],
  "right for a peer, beside a flag whose file is not there": [
    "peers: [{ name: b, endpoint: 127.0.0.1:9, allowed: 10.7.0.2, impair: { out: delay 1ms } }]",
    ["--impair-in", "trace no/such/file"],
    'up: --impair-in: found "trace no/such/file"',
  ],
};

for (const [name, [impair, flags, ...texts]] of Object.entries(IMPAIRMENTS)) {
  Deno.test(`usage: impairments ${name} are told where they stand`, async () => {
    const path = await Deno.makeTempFile({ suffix: ".yaml" });
    try {
      await Deno.writeTextFile(path, `address: 10.7.0.1/24\n${impair}\n`);
      const expected = texts.map((text) => text.replaceAll("FILE", path));
      assertRefused(await callCli("up", "--check", path, ...flags), ...expected);
    } finally {
      await Deno.remove(path);
    }
  });
}

Deno.test("usage: a file without end is not read for ever", { ignore: Deno.build.os !== "linux" }, async () => {
  const { code, stderr } = await new Deno.Command("timeout", {
    args: ["20", Deno.execPath(), "run", "--quiet", "-A", MAIN, "up", "/dev/zero"],
    stdin: "null",
  }).output();
  assertEquals(code, 2);
  assert(new TextDecoder().decode(stderr).includes("/dev/zero: found more than 1048576 bytes"));
});

Deno.test("usage: the version is that of the package", async () => {
  const { version } = JSON.parse(await Deno.readTextFile(new URL("../../deno.json", import.meta.url)));
  for (const flag of ["--version", "-V"]) {
    assertEquals(await callCli(flag), { code: 0, out: `culvert ${version}\n`, err: "" });
  }
});

Deno.test("usage: a folder is no file", async () => {
  const folder = await Deno.makeTempDir();
  try {
    assertRefused(await callCli("up", folder), `${folder}: found a folder`);
  } finally {
    await Deno.remove(folder);
  }
});

Deno.test("usage: a name in a file that cannot be looked up, at its place", async () => {
  const path = await Deno.makeTempFile({ suffix: ".yaml" });
  try {
    // A label of more than 63 letters is refused without asking anybody.
    const name = "x".repeat(64);
    await Deno.writeTextFile(path, `address: 10.7.0.1/24\npeers: [{ endpoint: '${name}:1', allowed: 10.7.0.2 }]\n`);
    assertRefused(await callCli("up", "--check", path), `${path}:2:21: peers[0].endpoint`, "looked up");
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("usage: a name that cannot be looked up does not hide what has a wrong form", async () => {
  const line = ["up", "--check", "--address", "10.7.0.1", "--peer", `${"x".repeat(64)}:1,10.7.0.2/33`];
  assertRefused(await callCli(...line), '--address: found "10.7.0.1"', "(and 1 more)");
  const port = await callCli("up", "--check", "--address", "10.7.0.1/24", "--peer", "localhost:70000,10.7.0.2");
  assertRefused(port, '--peer: endpoint: found "localhost:70000"');
});

Deno.test("usage: a port in use is one line, and with --json an object", async () => {
  await using taken = await openHost({ address: "10.7.0.9/24", listen: "127.0.0.1:0" });
  const { port } = taken.endpoints[0]!;
  const host = ["--address", "10.7.0.1/24", "--listen", `127.0.0.1:${port}`];
  for (const args of [["up"], ["ping", "10.7.0.2"], ["perf", "-s"], ["rpc", "-s"]]) {
    const { code, out, err } = await callCli(...args, "--json", ...host);
    assertEquals([code, err.split("\n").length], [1, 2], err);
    assert(err.startsWith(`culvert: ${args[0]}: `) && err.includes(`127.0.0.1:${port}`), err);
    assertEquals(`culvert: ${JSON.parse(out).error}\n`, err);
  }
});

Deno.test("usage: flags go before the file, and faults are told where they are", async () => {
  const path = await Deno.makeTempFile({ suffix: ".yaml" });
  try {
    await Deno.writeTextFile(
      path,
      "address: nonsense\npeers: [{ name: b, endpoint: 127.0.0.1:9, allowed: 10.7.0.2 }]\n",
    );
    const good = await callCli("up", "--check", "--json", path, "--address", "10.7.0.1/24");
    assertEquals([good.code, JSON.parse(good.out)], [0, { valid: true, addresses: ["10.7.0.1/24"], peers: ["b"] }]);
    const bad = await callCli("up", "--check", path, "--address", "nonsense");
    assertRefused(bad, '--address: found "nonsense"');
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("usage: as a process, a wrong call ends with code 2 and needs no permission", async () => {
  await using child = new CliProcess([], ["ping", "--count", "none", "10.7.0.2"]);
  assertRefused(await child.result(), 'ping: --count: found "none"');
});

Deno.test("usage: a permission that is missing is one line", async () => {
  await using child = new CliProcess([], ["ping", "-c", "1", ...HOST, "10.7.0.2"]);
  assertRefused(await child.result(), "--allow-net=127.0.0.1:");
  await using reader = new CliProcess([...LOOPBACK], ["up", "host.yaml"]);
  assertRefused(await reader.result(), "--allow-read=host.yaml");
});

Deno.test("usage: every command has help with examples and permissions", async () => {
  for (const name of ["up", "ping", "perf", "rpc", "demo"]) {
    for (const flag of ["--help", "-h"]) {
      const { code, out, err } = await callCli(name, flag);
      assertEquals([code, err], [0, ""]);
      assert(out.startsWith(`Usage: culvert ${name} `));
      for (const part of ["Options:", "Examples:", "Permissions: --allow-net"]) {
        assert(out.includes(part), `${name}: ${part}`);
      }
      if (name !== "demo") {
        for (const part of ["--config FILE", "--pcap FILE", "--impair TEXT"]) assert(out.includes(part));
      }
    }
  }
  const ping = (await callCli("ping", "--help")).out.split("\n");
  // What a flag does begins in one column, in the line of a short form and below a long one.
  assert(ping.some((line) => /^ {2}--config FILE {13}the host/.test(line)), ping.join("\n"));
  const peer = ping.findIndex((line) => line.startsWith("  --peer "));
  assert(/^ {28}a neighbour/.test(ping[peer + 1]!), ping[peer + 1]);
  assert(ping.some((line) => line.includes("-C, --congestion NAME") && line.includes("default cubic")));
  const all = await callCli("--help");
  assertEquals(all.code, 0);
  for (const name of ["up", "ping", "perf", "rpc", "demo"]) assert(all.out.includes(`  ${name} `));
  assertEquals((await callCli()).code, 2);
});

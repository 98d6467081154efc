/**
 * Interop of two routers of ours with Linux kernels on both sides: vxlan-gpe at one end, a TUN device at the other, and
 * between the routers a tunnel that is impaired and narrower than both ends. See `router_site.ts`.
 *
 * For IPv4 and IPv6, first with nothing but delay: `ping`, `traceroute` and `tracepath` both ways, with each hop and the
 * path MTU; a packet that is too big is answered with the MTU of the next hop, and one that just fits passes. Then with
 * loss, jitter and a rate, too: `curl` of 50 MB each way, where the kernel has to find the path MTU again; `iperf3` with 8
 * connections and with UDP each way; an SSH session that moves 10 MB each way. At the end both routers close in good order
 * with no packet in use, none whose checksum was wrong and none that the kernel did not take, and the TUN device goes with
 * its router, even with one that is killed.
 *
 * Prints `ok NAME`, `not ok NAME` or `skip NAME reason`; exits with 1 if anything failed. Nothing is left behind.
 *
 * @module
 */

import { Checks, expect } from "./checks.ts";
import { sha256 } from "./interop_host.ts";
import { bracket, linesOf, type Namespace, socketFact, watchSockets } from "./namespaces.ts";
import {
  DELAY_ONLY,
  EDGE_MTU,
  FAMILIES,
  type Family,
  IMPAIRED,
  MIDDLE_MTU,
  RouterSite,
  TUN_NAME,
} from "./router_site.ts";
import { SshServer } from "./ssh_server.ts";
import { Rng } from "../../src/base/rng.ts";

const HTTP_PORT = 8000;
const IPERF_PORT = 5201;

/** Bytes that `curl` fetches, and bytes of them that an SSH session moves. */
const CURL_BYTES = 50_000_000;
const SSH_BYTES = 10_000_000;

/** Transport headers that a probe of `ping` has. */
const ICMP_BYTES = 8;

const checks = new Checks();

/** One direction of one family. */
class Direction {
  readonly label: string;
  readonly from: Namespace;
  readonly to: Namespace;
  readonly address: string;
  readonly hops: readonly string[];

  constructor(site: RouterSite, readonly family: Family, isToB: boolean) {
    [this.from, this.to] = isToB ? [site.a, site.b] : [site.b, site.a];
    this.address = isToB ? family.b : family.a;
    this.hops = isToB ? family.hopsToB : family.hopsToA;
    this.label = `${family.name} from ${isToB ? "A to B" : "B to A"}`;
  }

  /** Runs a command where packets come from, for so many seconds at most. */
  run(seconds: number, ...command: string[]): Promise<string> {
    return this.from.run("timeout", `${seconds}`, ...command);
  }

  /** Has both kernels forget what they know of paths. */
  async forget(): Promise<void> {
    for (const ns of [this.from, this.to]) {
      for (const family of ["-4", "-6"]) await ns.run("ip", family, "route", "flush", "cache");
    }
  }

  /** One ping of a packet of so many bytes that no router may cut. */
  async probe(packetBytes: number): Promise<string> {
    const data = packetBytes - this.family.headerBytes - ICMP_BYTES;
    await this.forget();
    // ping says by its code that nobody answered.
    return await this.run(20, "ping", "-n", "-c", "1", "-W", "5", "-M", "do", "-s", `${data}`, this.address).catch(
      String,
    );
  }
}

async function checkHops(d: Direction): Promise<void> {
  const { family, hops, label } = d;
  await checks.run(`${label}: ping`, async () => {
    const text = await d.run(20, "ping", "-n", "-c", "5", "-i", "0.2", "-W", "5", d.address).catch(String);
    const answers = [...text.matchAll(/icmp_seq=\d+ ttl=(\d+)/g)].map(([, ttl]) => ttl);
    // Two routers on the way back.
    expect(answers.length === 5 && answers.every((ttl) => ttl === "62"), text);
    return /rtt .*/.exec(text)?.[0] ?? "";
  });
  await checks.run(`${label}: traceroute shows both routers`, async () => {
    const text = await d.run(60, "traceroute", family.option, "-n", "-w", "5", d.address);
    const found = text.trim().split("\n").slice(1).map((line) => line.trim().split(/\s+/)[1]);
    expect(found.join() === hops.join(), `hops ${found.join(", ")}, expected ${hops.join(", ")}: ${text}`);
    return found.join(", ");
  });
  await checks.run(`${label}: tracepath shows both routers and the MTU of each part`, async () => {
    const text = await d.run(60, "tracepath", family.option, "-n", d.address);
    const lines = text.trim().split("\n").map((line) => line.trim());
    expect(new RegExp(`LOCALHOST.*pmtu ${EDGE_MTU}$`).test(lines[0]!), text);
    const answers = lines.flatMap((line) => {
      const match = /^(\d+): +([0-9a-f.:]+) +[\d.]+ms(?: +pmtu (\d+)| +reached| )*$/.exec(line);
      return match === null ? [] : [{ hop: Number(match[1]), address: match[2]!, mtu: match[3] }];
    });
    hops.forEach((address, i) => {
      expect(answers.some((answer) => answer.hop === i + 1 && answer.address === address), `no ${address}: ${text}`);
    });
    const told = answers.filter(({ mtu }) => mtu !== undefined);
    expect(told.length === 1 && told[0]!.address === hops[0] && told[0]!.mtu === `${MIDDLE_MTU}`, text);
    expect(lines.at(-1)!.startsWith(`Resume: pmtu ${MIDDLE_MTU} hops ${hops.length} back ${hops.length}`), text);
    return lines.at(-1)!;
  });
  await checks.run(`${label}: a packet too big is answered with the MTU of the next hop`, async () => {
    for (const bytes of [MIDDLE_MTU + 1, EDGE_MTU]) {
      const text = await d.probe(bytes);
      const mtu = /(?:Frag needed and DF set \(mtu = |Packet too big: mtu=)(\d+)/.exec(text)?.[1];
      const from = /From ([0-9a-f.:]+?):? icmp_seq/.exec(text)?.[1];
      expect(mtu === `${MIDDLE_MTU}` && from === hops[0], `${bytes} bytes: ${text}`);
    }
    const text = await d.probe(MIDDLE_MTU);
    expect(/ 1 received/.test(text), `${MIDDLE_MTU} bytes: ${text}`);
    return `${MIDDLE_MTU + 1} bytes are told ${MIDDLE_MTU} by ${hops[0]}, ${MIDDLE_MTU} bytes pass`;
  });
}

async function checkCurl(d: Direction, digest: string): Promise<void> {
  await checks.run(`${d.label}: curl of ${CURL_BYTES / 1e6} MB, and the path MTU is found again`, async () => {
    await d.forget();
    const url = `http://${bracket(d.address)}:${HTTP_PORT}/`;
    const script = `set -o pipefail; curl --globoff --silent --show-error --max-time 100 '${url}' | sha256sum`;
    const curl = d.run(110, "bash", "-c", script);
    const from = performance.now();
    const seen = await watchSockets(d.to, `sport = :${HTTP_PORT}`, curl, 200);
    const text = await curl;
    const seconds = (performance.now() - from) / 1000;
    expect(text.startsWith(digest), `SHA-256 ${text.trim()}, expected ${digest}`);
    const mtus = new Set(seen.map((line) => socketFact(line, "pmtu")));
    expect(mtus.has(`${MIDDLE_MTU}`), `the server's path MTU was ${[...mtus].join(", ")}: ${seen.at(-1)}`);
    return `SHA-256 equal, ${(8e-6 * CURL_BYTES / seconds).toFixed(0)} Mbit/s, path MTU ${[...mtus].join(" then ")}`;
  });
}

/** The part of the report of `iperf3` that is looked at. */
interface IperfReport {
  readonly error?: string;
  readonly end: {
    readonly streams?: readonly { readonly receiver?: { readonly bytes: number } }[];
    readonly sum_received?: { readonly bits_per_second: number };
    readonly sum?: { readonly packets: number; readonly lost_percent: number; readonly bits_per_second: number };
  };
}

/** Runs `iperf3` at the client of `d`. */
async function iperf(d: Direction, ...more: string[]): Promise<IperfReport["end"]> {
  const words = ["-c", d.address, "--json", "--connect-timeout", "10000", ...more];
  const text = await d.run(60, "iperf3", ...words);
  const report = JSON.parse(text) as IperfReport;
  expect(report.error === undefined, `${report.error}`);
  return report.end;
}

async function checkIperf(d: Direction): Promise<void> {
  const mbit = (bitsPerSec: number): string => `${(bitsPerSec / 1e6).toFixed(1)} Mbit/s`;
  for (const [way, flags] of [["to the server", []], ["from the server", ["--reverse"]]] as const) {
    await checks.run(`${d.label}: iperf3 with 8 connections ${way}`, async () => {
      const end = await iperf(d, "--parallel", "8", "--time", "4", ...flags);
      const bytes = (end.streams ?? []).map(({ receiver }) => receiver?.bytes ?? 0);
      const rate = end.sum_received?.bits_per_second ?? 0;
      expect(bytes.length === 8 && bytes.every((n) => n > 0), `bytes by connection: ${bytes.join(", ")}`);
      expect(rate > 10e6, mbit(rate));
      return `${mbit(rate)}, the slowest ${mbit(8 * Math.min(...bytes) / 4)}`;
    });
    await checks.run(`${d.label}: iperf3 by UDP ${way}`, async () => {
      const { sum } = await iperf(d, "--udp", "--bandwidth", "20M", "--length", "1200", "--time", "3", ...flags);
      expect(sum !== undefined && sum.packets > 3000 && sum.lost_percent < 10, JSON.stringify(sum));
      return `${mbit(sum.bits_per_second)}, ${sum.packets} datagrams, ${sum.lost_percent.toFixed(2)} % lost`;
    });
  }
}

async function checkSsh(d: Direction, server: SshServer, path: string, digest: string): Promise<void> {
  const ssh = server.client(d.address).map((word) => `'${word}'`).join(" ");
  const run = async (script: string): Promise<string> => await d.run(60, "bash", "-c", `set -o pipefail; ${script}`);
  await checks.run(`${d.label}: an SSH session moves ${SSH_BYTES / 1e6} MB each way`, async () => {
    const there = await run(`${ssh} sha256sum < '${path}'`);
    expect(there.startsWith(digest), `there: SHA-256 ${there.trim()}, expected ${digest}`);
    const back = await run(`${ssh} 'cat ${path}' < /dev/null | sha256sum`);
    expect(back.startsWith(digest), `back: SHA-256 ${back.trim()}, expected ${digest}`);
    return "SHA-256 equal";
  });
}

/** What the kernel says of the TUN device, and where it routes by it; `null` if there is no such device. */
async function lookAtDevice(ns: Namespace): Promise<string | null> {
  const links = await ns.run("ip", "-o", "link");
  if (!links.includes(`: ${TUN_NAME}:`)) return null;
  const more = [["-o", "addr", "show", "dev", TUN_NAME], ["route"], ["-6", "route"]];
  return links + (await Promise.all(more.map((words) => ns.run("ip", ...words)))).join("");
}

async function checkDevice(site: RouterSite): Promise<void> {
  await checks.run("the TUN device has its MTU, addresses and routes", async () => {
    const text = await lookAtDevice(site.b) ?? "";
    const wanted = [
      ...[`: ${TUN_NAME}: <POINTOPOINT,MULTICAST,NOARP,UP,LOWER_UP> mtu ${EDGE_MTU} `, " 10.9.0.2/24 ", " fd09::2/64 "],
      ...["10.7.0.0/24", "10.8.0.0/24", "fd07::/64", "fd08::/64"].map((prefix) => `${prefix} dev ${TUN_NAME} `),
    ];
    for (const part of wanted) expect(text.includes(part), `no "${part}": ${text}`);
    return `${wanted.length} facts`;
  });
}

async function checkDeviceGone(site: RouterSite): Promise<void> {
  await checks.run("the TUN device is gone with its router, also with one that is killed", async () => {
    expect(await lookAtDevice(site.b) === null, "it is there after the end");
    const again = await site.restartSecond();
    expect(await lookAtDevice(site.b) !== null, "it is not there again");
    await again.kill();
    expect(await lookAtDevice(site.b) === null, "it is there after SIGKILL");
    return "by SIGTERM and by SIGKILL";
  });
}

async function checkEnd(site: RouterSite): Promise<void> {
  for (const [i, router] of site.routers.entries()) {
    await checks.run(`router ${i + 1} ends in good order`, async () => {
      const { drops, pool, tun, forwarded, interfaces } = await router.end();
      const wrong = Object.keys(drops).filter((name) =>
        /checksum|truncated|bad-|not-allowed|unknown|port-send/.test(name)
      );
      expect(wrong.length === 0, JSON.stringify(drops));
      expect(pool.inUse === 0, `${pool.inUse} packets in use`);
      expect(tun === null || tun.sendErrors === 0, JSON.stringify(tun));
      expect(
        interfaces.every(({ packetsIn, packetsOut }) => packetsIn > 0 && packetsOut > 0),
        JSON.stringify(interfaces),
      );
      const kernel = tun === null ? "" : `, the kernel dropped ${tun.systemDrops} for us`;
      return `forwarded ${forwarded}, drops ${JSON.stringify(drops)}${kernel}`;
    });
  }
}

/** Has a Python server in `ns` serve `data`. */
async function serveHttp(ns: Namespace, data: Uint8Array<ArrayBuffer>): Promise<void> {
  const script = new URL("./kernel_http.py", import.meta.url).pathname;
  const options: Deno.CommandOptions = { stdin: "piped", stdout: "piped", stderr: "inherit" };
  const child = ns.command(options, "python3", script, `${HTTP_PORT}`).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(data);
  await writer.close();
  const { value } = await linesOf(child.stdout).next();
  expect(value === "ready", "the Python server did not start");
}

/** Has an iperf3 server listen in `ns`. */
async function serveIperf(ns: Namespace): Promise<void> {
  ns.command({ stdin: "null", stdout: "null", stderr: "null" }, "iperf3", "--server").spawn();
  await ns.listening(IPERF_PORT);
}

function testData(): Uint8Array<ArrayBuffer> {
  const rng = new Rng(20260102);
  const words = new Uint32Array(CURL_BYTES / 4);
  for (let i = 0; i < words.length; i++) words[i] = rng.u32();
  return new Uint8Array(words.buffer);
}

async function main(): Promise<void> {
  await using site = await RouterSite.open(DELAY_ONLY);
  const directions = FAMILIES.map((family) => [true, false].map((isToB) => new Direction(site, family, isToB)));
  await checkDevice(site);
  for (const d of directions.flat()) await checkHops(d);

  await site.impair(IMPAIRED);
  const data = testData();
  const digest = await sha256(data);
  for (const ns of [site.a, site.b]) await serveHttp(ns, data);
  for (const d of directions.flat()) await checkCurl(d, digest);
  await serveIperf(site.b);
  for (const [toB] of directions) await checkIperf(toB!);

  const few = data.subarray(0, SSH_BYTES);
  const path = `${site.folder}/data`;
  await Deno.writeFile(path, few);
  const server = await SshServer.start(site.b, site.folder);
  for (const [toB] of directions) await checkSsh(toB!, server, path, await sha256(few));
  await checkEnd(site);
  await checkDeviceGone(site);
}

if (import.meta.main) {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) {
    console.log("skip router-interop network namespaces and TUN devices need root on Linux");
  } else if (!await Deno.stat("/dev/net/tun").then(() => true, () => false)) {
    console.log("skip router-interop this system has no /dev/net/tun");
  } else {
    await main().catch((error) => checks.fail("router interop", error instanceof Error ? error.stack! : String(error)));
  }
  Deno.exit(checks.failures === 0 ? 0 : 1);
}

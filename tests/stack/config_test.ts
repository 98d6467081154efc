import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { NETEM_DEFAULTS } from "../../src/impair/config.ts";
import { formatNetem } from "../../src/impair/parse.ts";
import { completeFqOptions, type FqOptions } from "../../src/qdisc/fq_options.ts";
import { type HostOptions, parseEndpointNames, parseHostConfig } from "../../src/stack/config.ts";
import { ConfigError, nearest } from "../../src/stack/config_faults.ts";
import { formatEndpoint, type HostConfig } from "../../src/stack/options.ts";
import { Stack } from "../../src/stack/stack.ts";
import { DEFAULT_TCP_OPTIONS } from "../../src/tcp/options.ts";
import { DEFAULT_UDP_OPTIONS } from "../../src/udp/udp.ts";

const good: HostOptions = {
  address: "10.7.0.1/24",
  listen: "127.0.0.1:4000",
  peers: [{ name: "b", endpoint: "127.0.0.1:4001", allowed: "10.7.0.2" }],
};

/** The lines of the error, without its head. */
function faults(input: unknown): string[] {
  const error = assertThrows(() => parseHostConfig(input), TypeError, "the host configuration has") as TypeError;
  const [head, ...lines] = error.message.split("\n  ");
  const n = Number(/(\d+) faults:$/.exec(head!)?.[1] ?? 1);
  assertEquals(lines.length, n);
  return lines;
}

/** The one fault of a configuration that differs from a good one. */
function fault(changes: Record<string, unknown>): string {
  const lines = faults({ ...good, ...changes });
  assertEquals(lines.length, 1, lines.join("\n"));
  return lines[0]!;
}

function peer(changes: Record<string, unknown>): Record<string, unknown> {
  return { peers: [{ ...good.peers![0], ...changes }] };
}

Deno.test("the least configuration is completed with defaults", () => {
  const config = parseHostConfig({ address: "10.7.0.1/24" });
  assertEquals(config.addresses.map(String), ["10.7.0.1/24"]);
  const { listen, port, sleeper, peers, routes, forward, encapsulation, qdisc, tcp, seed } = config;
  assertEquals({ listen, port, sleeper, peers, routes, forward, encapsulation, qdisc, tcp, seed }, {
    listen: [],
    port: { kind: "auto" },
    sleeper: null,
    peers: [],
    routes: [],
    forward: false,
    encapsulation: { kind: "raw" },
    qdisc: { kind: "fq", options: {} },
    tcp: {},
    seed: null,
  });
});

Deno.test("everything that can be said is heard", () => {
  const config = parseHostConfig({
    address: ["10.7.0.1/24", "fd07::1/64"],
    listen: ["192.0.2.1:4790", "[2001:db8::1]:4791"],
    port: { kind: "linux", segment: false, receiveBufferBytes: 100_000 },
    sleeper: "spin",
    peers: [
      {
        name: "b",
        endpoint: "192.0.2.2:4790",
        allowed: ["10.7.0.2", "10.20.0.0/16"],
        mtu: 1300,
        vni: 7,
        ecn: "normal",
        impair: { in: "loss 1%", out: { delay: 5 * MILLISECOND, jitter: MILLISECOND } },
      },
      { endpoint: "[2001:db8::3]:99", allowed: "fd07::3" },
    ],
    routes: [{ to: "10.9.0.0/16", via: "b" }, { to: "::/0", via: "[2001:db8::3]:99", metric: 10 }],
    forward: true,
    encapsulation: { kind: "vxlan-gpe", vni: 42 },
    qdisc: { kind: "fq", flowLimit: 50, horizon: "2s", horizonDrop: false },
    impair: "delay 20ms rate 50mbit",
    congestion: "none",
    tcp: { minRto: "20ms", delayedAck: MILLISECOND, noDelay: true, sendBufferBytes: 65536 },
    udp: { receiveBufferBytes: 1000 },
    poolPackets: 500,
    seed: 99,
  });
  const endpoint = ({ endpoint }: HostConfig["peers"][number]): string =>
    formatEndpoint(endpoint!.address, endpoint!.port);
  assertEquals(config.listen.map((e) => formatEndpoint(e.address, e.port)), ["192.0.2.1:4790", "[2001:db8::1]:4791"]);
  assertEquals(config.peers.map((p) => [p.name, endpoint(p), p.allowed.join(" "), p.mtu, p.vni]), [
    ["b", "192.0.2.2:4790", "10.7.0.2/32 10.20.0.0/16", 1300, 7],
    ["[2001:db8::3]:99", "[2001:db8::3]:99", "fd07::3/128", 1444, 42],
  ]);
  assertEquals(config.port, { kind: "linux", segment: false, receiveBufferBytes: 100_000 });
  assertEquals([config.sleeper, ...config.peers.map((p) => p.ecn)], ["spin", "normal", "compatibility"]);
  const [b, c] = config.peers;
  assertEquals([b?.impair.in?.loss, b?.impair.out?.delay, b?.impair.out?.jitter], [0.01, 5 * MILLISECOND, MILLISECOND]);
  assertEquals([c?.impair.in, formatNetem(c!.impair.out!)], [null, formatNetem(c!.impair.out!)]);
  assertEquals([c?.impair.out?.delay, c?.impair.out?.rateBytesPerSec], [20 * MILLISECOND, 6_250_000]);
  assertEquals(config.routes.map((r) => `${r.to} ${r.via} ${r.metric}`), [
    "10.9.0.0/16 b 0",
    "::/0 [2001:db8::3]:99 10",
  ]);
  assertEquals(config.qdisc, { kind: "fq", options: { flowLimit: 50, horizon: 2 * SECOND, horizonDrop: false } });
  assertEquals(config.tcp, {
    minRto: 20 * MILLISECOND,
    delayedAck: MILLISECOND,
    noDelay: true,
    sendBufferBytes: 65536,
    congestion: "none",
  });
  assertEquals(config.udp, { receiveBufferBytes: 1000, socketLimit: 65536 });
  assertEquals([config.forward, config.encapsulation, config.poolPackets, config.seed], [
    true,
    { kind: "vxlan-gpe", vni: 42 },
    500,
    99,
  ]);
  new Stack(config);
});

Deno.test("fq takes its options by tc's names, with units in text", () => {
  const qdisc = (options: Record<string, unknown>) =>
    parseHostConfig({ ...good, qdisc: { kind: "fq", ...options } }).qdisc;
  const priomap = [2, 1, 0, 2, 1, 0, 2, 1, 0, 2, 1, 0, 2, 1, 0, 2];
  const config = qdisc({
    maxrate: "10mbit",
    rate: "50mbit",
    lowRateThreshold: 10_000,
    pacing: false,
    ceThreshold: "1ms",
    refillDelay: "20ms",
    horizon: "3s",
    priomap,
    weights: [100_000, 20_000, 16_384],
    quantum: 1514,
  });
  assertEquals(config, {
    kind: "fq",
    options: {
      maxrateBytesPerSec: 1_250_000,
      rateBytesPerSec: 6_250_000,
      lowRateThresholdBytesPerSec: 10_000,
      pacing: false,
      ceThreshold: MILLISECOND,
      refillDelay: 20 * MILLISECOND,
      horizon: 3 * SECOND,
      priomap,
      weights: [100_000, 20_000, 16_384],
      quantum: 1514,
    },
  });
  new Stack({ ...parseHostConfig({ ...good, seed: 1 }), qdisc: config });
  // Whatever passes the check makes a queue.
  for (
    const options of [{ horizon: Number.MAX_SAFE_INTEGER }, { ceThreshold: 0 }, { rate: 1e-9 }, { maxrate: "1bit" }]
  ) {
    new Stack({ ...parseHostConfig({ ...good, seed: 1 }), qdisc: qdisc(options) });
  }
});

Deno.test("the inner MTU is what an underlay of 1,500 bytes leaves, of each family and encapsulation", () => {
  const mtus = ["raw", "vxlan-gpe"].map((encapsulation) =>
    ["192.0.2.2:1", "[2001:db8::2]:1"].map((endpoint) =>
      parseHostConfig({ address: "10.7.0.1/24", encapsulation, peers: [{ endpoint, allowed: "10.7.0.2" }] })
        .peers[0]!.mtu
    )
  );
  assertEquals(mtus, [[1472, 1452], [1464, 1444]]);
});

/** fq's options as the configuration names them. */
function fqByTcNames(options: FqOptions): Record<string, unknown> {
  const { maxrateBytesPerSec: maxrate, rateBytesPerSec: rate, lowRateThresholdBytesPerSec, ...others } = options;
  return { kind: "fq", maxrate, rate, lowRateThreshold: lowRateThresholdBytesPerSec, ...others };
}

Deno.test("every default can be written out", () => {
  const config = parseHostConfig({
    ...good,
    tcp: DEFAULT_TCP_OPTIONS,
    udp: DEFAULT_UDP_OPTIONS,
    qdisc: fqByTcNames(completeFqOptions({})),
    impair: { in: NETEM_DEFAULTS, out: { ...NETEM_DEFAULTS } },
    port: { kind: "linux", segment: true, gro: true, receiveBufferBytes: 4 << 20, sendBufferBytes: 512 << 10 },
    poolPackets: 16_384,
    forward: false,
    encapsulation: "raw",
  });
  assertEquals(config.tcp, DEFAULT_TCP_OPTIONS);
  assertEquals(config.udp, DEFAULT_UDP_OPTIONS);
  assertEquals(config.qdisc.options, completeFqOptions({}));
  assertEquals(config.peers[0]!.impair, { in: NETEM_DEFAULTS, out: NETEM_DEFAULTS });
  new Stack({ ...config, seed: 1 });
});

Deno.test("fq and pfifo take here what they take themselves, and what they refuse is refused with its path", () => {
  const edges = [-1, 0, 1, 2, 16_383, 16_384, 65_535, 65_536, 1024, 1025, 7.2e12, Infinity, 0.5, NaN];
  for (const power of [20, 24, 31, 53]) edges.push(2 ** power - 1, 2 ** power, 2 ** power + 1);
  const refusedBy = (check: () => void): boolean => {
    try {
      check();
      return false;
    } catch (error) {
      assert(error instanceof RangeError, String(error));
      return true;
    }
  };
  const agree = (name: string, qdisc: Record<string, unknown>, isRefused: boolean): void => {
    const given = { ...good, qdisc };
    if (isRefused) assert(fault(given).startsWith(`qdisc.${name}`), fault(given));
    else assert(Object.keys(parseHostConfig(given).qdisc.options).length > 0);
  };
  for (const [option, standard] of Object.entries(completeFqOptions({}))) {
    if (typeof standard === "boolean") continue;
    for (const edge of edges) {
      const values = Array.isArray(standard) ? standard.map((value, i) => i === 1 ? edge : value) : edge;
      const options: FqOptions = { [option]: values };
      const named = Object.entries(fqByTcNames(options)).filter(([, value]) => value !== undefined);
      agree(option.replace("BytesPerSec", ""), Object.fromEntries(named), refusedBy(() => completeFqOptions(options)));
    }
  }
  for (const limit of edges) {
    const isRefused = !(Number.isInteger(limit) && limit >= 1 && limit <= 1 << 24);
    agree("limit", { kind: "pfifo", limit }, isRefused);
  }
  assertEquals(parseHostConfig({ ...good, qdisc: { kind: "fq", horizon: "7200s" } }).qdisc.options, {
    horizon: 7200 * SECOND,
  });
});

Deno.test("a peer's impairment replaces the host's one direction at a time", () => {
  const impairs = ["loss 1%", { in: "loss 1%" }, { out: {} }, undefined].map((impair) => {
    const [{ impair: done }] = parseHostConfig({
      ...good,
      impair: { in: "delay 1ms", out: "delay 2ms" },
      ...peer({ impair }),
    }).peers as [HostConfig["peers"][number]];
    return [done.in, done.out].map((netem) => netem === null ? null : formatNetem(netem));
  });
  const nothing = formatNetem(NETEM_DEFAULTS);
  const [loss, delay1, delay2] = ["loss 1%", "delay 1ms", "delay 2ms"];
  assertEquals(impairs.map((pair) => pair.map((text) => text!.replace(/^limit \d+ ?/, ""))), [
    [delay1!, loss!],
    [loss!, delay2!],
    [delay1!, nothing.replace(/^limit \d+ ?/, "")],
    [delay1!, delay2!],
  ]);
});

Deno.test("names in endpoints are given to be looked up, once all else has the right form", () => {
  const named = { ...good, ...peer({ endpoint: "router.example:4790" }) };
  assertEquals(parseEndpointNames(named), [{ hostname: "router.example", port: 4790 }]);
  assertEquals(parseEndpointNames(good), [null]);
  assertEquals(parseEndpointNames({ address: "10.7.0.1/24" }), []);
  const error = assertThrows(() => parseEndpointNames({ ...named, mtu: 1, fwd: 2 }), TypeError, "2 faults");
  assert(error.message.includes("mtu: found 1") && error.message.includes("fwd: unknown key"), error.message);
  const port = { ...good, ...peer({ endpoint: "localhost:65536" }) };
  assertThrows(() => parseEndpointNames(port), TypeError, 'peers[0].endpoint: found "localhost:65536"');
});

Deno.test("one error names every fault, with its path, what was found and what was expected", () => {
  assertEquals(
    faults({
      adress: "10.7.0.1/24",
      address: ["10.7.0.1", "10.7.0.1/33", 7],
      listen: "foo",
      mtu: 100,
      forward: "yes",
      peers: [{ endpoint: "10.0.0.1", alowed: "10.0.0.0/8" }, 5],
      qdisc: { kind: "fq", quantm: 3 },
      encapsulation: "geneve",
    }),
    [
      'address[0]: found "10.7.0.1", expected an address with its prefix length like "10.7.0.1/24" or "fd07::1/64" ' +
      "(the prefix length is missing)",
      'address[1]: found "10.7.0.1/33", expected an address with its prefix length like "10.7.0.1/24" or "fd07::1/64" ' +
      "(prefix length of 10.7.0.1 must be 0 to 32, got 33)",
      'address[2]: found 7, expected an address with its prefix length like "10.7.0.1/24" or "fd07::1/64"',
      'listen: found "foo", expected an endpoint like "192.0.2.7:4790" or "[2001:db8::7]:4790"',
      'peers[0].endpoint: found "10.0.0.1", expected an endpoint like "192.0.2.7:4790" or "[2001:db8::7]:4790"',
      'peers[0].allowed: found nothing, expected the inner prefixes behind the peer, like "10.7.0.2/32"',
      'peers[0].alowed: unknown key, did you mean "allowed"?',
      "peers[1]: found 5, expected a peer like { endpoint: …, allowed: … }",
      'forward: found "yes", expected true or false',
      "mtu: found 100, expected a whole number from 576 to 1900",
      'encapsulation: found "geneve", expected "raw", "none", "gue", "gre", { kind: "gre", key: 42 }, "vxlan-gpe" or { kind: "vxlan-gpe", vni: 42 }',
      'qdisc.quantm: unknown key, did you mean "quantum"?',
      'adress: unknown key, did you mean "address"?',
    ],
  );
});

Deno.test("what is no object at all is refused", () => {
  for (
    const [input, found] of [[undefined, "nothing"], [null, "null"], ["x", '"x"'], [[], "[]"], [5n, "5n"]] as const
  ) {
    assertEquals(faults(input), [`(top): found ${found}, expected an object`]);
  }
  const ring: Record<string, unknown> = {};
  ring["ring"] = ring;
  assert(faults(ring).some((line) => line.startsWith("address: found nothing")));
  assert(fault({ listen: ring }).startsWith("listen: found an object that JSON cannot show"));
});

Deno.test("text that is wrong is quoted with the reason", () => {
  const cases: [Record<string, unknown>, string][] = [
    [{ listen: "127.0.0.1:65536" }, "listen: found"],
    [{ listen: "::1:80" }, "listen: found"],
    [{ listen: "[127.0.0.1]:80" }, "listen: found"],
    [peer({ endpoint: "host.example:80" }), '"host.example" is no IP address'],
    [peer({ allowed: "10.7.0.2/24" }), "bits behind the prefix are set: 10.7.0.0/24?"],
    [peer({ allowed: [] }), "peers[0].allowed: found [], expected the inner prefixes"],
    [peer({ name: "b\nc" }), 'peers[0].name: found "b\\nc", expected a name without control characters'],
    [{ ...peer({ endpoint: "[fe80::1]:4790" }), listen: "[::1]:4790" }, "a link-local one needs it"],
    [peer({ name: "" }), "peers[0].name: found"],
    [peer({ impair: "delay 20" }), "a time with its unit"],
    [peer({ impair: { out: "delya 20ms" } }), "peers[0].impair.out: found"],
    [peer({ impair: { in: { los: 1 } } }), 'there is no "los" in netem'],
    [peer({ impair: { in: { loss: "1" } } }), "loss must be a number"],
    [peer({ impair: { in: { loss: 7 } } }), "netem loss must be a probability"],
    [{ impair: 5 }, "impair: found 5, expected an impairment"],
    [{ congestion: "renno" }, "congestion: found"],
    [{ tcp: { minRto: "200" } }, "tcp.minRto: found"],
    [{ tcp: { initialRto: 0 } }, "tcp.initialRto: found 0, expected a time of at least 1ms"],
    [{ tcp: { minRto: 0 } }, "tcp.minRto: found 0, expected a time of at least 1ms"],
    [{ tcp: { maxRto: 1 } }, "tcp.maxRto: found 1, expected a time of at least 1ms"],
    [{ tcp: { delayedAck: "500ms" } }, 'tcp.delayedAck: found "500ms", expected a time of less than 500ms'],
    [{ tcp: { timeWait: -1 } }, "tcp.timeWait: found -1, expected a time in ns"],
    [{ tcp: { finWait2: -1 } }, "tcp.finWait2: found -1, expected a time in ns"],
    [{ tcp: { maxPacingRateBytesPerSec: 0 } }, "tcp.maxPacingRateBytesPerSec: found 0, expected a rate"],
    [{ tcp: { sack: 1 } }, "tcp.sack: found 1, expected true or false"],
    [{ qdisc: { kind: "fq", horizon: -1 } }, "qdisc.horizon: found -1"],
    [{ qdisc: { kind: "fq", rate: "50mbyte" } }, 'qdisc.rate: found "50mbyte", expected a rate above 0'],
    [{ qdisc: { kind: "fq", maxrate: 0 } }, "qdisc.maxrate: found 0, expected a rate above 0"],
    [{ qdisc: { kind: "fq", ceThreshold: "1" } }, 'qdisc.ceThreshold: found "1", expected a time'],
    [{ qdisc: { kind: "fq", priomap: [1, 2] } }, "qdisc.priomap: found [1,2], expected 16 bands"],
    [{ qdisc: { kind: "fq", weights: [65536, 65536, 3e9] } }, "qdisc.weights[2]: found 3000000000"],
    [{ qdisc: { kind: "fq", rateBytesPerSec: 5 } }, "qdisc.rateBytesPerSec: unknown key"],
    [{ qdisc: { kind: "pfifo", rate: "1mbit" } }, "qdisc.rate: unknown key"],
    [{ qdisc: { kind: "pfifo", quantum: 3 } }, "qdisc.quantum: unknown key, expected one of kind, limit"],
    [{ qdisc: "htb" }, 'qdisc: found "htb", expected "fq", "pfifo"'],
    [{ encapsulation: { kind: "vxlan-gpe", vni: 1 << 24 } }, "encapsulation.vni: found 16777216"],
    [{ port: "fast" }, 'port: found "fast", expected "auto", "linux"'],
    [{ port: { kind: "linux", gro: 1 } }, "port.gro: found 1, expected true or false"],
    [{ port: { kind: "dgram", gro: true } }, "port.gro: unknown key"],
    [{ sleeper: "deep" }, 'sleeper: found "deep", expected a sleeper: timeout, hop, ppoll, spin'],
    [peer({ ecn: "on" }), 'peers[0].ecn: found "on", expected "compatibility" or "normal"'],
    [{ seed: 0.5 }, "seed: found 0.5"],
    [{ address: [] }, "address: found [], expected"],
  ];
  for (const [changes, part] of cases) {
    const line = fault(changes);
    assert(line.includes(part), `${line}\nlacks: ${part}`);
  }
});

Deno.test("what contradicts itself is refused, and says with what", () => {
  const twice = (b: Record<string, unknown>): Record<string, unknown> => ({
    peers: [good.peers![0], { name: "c", endpoint: "127.0.0.1:4002", allowed: "10.7.0.3", ...b }],
  });
  const cases: [Record<string, unknown>, string][] = [
    [{ address: ["10.7.0.1/24", "10.7.0.1/16"] }, "address[1]: found"],
    [{ address: "224.0.0.1/4" }, "not one that is multicast"],
    [{ address: "10.7.0.0/24" }, "expected the address of a host in 10.7.0.0/24, not that of the network itself"],
    [{ address: ["10.8.0.1/24", "10.7.255.255/16"] }, "address[1]: found"],
    [{ address: "10.7.0.255/24" }, "expected the address of a host in 10.7.0.0/24, not its broadcast address"],
    [{ tcp: { maxRto: "500ms" } }, 'tcp.maxRto: found "500ms", expected at least initialRto (1s by default)'],
    [{ tcp: { maxRto: "2s", minRto: "3s" } }, 'tcp.maxRto: found "2s", expected at least minRto (3s)'],
    [{ tcp: { initialRto: "121s" } }, 'tcp.initialRto: found "121s", expected at most maxRto (120s by default)'],
    [peer({ allowed: "10.7.0.1" }), "not this host's own 10.7.0.1/24 of address"],
    [
      { address: ["10.7.0.1/24", "fd07::1/64"], ...peer({ allowed: ["fd07::/64", "fd07::1/128"] }) },
      'peers[0].allowed[1]: found "fd07::1/128", expected what is behind the peer, not this host\'s own fd07::1/64 of ' +
      "address[1]",
    ],
    [
      twice({ allowed: ["10.7.0.3", "10.7.0.2/32"] }),
      'peers[1].allowed[1]: found "10.7.0.2/32", expected a prefix of its own: peers[0].allowed has 10.7.0.2/32 too',
    ],
    [{ listen: ["127.0.0.1:1", "127.0.0.2:1"] }, "listen[1]: found"],
    [twice({ name: "b" }), "peers[1].name: found"],
    [twice({ endpoint: "127.0.0.1:4001" }), "peers[1].endpoint: found"],
    [twice({ endpoint: "[::1]:4001" }), '"listen" has none of IPv6'],
    [peer({ endpoint: "0.0.0.0:5" }), "not one that is unspecified"],
    [peer({ endpoint: "127.0.0.1:0" }), "a port from 1 to 65535"],
    [peer({ vni: 3 }), 'peers[0].vni: found 3, expected nothing: "raw" has no network identifier'],
    [peer({ allowed: ["10.7.0.2", "10.7.0.2/32"] }), "peers[0].allowed[1]: found"],
    [peer({ mtu: 1279, allowed: "fd07::/64" }), "peers[0].mtu: found 1279, expected at least 1280"],
    [{ address: "fd07::1/64", mtu: 1000 }, "mtu: found 1000, expected at least 1280"],
    [{ encapsulation: "none", listen: undefined }, 'expected nothing, since the encapsulation is "none"'],
    [
      { routes: [{ to: "10.9.0.0/16", via: "bb" }] },
      'routes[0].via: found "bb", expected the name of a peer; did you mean "b"?',
    ],
    [{ routes: [{ to: "10.9.0.0/16", via: "b" }, { to: "10.9.0.0/16", via: "b", metric: 0 }] }, "routes[1]: found"],
    [{ routes: [{ to: "10.7.0.2", via: "b", metric: 1024 }] }, "routes[0].metric: found 1024"],
  ];
  for (const [changes, part] of cases) {
    const line = fault(changes);
    assert(line.includes(part), `${line}\nlacks: ${part}`);
  }
});

Deno.test("every other address of an IPv4 network, and both of a /31, can be a host's", () => {
  for (const address of ["10.7.0.1/24", "10.7.0.254/24", "10.7.0.0/31", "10.7.0.1/31", "10.7.0.0/32", "10.7.1.0/16"]) {
    assertEquals(parseHostConfig({ ...good, address, ...peer({ allowed: "10.9.0.0/24" }) }).addresses.map(String), [
      address,
    ]);
  }
});

Deno.test("an underlay endpoint that would be reached through the tunnel is refused, behind a default route it is not", () => {
  const endpoint = "192.0.2.7:4790";
  const base = { address: "10.7.0.1/24", listen: "192.0.2.1:4790" };
  assertEquals(faults({ ...base, peers: [{ endpoint, allowed: ["10.7.0.0/24", "192.0.0.0/16"] }] }), [
    'peers[0].endpoint: found "192.0.2.7:4790", expected an address outside the tunnel: 192.0.0.0/16 of peers[0].allowed ' +
    "leads into the tunnel itself",
  ]);
  assertEquals(
    faults({
      ...base,
      peers: [{ name: "b", endpoint, allowed: "0.0.0.0/0" }],
      routes: [{ to: "192.0.2.7", via: "b" }],
    }),
    [
      'peers[0].endpoint: found "192.0.2.7:4790", expected an address outside the tunnel: 192.0.2.7/32 of routes[0] ' +
      "leads into the tunnel itself",
    ],
  );
  parseHostConfig({ ...base, peers: [{ endpoint, allowed: ["0.0.0.0/0", "::/0"] }] });
  parseHostConfig({ ...base, peers: [{ endpoint, allowed: ["10.0.0.0/8", "::c000:0/100"] }] });
});

Deno.test("peers of vxlan-gpe may share an address if their identifiers differ; of raw, if their ports do", () => {
  const peers = (a: object, b: object): unknown[] => [
    { name: "a", endpoint: "127.0.0.1:4001", allowed: "10.7.0.2", ...a },
    { name: "b", endpoint: "127.0.0.1:4001", allowed: "10.7.0.3", ...b },
  ];
  const gpe = { ...good, encapsulation: "vxlan-gpe" };
  parseHostConfig({ ...gpe, peers: peers({ vni: 1 }, { vni: 2 }) });
  const unnamed = (a: object, b: object) => ({
    ...gpe,
    peers: peers({ name: undefined, ...a }, { name: undefined, ...b }),
  });
  assertEquals(parseHostConfig(unnamed({}, { vni: 2 })).peers.map(({ name }) => name), [
    "127.0.0.1:4001",
    "127.0.0.1:4001 vni 2",
  ]);
  assertEquals(faults(unnamed({}, {})), faults(unnamed({}, { vni: 0 })));
  assertEquals(faults(unnamed({}, {})).length, 1);
  assert(faults({ ...gpe, peers: peers({}, { endpoint: "127.0.0.1:4002" }) })[0]?.includes("address and vni"));
  parseHostConfig({ ...good, peers: peers({}, { endpoint: "127.0.0.1:4002" }) });
  assert(faults({ ...good, peers: peers({}, {}) })[0]?.includes("address and port"));
});

Deno.test("without encapsulation there are no endpoints", () => {
  const config = parseHostConfig({ address: "10.7.0.1/24", encapsulation: "none", peers: [{ allowed: "10.7.0.2" }] });
  assertEquals(config.peers.map((p) => [p.name, p.endpoint, p.mtu]), [["peer1", null, 1500]]);
  assert(fault({ peers: [{ allowed: "10.7.0.2" }] }).startsWith("peers[0].endpoint: found nothing"));
});

Deno.test("a slip of a name is recognised, another word is not", () => {
  const names = ["address", "listen", "peers", "routes", "forward", "mtu"];
  assertEquals(["adress", "addresses", "Peers", "peer", "lisetn", "fowrard", "mut"].map((n) => nearest(n, names)), [
    "address",
    "address",
    "peers",
    "peers",
    "listen",
    "forward",
    "mtu",
  ]);
  assertEquals(["banana", "x", "", "interface"].map((n) => nearest(n, names)), [null, null, null, null]);
});

Deno.test("of names at the same distance the one with more letters at its ends in common is meant", () => {
  const names = Object.keys(DEFAULT_TCP_OPTIONS);
  const slips: Record<string, string | null> = {
    recvBufferBytes: "receiveBufferBytes",
    sndBufferBytes: "sendBufferBytes",
    receiveBufBytes: "receiveBufferBytes",
    maxRTO: "maxRto",
    initRto: "initialRto",
    initalRto: "initialRto",
    windowScaling: "windowScale",
    synAckRetry: "synAckRetries",
    nodelay: "noDelay",
    keepAlife: "keepAlive",
    speed: null,
  };
  assertEquals(Object.fromEntries(Object.keys(slips).map((slip) => [slip, nearest(slip, names)])), slips);
  assertEquals(
    fault({ tcp: { recvBufferBytes: 1 } }),
    'tcp.recvBufferBytes: unknown key, did you mean "receiveBufferBytes"?',
  );
});

Deno.test("whatever is given, the answer is a configuration that makes a stack, or one TypeError", () => {
  const wild = fc.oneof(
    { depthSize: "small" },
    fc.anything(),
    fc.constantFrom<unknown>("10.7.0.1/24", "127.0.0.1:5", "delay 5ms", "raw", "fq", "b", 5, true, [], {}),
  );
  const mostly = (...right: unknown[]) =>
    fc.oneof({ arbitrary: fc.constantFrom(...right), weight: 30 }, { arbitrary: wild, weight: 1 });
  const config = fc.record({
    address: mostly("10.7.0.1/24", "fd07::1/64", ["10.7.0.1/24", "fd07::1/64"]),
    listen: mostly("127.0.0.1:5", "[::1]:5", ["127.0.0.1:5", "[::1]:5"]),
    peers: fc.oneof(
      wild,
      fc.array(
        fc.record({
          name: mostly("b", "c"),
          endpoint: mostly("127.0.0.1:6", "[::1]:7", "192.0.2.1:0"),
          allowed: mostly("10.7.0.2", "fd07::/64", "0.0.0.0/0", "127.0.0.0/8"),
          impair: mostly("loss 1%", { in: "delay 5ms" }),
          vni: mostly(5),
        }, { requiredKeys: ["allowed"] }),
        { maxLength: 2 },
      ),
    ),
    routes: mostly([{ to: "10.9.0.0/16", via: "b" }], []),
    forward: mostly(true),
    mtu: mostly(1280, 1900, 576),
    encapsulation: mostly("raw", "vxlan-gpe", "none"),
    qdisc: mostly("fq", { kind: "pfifo", limit: 5 }, { kind: "fq", quantum: 3000 }),
    impair: mostly("loss 1%"),
    tcp: mostly({ minRto: "20ms" }, { congestion: "none", sack: false }),
    seed: mostly(1, -1),
  }, { requiredKeys: ["address"] });
  let accepted = 0;
  fc.assert(
    fc.property(fc.oneof(config, fc.anything()), (input) => {
      let parsed: HostConfig;
      try {
        parsed = parseHostConfig(input);
      } catch (error) {
        assert(error instanceof TypeError && error.message.startsWith("the host configuration has"), String(error));
        return;
      }
      accepted++;
      new Stack({ ...parsed, seed: parsed.seed ?? 1 });
    }),
    { numRuns: 1000 },
  );
  assert(accepted > 10, `only ${accepted} were accepted`);
});

Deno.test("an endpoint of a peer at which this host itself listens is refused", () => {
  const told = (listen: string[], endpoint: string, more: object = {}) =>
    faults({ address: "10.7.0.1/24", listen, peers: [{ endpoint, allowed: "10.7.0.2" }], ...more });
  for (
    const [listen, endpoint] of [
      ["192.0.2.1:4790", "192.0.2.1:4790"],
      ["[2001:db8::1]:4790", "[2001:db8::1]:4790"],
      ["0.0.0.0:4790", "127.0.0.1:4790"],
      ["[::]:4790", "[::1]:4790"],
    ] as const
  ) {
    const expected =
      `peers[0].endpoint: found "${endpoint}", expected the endpoint of another host: this one listens there`;
    for (const encapsulation of ["raw", "vxlan-gpe"]) {
      assertEquals(told([listen], endpoint, { encapsulation }), [expected]);
    }
  }
  assertEquals(
    parseHostConfig({
      address: "10.7.0.1/24",
      listen: ["127.0.0.1:0", "[::]:4790"],
      peers: [
        { endpoint: "127.0.0.1:4790", allowed: "10.7.0.2" },
        { endpoint: "[::1]:4791", allowed: "10.7.0.3" },
        { endpoint: "[2001:db8::1]:4790", allowed: "10.7.0.4" },
      ],
    }).peers.length,
    3,
  );
});

Deno.test("a fault is told in one line, whatever characters it is about", () => {
  const nasty = "a\nb\u001b[2J\u2028\u0085";
  for (
    const input of [
      { address: "10.7.0.1/24", [nasty]: 1 },
      { address: "10.7.0.1/24", tcp: { [nasty]: 1 } },
      { address: nasty },
      { address: "10.7.0.1/24", impair: { out: { [nasty]: 1 } } },
      { address: "10.7.0.1/24", impair: nasty },
      { address: "10.7.0.1/24", peers: [{ endpoint: "192.0.2.1:1", allowed: nasty }] },
    ]
  ) {
    const { message } = assertThrows(() => parseHostConfig(input), ConfigError);
    // deno-lint-ignore no-control-regex
    assert(!/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029]/.test(message), message);
    assertEquals(message.split("\n").length, 2, message);
  }
});

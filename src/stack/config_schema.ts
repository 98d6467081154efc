/**
 * The shape of a host configuration, for zod: which keys there are, and what the value of each may be.
 *
 * Each part says in words what it expects; config.ts puts the path and what was found in front of that. Text is turned
 * into addresses, prefixes and impairments here, so that a fault in it has a path too.
 *
 * @module
 */

import { z } from "zod";
import { type Duration, MILLISECOND, SECOND } from "../base/time.ts";
import { NETEM_DEFAULTS, type NetemConfig, netemConfig } from "../impair/config.ts";
import { parseNetem } from "../impair/parse.ts";
import { formatTime, parseRate, parseTime } from "../impair/units.ts";
import { ROUTE_WEIGHT_MAX } from "../ip/route_table.ts";
import type { FqOptions } from "../qdisc/fq.ts";
import { FQ_WEIGHT_MIN } from "../qdisc/fq_band.ts";
import { CONGESTION_CONTROLS, SLOW_START_EXITS } from "../tcp/congestion/registry.ts";
import { DEFAULT_TCP_OPTIONS, ECN_OPTIONS, type TcpOptions } from "../tcp/options.ts";
import { MTU_PROBING } from "../tcp/pmtud.ts";
import { RTO_MODELS } from "../tcp/rtt.ts";
import { PACING_MODES, type PacingMode } from "../tcp/pacing.ts";
import { DEFAULT_UDP_OPTIONS, type UdpOptions } from "../udp/udp.ts";
import { IpAddr, IpInterface, type IpPrefix } from "../wire/ip_addr.ts";
import type { ConfigFaults } from "./config_faults.ts";
import type { EcnMode, EncapsulationConfig, Endpoint, PortConfig, RouteType, SleeperConfig } from "./options.ts";

/** Smallest MTU of an interface: what every IPv4 host can take (RFC 791). */
export const MTU_MIN = 576;

/** Largest MTU of an interface: what a packet slot holds beside its headroom. */
export const MTU_MAX = 1900;

/** Largest MTU of an underlay: the tunnel's own is bounded by {@linkcode MTU_MAX} whatever it leaves. */
const UNDERLAY_MTU_MAX = 65_535;

/** How the message of an unknown key begins; the known keys follow, separated by commas. */
const UNKNOWN_KEY_MARK = "known keys:";

const ADDRESS = 'an address with its prefix length like "10.7.0.1/24" or "fd07::1/64"';
const ENDPOINT = 'an endpoint like "192.0.2.7:4790" or "[2001:db8::7]:4790"';
const BOOLEAN = "true or false";

/** An object with these keys and no others. */
function object<T extends z.ZodRawShape>(shape: T, expected: string) {
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === "unrecognized_keys" ? `${UNKNOWN_KEY_MARK}${Object.keys(shape).join(",")}` : expected,
  });
}

/** Text that `parse` can read; what `parse` throws is told too. */
function text<T>(expected: string, parse: (text: string) => T) {
  return z.string({ error: expected }).transform((value, context): T => {
    try {
      return parse(value);
    } catch (error) {
      const why = error instanceof Error && !error.message.includes(expected) ? ` (${error.message})` : "";
      context.addIssue({ code: "custom", message: `${expected}${why}` });
      return z.NEVER;
    }
  });
}

function integer(least: number, most: number) {
  const error = `a whole number from ${least} to ${most}`;
  return z.int({ error, abort: true }).min(least, { error }).max(most, { error });
}

/** One value, or a list of at least `least` of them. */
function oneOrMany<T extends z.ZodType>(item: T, expected: string, least: number) {
  return z.preprocess(
    (value) => Array.isArray(value) || value === undefined ? value : [value],
    z.array(item, { error: expected }).min(least, { error: expected }),
  );
}

/** A value that may be written as text: then it is one of an object's fields. */
function shorthand<T extends z.ZodType>(field: string, schema: T) {
  return z.preprocess((value) => typeof value === "string" ? { [field]: value } : value, schema);
}

/** A time in ns, or text with a unit, of at least `least` and less than `bound`. */
function duration(least: Duration = 0, bound: Duration = Infinity) {
  const from = least === 0 ? "" : ` of at least ${formatTime(least)}`;
  const to = bound === Infinity ? "" : ` of less than ${formatTime(bound)}`;
  const error = `a time${from}${to} in ns, or text with a unit like "200ms"`;
  return z.union([z.number(), z.string()], { error }).transform((value, context): Duration => {
    try {
      const time = typeof value === "string" ? parseTime(value) : value;
      if (Number.isSafeInteger(time) && time >= least && time < bound) return time;
    } catch {
      // Told below, in the same words.
    }
    context.addIssue({ code: "custom", message: error });
    return z.NEVER;
  });
}

function rate() {
  const error = 'a rate above 0 like "50mbit" (a number is bytes per second)';
  return z.union([z.number(), z.literal(Infinity), z.string()], { error }).transform((value, context): number => {
    try {
      const bytesPerSec = typeof value === "string" ? parseRate(value) : value;
      if (bytesPerSec > 0) return bytesPerSec;
    } catch {
      // Told below, in the same words.
    }
    context.addIssue({ code: "custom", message: error });
    return z.NEVER;
  });
}

/**
 * Reads `"192.0.2.7:4790"` or `"[2001:db8::7]:4790"`.
 *
 * @throws {TypeError} if it is neither
 */
export function parseEndpoint(endpoint: string): Endpoint {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(endpoint);
  const port = Number(match?.[3]);
  if (match === null || port > 65535) throw new TypeError(`"${endpoint}" is not ${ENDPOINT}`);
  const address = IpAddr.parse(match[1] ?? match[2]!);
  if (address.isV4 !== (match[1] === undefined)) throw new TypeError(`"${endpoint}" is not ${ENDPOINT}`);
  return { address, port };
}

const endpoint = text(ENDPOINT, parseEndpoint);

/** An endpoint with a name that has to be looked up. */
export interface EndpointName {
  /** The name. */
  readonly hostname: string;
  /** Port. */
  readonly port: number;
}

/** Reads `"router.example:4790"`; `null` if it has no name and port. */
function parseEndpointName(endpoint: string): EndpointName | null {
  const match = /^([a-z0-9_.-]*[a-z][a-z0-9_.-]*):(\d{1,5})$/i.exec(endpoint);
  return match === null || Number(match[2]) > 65535 ? null : { hostname: match[1]!, port: Number(match[2]) };
}

const endpointOrName = text(ENDPOINT, (value) => parseEndpointName(value) ?? parseEndpoint(value));

const interfaceAddress = text(ADDRESS, (value) => {
  if (!value.includes("/")) throw new TypeError("the prefix length is missing");
  return IpInterface.parse(value);
});
const prefix = text('a prefix like "10.7.0.0/24", or an address', (value) => {
  const own = IpInterface.parse(value);
  if (!own.address.equals(own.prefix.address)) throw new TypeError(`bits behind the prefix are set: ${own.prefix}?`);
  return own.prefix;
});

const NETEM = 'an impairment like "delay 20ms 2ms loss 0.5% rate 50mbit"';
const netem = z.union([z.string(), z.record(z.string(), z.unknown())], { error: NETEM }).transform(
  (value, context): NetemConfig => {
    try {
      return typeof value === "string" ? parseNetem(value) : netemOfFields(value);
    } catch (error) {
      context.addIssue({ code: "custom", message: `${NETEM} (${(error as Error).message})` });
      return z.NEVER;
    }
  },
);

function netemOfFields(fields: Record<string, unknown>): NetemConfig {
  for (const [field, value] of Object.entries(fields)) {
    if (value === undefined || !Object.hasOwn(NETEM_DEFAULTS, field)) continue;
    const standard = typeof NETEM_DEFAULTS[field as keyof NetemConfig];
    const isPlain = standard === "number" || standard === "boolean";
    if (isPlain && typeof value !== standard) throw new TypeError(`${field} must be a ${standard}`);
  }
  return netemConfig(fields as Partial<NetemConfig>);
}

const impair = shorthand(
  "out",
  object({ in: netem.optional(), out: netem.optional() }, `${NETEM}, or one for "in" and "out"`),
);

const encapsulation = shorthand(
  "kind",
  z.discriminatedUnion("kind", [
    object({ kind: z.literal("raw") }, "the encapsulation"),
    object({ kind: z.literal("vxlan-gpe"), vni: integer(0, 0xffffff).optional() }, "the encapsulation"),
    object({ kind: z.literal("gue") }, "the encapsulation"),
    object({ kind: z.literal("gre"), key: integer(0, 0xffffffff).optional() }, "the encapsulation"),
    object({ kind: z.literal("none") }, "the encapsulation"),
  ], { error: '"raw", "none", "gue", "gre", { kind: "gre", key: 42 }, "vxlan-gpe" or { kind: "vxlan-gpe", vni: 42 }' }),
);

/** Names of fq's rates as tc has them, and as {@linkcode FqOptions} has them. */
export const FQ_RATES = {
  maxrate: "maxrateBytesPerSec",
  rate: "rateBytesPerSec",
  lowRateThreshold: "lowRateThresholdBytesPerSec",
} as const;

type FqFields = Exclude<keyof FqOptions, (typeof FQ_RATES)[keyof typeof FQ_RATES]> | keyof typeof FQ_RATES;

const fqShape: Record<FqFields, z.ZodType> = {
  maxrate: rate().optional(),
  rate: rate().optional(),
  lowRateThreshold: rate().optional(),
  pacing: z.boolean({ error: "true or false" }).optional(),
  ceThreshold: z.union([z.literal(Infinity), duration()], { error: 'a time in ns, or text with a unit like "1ms"' })
    .optional(),
  priomap: z.array(integer(0, 2), { error: "16 bands from 0 to 2" }).length(16, { error: "16 bands from 0 to 2" })
    .optional(),
  weights: z.array(integer(FQ_WEIGHT_MIN, 2 ** 31 - 1), { error: "three weights in bytes" })
    .length(3, { error: "three weights in bytes" }).optional(),
  limit: integer(1, 1 << 24).optional(),
  flowLimit: integer(1, 1 << 24).optional(),
  quantum: integer(1, 1 << 20).optional(),
  initialQuantum: integer(0, 2 ** 31 - 1).optional(),
  horizon: duration().optional(),
  horizonDrop: z.boolean({ error: "true or false" }).optional(),
  refillDelay: duration().optional(),
  orphanMask: integer(0, 0xffff).optional(),
  overheadBytes: integer(0, 1024).optional(),
};
const qdisc = shorthand(
  "kind",
  z.discriminatedUnion("kind", [
    object({ kind: z.literal("fq"), ...fqShape }, "a queueing discipline"),
    object({ kind: z.literal("pfifo"), limit: integer(1, 1 << 24).optional() }, "a queueing discipline"),
  ], { error: '"fq", "pfifo", or an object with that as its kind' }),
);

const flag = z.boolean({ error: "true or false" });
const port = shorthand(
  "kind",
  z.discriminatedUnion("kind", [
    object({ kind: z.literal("auto") }, "a port"),
    object({ kind: z.literal("dgram") }, "a port"),
    object({ kind: z.literal("deno") }, "a port"),
    object({
      kind: z.literal("linux"),
      segment: flag.optional(),
      gro: flag.optional(),
      receiveBufferBytes: integer(4096, 2 ** 30).optional(),
      sendBufferBytes: integer(4096, 2 ** 30).optional(),
    }, "a port"),
  ], { error: '"auto", "linux", "deno", "dgram" or { kind: "linux", … }' }),
);

const SLEEPERS: readonly SleeperConfig[] = ["timeout", "hop", "ppoll", "spin"];
const ECN_MODES: readonly EcnMode[] = ["compatibility", "normal"];

const congestion = z.enum(CONGESTION_CONTROLS as [string, ...string[]], {
  error: `a congestion control: ${CONGESTION_CONTROLS.join(", ")}`,
});

const slowStartExit = z.enum(SLOW_START_EXITS as [string, ...string[]], {
  error: `a way to end slow start: ${SLOW_START_EXITS.join(", ")}`,
});

const pacing = z.enum([...PACING_MODES] as [PacingMode, ...PacingMode[]], {
  error: `a pacing mode: ${PACING_MODES.join(", ")}`,
});

/** An acknowledgment may wait less than this (RFC 9293 section 3.8.6.3). */
const DELAYED_ACK_BOUND: Duration = 500 * MILLISECOND;

/** Least timeout of retransmission, and least part of it: what a timer can tell apart (G in RFC 6298 section 2.3). */
const RTO_MIN: Duration = MILLISECOND;

const delayedAck = z.union([z.literal("adaptive"), duration(0, DELAYED_ACK_BOUND)], {
  error: `a time of less than ${formatTime(DELAYED_ACK_BOUND)} in ns, or text with a unit like "200ms", or "adaptive"`,
});

/** Keep-alive probes may not follow one another faster, nor the first the last segment. */
const KEEP_ALIVE_MIN: Duration = SECOND;

const TCP_DURATIONS: ReadonlyMap<string, ReturnType<typeof duration>> = new Map([
  ["initialRto", duration(RTO_MIN)],
  ["minRto", duration(RTO_MIN)],
  ["maxRto", duration(RTO_MIN)],
  ["fixedRto", duration(0)],
  ["userTimeout", duration()],
  ["keepAliveIdle", duration(KEEP_ALIVE_MIN)],
  ["keepAliveInterval", duration(KEEP_ALIVE_MIN)],
  ["timeWait", duration()],
  ["finWait2", duration()],
]);
const TCP_WORDS: ReadonlyMap<string, z.ZodType> = new Map([
  ["rtoModel", oneOf(RTO_MODELS)],
  ["fastRetransmit", oneOf(["oldest", "whole-buffer"])],
  ["ecn", oneOf(ECN_OPTIONS)],
  ["handshakeAck", oneOf(["now", "delayed"])],
  ["mtuProbing", oneOf(MTU_PROBING)],
  ["slowStartGrowth", oneOf(["bytes", "acks"])],
]);

/** One of a few words. */
function oneOf(words: readonly string[]): z.ZodType {
  return z.enum(words as [string, ...string[]], { error: words.map((word) => `"${word}"`).join(" or ") });
}
const tcpShape = Object.fromEntries(
  Object.entries(DEFAULT_TCP_OPTIONS).map(([field, value]) => {
    if (field === "congestion") return [field, congestion.optional()];
    const words = TCP_WORDS.get(field);
    if (words !== undefined) return [field, words.optional()];
    if (field === "slowStartExit") return [field, slowStartExit.optional()];
    if (field === "delayedAck") return [field, delayedAck.optional()];
    if (field === "pacing") return [field, pacing.optional()];
    if (field === "windowShift") return [field, integer(-1, 14).optional()];
    if (field === "maxPacingRateBytesPerSec") {
      const error = "a rate in bytes per second above 0";
      return [field, z.union([z.number().positive({ error }), z.literal(Infinity)], { error }).optional()];
    }
    if (typeof value === "boolean") return [field, z.boolean({ error: "true or false" }).optional()];
    const time = TCP_DURATIONS.get(field);
    if (time !== undefined) return [field, time.optional()];
    return [field, integer(value !== 0 && /Bytes$|Limit$/.test(field) ? 1 : 0, 2 ** 30).optional()];
  }),
);

const RP_FILTERS = ["none", "loose", "strict"] as const;
const rpFilter = z.enum(RP_FILTERS, { error: '"none", "loose" or "strict"' });

/** Names stand in lines that others read. */
const peerName = text("a name without control characters", (value) => {
  // deno-lint-ignore no-control-regex
  if (value === "" || /[\x00-\x1f\x7f-\x9f\u2028\u2029]/.test(value)) {
    throw new TypeError("a name without control characters");
  }
  return value;
});

const peerShape = {
  name: peerName.optional(),
  endpoint: endpoint.optional(),
  allowed: oneOrMany(prefix, 'the inner prefixes behind the peer, like "10.7.0.2/32"', 1),
  accept: oneOrMany(prefix, 'inner prefixes like "10.9.0.0/16"', 0).optional(),
  mtu: integer(MTU_MIN, MTU_MAX).optional(),
  vni: integer(0, 0xffffff).optional(),
  key: integer(0, 0xffffffff).optional(),
  rpFilter: rpFilter.optional(),
  ecn: z.enum(ECN_MODES, { error: '"compatibility" or "normal"' }).optional(),
  roaming: z.boolean({ error: BOOLEAN }).optional(),
  keepalive: z.boolean({ error: BOOLEAN }).optional(),
  impair: impair.optional(),
};
const PEER = "a peer like { endpoint: …, allowed: … }";

/** A list of peers. */
function peers<T extends z.ZodType>(peer: T) {
  return z.array(peer, { error: "a list of peers" }).optional();
}

const TUN_NAME = 'a name of at most 15 letters, digits, "_", "." or "-", like "culv0" or "culv%d"';

/** The name of a device: the kernel takes one `%d`, and puts a number there. */
const tunName = text(TUN_NAME, (value) => {
  if (!/^(?=.{1,15}$)[\w.-]*(?:%d)?[\w.-]*$/.test(value) || /^\.\.?$/.test(value)) throw new TypeError(TUN_NAME);
  return value;
});

const tun = object({
  name: tunName.optional(),
  addresses: oneOrMany(interfaceAddress, ADDRESS, 1),
  allowed: oneOrMany(prefix, 'inner prefixes behind the kernel, like "10.9.0.0/16"', 0).optional(),
  routes: oneOrMany(prefix, 'prefixes that the kernel routes to the device, like "10.7.0.0/24"', 0).optional(),
  mtu: integer(MTU_MIN, MTU_MAX).optional(),
  rpFilter: rpFilter.optional(),
}, 'a TUN device like { addresses: "10.9.0.2/24" }');

const ROUTE_TYPES: readonly RouteType[] = ["unicast", "blackhole", "unreachable", "prohibit"];

const route = object({
  to: prefix,
  via: z.string({ error: "the name of a peer" }).optional(),
  metric: integer(0, 2 ** 31 - 1).optional(),
  type: z.enum(ROUTE_TYPES, { error: `a type of route: ${ROUTE_TYPES.join(", ")}` }).optional(),
  weight: integer(1, ROUTE_WEIGHT_MAX).optional(),
}, 'a route like { to: "10.9.0.0/16", via: "router" } or { to: "10.0.0.0/8", type: "blackhole" }');

/** The least interval at which names are looked up again. */
const LOOKUP_INTERVAL_MIN: Duration = SECOND;

/** The least interval of keepalives. */
const KEEPALIVE_MIN: Duration = 10 * MILLISECOND;

const hostShape = {
  address: oneOrMany(interfaceAddress, ADDRESS, 1),
  listen: oneOrMany(endpoint, ENDPOINT, 0).optional(),
  port: port.optional(),
  sleeper: z.enum(SLEEPERS, { error: `a sleeper: ${SLEEPERS.join(", ")}` }).optional(),
  peers: peers(object(peerShape, PEER)),
  routes: z.array(route, { error: "a list of routes" }).optional(),
  tun: tun.optional(),
  forward: z.boolean({ error: "true or false" }).optional(),
  rpFilter: rpFilter.optional(),
  clampMss: z.boolean({ error: "true or false" }).optional(),
  mtu: integer(MTU_MIN, MTU_MAX).optional(),
  underlayMtu: integer(MTU_MIN, UNDERLAY_MTU_MAX).optional(),
  encapsulation: encapsulation.optional(),
  keepalive: duration(KEEPALIVE_MIN).optional(),
  deadAfter: duration(KEEPALIVE_MIN).optional(),
  lookupInterval: duration(LOOKUP_INTERVAL_MIN).optional(),
  qdisc: qdisc.optional(),
  impair: impair.optional(),
  congestion: congestion.optional(),
  tcp: object(tcpShape, "settings of TCP").optional(),
  udp: object({
    receiveBufferBytes: integer(64, 2 ** 30).default(DEFAULT_UDP_OPTIONS.receiveBufferBytes),
    socketLimit: integer(1, 1 << 20).default(DEFAULT_UDP_OPTIONS.socketLimit),
  }, "settings of UDP").optional(),
  poolPackets: integer(64, 1 << 24).optional(),
  seed: integer(-Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER).optional(),
};

/** The shape of a whole configuration. */
const host = object(hostShape, "an object");

/** The same, where a name may stand in the endpoint of a peer. */
const namedHost = object({
  ...hostShape,
  peers: peers(object({ ...peerShape, endpoint: endpointOrName.optional() }, PEER)),
}, "an object");

/** A configuration of the right shape; what was left out is absent. */
export interface ShapedHost {
  /** Own addresses. */
  readonly address: readonly IpInterface[];
  /** Endpoints to bind. */
  readonly listen?: readonly Endpoint[];
  /** What sends and receives datagrams. */
  readonly port?: PortConfig;
  /** How to wait. */
  readonly sleeper?: SleeperConfig;
  /** Peers. */
  readonly peers?: readonly ShapedPeer[];
  /** Static routes. */
  readonly routes?: readonly ShapedRoute[];
  /** The TUN device. */
  readonly tun?: ShapedTun;
  /** Forward packets for others. */
  readonly forward?: boolean;
  /** Check of the way back, of all peers. */
  readonly rpFilter?: (typeof RP_FILTERS)[number];
  /** Lower the MSS of forwarded SYNs. */
  readonly clampMss?: boolean;
  /** MTU of all peers. */
  readonly mtu?: number;
  /** MTU of the underlay. */
  readonly underlayMtu?: number;
  /** Encapsulation. */
  readonly encapsulation?: {
    readonly kind: EncapsulationConfig["kind"];
    readonly vni?: number;
    readonly key?: number;
  };
  /** Interval of keepalives. */
  readonly keepalive?: Duration;
  /** After how long a silence a peer is dead. */
  readonly deadAfter?: Duration;
  /** How often names are looked up again. */
  readonly lookupInterval?: Duration;
  /** Queueing discipline with its options beside its kind. */
  readonly qdisc?:
    & { readonly kind: "fq" | "pfifo" }
    & FqOptions
    & { readonly [Rate in keyof typeof FQ_RATES]?: number };
  /** Impairments of all peers. */
  readonly impair?: ShapedImpair;
  /** Congestion control. */
  readonly congestion?: string;
  /** Settings of TCP. */
  readonly tcp?: Partial<TcpOptions>;
  /** Settings of UDP. */
  readonly udp?: UdpOptions;
  /** Most packets in use. */
  readonly poolPackets?: number;
  /** Seed. */
  readonly seed?: number;
}

/** A TUN device of the right shape. */
export interface ShapedTun {
  /** Name. */
  readonly name?: string;
  /** The kernel's addresses. */
  readonly addresses: readonly IpInterface[];
  /** Prefixes behind the kernel. */
  readonly allowed?: readonly IpPrefix[];
  /** Prefixes that the kernel routes to the device. */
  readonly routes?: readonly IpPrefix[];
  /** MTU. */
  readonly mtu?: number;
  /** Check of the way back. */
  readonly rpFilter?: (typeof RP_FILTERS)[number];
}

/** A route of the right shape. */
export interface ShapedRoute {
  /** Destinations. */
  readonly to: IpPrefix;
  /** Name of a peer. */
  readonly via?: string;
  /** Metric. */
  readonly metric?: number;
  /** What becomes of the packets. */
  readonly type?: RouteType;
  /** Share among equals. */
  readonly weight?: number;
}

/** A peer of the right shape. */
export interface ShapedPeer {
  /** Name. */
  readonly name?: string;
  /** Endpoint. */
  readonly endpoint?: Endpoint;
  /** Prefixes behind it. */
  readonly allowed: readonly IpPrefix[];
  /** Prefixes that it may send from beside those. */
  readonly accept?: readonly IpPrefix[];
  /** MTU. */
  readonly mtu?: number;
  /** VNI. */
  readonly vni?: number;
  /** Key of GRE. */
  readonly key?: number;
  /** Check of the way back. */
  readonly rpFilter?: (typeof RP_FILTERS)[number];
  /** Whether the ECN field is shown outside. */
  readonly ecn?: EcnMode;
  /** Whether it is followed. */
  readonly roaming?: boolean;
  /** Whether it gets keepalives. */
  readonly keepalive?: boolean;
  /** Impairments. */
  readonly impair?: ShapedImpair;
}

/** Impairments of the right shape. */
export interface ShapedImpair {
  /** Of what comes in. */
  readonly in?: NetemConfig;
  /** Of what goes out. */
  readonly out?: NetemConfig;
}

/** Checks the shape of `input`; `null`, and the faults collected, if it is not right. */
export function parseShape(input: unknown, faults: ConfigFaults): ShapedHost | null {
  return parseWith(host, input, faults) as ShapedHost | null;
}

/** True if the endpoint of a peer looks like a name. */
function hasName(peer: unknown): boolean {
  const text = (peer as { endpoint?: unknown } | null)?.endpoint;
  return typeof text === "string" && /^[a-z0-9_.-]*[a-z][a-z0-9_.-]*:/i.test(text);
}

/**
 * Checks the shape of `input` where peers may have names in their endpoints, and gives these names by the peer. Nothing is
 * checked if there are none.
 */
export function parseNames(input: unknown, faults: ConfigFaults): readonly (EndpointName | null)[] {
  const { peers } = (input ?? {}) as { peers?: unknown };
  if (!Array.isArray(peers)) return [];
  if (!peers.some(hasName)) return peers.map(() => null);
  type Named = { readonly peers?: readonly { readonly endpoint?: Endpoint | EndpointName }[] };
  const named = parseWith(namedHost, input, faults) as Named | null;
  return (named?.peers ?? []).map(({ endpoint }) => endpoint !== undefined && "hostname" in endpoint ? endpoint : null);
}

function parseWith(schema: z.ZodType, input: unknown, faults: ConfigFaults): unknown {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  for (const issue of result.error.issues) {
    if (issue.code === "unrecognized_keys") {
      const known = issue.message.slice(UNKNOWN_KEY_MARK.length).split(",");
      for (const key of issue.keys) faults.addUnknownKey(issue.path, key, known);
    } else {
      faults.add(issue.path, issue.message);
    }
  }
  return null;
}

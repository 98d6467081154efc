/**
 * Three network namespaces in a row: a kernel behind vxlan-gpe, a router of ours, and another router of ours with a TUN
 * device that leads to the second kernel.
 *
 * ```text
 *   namespace a                    namespace r1           namespace b
 *   kernel A ── vx0 ── veth ────── router 1 ──── veth ─── router 2 ── culv0 (TUN) ── kernel B
 *   10.7.0.2    vxlan-gpe, IPv4    10.7.0.1   vxlan-gpe,  10.8.0.2                    10.9.0.2
 *   fd07::2     MTU 1444           10.8.0.1   IPv6, 1280  10.9.0.1    MTU 1444        fd09::2
 * ```
 *
 * The routers are `culvert up` with a file each, which is read again when the impairment of the tunnel between them is to
 * change. Kernel B is that of the namespace in which router 2 runs, since a TUN device leads to the kernel of its own
 * machine. Nothing is left behind, see `namespaces.ts`; the files are in a folder that goes in the same way.
 *
 * @module
 */

import { linesOf, Namespace } from "./namespaces.ts";

/** An address family inside. */
export interface Family {
  /** `"IPv4"` or `"IPv6"`. */
  readonly name: string;
  /** The option of most programs that chooses it. */
  readonly option: "-4" | "-6";
  /** Kernel A's address. */
  readonly a: string;
  /** Kernel B's address. */
  readonly b: string;
  /** Who answers on the way from A to B, in order. */
  readonly hopsToB: readonly string[];
  /** Who answers on the way from B to A. */
  readonly hopsToA: readonly string[];
  /** Bytes of the IP header. */
  readonly headerBytes: number;
}

/** Both families. */
export const FAMILIES: readonly Family[] = [
  {
    name: "IPv4",
    option: "-4",
    a: "10.7.0.2",
    b: "10.9.0.2",
    hopsToB: ["10.7.0.1", "10.8.0.2", "10.9.0.2"],
    hopsToA: ["10.9.0.1", "10.8.0.1", "10.7.0.2"],
    headerBytes: 20,
  },
  {
    name: "IPv6",
    option: "-6",
    a: "fd07::2",
    b: "fd09::2",
    hopsToB: ["fd07::1", "fd08::2", "fd09::2"],
    hopsToA: ["fd09::1", "fd08::1", "fd07::2"],
    headerBytes: 40,
  },
];

/** MTU of the tunnel between the routers. */
export const MIDDLE_MTU = 1280;

/** The TUN device that leads to kernel B. */
export const TUN_NAME = "culv0";

/** MTU at both ends. */
export const EDGE_MTU = 1444;

/** The TUN device of router 2, in the words of `--tun`. */
const TUN = [
  `${TUN_NAME},10.9.0.2/24,fd09::2/64,mtu ${EDGE_MTU}`,
  ...["10.7.0.0/24", "10.8.0.0/24", "fd07::/64", "fd08::/64"].map((prefix) => `route ${prefix}`),
].join();

/** How long a router may take to start or to end, in seconds: the machine may be busy. */
const PATIENCE_SECONDS = 60;

/** What the routers do to hop checks: nothing that could lose a packet. */
export const DELAY_ONLY = "delay 2ms";

/** What the routers do to each other's packets while data is moved. */
export const IMPAIRED = "delay 2ms 0.2ms loss 0.1% rate 100mbit";

/** Counters of a router when it ended, as far as they are looked at. */
export interface RouterCounters {
  /** Packets forwarded. */
  forwarded: number;
  /** Drops by reason. */
  drops: Record<string, number>;
  /** Packets in use. */
  pool: { inUse: number };
  /** The TUN device. */
  tun: { sendErrors: number; systemDrops?: number } | null;
  /** The interfaces. */
  interfaces: { name: string; packetsIn: number; packetsOut: number }[];
}

/** A router of ours: `culvert up` with a file. */
export class Router implements AsyncDisposable {
  /** What it said when it was up. */
  readonly up: Record<string, unknown>;
  readonly #ns: Namespace;
  readonly #child: Deno.ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #path: string;
  readonly #config: (impairment: string) => Record<string, unknown>;
  #ended: Promise<RouterCounters> | null = null;

  /**
   * Starts a router in `ns`.
   *
   * @param path where its file is to be
   * @param config its file, by the impairment of what it sends to the other router
   * @param more flags beside the file
   */
  static async start(
    ns: Namespace,
    path: string,
    config: (impairment: string) => Record<string, unknown>,
    impairment: string,
    more: readonly string[] = [],
  ): Promise<Router> {
    await Deno.writeTextFile(path, JSON.stringify(config(impairment)));
    const main = new URL("../../src/cli/main.ts", import.meta.url).href;
    const child = ns.command(
      { stdin: "null", stdout: "piped", stderr: "inherit" },
      Deno.execPath(),
      ...["run", "--quiet", "--allow-all", "--unstable-net", main, "up", "--json", path, ...more],
    ).spawn();
    const lines = linesOf(child.stdout);
    const { value, done } = await within(PATIENCE_SECONDS, lines.next(), "the router did not start");
    if (done) throw new Error("the router ended at once");
    return new Router(ns, child, lines, path, config, JSON.parse(value));
  }

  private constructor(
    ns: Namespace,
    child: Deno.ChildProcess,
    lines: AsyncIterator<string>,
    path: string,
    config: (impairment: string) => Record<string, unknown>,
    up: Record<string, unknown>,
  ) {
    this.#ns = ns;
    this.#child = child;
    this.#lines = lines;
    this.#path = path;
    this.#config = config;
    this.up = up;
  }

  /** Has it impair otherwise what it sends to the other router. */
  async impair(impairment: string): Promise<void> {
    await Deno.writeTextFile(this.#path, JSON.stringify(this.#config(impairment)));
    await this.#signal("HUP");
    const { value } = await within(PATIENCE_SECONDS, this.#lines.next(), "the router did not read its file again");
    if (!String(value).startsWith('{"event":"impairments"')) throw new Error(`the router said ${value}`);
  }

  /** Ends it in good order and gives its counters. */
  end(): Promise<RouterCounters> {
    return this.#ended ??= (async () => {
      await this.#signal("TERM");
      const { value, done } = await within(PATIENCE_SECONDS, this.#lines.next(), "the router does not end");
      if (done) throw new Error("the router ended without a word");
      const { code } = await within(PATIENCE_SECONDS, this.#child.status, "the router does not end");
      if (code !== 0) throw new Error(`the router ended with code ${code}`);
      return JSON.parse(value) as RouterCounters;
    })();
  }

  /** Ends it without a warning. */
  async kill(): Promise<void> {
    this.#ended = Promise.reject(new Error("the router was killed"));
    this.#ended.catch(() => {});
    await this.#signal("KILL");
    await within(PATIENCE_SECONDS, this.#child.status, "the router does not end");
  }

  /** Ends it. One that does not end is left to the end of its namespace. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.end().catch((error) => console.error(error.message));
  }

  async #signal(name: string): Promise<void> {
    await this.#ns.run("sh", "-c", `kill -${name} ${Number(this.up["pid"])}`);
  }
}

/**
 * A folder for files that is removed when this process ends, however it does: by a process that reads from us and takes
 * no notice of signals that are meant for us.
 */
class Folder implements AsyncDisposable {
  readonly path: string;
  readonly #holder: Deno.ChildProcess;

  static async open(): Promise<Folder> {
    const script = 'trap "" INT TERM HUP; umask 077; d=$(mktemp -d) && echo "$d" && cat >/dev/null; rm -rf "$d"';
    const holder = new Deno.Command("sh", { args: ["-c", script], stdin: "piped", stdout: "piped" }).spawn();
    const { value } = await linesOf(holder.stdout).next();
    if (!value) throw new Error("no folder can be made");
    return new Folder(value, holder);
  }

  private constructor(path: string, holder: Deno.ChildProcess) {
    this.path = path;
    this.#holder = holder;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#holder.stdin.close().catch(() => {});
    await this.#holder.status;
  }
}

/** The whole row. */
export class RouterSite implements AsyncDisposable {
  readonly #stack: AsyncDisposableStack;

  /**
   * Makes it.
   *
   * @param impairment what each router does to what it sends to the other one
   */
  static async open(impairment: string): Promise<RouterSite> {
    await using stack = new AsyncDisposableStack();
    const { path: folder } = stack.use(await Folder.open());
    const a = stack.use(await Namespace.open());
    const r1 = stack.use(await Namespace.open());
    const b = stack.use(await Namespace.open());
    await a.join("va", r1, "v1");
    await r1.join("v2", b, "vb");
    await a.ip("addr add 10.201.0.2/24 dev va");
    await r1.ip("addr add 10.201.0.1/24 dev v1");
    await r1.ip("-6 addr add fd00:9::1/64 dev v2 nodad");
    await b.ip("-6 addr add fd00:9::2/64 dev vb nodad");
    for (const [ns, device] of [[a, "va"], [r1, "v1"], [r1, "v2"], [b, "vb"]] as const) {
      await ns.ip(`link set ${device} up`);
    }
    for (const ns of [a, b]) {
      // A kernel answers a good deal of pings and traces in a short time here.
      await ns.set({ "net.ipv4.icmp_ratelimit": 0, "net.ipv6.icmp.ratelimit": 0, "net.ipv4.icmp_msgs_per_sec": 10000 });
    }
    await setUpKernelA(a);
    const first = stack.use(await Router.start(r1, `${folder}/r1.yaml`, router1, impairment));
    const second = stack.use(await Router.start(b, `${folder}/r2.yaml`, router2, impairment, ["--tun", TUN]));
    return new RouterSite(a, b, [first, second], folder, stack.move());
  }

  private constructor(
    readonly a: Namespace,
    readonly b: Namespace,
    readonly routers: readonly [Router, Router],
    readonly folder: string,
    stack: AsyncDisposableStack,
  ) {
    this.#stack = stack;
  }

  /** Starts router 2 once more, after it has ended. */
  restartSecond(): Promise<Router> {
    return Router.start(this.b, `${this.folder}/r2.yaml`, router2, DELAY_ONLY, ["--tun", TUN]);
  }

  /** Has both routers impair otherwise what they send to each other. */
  async impair(impairment: string): Promise<void> {
    for (const router of this.routers) await router.impair(impairment);
  }

  /** Ends everything. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** The recipe of ARCHITECTURE.md, section "Linux as a peer". */
async function setUpKernelA(a: Namespace): Promise<void> {
  await a.ip(`link add vx0 mtu ${EDGE_MTU} type vxlan external gpe dstport 4790 srcport 4790 4791`);
  await a.ip("link set vx0 up");
  await a.run("ethtool", "-K", "vx0", "tx", "off", "tso", "off", "gso", "off");
  await a.ip("addr add 10.7.0.2/24 dev vx0");
  await a.ip("-6 addr add fd07::2/64 dev vx0 nodad");
  for (const to of ["10.7.0.1/32", "10.8.0.0/24", "10.9.0.0/24"]) {
    await a.ip(`route add ${to} encap ip id 42 dst 10.201.0.1 dev vx0`);
  }
  for (const to of ["fd07::1/128", "fd08::/64", "fd09::/64"]) {
    await a.ip(`-6 route add ${to} encap ip id 42 dst 10.201.0.1 dev vx0`);
  }
}

function router1(impairment: string): Record<string, unknown> {
  return {
    // The first ones are those that errors to kernel B come from.
    address: ["10.8.0.1/24", "fd08::1/64", "10.7.0.1/24", "fd07::1/64"],
    listen: ["0.0.0.0:4790", "[::]:4790"],
    port: "linux",
    encapsulation: "vxlan-gpe",
    forward: true,
    peers: [
      { name: "a", endpoint: "10.201.0.2:4790", vni: 42, allowed: ["10.7.0.2", "fd07::2"], mtu: EDGE_MTU },
      {
        name: "r2",
        endpoint: "[fd00:9::2]:4790",
        vni: 7,
        allowed: ["10.9.0.0/24", "10.8.0.2", "fd09::/64", "fd08::2"],
        mtu: MIDDLE_MTU,
        impair: impairment,
      },
    ],
  };
}

function router2(impairment: string): Record<string, unknown> {
  return {
    // The first ones are those that errors to kernel A come from.
    address: ["10.8.0.2/24", "fd08::2/64", "10.9.0.1/24", "fd09::1/64"],
    listen: "[::]:4790",
    port: "linux",
    encapsulation: "vxlan-gpe",
    forward: true,
    peers: [{
      name: "r1",
      endpoint: "[fd00:9::1]:4790",
      vni: 7,
      allowed: ["10.7.0.0/24", "10.8.0.1", "fd07::/64", "fd08::1"],
      mtu: MIDDLE_MTU,
      impair: impairment,
    }],
  };
}

/** What `promise` gives, or an error after so many seconds. */
export async function within<T>(seconds: number, promise: Promise<T>, otherwise: string): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`${otherwise} within ${seconds} s`)), 1000 * seconds);
  return await Promise.race([promise, late.promise]).finally(() => clearTimeout(timer));
}

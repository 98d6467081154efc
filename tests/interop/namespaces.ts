/**
 * Two network namespaces joined by a veth pair: ours, and one in which the kernel's own TCP/IP is behind a vxlan-gpe
 * tunnel.
 *
 * ```text
 *   namespace a                                  namespace b
 *   interop_host.ts (our stack) ── UDP 4790 ── veth ── vx0 (vxlan-gpe) ── the kernel's TCP/IP and its programs
 * ```
 *
 * Nothing has a name and nothing is left behind, however the program ends: a namespace is held by a process that reads
 * from us and that is the first of a PID namespace. If we end, by a signal that cannot be caught too, it reads the end,
 * the kernel kills whatever still runs in there, and the network namespace goes with the last of them. No setting outside
 * is changed.
 *
 * @module
 */

/** Runs a command to its end; throws with what it printed if it fails. */
async function output(command: Deno.Command, name: string): Promise<string> {
  const { code, stdout, stderr } = await command.output();
  const text = new TextDecoder().decode(stdout);
  if (code !== 0) throw new Error(`${name}: code ${code}: ${new TextDecoder().decode(stderr).trim()} ${text}`);
  return text;
}

/** The lines of a stream; the last one need not be ended. */
export async function* linesOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + text).split("\n");
    rest = parts.pop()!;
    yield* parts;
  }
  if (rest !== "") yield rest;
}

/** A network namespace and all processes in it. */
export class Namespace implements AsyncDisposable {
  /** What the namespace is known by to a process outside: that of the one that holds it. */
  readonly pid: number;
  readonly #holder: Deno.ChildProcess;

  /** Makes a namespace in which there is only the loopback device. */
  static async open(): Promise<Namespace> {
    const holder = new Deno.Command("unshare", {
      args: ["--net", "--pid", "--fork", "--kill-child", "sh", "-c", "ip link set lo up && echo ready && exec cat"],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const { value } = await linesOf(holder.stdout).next();
    if (value !== "ready") throw new Error("no network namespace can be made");
    return new Namespace(holder);
  }

  private constructor(holder: Deno.ChildProcess) {
    this.#holder = holder;
    this.pid = holder.pid;
  }

  /** A command that runs in here. */
  command(options: Deno.CommandOptions, name: string, ...args: string[]): Deno.Command {
    const enter = [`--net=/proc/${this.pid}/ns/net`, `--pid=/proc/${this.pid}/ns/pid_for_children`];
    return new Deno.Command("nsenter", { ...options, args: [...enter, "--", name, ...args] });
  }

  /** Runs a command in here to its end; throws with what it printed if it fails. */
  run(name: string, ...args: string[]): Promise<string> {
    return output(this.command({ stdin: "null" }, name, ...args), [name, ...args].join(" "));
  }

  /** Runs `ip` with the words of a text. */
  ip(words: string): Promise<string> {
    return this.run("ip", ...words.split(" "));
  }

  /** Changes settings of the kernel in here, by their names for `sysctl`. */
  async set(settings: Readonly<Record<string, string | number>>): Promise<void> {
    for (const [name, value] of Object.entries(settings)) {
      const path = `/proc/sys/${name.replaceAll(".", "/")}`;
      await this.run("sh", "-c", 'printf "%s" "$1" > "$2"', "set", `${value}`, path);
    }
  }

  /** Waits, for 20 seconds at most, until somebody in here listens on a TCP port. */
  async listening(port: number): Promise<void> {
    const script = 'for i in $(seq 200); do ss -Hltn "sport = :$1" | grep -q . && exit; sleep 0.1; done; exit 1';
    await this.run("sh", "-c", script, "listening", `${port}`);
  }

  /** Joins this namespace by a veth pair to another one. */
  async join(device: string, other: Namespace, otherDevice: string): Promise<void> {
    const words = `ip link add ${device} type veth peer name ${otherDevice} netns ${other.pid}`;
    // Not in the PID namespace, which knows no process by that number.
    const args = [`--net=/proc/${this.pid}/ns/net`, "--", ...words.split(" ")];
    await output(new Deno.Command("nsenter", { args, stdin: "null" }), words);
  }

  /** Ends all processes in here; the namespace goes with them. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#holder.stdin.close().catch(() => {});
    await this.#holder.status;
  }
}

/** One underlay family and what is inside. */
export interface Underlay {
  /** `"IPv4"` or `"IPv6"`. */
  readonly name: string;
  /** Our address outside. */
  readonly local: string;
  /** The kernel's address outside. */
  readonly remote: string;
  /** Network identifier. */
  readonly vni: number;
  /** IPv4 addresses inside. */
  readonly inner4: readonly [local: string, remote: string];
  /** IPv6 addresses inside. */
  readonly inner6: readonly [local: string, remote: string];
}

/** Both families. */
export const UNDERLAYS: readonly [Underlay, Underlay] = [
  {
    name: "IPv4",
    local: "10.201.0.1",
    remote: "10.201.0.2",
    vni: 42,
    inner4: ["10.7.0.1", "10.7.0.2"],
    inner6: ["fd07::1", "fd07::2"],
  },
  {
    name: "IPv6",
    local: "fd00:9::1",
    remote: "fd00:9::2",
    vni: 43,
    inner4: ["10.8.0.1", "10.8.0.2"],
    inner6: ["fd08::1", "fd08::2"],
  },
];

/** An address as it stands before a port. */
export function bracket(address: string): string {
  return address.includes(":") ? `[${address}]` : address;
}

/** Our namespace and the kernel's. */
export class Site implements AsyncDisposable {
  readonly #stack: AsyncDisposableStack;

  /** Makes both: the recipe of ARCHITECTURE.md, section "Linux as a peer". */
  static async open(): Promise<Site> {
    await using stack = new AsyncDisposableStack();
    const ours = stack.use(await Namespace.open());
    const kernel = stack.use(await Namespace.open());
    await ours.join("va", kernel, "vb");
    for (const [ns, device, n] of [[ours, "va", 1], [kernel, "vb", 2]] as const) {
      await ns.ip(`addr add 10.201.0.${n}/24 dev ${device}`);
      await ns.ip(`-6 addr add fd00:9::${n}/64 dev ${device} nodad`);
      await ns.ip(`link set ${device} up`);
    }
    // 1444 is what an IPv6 underlay of MTU 1500 leaves.
    await kernel.ip("link add vx0 mtu 1444 type vxlan external gpe dstport 4790 srcport 4790 4791");
    await kernel.ip("link set vx0 up");
    await kernel.run("ethtool", "-K", "vx0", "tx", "off", "tso", "off", "gso", "off");
    for (const { name, vni, local, inner4, inner6 } of UNDERLAYS) {
      const encap = name === "IPv4" ? `encap ip id ${vni} dst ${local}` : `encap ip6 id ${vni} dst ${local} csum`;
      await kernel.ip(`addr add ${inner4[1]}/24 dev vx0`);
      await kernel.ip(`-6 addr add ${inner6[1]}/64 dev vx0 nodad`);
      // src: vx0 has addresses of both underlays, and ours answers only the right one.
      await kernel.ip(`route add ${inner4[0]}/32 ${encap} dev vx0 src ${inner4[1]}`);
      await kernel.ip(`-6 route add ${inner6[0]}/128 ${encap} dev vx0 src ${inner6[1]}`);
    }
    return new Site(ours, kernel, stack.move());
  }

  private constructor(readonly ours: Namespace, readonly kernel: Namespace, stack: AsyncDisposableStack) {
    this.#stack = stack;
  }

  /** Ends everything in both. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** `ss -tino`, a line each; without `o` it keeps TCP's options to itself. */
const SS_FLAGS: readonly string[] = ["--tcp", "--info", "--numeric", "--options", "--oneline", "--no-header"];

/**
 * What `ss -ti` says of a TCP connection while something goes on: a line each time it was asked.
 *
 * @param ns where to ask
 * @param filter which connection, in the words of `ss`
 * @param during what goes on
 * @param interval how often it is asked, in milliseconds
 */
export async function watchSockets(
  ns: Namespace,
  filter: string,
  during: Promise<unknown>,
  interval: number,
): Promise<string[]> {
  const seen: string[] = [];
  const over = during.then(() => true, () => true);
  const pause = (): Promise<boolean> => new Promise((resolve) => setTimeout(() => resolve(false), interval));
  do {
    const text = await ns.run("ss", ...SS_FLAGS, ...filter.split(" "));
    seen.push(...text.split("\n").filter((line) => line.startsWith("ESTAB")));
  } while (!await Promise.race([over, pause()]));
  return seen;
}

/** The value of `name:value` in a line of `ss`, or of the same name without a value. */
export function socketFact(line: string, name: string): string | null {
  const words = line.split(/\s+/);
  if (words.includes(name)) return "";
  return words.find((word) => word.startsWith(`${name}:`))?.slice(name.length + 1) ?? null;
}

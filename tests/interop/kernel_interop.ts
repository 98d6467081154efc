/**
 * Interop with the Linux kernel: its own TCP and ICMP talk to ours through a vxlan-gpe tunnel.
 *
 * ```text
 *   namespace culvert-a-PID                     namespace culvert-b-PID
 *   interop_host.ts (our stack) ── UDP 4790 ── veth ── vx0 (vxlan-gpe) ── the kernel's TCP/IP, curl, python3
 * ```
 *
 * For both underlay families and both inner families: ping both ways, `curl` of 10 MB from node:http over our Duplex, our
 * client's fetch of 10 MB from a Python server; SHA-256 equal; and no packet with a wrong checksum. That over `node:dgram`
 * and over the Linux port, and once more over the latter with an impaired tunnel. Prints `ok NAME`, `not ok NAME` or
 * `skip NAME reason`; exits with 1 if anything failed.
 *
 * Both ends of the veth pair are in namespaces of this run's own, which are removed whatever happens; so are those that a
 * killed run left behind.
 *
 * @module
 */

import { BYTES, type HostAnswer, type HostSettings } from "./interop_host.ts";

const A = `culvert-a-${Deno.pid}`;
const B = `culvert-b-${Deno.pid}`;
const IMPAIRMENT = "loss 1% delay 20ms 2ms rate 50mbit";

/** What is gone through, one after the other. */
const ROUNDS: readonly { port: HostSettings["port"]; impairment: string }[] = [
  { port: "dgram", impairment: "" },
  { port: "linux", impairment: "" },
  { port: "linux", impairment: IMPAIRMENT },
];

/** One underlay family and what is inside. */
interface Underlay {
  name: string;
  local: string;
  remote: string;
  vni: number;
  inner4: [local: string, remote: string];
  inner6: [local: string, remote: string];
}

const UNDERLAYS: readonly Underlay[] = [
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

let failures = 0;

function report(ok: boolean, name: string, detail = ""): void {
  console.log(`${ok ? "ok" : "not ok"} ${name}${detail === "" ? "" : `  # ${detail}`}`);
  if (!ok) failures++;
}

/** Runs a command to its end; throws with what it printed if it fails. */
async function run(command: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(command, { args, stdin: "null" }).output();
  const text = new TextDecoder().decode(stdout);
  if (code !== 0) {
    throw new Error(`${command} ${args.join(" ")}: code ${code}: ${new TextDecoder().decode(stderr).trim()} ${text}`);
  }
  return text;
}

const ip = (words: string): Promise<string> => run("ip", ...words.split(" "));

async function removeNamespaces(): Promise<void> {
  const { stdout } = await new Deno.Command("ip", { args: ["netns", "list"] }).output();
  for (const line of new TextDecoder().decode(stdout).split("\n")) {
    const [, name, pid] = /^(culvert-[ab]-(\d+))\b/.exec(line) ?? [];
    if (name === undefined || (Number(pid) !== Deno.pid && isAlive(Number(pid)))) continue;
    await new Deno.Command("ip", { args: ["netns", "del", name] }).output();
  }
}

function isAlive(pid: number): boolean {
  try {
    Deno.statSync(`/proc/${pid}`);
    return true;
  } catch {
    return false;
  }
}

/** The recipe of ARCHITECTURE.md, section "Linux as a peer". */
async function setUp(): Promise<void> {
  await ip(`netns add ${A}`);
  await ip(`netns add ${B}`);
  await ip(`link add va netns ${A} type veth peer name vb netns ${B}`);
  for (const [ns, dev, n] of [[A, "va", 1], [B, "vb", 2]] as const) {
    await ip(`-n ${ns} link set lo up`);
    await ip(`-n ${ns} addr add 10.201.0.${n}/24 dev ${dev}`);
    await ip(`-n ${ns} -6 addr add fd00:9::${n}/64 dev ${dev} nodad`);
    await ip(`-n ${ns} link set ${dev} up`);
  }
  // 1444 is what an IPv6 underlay of MTU 1500 leaves.
  await ip(`-n ${B} link add vx0 mtu 1444 type vxlan external gpe dstport 4790 srcport 4790 4791`);
  await ip(`-n ${B} link set vx0 up`);
  await run("ip", "netns", "exec", B, "ethtool", "-K", "vx0", "tx", "off", "tso", "off", "gso", "off");
  for (const u of UNDERLAYS) {
    const encap = u.name === "IPv4"
      ? `encap ip id ${u.vni} dst ${u.local}`
      : `encap ip6 id ${u.vni} dst ${u.local} csum`;
    await ip(`-n ${B} addr add ${u.inner4[1]}/24 dev vx0`);
    await ip(`-n ${B} -6 addr add ${u.inner6[1]}/64 dev vx0 nodad`);
    // src: vx0 has addresses of both underlays, and ours answers only the right one.
    await ip(`-n ${B} route add ${u.inner4[0]}/32 ${encap} dev vx0 src ${u.inner4[1]}`);
    await ip(`-n ${B} -6 route add ${u.inner6[0]}/128 ${encap} dev vx0 src ${u.inner6[1]}`);
  }
}

/** Our stack in namespace A, in a process of its own, asked by lines. */
class OurHost {
  readonly #child: Deno.ChildProcess;
  readonly #in: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #lines: AsyncIterator<string>;
  #busy: Promise<unknown> = Promise.resolve();

  constructor(settings: HostSettings) {
    this.#child = new Deno.Command("ip", {
      args: [
        "netns",
        "exec",
        A,
        Deno.execPath(),
        "run",
        "--quiet",
        "--allow-all",
        new URL("./interop_host.ts", import.meta.url).href,
        JSON.stringify(settings),
      ],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    children.add(this.#child);
    this.#in = this.#child.stdin.getWriter();
    this.#lines = lines(this.#child.stdout);
  }

  /** Sends one question and waits for its answer; answers come in order. */
  async ask(question: Record<string, unknown>): Promise<HostAnswer> {
    const answer = this.#busy.then(async () => {
      await this.#in.write(new TextEncoder().encode(JSON.stringify(question) + "\n"));
      const { value, done } = await this.#lines.next();
      if (done) throw new Error("our host ended");
      return JSON.parse(value) as HostAnswer;
    });
    this.#busy = answer.catch(() => {});
    return await answer;
  }

  async stop(): Promise<void> {
    await this.#in.close().catch(() => {});
    await this.#child.status;
    children.delete(this.#child);
  }
}

const children = new Set<Deno.ChildProcess>();

async function* lines(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + text).split("\n");
    rest = parts.pop()!;
    yield* parts;
  }
}

async function check(name: string, body: () => Promise<string>): Promise<void> {
  const from = performance.now();
  try {
    const detail = await body();
    report(true, name, `${detail}, ${((performance.now() - from) / 1000).toFixed(1)} s`);
  } catch (error) {
    report(false, name, String(error instanceof Error ? error.message : error).replaceAll("\n", " "));
  }
}

function expect(condition: boolean, message: string): void {
  if (!condition) throw new Error(message);
}

async function checkFamily(
  host: OurHost,
  label: string,
  local: string,
  remote: string,
  sha256: string,
  impaired: boolean,
): Promise<void> {
  const bracket = (address: string): string => address.includes(":") ? `[${address}]` : address;
  const count = impaired ? 20 : 5;
  const least = impaired ? 15 : 5;

  await check(`${label}: the kernel pings us`, async () => {
    const text = await run("ip", "netns", "exec", B, "ping", "-c", `${count}`, "-i", "0.1", "-w", "10", local).catch((
      e,
    ) => String(e));
    // With -w ping waits for late answers but sends more meanwhile: only the first `count` requests are counted.
    const answered = [...text.matchAll(/icmp_seq=(\d+)/g)].map(([, seq]) => Number(seq)).filter((seq) => seq <= count);
    const received = new Set(answered).size;
    expect(received >= least, `${received} of ${count} answers: ${text}`);
    return `${received} of ${count}, ${/rtt .*/.exec(text)?.[0] ?? ""}`;
  });

  await check(`${label}: we ping the kernel`, async () => {
    const { ping } = await host.ask({ ping: remote, count });
    expect(ping !== undefined && ping.received >= least, `${JSON.stringify(ping)} of ${count}`);
    return `${ping!.received} of ${count}, p50 ${ping!.p50.toFixed(2)} ms`;
  });

  await check(`${label}: curl fetches 10 MB from node:http over our Duplex`, async () => {
    const url = `http://${bracket(local)}:8080/`;
    const text = await run(
      "ip",
      "netns",
      "exec",
      B,
      "bash",
      "-c",
      `set -o pipefail; curl --globoff --silent --show-error --max-time 240 '${url}' | sha256sum`,
    );
    expect(text.startsWith(sha256), `SHA-256 ${text.trim()}, expected ${sha256}`);
    return "SHA-256 equal";
  });

  await check(`${label}: our client fetches 10 MB from a Python server`, async () => {
    const { fetched, error } = await host.ask({ fetch: `http://${bracket(remote)}:8000/data`, address: remote });
    expect(fetched !== undefined, `${error}`);
    expect(fetched!.bytes === BYTES, `${fetched!.bytes} bytes, expected ${BYTES}`);
    expect(fetched!.sha256 === sha256, `SHA-256 ${fetched!.sha256}, expected ${sha256}`);
    return "SHA-256 equal";
  });
}

async function checkUnderlay(
  u: Underlay,
  port: HostSettings["port"],
  impairment: string,
  sha256: string,
): Promise<void> {
  const label = `${impairment === "" ? "clean" : "impaired"} by ${port} over ${u.name}`;
  const host = new OurHost({
    listen: u.local.includes(":") ? `[${u.local}]:4790` : `${u.local}:4790`,
    endpoint: u.remote.includes(":") ? `[${u.remote}]:4790` : `${u.remote}:4790`,
    vni: u.vni,
    addresses: [`${u.inner4[0]}/24`, `${u.inner6[0]}/64`],
    allowed: [u.inner4[1], u.inner6[1]],
    impairment,
    port,
  });
  try {
    await check(`${label}: our host starts`, async () => {
      const { ready, error } = await host.ask({ ready: true });
      expect(ready === port, `${ready ?? error}`);
      return "ready";
    });
    await Promise.all([
      checkFamily(host, `${label}, IPv4 inside`, ...u.inner4, sha256, impairment !== ""),
      checkFamily(host, `${label}, IPv6 inside`, ...u.inner6, sha256, impairment !== ""),
    ]);
    await check(`${label}: every inner checksum was right`, async () => {
      const { drops } = await host.ask({ drops: true });
      const wrong = Object.entries(drops ?? {}).filter(([reason]) => /checksum|truncated|bad-length/.test(reason));
      expect(drops !== undefined && wrong.length === 0, JSON.stringify(wrong));
      return `drops ${JSON.stringify(drops)}`;
    });
  } finally {
    await host.stop();
  }
}

async function main(): Promise<void> {
  const directory = await Deno.makeTempDir({ prefix: "culvert-interop-" });
  const stop = async (): Promise<void> => {
    for (const child of children) {
      try {
        child.kill("SIGKILL");
      } catch {
        // It has ended already.
      }
    }
    await Promise.all([...children].map((c) => c.status));
    await removeNamespaces();
    await Deno.remove(directory, { recursive: true }).catch(() => {});
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, () => stop().finally(() => Deno.exit(130)));
  }
  try {
    await removeNamespaces();
    await setUp();
    const { testData } = await import("./interop_host.ts");
    const data = testData();
    await Deno.writeFile(`${directory}/data`, data);
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
    const sha256 = [...digest].map((b) => b.toString(16).padStart(2, "0")).join("");
    const python = new Deno.Command("ip", {
      args: ["netns", "exec", B, "python3", "-m", "http.server", "8000", "--bind", "::", "--directory", directory],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    children.add(python);
    await waitForServer();
    for (const { port, impairment } of ROUNDS) {
      await Promise.all(UNDERLAYS.map((u) => checkUnderlay(u, port, impairment, sha256)));
    }
  } catch (error) {
    report(false, "interop", error instanceof Error ? error.stack ?? error.message : String(error));
  } finally {
    await stop();
  }
}

async function waitForServer(): Promise<void> {
  for (let i = 0; i < 100; i++) {
    const { code } = await new Deno.Command("ip", {
      args: ["netns", "exec", B, "curl", "--silent", "--output", "/dev/null", "http://127.0.0.1:8000/"],
    }).output();
    if (code === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("the Python server did not start within 10 s");
}

if (import.meta.main) {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) {
    console.log("skip kernel-interop network namespaces need root on Linux");
  } else {
    await main();
  }
  Deno.exit(failures === 0 ? 0 : 1);
}

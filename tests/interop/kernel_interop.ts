/**
 * Interop with the Linux kernel: its own TCP and ICMP talk to ours through a vxlan-gpe tunnel.
 *
 * For both underlay families and both inner families: ping both ways, `curl` of 10 MB from node:http over our Duplex, our
 * client's fetch of 10 MB from a Python server; SHA-256 equal; and no packet with a wrong checksum. That over `node:dgram`
 * and over the Linux port, and over the latter with an impaired tunnel, and with one that marks packets in place of losing
 * them. Over the impaired one `ss -ti` has to show at the kernel, while it receives and while it sends, that SACK,
 * timestamps and window scaling are in use; over the one that marks, where both ends ask for it, that ECN is, too.
 *
 * Prints `ok NAME`, `not ok NAME` or `skip NAME reason`; exits with 1 if anything failed. Nothing is left behind, see
 * `namespaces.ts`.
 *
 * @module
 */

import type { TcpInfo } from "../../src/tcp/info.ts";
import { BYTES, sha256, testData } from "./interop_host.ts";
import {
  bracket,
  linesOf,
  type Namespace,
  Site,
  socketFact,
  type Underlay,
  UNDERLAYS,
  watchSockets,
} from "./namespaces.ts";
import { type HostChoice, OurHost } from "./our_host.ts";

/** Port of the Python server. */
const KERNEL_PORT = 8000;
/** Port of our server. */
const OUR_PORT = 8080;

/** What is gone through, one after the other. */
interface Round {
  name: string;
  host: HostChoice;
  /** Pings each way, and how many of them have to be answered. */
  pings: { count: number; least: number };
  /** What `ss` is to show; nothing is looked for without it. */
  options?: { ecn: boolean };
}

const ROUNDS: readonly Round[] = [
  { name: "clean by dgram", host: { port: "dgram", impairment: "" }, pings: { count: 5, least: 5 } },
  { name: "clean by linux", host: { port: "linux", impairment: "" }, pings: { count: 5, least: 5 } },
  {
    name: "impaired by linux",
    host: { port: "linux", impairment: "loss 1% delay 20ms 2ms rate 50mbit", tcp: { ecn: "accept" } },
    pings: { count: 20, least: 15 },
    options: { ecn: false },
  },
  {
    name: "marked by linux",
    host: { port: "linux", impairment: "loss 0.2% ecn delay 2ms rate 50mbit", tcp: { ecn: "on" } },
    pings: { count: 0, least: 0 },
    options: { ecn: true },
  },
];

let failures = 0;

function report(ok: boolean, name: string, detail = ""): void {
  console.log(`${ok ? "ok" : "not ok"} ${name}${detail === "" ? "" : `  # ${detail}`}`);
  if (!ok) failures++;
}

async function check(name: string, body: () => string | Promise<string>): Promise<void> {
  const from = performance.now();
  try {
    const detail = await body();
    report(true, name, `${detail}, ${((performance.now() - from) / 1000).toFixed(1)} s`);
  } catch (error) {
    report(false, name, String(error instanceof Error ? error.message : error).replaceAll("\n", " "));
  }
}

function expect(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}

/** One inner family over one underlay in one round. */
class FamilyCheck {
  readonly #kernel: Namespace;
  readonly #host: OurHost;
  readonly #round: Round;
  readonly #label: string;
  readonly #local: string;
  readonly #remote: string;

  constructor(
    kernel: Namespace,
    host: OurHost,
    round: Round,
    label: string,
    [local, remote]: readonly [local: string, remote: string],
  ) {
    this.#kernel = kernel;
    this.#host = host;
    this.#round = round;
    this.#label = label;
    this.#local = local;
    this.#remote = remote;
  }

  async run(digest: string): Promise<void> {
    if (this.#round.pings.count > 0) await this.#pings();
    await this.#kernelReceives(digest);
    await this.#kernelSends(digest);
  }

  async #pings(): Promise<void> {
    const { count, least } = this.#round.pings;
    await check(`${this.#label}: the kernel pings us`, async () => {
      const args = ["-c", `${count}`, "-i", "0.1", "-w", "10", this.#local];
      const text = await this.#kernel.run("ping", ...args).catch(String);
      // With -w ping waits for late answers but sends more meanwhile: only the first `count` requests are counted.
      const answered = [...text.matchAll(/icmp_seq=(\d+)/g)].map(([, seq]) => Number(seq));
      const received = new Set(answered.filter((seq) => seq <= count)).size;
      expect(received >= least, `${received} of ${count} answers: ${text}`);
      return `${received} of ${count}, ${/rtt .*/.exec(text)?.[0] ?? ""}`;
    });
    await check(`${this.#label}: we ping the kernel`, async () => {
      const { ping } = await this.#host.ask({ ask: "ping", address: this.#remote, count });
      expect(ping !== undefined && ping.received >= least, `${JSON.stringify(ping)} of ${count}`);
      return `${ping.received} of ${count}, p50 ${ping.p50.toFixed(2)} ms`;
    });
  }

  async #kernelReceives(digest: string): Promise<void> {
    let seen: string[] = [];
    await check(`${this.#label}: curl fetches 10 MB from node:http over our Duplex`, async () => {
      const url = `http://${bracket(this.#local)}:${OUR_PORT}/`;
      const script = `set -o pipefail; curl --globoff --silent --show-error --max-time 120 '${url}' | sha256sum`;
      const curl = this.#kernel.run("bash", "-c", script);
      seen = await this.#watch(`dst ${bracket(this.#local)}:${OUR_PORT}`, curl);
      const text = await curl;
      expect(text.startsWith(digest), `SHA-256 ${text.trim()}, expected ${digest}`);
      return "SHA-256 equal";
    });
    await this.#checkOptions("receives", seen, async () => {
      const { served } = await this.#host.ask({ ask: "served", address: this.#remote });
      return served!;
    });
  }

  async #kernelSends(digest: string): Promise<void> {
    let seen: string[] = [];
    let info: TcpInfo | null = null;
    await check(`${this.#label}: our client fetches 10 MB from a Python server`, async () => {
      const fetching = this.#fetch();
      seen = await this.#watch(`sport = :${KERNEL_PORT} and dst ${bracket(this.#local)}`, fetching);
      const fetched = await fetching.catch((error) => {
        throw new Error(`${error.message}; the kernel: ${seen.at(-1) ?? ""}`);
      });
      info = fetched.info;
      expect(fetched.bytes === BYTES, `${fetched.bytes} bytes, expected ${BYTES}`);
      expect(fetched.sha256 === digest, `SHA-256 ${fetched.sha256}, expected ${digest}`);
      return "SHA-256 equal";
    });
    await this.#checkOptions("sends", seen, () => info!);
  }

  async #fetch() {
    const ask = async () => {
      const { fetched } = await this.#host.ask({ ask: "fetch", address: this.#remote, port: KERNEL_PORT });
      return fetched!;
    };
    const fetched = await ask();
    // A SYN that was lost is sent again without ECN, as RFC 3168 section 6.1.1.1 would have it.
    return this.#round.options?.ecn && fetched.info.retransmits.syn > 0 ? await ask() : fetched;
  }

  #watch(filter: string, during: Promise<unknown>): Promise<string[]> {
    if (this.#round.options !== undefined) return watchSockets(this.#kernel, filter, during, 100);
    return Promise.resolve([]);
  }

  /** What the kernel's `ss` and our end say about a connection in use. */
  async #checkOptions(
    what: "receives" | "sends",
    seen: string[],
    info: () => TcpInfo | Promise<TcpInfo>,
  ): Promise<void> {
    const { options } = this.#round;
    if (options === undefined) return;
    const names = options.ecn ? "ECN, SACK, timestamps and window scaling" : "SACK, timestamps and window scaling";
    await check(`${this.#label}: ss shows ${names} at the kernel, which ${what}`, async () => {
      // A connection that has just been opened or that is about to end has not seen everything.
      const last = seen.at(-1);
      expect(last !== undefined && seen.length >= 3, `ss saw the connection ${seen.length} times only`);
      for (const line of seen) {
        for (const name of ["ts", "sack"]) expect(socketFact(line, name) === "", `no ${name}: ${line}`);
        expect(/^[1-9]\d*,[1-9]\d*$/.test(socketFact(line, "wscale") ?? ""), `no wscale on both sides: ${line}`);
        expect((socketFact(line, "ecn") === "") === options.ecn, `ecn is not as it should be: ${line}`);
      }
      const ours = await info();
      expect(ours.ts && ours.sack && ours.ecn === options.ecn, `our end says ${JSON.stringify(ours)}`);
      const facts = [`wscale ${socketFact(last, "wscale")}`];
      const most = (name: string): number => Math.max(0, ...seen.map((line) => Number(socketFact(line, name) ?? 0)));
      if (options.ecn && what === "receives") {
        expect(socketFact(last, "ecnseen") === "", `no ecnseen: ${last}`);
        expect(ours.ecnEchoes > 0, "no mark was echoed by the kernel");
        facts.push(`the kernel echoed marks in ${ours.ecnEchoes} acknowledgments`);
      } else if (options.ecn) {
        expect(ours.ceIn > 0, "no mark came");
        expect(most("delivered_ce") > 0, `the kernel was told of no mark: ${last}`);
        facts.push(`the kernel was told of ${most("delivered_ce")} marked segments, ${ours.ceIn} came`);
      } else if (what === "receives") {
        expect(most("rcv_ooopack") > 0, `nothing came out of order: ${last}`);
        facts.push(`${most("rcv_ooopack")} segments came out of order, we retransmitted ${ours.totalRetrans}`);
      } else {
        expect(most("sacked") > 0, `the kernel was told of nothing by SACK: ${last}`);
        facts.push(`up to ${most("sacked")} segments sacked`);
      }
      return facts.join(", ");
    });
  }
}

async function checkUnderlay(site: Site, u: Underlay, round: Round, digest: string): Promise<void> {
  const label = `${round.name} over ${u.name}`;
  await using host = new OurHost(site.ours, u, round.host);
  await check(`${label}: our host starts`, async () => {
    const { ready } = await host.ask({ ask: "ready" });
    expect(ready === round.host.port, `${ready}`);
    return "ready";
  });
  await Promise.all([
    new FamilyCheck(site.kernel, host, round, `${label}, IPv4 inside`, u.inner4).run(digest),
    new FamilyCheck(site.kernel, host, round, `${label}, IPv6 inside`, u.inner6).run(digest),
  ]);
  await check(`${label}: every inner checksum was right`, async () => {
    const { drops } = await host.ask({ ask: "drops" });
    const wrong = Object.keys(drops!).filter((reason) => /checksum|truncated|bad-length/.test(reason));
    expect(wrong.length === 0, JSON.stringify(drops));
    return `drops ${JSON.stringify(drops)}`;
  });
}

/** Has a Python server in the kernel's namespace serve `data`. */
async function serveByKernel(kernel: Namespace, data: Uint8Array<ArrayBuffer>): Promise<void> {
  const script = new URL("./kernel_http.py", import.meta.url).pathname;
  const options: Deno.CommandOptions = { stdin: "piped", stdout: "piped", stderr: "inherit" };
  const child = kernel.command(options, "python3", script, `${KERNEL_PORT}`).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(data);
  await writer.close();
  const { value } = await linesOf(child.stdout).next();
  expect(value === "ready", "the Python server did not start");
}

async function main(): Promise<void> {
  await using site = await Site.open();
  const data = testData();
  const digest = await sha256(data);
  await serveByKernel(site.kernel, data);
  for (const round of ROUNDS) {
    // 1 asks for ECN, 2 only accepts it. Without the fallback a SYN that was lost asks again.
    const ecn = round.options?.ecn ?? false;
    await site.kernel.set({ "net.ipv4.tcp_ecn": ecn ? 1 : 2, "net.ipv4.tcp_ecn_fallback": ecn ? 0 : 1 });
    await Promise.all(UNDERLAYS.map((u) => checkUnderlay(site, u, round, digest)));
  }
}

if (import.meta.main) {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) {
    console.log("skip kernel-interop network namespaces need root on Linux");
  } else {
    await main().catch((error) => report(false, "interop", error instanceof Error ? error.stack : String(error)));
  }
  Deno.exit(failures === 0 ? 0 : 1);
}

/**
 * `culvert lab edt --real`: the experiment between two processes over loopback UDP, in real time.
 *
 * Each part is a pair of hosts of its own: a process that is started for it sends the bulk and answers requests, this
 * one takes the bulk and asks. The path is what the loopback and the two event loops make of it; the round-trip time of
 * pings through it, before there is traffic, is the base that srtt is compared with.
 *
 * @module
 */

import { toMilliseconds } from "../base/time.ts";
import { EDT_PARTS, type EdtResult, type RequestTimes, summarizeRequests } from "../lab/edt.ts";
import { requireNet } from "../runtime/errors.ts";
import type { Host } from "../runtime/open_host.ts";
import type { TcpConn } from "../socket/tcp_conn.ts";
import type { PortConfig, SleeperConfig } from "../stack/options.ts";
import { formatTcpInfo } from "../tcp/info.ts";
import type { PacingMode } from "../tcp/pacing.ts";
import { ChildPeer, freeUdpPorts, portFlags } from "./child_peer.ts";
import { Failure, messageOf } from "./command.ts";
import { delay, readToEnd, within, writeAll } from "./conn_io.ts";
import {
  BULK_PORT,
  type EdtPeerEvent,
  type EdtPeerResult,
  type EdtPeerSettings,
  openEdtHost,
  PARENT_ADDRESS,
  REQUEST_PORT,
  SENDER_ADDRESS,
} from "./lab_edt_peer.ts";
import type { Progress } from "./terminal.ts";

/** Pings that the base round-trip time is the median of, and the time between two of them. */
const PINGS = 200;
const PING_INTERVAL = 2_000_000;

/** Requests that are made however short the time is. */
const LEAST_REQUESTS = 10;

/** How long a peer may take to start, to connect or to answer, in milliseconds. */
const PATIENCE_MILLISECONDS = 15_000;

/** The longest that the flows send before anything counts, in milliseconds. */
const SETTLE_MILLISECONDS = 1000;

/** How the hosts are to run. */
export interface RealEdtOptions {
  /** Seconds of the bulk part; the requests of each size take four times that. */
  seconds: number;
  /** The UDP port. */
  port: PortConfig["kind"];
  /** The sleeper, or `null` for what suits the port. */
  sleeper: SleeperConfig | null;
}

/** What one mode gave, between two processes. */
export interface RealEdtResult extends EdtResult {
  /** The delivery rate in bit/s: the median of samples, since a single one holds the lateness of one timer. */
  deliveryRate: number;
  /** What carried the datagrams and waited for deadlines. */
  underlay: string;
}

/** Runs all parts with one kind of pacing. */
export async function runRealEdt(
  pacing: PacingMode,
  options: RealEdtOptions,
  progress: Progress,
): Promise<RealEdtResult> {
  await requireNet("127.0.0.1");
  const { seconds } = options;
  const { bulk, requests } = EDT_PARTS;
  const run = <T>(part: Part, what: string, work: (pair: Pair) => Promise<T>): Promise<[T, EdtPeerResult]> =>
    Pair.run(pacing, part, options, async (pair) => {
      progress.show(`departures by ${pacing}: ${what}`);
      return await work(pair);
    });
  const [baseRtt, flow] = await run(
    { ...bulk, linkRate: null, answerBytes: 1 },
    `one flow, ${seconds} s`,
    async (p) => {
      const base = await p.baseRtt();
      await p.start();
      await delay(seconds * 1000);
      return base;
    },
  );
  const ask = async (answerBytes: number): Promise<RequestTimes> => {
    const what = `requests with answers of ${answerBytes} bytes, ${4 * seconds} s`;
    const [times, { goodputMbitPerSec }] = await run({ ...requests, answerBytes }, what, async (p) => {
      await p.start();
      return await p.requests(answerBytes, 4 * seconds * 1000);
    });
    return summarizeRequests(times, goodputMbitPerSec);
  };
  return {
    pacing,
    info: flow.info,
    line: formatTcpInfo(flow.info),
    baseRtt,
    goodputMbitPerSec: flow.goodputMbitPerSec,
    deliveryRate: flow.deliveryRate,
    underlay: flow.underlay,
    small: await ask(1),
    large: await ask(EDT_PARTS.largeAnswerBytes),
  };
}

type Part = Pick<EdtPeerSettings, "linkRate" | "flows" | "rateBytesPerSec" | "answerBytes">;

/** This process's host, and the process that sends. */
class Pair {
  readonly #host: Host;
  readonly #sender: ChildPeer<EdtPeerEvent>;
  readonly #settle: number;

  private constructor(host: Host, sender: ChildPeer<EdtPeerEvent>, settle: number) {
    this.#host = host;
    this.#sender = sender;
    this.#settle = settle;
    this.#takeBulk();
  }

  /** Sets a pair up, has it do its work, and returns what that gave and what the sender found. */
  static async run<T>(
    pacing: PacingMode,
    part: Part,
    { port, sleeper, seconds }: RealEdtOptions,
    work: (pair: Pair) => Promise<T>,
  ): Promise<[T, EdtPeerResult]> {
    const [own, other] = await freeUdpPorts();
    const [listen, peer] = [`127.0.0.1:${own}`, `127.0.0.1:${other}`];
    const common = { port, sleeper, pacing };
    const settle = Math.min(SETTLE_MILLISECONDS, seconds * 1000);
    const settings: EdtPeerSettings = { ...common, ...part, settle, listen: peer, peer: listen };
    const flags = ["--allow-net=127.0.0.1", ...portFlags()];
    const sender = new ChildPeer<EdtPeerEvent>({ command: "lab-edt-peer", flags, name: "sender", settings });
    try {
      await within(PATIENCE_MILLISECONDS, "the sending process does not start", sender.wait("ready"));
      await using host = await openEdtHost(PARENT_ADDRESS, SENDER_ADDRESS, { ...common, listen, peer, linkRate: null });
      const pair = new Pair(host, sender, settle);
      const given = await Promise.race([work(pair), sender.lost]);
      sender.say("finish", "finishing");
      const { result } = await within(PATIENCE_MILLISECONDS, "the sending process does not end", sender.wait("result"));
      sender.release();
      return [given, result];
    } catch (error) {
      throw new Failure(`lab edt: ${messageOf(error)}`);
    } finally {
      sender.kill();
      await sender.ended;
    }
  }

  /** Median round-trip time of pings, in milliseconds. */
  async baseRtt(): Promise<number> {
    const rtts: number[] = [];
    for await (const answer of this.#host.ping(SENDER_ADDRESS, { count: PINGS, interval: PING_INTERVAL })) {
      if (answer.kind === "reply") rtts.push(toMilliseconds(answer.rtt));
    }
    if (rtts.length === 0) throw new Deno.errors.TimedOut("no ping was answered");
    return rtts.sort((x, y) => x - y)[rtts.length >> 1]!;
  }

  /** Has the sender begin, and waits until slow start is over. */
  async start(): Promise<void> {
    this.#sender.say("start", "sending");
    await within(PATIENCE_MILLISECONDS, "the flows do not connect", this.#sender.wait("sending"));
    await delay(this.#settle);
  }

  /** Asks at random times, one request at a time; returns how long each took, in nanoseconds. */
  async requests(answerBytes: number, milliseconds: number): Promise<number[]> {
    const conn = await this.#host.connect({ hostname: SENDER_ADDRESS, port: REQUEST_PORT, noDelay: true });
    const times: number[] = [];
    const byte = new Uint8Array(1);
    const buffer = new Uint8Array(65536);
    for (const end = performance.now() + milliseconds; performance.now() < end || times.length < LEAST_REQUESTS;) {
      await delay(Math.random() * EDT_PARTS.requestGapMax / 1e6);
      const from = performance.now();
      await writeAll(conn, byte);
      for (let missing = answerBytes; missing > 0;) {
        const n = await conn.read(buffer);
        if (n === null) throw new Deno.errors.UnexpectedEof("the sender closed the request connection");
        missing -= n;
      }
      times.push((performance.now() - from) * 1e6);
    }
    conn.close();
    return times;
  }

  async #takeBulk(): Promise<void> {
    for await (const conn of this.#host.listen({ port: BULK_PORT })) this.#read(conn);
  }

  async #read(conn: TcpConn): Promise<void> {
    // The sender is killed in the end, and the host closed.
    await readToEnd(conn).catch(() => {});
  }
}

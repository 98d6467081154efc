/**
 * The serving end of `perf`.
 *
 * Tests go on side by side, each bounded in time, so that a client that is gone keeps nothing for long. Whatever a
 * connection says that is no test ends that connection and nothing else.
 *
 * @module
 */

import { SECOND } from "../base/time.ts";
import type { Host } from "../runtime/host.ts";
import type { TcpConn } from "../socket/tcp_conn.ts";
import type { TcpListener } from "../socket/tcp_listener.ts";
import type { UdpConn } from "../socket/udp_conn.ts";
import { messageOf } from "./command.ts";
import { readFull, within } from "./conn_io.ts";
import { JsonLineWriter, readJsonLines } from "./json_lines.ts";
import {
  datagramStream,
  nextStop,
  parsePreface,
  PerfConnKind,
  type PerfMessage,
  type PerfTest,
  PREFACE_BYTES,
  refusalOf,
  type StreamResult,
} from "./perf_protocol.ts";
import {
  clock,
  DatagramDemux,
  type PerfSender,
  TcpReceiver,
  TcpSender,
  UdpReceiver,
  UdpSender,
} from "./perf_streams.ts";

/** The most tests at once. */
const TESTS_MAX = 16;

/** How long a connection may take to say what it is, and a test to get its streams together. */
const SETUP_MILLISECONDS = 10_000;

/** How much longer than its time a test may last. */
const GRACE_MILLISECONDS = 30_000;

/** A test that has ended. */
export interface ServedTest {
  /** Address of the client. */
  client: string;
  /** What was done. */
  test: PerfTest;
  /** What this end counted, stream by stream. */
  streams: StreamResult[];
}

/** What a server tells of. */
export interface PerfServerEvents {
  /** A test begins. */
  onTest?(client: string, test: PerfTest): void;
  /** A test has ended as it should. */
  onResult?(served: ServedTest): void;
  /** A test has failed. */
  onFailure?(client: string, why: string): void;
}

interface Session {
  readonly test: PerfTest;
  readonly conns: (TcpConn | undefined)[];
  missing: number;
  readonly complete: PromiseWithResolvers<void>;
}

/** Serves tests on one port, over TCP and UDP. */
export class PerfServer {
  /** The port. */
  readonly port: number;
  readonly #listener: TcpListener;
  readonly #udp: UdpConn;
  readonly #demux: DatagramDemux;
  readonly #events: PerfServerEvents;
  readonly #sessions = new Map<number, Session>();

  /**
   * Begins to serve.
   *
   * @param port 0 for any
   * @throws {Deno.errors.AddrInUse} if the port is taken
   */
  constructor(host: Host, port: number, events: PerfServerEvents = {}) {
    this.#listener = host.listen({ port });
    this.port = this.#listener.addr.port;
    try {
      this.#udp = host.listenDatagram({ port: this.port });
    } catch (error) {
      this.#listener.close();
      throw error;
    }
    this.#demux = new DatagramDemux(this.#udp);
    this.#events = events;
    // A fault that ends the host is told by the host.
    this.#accept().catch(() => {});
  }

  /** Takes no more tests. */
  close(): void {
    this.#listener.close();
    this.#udp.close();
  }

  async #accept(): Promise<void> {
    for await (const conn of this.#listener) this.#serve(conn).catch(() => conn.abort());
  }

  async #serve(conn: TcpConn): Promise<void> {
    const head = new Uint8Array(PREFACE_BYTES);
    const isThere = await within(SETUP_MILLISECONDS, "no preface", readFull(conn, head));
    const preface = isThere ? parsePreface(head) : null;
    if (preface === null) return conn.close();
    const { kind, id, index } = preface;
    if (kind === PerfConnKind.Control) return await this.#control(conn, id);
    const session = this.#sessions.get(id);
    if (session === undefined || index >= session.conns.length || session.conns[index] !== undefined) {
      return conn.abort();
    }
    session.conns[index] = conn;
    if (--session.missing === 0) session.complete.resolve();
  }

  async #control(conn: TcpConn, id: number): Promise<void> {
    const client = conn.remoteAddr.hostname;
    const messages = readJsonLines(conn.readable);
    const writer = new JsonLineWriter(conn.writable);
    const say = (message: PerfMessage) => writer.write(message);
    let session: Session | undefined;
    try {
      const { value } = await within(SETUP_MILLISECONDS, "no test was asked for", messages.next());
      const why = refusalOf(value) ?? this.#whyBusy(id);
      if (why !== null) {
        await say({ type: "refused", why });
        return conn.close();
      }
      const { test } = value as { test: PerfTest };
      const isTcp = test.protocol === "tcp";
      session = {
        test,
        conns: new Array(isTcp ? test.streams : 0).fill(undefined),
        missing: isTcp ? test.streams : 0,
        complete: Promise.withResolvers(),
      };
      this.#sessions.set(id, session);
      if (!isTcp) session.complete.resolve();
      this.#events.onTest?.(client, test);
      await say({ type: "accepted", udpPort: this.#udp.addr.port });
      await within(SETUP_MILLISECONDS, "the streams never came", session.complete.promise);
      const limit = test.seconds * 1000 + GRACE_MILLISECONDS;
      const streams = await within(
        limit,
        "the test did not come to an end",
        this.#run(conn, id, session, messages, say),
      );
      // The client closes first; if it does not, the result stands all the same.
      await within(SETUP_MILLISECONDS, "the client stays", this.#end(conn, messages)).catch(() => conn.abort());
      this.#events.onResult?.({ client, test, streams });
    } catch (error) {
      this.#events.onFailure?.(client, messageOf(error));
      conn.abort();
    } finally {
      if (session !== undefined) this.#forget(id, session);
    }
  }

  #whyBusy(id: number): string | null {
    if (this.#sessions.has(id)) return "there is a test with this number already";
    return this.#sessions.size >= TESTS_MAX ? `the server is busy with ${TESTS_MAX} tests` : null;
  }

  async #run(
    conn: TcpConn,
    id: number,
    session: Session,
    messages: AsyncGenerator<unknown>,
    say: (message: PerfMessage) => Promise<void>,
  ): Promise<StreamResult[]> {
    const { test } = session;
    if (test.reverse) {
      const to = { transport: "udp", hostname: conn.remoteAddr.hostname, port: test.udpPort } as const;
      const senders: PerfSender[] = test.protocol === "tcp"
        ? session.conns.map((stream) => new TcpSender(stream!, test))
        : Array.from({ length: test.streams }, (_, i) => new UdpSender(this.#udp, to, test, id, i));
      await say({ type: "start" });
      const start = clock.now();
      // The client says Stop when it has everything, or earlier.
      const stopped = nextStop(messages).finally(() => senders.forEach((sender) => sender.stop()));
      stopped.catch(() => {});
      await Promise.all(senders.map((sender) => sender.run(start, start + test.seconds * SECOND)));
      const results = senders.map((sender) => sender.result());
      await say({ type: "stop", streams: results });
      await stopped;
      return results;
    }
    if (test.protocol === "tcp") {
      const receivers = session.conns.map((stream) => new TcpReceiver(stream!));
      await say({ type: "start" });
      const start = clock.now();
      await Promise.all([nextStop(messages), ...receivers.map((receiver) => receiver.run(start))]);
      const results = receivers.map((receiver) => receiver.result());
      await say({ type: "stop", streams: results });
      return results;
    }
    const receivers = Array.from({ length: test.streams }, () => new UdpReceiver());
    receivers.forEach((receiver, i) => this.#demux.add(datagramStream(id, i), receiver));
    await say({ type: "start" });
    const start = clock.now();
    for (const receiver of receivers) receiver.begin(start);
    const sent = await nextStop(messages);
    await Promise.all(receivers.map((receiver, i) => receiver.finish(sent[i]?.packets ?? 0)));
    const results = receivers.map((receiver) => receiver.result());
    await say({ type: "stop", streams: results });
    return results;
  }

  /** Waits until the client has closed its side, then closes this one. */
  async #end(conn: TcpConn, messages: AsyncGenerator<unknown>): Promise<void> {
    while (!(await messages.next()).done);
    conn.close();
  }

  #forget(id: number, session: Session): void {
    this.#sessions.delete(id);
    session.complete.promise.catch(() => {});
    for (let i = 0; i < session.test.streams; i++) this.#demux.remove(datagramStream(id, i));
    for (const stream of session.conns) stream?.close();
  }
}

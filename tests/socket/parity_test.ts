/**
 * The sockets have the shape of Deno's own: checked by the compiler, and once more by name at run time.
 *
 * @module
 */

import { assert } from "@std/assert";
import type { TcpConn } from "../../src/socket/tcp_conn.ts";
import type { TcpListener } from "../../src/socket/tcp_listener.ts";
import type { UdpConn } from "../../src/socket/udp_conn.ts";
import { pairTest } from "../testing/host_pair.ts";

type ConnMember =
  | "read"
  | "write"
  | "close"
  | "closeWrite"
  | "localAddr"
  | "remoteAddr"
  | "readable"
  | "writable"
  | "setNoDelay"
  | "setKeepAlive"
  | "ref"
  | "unref"
  | typeof Symbol.dispose;
type ListenerMember = "close" | "addr" | "ref" | "unref" | typeof Symbol.dispose;
type DatagramMember = "receive" | "send" | "close" | "addr" | typeof Symbol.asyncIterator;

/** What a program written for Deno's connections needs. */
type DenoLikeConn = Pick<Deno.TcpConn, ConnMember>;
/** A listener that hands out connections of that kind. */
type DenoLikeListener = Pick<Deno.TcpListener, ListenerMember> & AsyncIterable<DenoLikeConn> & {
  accept(): Promise<DenoLikeConn>;
};

/** The shape of `Deno.DatagramConn`, which the compiler only knows under `--unstable-net`. */
interface DenoLikeDatagramConn extends AsyncIterable<[Uint8Array<ArrayBuffer>, Deno.Addr]> {
  receive(p?: Uint8Array): Promise<[Uint8Array<ArrayBuffer>, Deno.Addr]>;
  send(p: Uint8Array, addr: Deno.Addr): Promise<number>;
  close(): void;
  readonly addr: Deno.Addr;
}

/** Fails to compile if `Ours` cannot stand where `Theirs` is wanted. */
function satisfies<Theirs, Ours extends Theirs>(ours: Ours): Theirs {
  return ours;
}

pairTest("parity: connections, listeners and datagram sockets stand in for Deno's", async (openPair) => {
  await using pair = await openPair();
  const theirs = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const ours: TcpListener = pair.b.listen();
  const accepting = ours.accept();
  const conn: TcpConn = await pair.a.connect({ hostname: "10.7.0.2", port: ours.addr.port });
  const datagrams: UdpConn = pair.a.listenDatagram();
  const denoConn = await Deno.connect({ hostname: "127.0.0.1", port: theirs.addr.port });
  try {
    const likeConn = satisfies<DenoLikeConn, TcpConn>(conn);
    const likeListener = satisfies<DenoLikeListener, TcpListener>(ours);
    const likeDatagrams = satisfies<DenoLikeDatagramConn, UdpConn>(datagrams);
    // Keep-alive probes do not exist here; the other two are Deno's listener being its own iterator.
    const left = new Set(["setKeepAlive", "next", "return"]);
    for (const [their, our] of [[denoConn, likeConn], [theirs, likeListener]]) {
      for (let level = Object.getPrototypeOf(their); level !== Object.prototype; level = Object.getPrototypeOf(level)) {
        for (const name of Object.getOwnPropertyNames(level)) {
          if (!left.has(name)) assert(name in our!, `${name} is missing`);
        }
      }
    }
    for (const name of ["receive", "send", "close", "addr"]) assert(name in likeDatagrams);
  } finally {
    theirs.close();
    denoConn.close();
    datagrams.close();
    (await accepting).close();
    conn.close();
    ours.close();
  }
});

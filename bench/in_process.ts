/**
 * Two stacks in one process over a memory link: bulk, requests and connections.
 *
 * @module
 */

import { SocketErrorKind } from "../src/base/errors.ts";
import { Tcb } from "../src/tcp/tcb.ts";
import { type Bench, ratePerSecond } from "./bench.ts";
import { MemoryLink } from "./memory_link.ts";

/** One flow of bulk data, read by the application. */
export const bulk: Bench = {
  name: "in-process bulk",
  what: "one flow, MTU 1500, both checksums, data written from and read into 64 KiB",
  unit: "Gbit/s",
  run(seconds) {
    const link = new MemoryLink();
    const { client, server } = link.connect(link.listen(80));
    const out = new Uint8Array(65536).fill(0x55);
    const target = new Uint8Array(65536);
    const bytesPerSec = ratePerSecond(seconds, () => {
      client.write(out, 0, out.length);
      link.turn();
      let bytes = 0;
      for (let n = server.read(target); n > 0; n = server.read(target)) bytes += n;
      link.clearEvents();
      return bytes;
    });
    if (client.info().bytesRetrans > 0 || link.a.drops.total() + link.b.drops.total() > 0) {
      throw new Error("the memory link lost packets");
    }
    return bytesPerSec * 8 / 1e9;
  },
};

/** One-byte requests, one at a time. */
export const requests: Bench = {
  name: "in-process requests",
  what: "one byte there and back on one connection, one at a time",
  unit: "1/s",
  run(seconds) {
    const link = new MemoryLink();
    const { client, server } = link.connect(link.listen(80));
    const byte = new Uint8Array(1);
    return ratePerSecond(seconds, () => {
      client.write(byte, 0, 1);
      while (server.read(byte) === 0) link.turn();
      server.write(byte, 0, 1);
      while (client.read(byte) === 0) link.turn();
      link.clearEvents();
      return 1;
    });
  },
};

/** Connections opened and closed by both sides, TIME-WAIT 1 ms. */
export const connections: Bench = {
  name: "in-process connections",
  what: "handshake, close by both sides; TIME-WAIT 1 ms",
  unit: "1/s",
  run(seconds) {
    const link = new MemoryLink({ timeWait: "1ms" });
    const listener = link.listen(80);
    return ratePerSecond(seconds, () => {
      const client = link.a.tcp.connect(listener.localAddress, 80, {}, link.now());
      if (!(client instanceof Tcb)) throw new Error(`connect: ${SocketErrorKind[client]}`);
      let server: Tcb | null = null;
      while (server === null) {
        link.turn();
        server = listener.accept();
      }
      client.close(link.now());
      while (!server.readEnded) link.turn();
      server.close(link.now());
      while (link.turn() > 0);
      link.clearEvents();
      return 1;
    });
  },
};

/**
 * What the machine and the runtime allow, measured in the same run: copying and summing the bytes, and bare UDP.
 *
 * @module
 */

import { createSocket } from "node:dgram";
import { DropCounters } from "../src/base/drop.ts";
import { type Packet, PacketPool } from "../src/base/packet.ts";
import { copyBytes } from "../src/base/ring_buffer.ts";
import { acquireLibc } from "../src/runtime/linux/libc.ts";
import { LinuxPort } from "../src/runtime/linux/linux_port.ts";
import { checksumSum } from "../src/wire/checksum.ts";
import { IpAddr } from "../src/wire/ip_addr.ts";
import { type Bench, ratePerSecond } from "./bench.ts";

const SEGMENT = 1448;

/** Each byte copied four times and summed twice, as in bulk between two stacks. */
export const bytes: Bench = {
  name: "limit bytes",
  what: "1,448 bytes copied five times and summed twice, as a segment is between two applications",
  unit: "Gbit/s",
  run(seconds) {
    const from = new Uint8Array(1 << 20).fill(0x55);
    const to = new Uint8Array(2048);
    const view = new DataView(to.buffer);
    let at = 0;
    let sink = 0;
    const segmentsPerSec = ratePerSecond(seconds, () => {
      for (let i = 0; i < 16; i++) {
        for (let copies = 0; copies < 5; copies++) copyBytes(from, at, to, 64, SEGMENT);
        sink += checksumSum(view, 64, 64 + SEGMENT) + checksumSum(view, 64, 64 + SEGMENT, 1);
        at = (at + SEGMENT) & 0x7ffff;
      }
      return 16;
    });
    if (sink === 0) throw new Error("nothing was summed");
    return segmentsPerSec * SEGMENT * 8 / 1e9;
  },
};

/** Bare UDP there and back over loopback, in one process. */
export const udp: Bench = {
  name: "limit UDP ping-pong",
  what: "a datagram there and back over loopback by node:dgram, in one process",
  unit: "1/s",
  async run(seconds) {
    const [a, b] = [createSocket("udp4"), createSocket("udp4")];
    await Promise.all([a, b].map((s) => new Promise<void>((resolve) => s.bind(0, "127.0.0.1", resolve))));
    const toB = b.address().port;
    b.on("message", (message, from) => b.send(message, from.port, "127.0.0.1"));
    let count = 0;
    const payload = new Uint8Array(1);
    const rate = await new Promise<number>((resolve) => {
      const start = performance.now();
      a.on("message", () => {
        count++;
        const elapsed = performance.now() - start;
        if (elapsed >= seconds * 1000) resolve(count / (elapsed / 1000));
        else a.send(payload, toB, "127.0.0.1");
      });
      a.send(payload, toB, "127.0.0.1");
    });
    a.close();
    b.close();
    return rate;
  },
};

/** The Linux port by itself: no stack, datagrams of 1,472 bytes in trains. */
export const trains: Bench = {
  name: "limit UDP trains (FFI)",
  what: "datagrams of 1,472 bytes through two Linux ports in one process, 64 a turn, without a stack",
  unit: "Gbit/s",
  async run(seconds) {
    const context = { pool: new PacketPool(), drops: new DropCounters(), fault: () => {} };
    const open = (): LinuxPort => {
      const libc = acquireLibc();
      if (typeof libc === "string") throw new Error(libc);
      return LinuxPort.open(libc, IpAddr.parse("127.0.0.1"), 0, context);
    };
    const [a, b] = [open(), open()];
    let got = 0;
    const sink = {
      inputDatagram(p: Packet): void {
        got += p.length;
        context.pool.release(p);
      },
    };
    const bytesPerSec = ratePerSecond(seconds, () => {
      for (let i = 0; i < 64; i++) {
        const p = context.pool.acquire()!;
        p.end = p.start + 1472;
        a.send(p, b.address, b.port);
      }
      a.flush();
      got = 0;
      b.look();
      while (b.receive(64, sink, 0) > 0);
      return got;
    });
    await Promise.all([a.close(), b.close()]);
    return bytesPerSec * 8 / 1e9;
  },
};

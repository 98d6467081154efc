/**
 * IPv6 extension headers of packets for this host.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { SECOND } from "../../src/base/time.ts";
import { IpBench } from "../testing/ip_bench.ts";
import { hex, ipPacket } from "../testing/ip_packets.ts";

const PAD = [1, 4, 0, 0, 0, 0];
const UDP = [0, 7, 0, 9, 0, 8, 0, 0];
let clock = 0;

/** Sends headers to this host and says what became of them, and what was answered. */
function send(first: number, ...bytes: number[]): string {
  clock += 100 * SECOND;
  const bench = new IpBench();
  const payload = Uint8Array.from(bytes);
  const p = ipPacket(bench.memory.pool, { src: "fd07::2", dst: "fd07::1", protocol: first, payload });
  let result = bench.input(p, clock);
  if (result.endsWith("down")) {
    const { p: q, icmp } = bench.sent();
    result += ` ${icmp.type}/${icmp.code} at ${icmp.id * 65536 + icmp.seq}`;
    bench.memory.pool.release(q);
  }
  if (result === "up") {
    const up = bench.up.shift()!;
    result += ` ${hex(up.bytes.subarray(up.l4, up.end))}`;
    bench.memory.pool.release(up);
  }
  bench.ip.close(clock);
  bench.done();
  return result;
}

const udp = `up ${hex(Uint8Array.from(UDP))}`;

Deno.test("the transport header behind extension headers is found", () => {
  assertEquals(send(17, ...UDP), udp);
  assertEquals(send(60, 17, 0, ...PAD, ...UDP), udp);
  assertEquals(send(0, 17, 0, ...PAD, ...UDP), udp);
  assertEquals(send(0, 60, 0, ...PAD, 43, 0, ...PAD, 17, 0, 4, 0, 0, 0, 0, 0, ...UDP), udp);
  assertEquals(send(60, 17, 1, 1, 12, ...new Array(12).fill(0), ...UDP), udp);
  assertEquals(send(44, 17, 0, 0, 0, 1, 2, 3, 4, ...UDP), udp);
  assertEquals(send(44, 60, 0, 0, 0, 1, 2, 3, 4, 17, 0, ...PAD, ...UDP), udp);
});

Deno.test("an unknown option is passed over, or ends the packet in silence, or with an answer that points at it", () => {
  const option = (type: number): string => send(60, 17, 0, 0, type, 3, 0, 0, 0, ...UDP);
  assertEquals(option(0x3e), udp);
  assertEquals(option(0x7e), "bad-ip-option");
  assertEquals(option(0xbe), "bad-ip-option down 4/2 at 43");
  assertEquals(option(0xfe), "bad-ip-option down 4/2 at 43");
  assertEquals(send(60, 17, 0, 0, 0x3e, 4, 0, 0, 0, ...UDP), "bad-ip-option", "runs over the header");
  assertEquals(send(60, 17, 0, 0, 0, 0, 0, 0, 0x3e, ...UDP), "bad-ip-option", "no length");
});

Deno.test("a routing header with segments left is refused, of any type; without it is passed over", () => {
  for (const type of [0, 1, 2, 3, 4, 253]) {
    assertEquals(send(43, 17, 0, type, 0, 0, 0, 0, 0, ...UDP), udp);
    assertEquals(send(43, 17, 0, type, 1, 0, 0, 0, 0, ...UDP), "source-route down 4/0 at 42");
  }
  assertEquals(send(60, 43, 0, ...PAD, 17, 0, 0, 9, 0, 0, 0, 0, ...UDP), "source-route down 4/0 at 50");
});

Deno.test("hop-by-hop options anywhere but first are an unknown next header", () => {
  assertEquals(send(60, 0, 0, ...PAD, 17, 0, ...PAD, ...UDP), "bad-extension-header down 4/1 at 40");
});

Deno.test("no next header is the end, too many headers and cut ones too", () => {
  assertEquals(send(59), "no-next-header");
  assertEquals(send(60, 59, 0, ...PAD, 1, 2, 3), "no-next-header");
  const many = (n: number): string =>
    send(60, ...Array.from({ length: n }, (_, i) => [i === n - 1 ? 17 : 60, 0, ...PAD]).flat(), ...UDP);
  assertEquals([many(8), many(9)], [udp, "bad-extension-header"]);
  assertEquals(send(60, 17, 0, 1, 4, 0, 0), "truncated");
  assertEquals(send(60, 17, 2, ...PAD, ...UDP), "truncated");
  assertEquals(send(60), "truncated");
});

Deno.test("the first fragment has all headers, or is answered; what is behind it may be anything", () => {
  const first = (next: number, ...bytes: number[]): string => send(44, next, 0, 0, 1, 0, 0, 0, 9, ...bytes);
  assertEquals(first(17, ...UDP), "");
  assertEquals(first(6, ...UDP), "bad-extension-header down 4/3 at 0");
  assertEquals(first(60, 17, 1, ...PAD), "bad-extension-header down 4/3 at 0");
  assertEquals(first(60, 17, 0, ...PAD), "bad-extension-header down 4/3 at 0");
  assertEquals(first(60, 17, 0, ...PAD, ...UDP), "");
  assertEquals(first(253, ...UDP), "");
});

Deno.test("headers in front of and within fragments are worked off, fragments within fragments are not", () => {
  const bench = new IpBench();
  const put = (first: number, ...bytes: number[]): string =>
    bench.input(
      ipPacket(bench.memory.pool, {
        src: "fd07::2",
        dst: "fd07::1",
        protocol: first,
        payload: Uint8Array.from(bytes),
      }),
    );
  assertEquals(put(60, 44, 0, ...PAD, 60, 0, 0, 1, 0, 0, 0, 1, 17, 0, ...PAD, ...UDP), "");
  assertEquals(put(60, 44, 0, ...PAD, 60, 0, 0, 16, 0, 0, 0, 1, 5, 6, 7), "up");
  const p = bench.up.shift()!;
  assertEquals(hex(p.bytes.subarray(p.l4, p.end)), `${hex(Uint8Array.from(UDP))} 05 06 07`);
  assertEquals([p.view.getUint8(p.start + 6), p.view.getUint8(p.start + 40)], [60, 60]);
  bench.memory.pool.release(p);
  assertEquals(put(44, 44, 0, 0, 1, 0, 0, 0, 2, 17, 0, 0, 1, 0, 0, 0, 3, ...UDP), "");
  assertEquals(put(44, 44, 0, 0, 16, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8), "bad-extension-header");
  bench.ip.close(0);
  bench.done();
});

Deno.test("any chain of headers: nothing throws and nothing leaks", () => {
  const header = fc.tuple(
    fc.constantFrom(0, 43, 44, 60, 59, 17, 6, 58, 51),
    fc.nat(2),
    fc.uint8Array({ minLength: 6, maxLength: 22 }),
  ).map(([next, length, rest]) => [next, length, ...rest]);
  fc.assert(
    fc.property(fc.constantFrom(0, 43, 44, 60), fc.array(header, { maxLength: 10 }), (first, headers) => {
      send(first, ...headers.flat());
    }),
    { numRuns: 2000 },
  );
});

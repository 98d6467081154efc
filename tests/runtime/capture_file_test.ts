/**
 * Capture files: of real hosts over UDP, of a disk that fails, and of one that is too slow.
 *
 * @module
 */

import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import { Packet } from "../../src/base/packet.ts";
import { MILLISECOND } from "../../src/base/time.ts";
import { CaptureFile } from "../../src/runtime/capture_file.ts";
import { PcapngClock, PcapngDirection } from "../../src/wire/pcapng.ts";
import { type OpenPair, openPair, pairTest } from "../testing/host_pair.ts";
import { readPcapng } from "../testing/pcapng_reader.ts";
import { HAS_TSHARK, readByTshark } from "../testing/tshark.ts";

async function withTempFile(use: (path: string) => Promise<void>): Promise<void> {
  const path = await Deno.makeTempFile({ suffix: ".pcapng" });
  try {
    await use(path);
  } finally {
    await Deno.remove(path);
  }
}

/** Ping, UDP and TCP both ways between two hosts over real sockets, one of them captured. */
async function record(path: string, openPair: OpenPair): Promise<void> {
  const file = CaptureFile.open(path);
  await using pair = await openPair({ sockets: 4, impair: "delay 1ms loss 5%" });
  pair.a.capture(file);
  for (const family of [4, 6] as const) {
    const hostname = pair.addressB(family);
    for await (const _ of pair.a.ping(hostname, { count: 5, interval: 2 * MILLISECOND, timeout: 50 * MILLISECOND }));
    using listener = pair.b.listen();
    await using conn = await pair.a.connect({ hostname, port: listener.addr.port });
    await using served = await listener.accept();
    for (let sent = 0; sent < 100_000;) sent += await conn.write(new Uint8Array(20_000));
    const buffer = new Uint8Array(65536);
    for (let got = 0; got < 100_000;) got += (await served.read(buffer))!;
    using udp = pair.a.listenDatagram();
    for (let i = 0; i < 10; i++) await udp.send(new Uint8Array(i * 100), { transport: "udp", hostname, port: 9 });
  }
  await pair.a.close();
  await file.close();
  assertEquals(file.stats().bytes, (await Deno.stat(path)).size);
}

pairTest("capture file: a real run, before and behind the impairment", (openPair) =>
  withTempFile(async (path) => {
    const before = BigInt(Date.now() - 1) * 1_000_000n;
    await record(path, openPair);
    const after = BigInt(Date.now() + 1) * 1_000_000n;
    const captured = readPcapng(await Deno.readFile(path));
    const of = (name: string) => captured.packets.filter((p) => p.name === name).length;
    assertEquals(of("other:out"), of("other:out:wire") + of("other:out:drop"));
    assert(of("other:out:drop") > 0, "some were lost");
    assert(of("other:in") > 0);
    assertEquals(of("other:in:wire"), 0, "there is no impairment on the way in");
    for (const { at } of captured.packets) assert(at >= before && at <= after, `${before} ≤ ${at} ≤ ${after}`);
    for (const { dropped } of Object.values(captured.statistics)) assertEquals(dropped, 0);
  }));

Deno.test({
  name: "capture file: tshark finds neither a malformed packet nor a wrong checksum in a real run",
  ignore: !HAS_TSHARK,
  fn: () =>
    withTempFile(async (path) => {
      await record(path, openPair);
      const packets = await readByTshark(path);
      const of = (wanted: string) => packets.filter(({ name }) => name === wanted);
      assertEquals(of("other:out").length, of("other:out:wire").length + of("other:out:drop").length);
      assertEquals(
        new Set(packets.flatMap(({ verified }) => verified)),
        new Set(["ip", "tcp", "udp", "icmp", "icmpv6"]),
      );
      assertEquals(new Set(of("other:out:drop").map(({ comment }) => comment)), new Set(["dropped: impair-loss"]));
      assertEquals(new Set(of("other:out").map(({ direction }) => direction)), new Set([2]));
      assertEquals(new Set(of("other:in").map(({ direction }) => direction)), new Set([1]));
    }),
});

Deno.test("capture file: a write that fails ends the capture and is told when it is closed", async () => {
  const writes: number[] = [];
  let isClosed = false;
  const file = new CaptureFile("full", {
    write(bytes) {
      writes.push(bytes.length);
      // The second write fails.
      return writes.length === 1 ? Promise.resolve(bytes.length) : Promise.reject(new Error("No space left"));
    },
    close: () => isClosed = true,
  });
  await using pair = await openPair();
  pair.a.capture(file);
  for await (const answer of pair.a.ping("10.7.0.2", { count: 3, interval: 5 * MILLISECOND })) {
    assertEquals(answer.kind, "reply");
  }
  await pair.a.close();
  await assertRejects(() => file.close(), Error, "No space left");
  await assertRejects(() => file.close(), Error, "No space left");
  assertEquals([writes.length, isClosed, file.stats().bytes], [2, true, writes[0]]);
});

Deno.test("capture file: a file that takes nothing ends the capture, and does not hang", async () => {
  let writes = 0;
  const file = new CaptureFile("stuck", {
    write() {
      // A real file answers from elsewhere; so a loop without end would not starve the test.
      writes++;
      return new Promise((resolve) => setTimeout(() => resolve(0), 1));
    },
    close: () => {},
  });
  const closing = file.close().then(() => "closed", (error) => (error as Error).message);
  let timer;
  const hangs = new Promise((resolve) => timer = setTimeout(() => resolve("it hangs"), 300));
  const end = await Promise.race([closing, hangs]);
  clearTimeout(timer);
  assert(/^the file took none of \d+ bytes$/.test(String(end)), String(end));
  assertEquals([writes, file.stats().bytes], [1, 0]);
});

Deno.test("capture file: a write that takes only some of the bytes goes on with the rest", async () => {
  const parts: Uint8Array[] = [];
  const file = new CaptureFile("pieces", {
    write(bytes) {
      parts.push(bytes.slice(0, 7));
      return Promise.resolve(Math.min(7, bytes.length));
    },
    close: () => {},
  });
  const id = file.capture.addInterface("x", new PcapngClock(0));
  const p = new Packet(new Uint8Array(2048));
  p.end = p.start + 1000;
  file.capture.record(id, p, PcapngDirection.Outbound, DropReason.None, 1);
  await file.close();
  const captured = readPcapng(new Uint8Array(parts.flatMap((part) => [...part])));
  assertEquals([captured.packets.length, captured.packets[0]!.bytes.length], [1, 1000]);
});

Deno.test("capture file: what comes faster than it can be written is counted, and blocks stay whole", () =>
  withTempFile(async (path) => {
    const file = CaptureFile.open(path, { bufferBytes: 65536 });
    const id = file.capture.addInterface("x", new PcapngClock(0));
    const p = new Packet(new Uint8Array(2048));
    p.end = p.start + 1000;
    // No turn of the event loop, so that nothing is written meanwhile.
    for (let i = 0; i < 1000; i++) file.capture.record(id, p, PcapngDirection.Outbound, DropReason.None, i);
    const { packets, dropped } = file.stats();
    assertEquals(packets + dropped, 1000);
    assert(packets > 50 && dropped > 800);
    await new Promise((resolve) => setTimeout(resolve, 20));
    file.capture.record(id, p, PcapngDirection.Outbound, DropReason.None, 5000);
    await file.close();
    const captured = readPcapng(await Deno.readFile(path));
    assertEquals(captured.packets.map(({ at }) => Number(at)), [...Array(packets).keys(), 5000]);
    assertEquals(captured.statistics, { x: { received: 1001, dropped } });
  }));

Deno.test("capture file: is up to date while it goes on", () =>
  withTempFile(async (path) => {
    await using file = CaptureFile.open(path);
    const id = file.capture.addInterface("x", new PcapngClock(0));
    const p = new Packet(new Uint8Array(2048));
    p.end = p.start + 20;
    for (let n = 1; n <= 3; n++) {
      file.capture.record(id, p, PcapngDirection.Inbound, DropReason.None, n);
      for (let tries = 0; readPcapng(await Deno.readFile(path)).packets.length < n; tries++) {
        assert(tries < 500, "the packet never got into the file");
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    }
  }));

Deno.test("capture file: a path that cannot be opened", () => {
  assertThrows(() => CaptureFile.open("/no/such/folder/x.pcapng"), Deno.errors.NotFound);
});

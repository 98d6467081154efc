import { assert, assertEquals, assertThrows } from "@std/assert";
import { Arena, arenaSum } from "../../src/base/arena.ts";
import { PacketPool } from "../../src/base/packet.ts";
import { Rng } from "../../src/base/rng.ts";
import { checksumFold, checksumSum, plainSum } from "../../src/wire/checksum.ts";
import { slowSum } from "../testing/slow_checksum.ts";

const SEED = 7;
const SHARED_BYTES = 64 << 20;

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function fill(bytes: Uint8Array, rng: Rng): void {
  for (let i = 0; i < bytes.length; i++) bytes[i] = rng.below(256);
}

Deno.test("arena: pieces are aligned, do not overlap, and end with the block", () => {
  const arena = new Arena(1000);
  const [a, b] = [arena.allocate(100)!, arena.allocate(64)!];
  assertEquals([a.byteOffset % 64, a.length, b.byteOffset - a.byteOffset, b.length], [0, 100, 128, 64]);
  assertEquals(arena.freeBytes, 1000 - 192);
  assertEquals(arena.allocate(800), null);
  assertEquals(arena.allocate(760)!.length, 760);
  assertEquals(arena.allocate(1), null);
});

Deno.test(`arena: the vector sum is that of RFC 1071 for all lengths and alignments (seed ${SEED})`, () => {
  const rng = new Rng(SEED);
  const { bytes } = new Arena(4096);
  const view = viewOf(bytes);
  fill(bytes, rng);
  for (let start = 0; start < 40; start++) {
    for (let length = 0; length < 200; length++) {
      const expected = slowSum(bytes.subarray(start, start + length));
      const case_ = `${length} bytes from ${start}`;
      assertEquals(arenaSum(view, start, start + length), expected, case_);
      assertEquals(checksumFold(plainSum(view, start, start + length)), expected, case_);
      assertEquals(
        checksumFold(checksumSum(view, start, start + length, 0x1_2345)),
        checksumFold(expected + 0x1_2345),
        case_,
      );
    }
  }
});

Deno.test("arena: the largest range does not overflow, and nothing but zeros sums to zero", () => {
  const { bytes } = new Arena(65_536);
  const view = viewOf(bytes);
  bytes.fill(0xff);
  assertEquals(arenaSum(view, 0, 65_536), 0xffff);
  assertEquals(arenaSum(view, 0, 65_535), slowSum(bytes.subarray(0, 65_535)));
  bytes.fill(0);
  assertEquals(arenaSum(view, 0, 65_536), 0);
  bytes[9] = 1;
  assertEquals(arenaSum(view, 0, 65_536), 1);
});

Deno.test("arena: a sum beyond the view is refused, and other memory is not its business", () => {
  const arena = new Arena(256);
  const view = viewOf(arena.allocate(64)!);
  assertThrows(() => arenaSum(view, 0, 65), RangeError, "0 to 65 in 64 bytes");
  assertThrows(() => arenaSum(view, -1, 10), RangeError);
  assertEquals(arenaSum(new DataView(new ArrayBuffer(64)), 0, 64), -1);
});

Deno.test("arena: once the shared memory is used up, packets are made and summed all the same", () => {
  const arenas: Arena[] = [];
  for (const size of [1 << 20, 1 << 14, 64]) {
    do arenas.push(new Arena(size)); while (arenas.at(-1)!.bytes.buffer.byteLength === SHARED_BYTES);
  }
  assertEquals(arenaSum(viewOf(arenas.at(-1)!.bytes), 0, 64), -1);
  const p = new PacketPool().acquire()!;
  fill(p.bytes, new Rng(SEED));
  assertEquals(arenaSum(p.view, 0, 64), -1);
  assertEquals(checksumFold(checksumSum(p.view, 3, 1480)), slowSum(p.bytes.subarray(3, 1480)));
});

Deno.test("arena: a block that nobody refers to is used again, zeroed, and none before", async () => {
  const program = `
    import { Arena, arenaSum } from ${JSON.stringify(new URL("../../src/base/arena.ts", import.meta.url).href)};
    import { PacketPool } from ${JSON.stringify(new URL("../../src/base/packet.ts", import.meta.url).href)};
    let pool = new PacketPool();
    const kept = pool.acquire();
    kept.bytes.fill(0x5a);
    pool = null;
    let made = 0, dirty = 0;
    // Four times what there is.
    for (let i = 0; i < 256; i++) {
      const { bytes } = new Arena(1 << 20);
      if (arenaSum(new DataView(bytes.buffer, bytes.byteOffset, 64), 0, 64) >= 0) made++;
      if (bytes.some((byte) => byte !== 0)) dirty++;
      bytes.fill(0xa5);
      if (i % 32 === 31) { gc(); await new Promise((resolve) => setTimeout(resolve, 5)); }
    }
    console.log(JSON.stringify({ made, dirty, kept: kept.bytes.every((byte) => byte === 0x5a) }));
  `;
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--quiet",
      "--no-lock",
      "--v8-flags=--expose-gc",
      `data:application/javascript,${encodeURIComponent(program)}`,
    ],
    stdout: "piped",
    stderr: "piped",
  }).output();
  const text = new TextDecoder().decode(stdout);
  assert(text !== "", new TextDecoder().decode(stderr));
  assertEquals(JSON.parse(text), { made: 256, dirty: 0, kept: true });
});

import { assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { SipHash } from "../../src/base/siphash.ts";

/** The key 00 01 … 0f of the reference implementation. */
const KEY = new Int32Array([0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c]);

/** Its values for the messages of 0, 4, 8 … 60 bytes 00 01 02 …, as bytes in the order in which it writes them. */
const VECTORS: readonly string[] = [
  "310e0edd47db6f72",
  "b7877127e09427cf",
  "6224939a79f5f593",
  "fbe50e86bc8f1e75",
  "db9bc2577fcc2a3f",
  "98eea21af25cd6be",
  "94af49f6c650adb8",
  "a5c91da7acaa4dde",
  "ce7cf2722f512771",
  "b4a31508beff4d31",
  "d0a704536ba93e0e",
  "f21df2e41d4535f9",
  "51a9cb9ecba312e6",
  "b274cb8ebf87870a",
  "bd838d3aafbf8db7",
  "e1915f5cb1eca46c",
];

function hex(hash: SipHash): string {
  const bytes = new Uint8Array(8);
  const view = new DataView(bytes.buffer);
  view.setInt32(0, hash.low, true);
  view.setInt32(4, hash.high, true);
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

Deno.test("siphash: the vectors of the reference implementation", () => {
  const hash = new SipHash(KEY);
  const words = new Int32Array(VECTORS.length);
  for (let i = 0; i < words.length; i++) words[i] = 0x03020100 + 0x04040404 * i;
  for (const [count, expected] of VECTORS.entries()) {
    assertEquals(hash.hash(words, count), hash.low);
    assertEquals(hex(hash), expected, `${4 * count} bytes`);
  }
});

Deno.test("siphash: another key or another message gives another value; the key is copied", () => {
  const key = KEY.slice();
  const hash = new SipHash(key);
  const words = new Int32Array([1, 2, 3]);
  const value = hash.hash(words);
  key[0] = 7;
  assertEquals(hash.hash(words), value);
  assertNotEquals(new SipHash(key).hash(words), value);
  assertNotEquals(hash.hash(words, 2), value);
  assertThrows(() => new SipHash(new Int32Array(3)), RangeError, "4 words, got 3");
});

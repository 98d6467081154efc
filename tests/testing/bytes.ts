/**
 * Bytes in tests: read from hex, shown as hex, and seen through views that end exactly where the bytes end, so that a
 * read beyond them throws instead of finding something.
 *
 * @module
 */

/** Bytes from hex digits; everything that is not a hex digit is ignored. */
export function fromHex(text: string): Uint8Array<ArrayBuffer> {
  const digits = text.replace(/[^0-9a-fA-F]/g, "");
  if (digits.length % 2 !== 0) throw new TypeError(`odd number of hex digits in "${text}"`);
  const bytes = new Uint8Array(digits.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(digits.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

/** Hex digits in groups of two bytes: `4500 0034 …`; an odd last byte stands alone. */
export function toHex(bytes: Uint8Array): string {
  let text = "";
  bytes.forEach((b, i) => text += (i > 0 && i % 2 === 0 ? " " : "") + b.toString(16).padStart(2, "0"));
  return text;
}

/** A view of a copy of `bytes` in a buffer of exactly their length. */
export function exactView(bytes: Uint8Array): DataView<ArrayBuffer> {
  return new DataView(new Uint8Array(bytes).buffer);
}

/** A copy with bit `bit` flipped; bit 0 is the most significant bit of the first byte, as RFCs count. */
export function flipBit(bytes: Uint8Array, bit: number): Uint8Array<ArrayBuffer> {
  const copy = new Uint8Array(bytes);
  copy[bit >> 3]! ^= 0x80 >> (bit & 7);
  return copy;
}

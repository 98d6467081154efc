/**
 * The Internet checksum as slowly and plainly as RFC 1071 describes it, to hold the fast one against.
 *
 * @module
 */

/** The ones' complement sum of the 16-bit words, the carry added back after every word; a last odd byte is padded. */
export function slowSum(bytes: Uint8Array): number {
  let sum = 0;
  for (let i = 0; i < bytes.length; i += 2) {
    sum += bytes[i]! * 256 + (bytes[i + 1] ?? 0);
    if (sum > 0xffff) sum = sum - 0x10000 + 1;
  }
  return sum;
}

/** The value for the checksum field. */
export function slowChecksum(bytes: Uint8Array): number {
  return 0xffff - slowSum(bytes);
}

/** The pseudo-header of RFC 9293 section 3.1 (4-byte addresses) or RFC 8200 section 8.1 (16-byte addresses). */
export function pseudoHeader(
  source: Uint8Array,
  destination: Uint8Array,
  protocol: number,
  length: number,
): Uint8Array<ArrayBuffer> {
  const tail = source.length === 4
    ? [0, protocol, length >> 8, length & 255]
    : [0, 0, length >> 8, length & 255, 0, 0, 0, protocol];
  return new Uint8Array([...source, ...destination, ...tail]);
}

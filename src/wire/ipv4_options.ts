/**
 * The options of an IPv4 header (RFC 791 section 3.1), as far as somebody has to look at them.
 *
 * Nothing is done about any option. Their form is checked, since a header whose options run into each other is no header;
 * and source routes are found, since a packet that has one is refused (RFC 7126 section 4.3, as Linux does by default).
 * When a packet is cut into fragments, those options go into all of them whose type says so.
 *
 * @module
 */

const END = 0;
const NO_OPERATION = 1;
const LOOSE_SOURCE_ROUTE = 131;
const STRICT_SOURCE_ROUTE = 137;
/** The bit of an option's type that says that it is copied into all fragments. */
const COPIED = 0x80;

/** What {@linkcode checkIpv4Options} says of good options without a source route. */
export const OPTIONS_GOOD = 0;
/** What it says of good options with a source route. */
export const OPTIONS_SOURCE_ROUTE = -1;

/**
 * Checks the options in `[from, to)`, the header beginning 20 bytes before them.
 *
 * @returns `OPTIONS_GOOD`, `OPTIONS_SOURCE_ROUTE`, or the offset in the header of the byte that is wrong: the pointer of a
 * "parameter problem" (RFC 792)
 */
export function checkIpv4Options(view: DataView, from: number, to: number): number {
  let result = OPTIONS_GOOD;
  for (let at = from; at < to;) {
    const type = view.getUint8(at);
    if (type === END) break;
    if (type === NO_OPERATION) {
      at++;
      continue;
    }
    if (at + 2 > to) return at - from + 20;
    const length = view.getUint8(at + 1);
    if (length < 2 || at + length > to) return at + 1 - from + 20;
    if (type === LOOSE_SOURCE_ROUTE || type === STRICT_SOURCE_ROUTE) result = OPTIONS_SOURCE_ROUTE;
    at += length;
  }
  return result;
}

/**
 * Copies the options that every fragment has from `[from, to)` of one packet to `at` of another, and pads them to a
 * multiple of four bytes (RFC 791 section 3.2). The options have been checked.
 *
 * @returns bytes written
 */
export function copyFragmentOptions(view: DataView, from: number, to: number, target: DataView, at: number): number {
  let out = at;
  for (let i = from; i < to;) {
    const type = view.getUint8(i);
    if (type === END) break;
    const length = type === NO_OPERATION ? 1 : view.getUint8(i + 1);
    if (type !== NO_OPERATION && (length < 2 || i + length > to)) break;
    if ((type & COPIED) !== 0) {
      for (let k = 0; k < length; k++) target.setUint8(out + k, view.getUint8(i + k));
      out += length;
    }
    i += length;
  }
  while (((out - at) & 3) !== 0) target.setUint8(out++, END);
  return out - at;
}

/**
 * IPv6 extension headers (RFC 8200 section 4): where they end, the options in them, and the fragment header.
 *
 * ```text
 *  hop-by-hop, destination options:  |  Next Header  |  Hdr Ext Len  |  options, to 8 × (length + 1) bytes …
 *  routing:                          |  Next Header  |  Hdr Ext Len  | Routing Type  | Segments Left | …
 *  fragment:                         |  Next Header  |   Reserved    |      Fragment Offset    |Res|M|
 *                                    |                         Identification                        |
 * ```
 *
 * Only those that the layer above acts on are known here; whatever else a next-header field names is the end of the chain.
 * A chain is walked over at most {@linkcode EXTENSION_HEADERS_MAX} headers.
 *
 * @module
 */

/** The next-header values of the extension headers that are known, and "nothing follows". */
export enum Ipv6Extension {
  /** Hop-by-hop options: only directly behind the IPv6 header. */
  HopByHop = 0,
  /** Routing header. */
  Routing = 43,
  /** Fragment header. */
  Fragment = 44,
  /** Nothing follows. */
  NoNext = 59,
  /** Options for the destination. */
  DestinationOptions = 60,
}

/** Length of the fragment header. */
export const FRAGMENT_HEADER_BYTES = 8;

/** The most extension headers in a packet. */
export const EXTENSION_HEADERS_MAX = 8;

/** What is to be done about an option that is not known, by the two highest bits of its type (RFC 8200 section 4.2). */
export enum OptionAction {
  /** Go on as if it were not there. */
  Skip = 0,
  /** Drop the packet in silence. */
  Drop,
  /** Drop it and tell the source, whatever the destination is. */
  Tell,
  /** Drop it and tell the source, unless the destination is a group. */
  TellUnicast,
}

/** True for a next-header value that stands for an extension header. */
export function isIpv6Extension(nextHeader: number): boolean {
  return nextHeader === Ipv6Extension.HopByHop || nextHeader === Ipv6Extension.Routing ||
    nextHeader === Ipv6Extension.Fragment || nextHeader === Ipv6Extension.DestinationOptions;
}

/** Length in bytes of the extension header at `at`, of which eight bytes must be there. */
export function ipv6ExtensionBytes(view: DataView, at: number, kind: number): number {
  return kind === Ipv6Extension.Fragment ? FRAGMENT_HEADER_BYTES : (view.getUint8(at + 1) + 1) * 8;
}

/** The fields of a fragment header. */
export class FragmentHeader {
  /** What follows the header in the first fragment. */
  nextHeader = 0;
  /** Offset in bytes from the beginning of what is fragmented. */
  offset = 0;
  /** More fragments follow. */
  more = false;
  /** Identification, as int32. */
  id = 0;
}

/** Reads the fragment header at `at`, of which eight bytes must be there. */
export function parseFragmentHeader(view: DataView, at: number, out: FragmentHeader): void {
  const field = view.getUint16(at + 2);
  out.nextHeader = view.getUint8(at);
  out.offset = field & 0xfff8;
  out.more = (field & 1) !== 0;
  out.id = view.getInt32(at + 4);
}

/** Writes a fragment header. */
export function emitFragmentHeader(view: DataView, at: number, h: FragmentHeader): void {
  view.setUint8(at, h.nextHeader);
  view.setUint8(at + 1, 0);
  view.setUint16(at + 2, h.offset | (h.more ? 1 : 0));
  view.setInt32(at + 4, h.id);
}

/**
 * Walks the options in `[from, to)`.
 *
 * @returns 0 if all may be passed over, −1 if they are malformed, else where the first one stands for which the packet has
 * to be dropped: its first byte is its type, see {@linkcode optionAction}
 */
export function findBadOption(view: DataView, from: number, to: number): number {
  for (let at = from; at < to;) {
    const type = view.getUint8(at);
    if (type === 0) { // Pad1
      at++;
      continue;
    }
    if (at + 2 > to) return -1;
    const end = at + 2 + view.getUint8(at + 1);
    if (end > to) return -1;
    if (optionAction(type) !== OptionAction.Skip) return at;
    at = end;
  }
  return 0;
}

/** What is to be done about an unknown option of this type. */
export function optionAction(type: number): OptionAction {
  return type >>> 6;
}

/** Where the transport header of an IPv6 packet is. */
export class Ipv6Chain {
  /** The next-header value that ends the chain. */
  protocol = 0;
  /** Where what it names begins. */
  at = 0;
  /** True if the packet is a fragment other than the first, so that no transport header is there. */
  isLaterFragment = false;
  /** True if there is a fragment header that says that there are several fragments. */
  isFragment = false;
  /** Identification of the fragment, as int32; 0 if it is none. */
  fragmentId = 0;
}

/**
 * Walks the extension headers from `at` on, where `nextHeader` says what is there.
 *
 * @returns false if the chain runs past `end` or is too long; then `out` is where it was left
 */
export function walkIpv6Extensions(
  view: DataView,
  at: number,
  end: number,
  nextHeader: number,
  out: Ipv6Chain,
): boolean {
  out.protocol = nextHeader;
  out.at = at;
  out.isLaterFragment = false;
  out.isFragment = false;
  out.fragmentId = 0;
  for (let i = 0; isIpv6Extension(out.protocol); i++) {
    const here = out.at;
    if (i === EXTENSION_HEADERS_MAX || here + 8 > end) return false;
    const length = ipv6ExtensionBytes(view, here, out.protocol);
    const isFragment = out.protocol === Ipv6Extension.Fragment;
    if (here + length > end) return false;
    out.protocol = view.getUint8(here);
    out.at = here + length;
    if (!isFragment) continue;
    const field = view.getUint16(here + 2);
    out.isFragment = (field & 0xfff9) !== 0;
    out.fragmentId = view.getInt32(here + 4);
    if ((field & 0xfff8) !== 0) {
      out.isLaterFragment = true;
      return true;
    }
  }
  return true;
}

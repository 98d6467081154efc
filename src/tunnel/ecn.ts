/**
 * Explicit congestion notification through a tunnel (RFC 6040), and the DSCP of the outer header.
 *
 * Outside, a packet has the DSCP of the inner header (the uniform model of RFC 2983). Its ECN field is that of the inner
 * header in normal mode and Not-ECT in compatibility mode (section 4.1); the latter is for peers of which it is not
 * known that they do what this does: carry a mark that was made outside back into the inner header (section 4.2).
 *
 * ```text
 *    inner \ outer   Not-ECT   ECT(0)    ECT(1)    CE
 *    Not-ECT         Not-ECT   Not-ECT   Not-ECT   drop
 *    ECT(0)          ECT(0)    ECT(0)    ECT(1)    CE
 *    ECT(1)          ECT(1)    ECT(1)    ECT(1)    CE
 *    CE              CE        CE        CE        CE
 * ```
 *
 * A port that cannot read or write the outer header reads it as 0 and writes it as 0, which is compatibility mode.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import { Ecn, trafficClassAt } from "../wire/ip_header.ts";
import { setIpv4Ecn } from "../wire/ipv4.ts";
import { setIpv6Ecn } from "../wire/ipv6.ts";

const ECN_MASK = 3;

/** The traffic class of the header outside the IP packet that begins at `p.start`. */
export function outerTrafficClass(p: Packet, isNormalMode: boolean): number {
  const inner = trafficClassAt(p.view, p.start);
  return isNormalMode ? inner : inner & ~ECN_MASK;
}

/**
 * Carries the ECN field of the outer header over to the whole IP packet at `p.start`.
 *
 * @returns `None`, or `CeNotEct` if the packet has to be dropped: congestion was marked in one that cannot say so
 */
export function carryEcnIn(p: Packet): DropReason {
  const { view, start } = p;
  const outer = p.outerTrafficClass & ECN_MASK;
  const inner = trafficClassAt(view, start) & ECN_MASK;
  if (inner === Ecn.NotEct) return outer === Ecn.Ce ? DropReason.CeNotEct : DropReason.None;
  if (outer !== Ecn.Ce && !(outer === Ecn.Ect1 && inner === Ecn.Ect0)) return DropReason.None;
  // The checksum of an IPv4 header is checked later, and stays as wrong as it was.
  if (view.getUint8(start) >>> 4 === 4) setIpv4Ecn(view, start, outer);
  else setIpv6Ecn(view, start, outer);
  return DropReason.None;
}

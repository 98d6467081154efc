/**
 * GRE in UDP between peers (RFC 8086; wire/gre.ts), by address and key. Its port is 4754.
 *
 * A key of 0 and none are the same here: then no key is sent. A checksum is verified, a sequence number passed over.
 *
 * The source port is that of the socket, for all flows: load balancing on the way sees one flow (RFC 8086 section 3.2.1 would
 * have it vary with the inner one).
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import { emitGre, ETHERTYPE_IPV4, ETHERTYPE_IPV6, greBytes, GreHeader, parseGre } from "../wire/gre.ts";
import type { Encapsulation } from "./encapsulation.ts";

/** The port of GRE in UDP. */
export const GRE_PORT = 4754;

/** GRE in UDP. */
export class GreEncapsulation implements Encapsulation {
  /** `"gre"`. */
  readonly kind = "gre";
  /** False. */
  readonly matchPort = false;
  /** 2^32 − 1. */
  readonly networkIdMax = 0xffffffff;
  /** Key of the datagram parsed last; 0 for none. */
  networkId = 0;
  readonly #header = new GreHeader();

  /** 4, or 8 with a key. */
  headerBytes(networkId: number): number {
    return greBytes(networkId);
  }

  /** Prepends a header with the key, if it is not 0. */
  emit(p: Packet, networkId: number): void {
    const protocol = p.view.getUint8(p.start) >>> 4 === 6 ? ETHERTYPE_IPV6 : ETHERTYPE_IPV4;
    p.start -= greBytes(networkId);
    emitGre(p.view, p.start, protocol, networkId);
  }

  /** Checks and strips the header, and keeps the key. */
  parse(p: Packet): DropReason {
    const h = this.#header;
    const reason = parseGre(p.view, p.start, p.end, h);
    if (reason !== DropReason.None) return reason;
    if (h.protocol !== ETHERTYPE_IPV4 && h.protocol !== ETHERTYPE_IPV6) return DropReason.BadEncapsulation;
    const at = p.start + h.length;
    if (at < p.end && p.view.getUint8(at) >>> 4 !== (h.protocol === ETHERTYPE_IPV4 ? 4 : 6)) {
      return DropReason.BadVersion;
    }
    this.networkId = h.key;
    p.start = at;
    return DropReason.None;
  }
}

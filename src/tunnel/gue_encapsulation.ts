/**
 * Generic UDP encapsulation between peers: variant 0 on the way out, 0 or 1 on the way in (wire/gue.ts), by address.
 *
 * Linux speaks it as `ip fou add port P gue` with `encap gue` on an `ipip` or `sit` device; its kernel takes variant 1 on
 * the same port. There is no network identifier: peers are told apart by their addresses, and their source ports are free
 * to vary.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import {
  emitGue,
  GUE_HEADER_BYTES,
  GueHeader,
  parseGue,
  PROTOCOL_IPV4,
  PROTOCOL_IPV6,
  PROTOCOL_NONE,
} from "../wire/gue.ts";
import type { Encapsulation } from "./encapsulation.ts";

/** GUE. */
export class GueEncapsulation implements Encapsulation {
  /** `"gue"`. */
  readonly kind = "gue";
  /** False. */
  readonly matchPort = false;
  /** 0: there is none. */
  readonly networkIdMax = 0;
  /** 0. */
  readonly networkId = 0;
  readonly #header = new GueHeader();

  /** 4. */
  headerBytes(_networkId: number): number {
    return GUE_HEADER_BYTES;
  }

  /** Prepends the four bytes `00 PP 00 00`, where PP is 4 or 41. */
  emit(p: Packet, _networkId: number): void {
    const protocol = p.view.getUint8(p.start) >>> 4 === 4 ? PROTOCOL_IPV4 : PROTOCOL_IPV6;
    p.start -= GUE_HEADER_BYTES;
    emitGue(p.view, p.start, protocol);
  }

  /** Checks and strips the header of either variant; after one that says that nothing follows it, that is the reason. */
  parse(p: Packet): DropReason {
    const h = this.#header;
    const reason = parseGue(p.view, p.start, p.end, h);
    if (reason !== DropReason.None) return reason;
    const at = p.start + h.length;
    if (h.protocol === PROTOCOL_NONE) return DropReason.NoNextHeader;
    if (h.protocol !== PROTOCOL_IPV4 && h.protocol !== PROTOCOL_IPV6) return DropReason.BadEncapsulation;
    if (at < p.end && p.view.getUint8(at) >>> 4 !== (h.protocol === PROTOCOL_IPV4 ? 4 : 6)) {
      return DropReason.BadVersion;
    }
    p.start = at;
    return DropReason.None;
  }
}

/**
 * How an IP packet is laid into a UDP datagram between peers.
 *
 * An encapsulation prepends its header by lowering `p.start` and strips it by raising it; the packet is not copied. What
 * is in the header beside the packet's version is one number, the network identifier of the peer.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";

/** A header between UDP and IP. */
export interface Encapsulation {
  /** Its name: `"raw"`, `"vxlan-gpe"`, `"gue"`, `"gre"`. */
  readonly kind: string;
  /**
   * True if a peer is known by address and port; false if by address and network identifier, since its source port is
   * free to vary.
   */
  readonly matchPort: boolean;
  /** The largest network identifier. */
  readonly networkIdMax: number;
  /** Network identifier of the datagram parsed last. */
  readonly networkId: number;
  /** Bytes that it adds behind the UDP header for a peer with this network identifier. */
  headerBytes(networkId: number): number;
  /** Prepends the header to the IP packet in `p`. */
  emit(p: Packet, networkId: number): void;
  /** Checks and strips the header; on a reason other than `None` the packet is as it was. */
  parse(p: Packet): DropReason;
}

/**
 * Nothing between UDP and IP: the version nibble tells 4 from 6. This is Linux FOU with one port a family, and variant 1 of
 * generic UDP encapsulation.
 */
export class RawEncapsulation implements Encapsulation {
  /** `"raw"`. */
  readonly kind = "raw";
  /** True. */
  readonly matchPort = true;
  /** 0: there is none. */
  readonly networkIdMax = 0;
  /** 0. */
  readonly networkId = 0;

  /** 0. */
  headerBytes(_networkId: number): number {
    return 0;
  }

  /** Does nothing. */
  emit(_p: Packet, _networkId: number): void {}

  /** Does nothing; the caller checks the version. */
  parse(_p: Packet): DropReason {
    return DropReason.None;
  }
}

const VXLAN_GPE_BYTES = 8;
const FLAG_INSTANCE = 0x08;
const FLAG_NEXT_PROTOCOL = 0x04;
const NEXT_IPV4 = 1;
const NEXT_IPV6 = 2;

/**
 * VXLAN with the generic protocol extension (draft-ietf-nvo3-vxlan-gpe section 3), carrying IP without Ethernet:
 *
 * ```text
 *  |R|R|Ver|I|P|B|O|           Reserved            | Next Protocol |
 *  |          VXLAN Network Identifier (VNI)       |   Reserved    |
 * ```
 *
 * I (the VNI is valid) and P (the next protocol is valid) must be set and no other flag: another version, broadcast and
 * OAM messages are not for us, and what a flag unknown today will mean is unknown too. The reserved bytes are ignored, as
 * the draft wants. Next protocol is 1 for IPv4 and 2 for IPv6, and has to agree with the packet.
 */
export class VxlanGpeEncapsulation implements Encapsulation {
  /** `"vxlan-gpe"`. */
  readonly kind = "vxlan-gpe";
  /** False. */
  readonly matchPort = false;
  /** 2^24 − 1. */
  readonly networkIdMax = 0xffffff;
  /** VNI of the datagram parsed last. */
  networkId = 0;

  /** 8. */
  headerBytes(_networkId: number): number {
    return VXLAN_GPE_BYTES;
  }

  /** Prepends the eight bytes `0c 00 00 NP VNI VNI VNI 00`. */
  emit(p: Packet, networkId: number): void {
    const next = p.view.getUint8(p.start) >>> 4 === 6 ? NEXT_IPV6 : NEXT_IPV4;
    p.start -= VXLAN_GPE_BYTES;
    p.view.setUint32(p.start, ((FLAG_INSTANCE | FLAG_NEXT_PROTOCOL) << 24) | next);
    p.view.setUint32(p.start + 4, networkId << 8);
  }

  /** Checks flags and next protocol, keeps the VNI and strips the header. */
  parse(p: Packet): DropReason {
    const { view, start, end } = p;
    if (end - start < VXLAN_GPE_BYTES) return DropReason.BadEncapsulation;
    if (view.getUint8(start) !== (FLAG_INSTANCE | FLAG_NEXT_PROTOCOL)) return DropReason.BadEncapsulation;
    const next = view.getUint8(start + 3);
    if (next !== NEXT_IPV4 && next !== NEXT_IPV6) return DropReason.BadEncapsulation;
    if (end - start > VXLAN_GPE_BYTES) {
      const version = view.getUint8(start + VXLAN_GPE_BYTES) >>> 4;
      if (version !== (next === NEXT_IPV4 ? 4 : 6)) return DropReason.BadVersion;
    }
    this.networkId = view.getUint32(start + 4) >>> 8;
    p.start = start + VXLAN_GPE_BYTES;
    return DropReason.None;
  }
}

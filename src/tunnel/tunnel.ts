/**
 * The tunnel: IP packets of this host in UDP datagrams to and from its peers.
 *
 * ```text
 *   input:  datagram ─ whose? ─ header ─ version ─ may this peer use that source? nesting? ─→ IP packet with p.ifindex
 *   output: IP packet with p.ifindex ─→ header ─→ datagram and the peer that it goes to
 * ```
 *
 * A datagram counts as a peer's if it comes from the peer's address and port (`raw`) or address and network identifier
 * (`vxlan-gpe`, `gre`; `gue` has none); there, a header that cannot be read can name no peer and is a `BadEncapsulation` of nobody. What a peer
 * sends must have an inner source among its allowed prefixes, so that no peer can speak for another. Nothing is ever
 * answered here (a keepalive is heard and dropped), and nothing is encrypted or authenticated: the check is as good as the underlay's source addresses.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";
import { isV4Words } from "../wire/ip_addr.ts";
import { IPV4_HEADER_BYTES } from "../wire/ipv4.ts";
import { IPV6_HEADER_BYTES } from "../wire/ipv6.ts";
import { carryEcnIn, outerTrafficClass } from "./ecn.ts";
import type { Encapsulation } from "./encapsulation.ts";
import type { Keepalives } from "./keepalive.ts";
import { isNestedTooDeep } from "./nesting.ts";
import { Peer, type PeerOptions, PeerTable } from "./peer_table.ts";

/** The tunnel of one host. */
export class Tunnel {
  /** The header in use between all peers. */
  readonly encapsulation: Encapsulation;
  /** The peers. */
  readonly peers: PeerTable;
  /** Keepalives to and from the peers, if there are any. */
  keepalives: Keepalives | null = null;

  /**
   * Makes a tunnel without peers.
   *
   * @param encapsulation the header in use
   * @param hashSeed seed of the peer table
   * @param peerLimit the most peers (default 65,536)
   */
  constructor(encapsulation: Encapsulation, hashSeed: number, peerLimit?: number) {
    this.encapsulation = encapsulation;
    this.peers = new PeerTable(hashSeed, encapsulation.matchPort, peerLimit);
  }

  /**
   * Adds a peer.
   *
   * @throws {RangeError} if its interface or endpoint is taken, its network identifier is out of range, or the table is
   * full
   */
  addPeer(options: PeerOptions): Peer {
    const peer = new Peer(options);
    const most = this.encapsulation.networkIdMax;
    if (!Number.isInteger(peer.networkId) || peer.networkId < 0 || peer.networkId > most) {
      throw new RangeError(
        `the network identifier of peer ${peer.name} must be 0 to ${most} in ${this.encapsulation.kind}, ` +
          `got ${peer.networkId}`,
      );
    }
    this.peers.add(peer);
    return peer;
  }

  /**
   * Turns a datagram into the IP packet that it carries.
   *
   * @param p the payload of the datagram, with the outer header's traffic class; after success the live range is the IP packet and `p.ifindex` its peer's
   * @param w0 underlay source address, four words
   * @param port underlay source port
   * @param now the time (default 0), for keepalives
   * @returns `None`, or why the caller has to drop the packet
   */
  input(p: Packet, w0: number, w1: number, w2: number, w3: number, port: number, now: Instant = 0): DropReason {
    const encapsulation = this.encapsulation;
    let key = port;
    if (!encapsulation.matchPort) {
      const reason = encapsulation.parse(p);
      if (reason !== DropReason.None) return reason;
      key = encapsulation.networkId;
    }
    const peer = this.peers.byEndpoint(w0, w1, w2, w3, key);
    if (peer === null) return DropReason.UnknownPeer;
    let reason = encapsulation.matchPort ? encapsulation.parse(p) : DropReason.None;
    if (reason === DropReason.None && this.keepalives !== null) this.keepalives.onHeard(peer.ifindex, now);
    if (reason === DropReason.None && p.end === p.start) reason = DropReason.Keepalive;
    if (reason === DropReason.None) reason = checkSource(p, peer);
    if (reason === DropReason.None && isNestedTooDeep(p, encapsulation, peer.port)) reason = DropReason.TunnelNesting;
    if (reason === DropReason.None && (p.outerTrafficClass & 3) !== 0) reason = carryEcnIn(p);
    if (reason !== DropReason.None) {
      if (reason !== DropReason.Keepalive) peer.countDrop(reason);
      return reason;
    }
    p.ifindex = peer.ifindex;
    peer.packetsIn++;
    peer.bytesIn += p.length;
    return DropReason.None;
  }

  /**
   * Wraps the IP packet `p` for the peer of interface `p.ifindex`, and says what traffic class it is to have outside. A packet
   * of no length becomes a keepalive.
   *
   * @returns the peer that it goes to
   * @throws {Error} if the interface has no peer, which is a fault of the program: routes lead to peers only
   */
  output(p: Packet): Peer {
    const peer = this.peers.byIfindex(p.ifindex);
    if (peer === null) throw new Error(`interface ${p.ifindex} has no peer`);
    if (p.length > 0) {
      peer.packetsOut++;
      peer.bytesOut += p.length;
      p.outerTrafficClass = outerTrafficClass(p, peer.isEcnNormal);
    } else p.outerTrafficClass = 0;
    this.encapsulation.emit(p, peer.networkId);
    return peer;
  }
}

/** Looks at the version and the source of an inner packet, and at nothing else: the IP layer checks the rest. */
function checkSource(p: Packet, peer: Peer): DropReason {
  const { view, start } = p;
  const length = p.end - start;
  if (length === 0) return DropReason.Truncated;
  const version = view.getUint8(start) >>> 4;
  if (version === 4) {
    if (length < IPV4_HEADER_BYTES) return DropReason.Truncated;
    return peer.allows(0, 0, 0xffff, view.getInt32(start + 12)) ? DropReason.None : DropReason.SourceNotAllowed;
  }
  if (version === 6) {
    if (length < IPV6_HEADER_BYTES) return DropReason.Truncated;
    const w0 = view.getInt32(start + 8);
    const w1 = view.getInt32(start + 12);
    const w2 = view.getInt32(start + 16);
    const w3 = view.getInt32(start + 20);
    // The mapped form stands for IPv4 in here: let in, it would pass for an IPv4 source.
    if (isV4Words(w0, w1, w2)) return DropReason.Martian;
    return peer.allows(w0, w1, w2, w3) ? DropReason.None : DropReason.SourceNotAllowed;
  }
  return DropReason.BadVersion;
}

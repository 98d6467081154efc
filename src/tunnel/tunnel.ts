/**
 * The tunnel: IP packets of this host in UDP datagrams to and from its peers.
 *
 * ```text
 *   input:  datagram ─ header ─ whose? ─ version ─ may this peer use that source? nesting? ─→ IP packet with p.ifindex
 *   output: IP packet with p.ifindex ─→ header ─→ datagram and the peer that it goes to
 * ```
 *
 * A datagram counts as a peer's if it comes from the peer's address and port (`raw`) or address and network identifier
 * (`vxlan-gpe`, `gre`; `gue` has none); a header that cannot be read can name no peer and is a `BadEncapsulation` of
 * nobody. What a peer sends must have an inner source among its allowed prefixes, so that no peer can speak for another;
 * only keepalives, which nobody is given, may have any. Nothing is ever answered here, and nothing is encrypted or
 * authenticated: the check is as good as the underlay's source addresses.
 *
 * A peer that may roam is known by its inner source, too: a whole IP packet from elsewhere moves its endpoint there. Nothing
 * of that is authentic: whoever can send a datagram with such a source takes the peer's traffic over, so each peer has to be
 * let roam; and one that has just moved stays for a while, so that two senders cannot toss it to and fro with each packet.
 * Datagrams of strangers pay for the look-up, nobody else.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import { type Duration, type Instant, SECOND } from "../base/time.ts";
import { IpAddr, isV4Words } from "../wire/ip_addr.ts";
import { IpHeader, parseIp } from "../wire/ip_header.ts";
import { IPV4_HEADER_BYTES } from "../wire/ipv4.ts";
import { IPV6_HEADER_BYTES } from "../wire/ipv6.ts";
import { PrefixMap } from "../wire/prefix_map.ts";
import { carryEcnIn, outerTrafficClass } from "./ecn.ts";
import type { Encapsulation } from "./encapsulation.ts";
import { isKeepalive } from "./keepalive_packet.ts";
import { isNestedTooDeep } from "./nesting.ts";
import { type LearnedBy, Peer, type PeerOptions, PeerTable } from "./peer_table.ts";

/** How long a peer that has moved stays where it is. */
export const ROAM_HOLD: Duration = SECOND;

/** The tunnel of one host. */
export class Tunnel {
  /** The header in use between all peers. */
  readonly encapsulation: Encapsulation;
  /** The peers. */
  readonly peers: PeerTable;
  /** Says why a peer may not be at an address of the underlay, as behind the tunnel itself, or `""`. */
  refuse: (peer: Peer, address: IpAddr) => string = () => "";
  /** The peer that moved last; whoever takes note of it puts `null` here. */
  moved: Peer | null = null;
  /** Who may roam, by inner prefix. */
  readonly #roamers: PrefixMap<Peer>;
  readonly #header = new IpHeader();

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
    this.#roamers = new PrefixMap<Peer>(hashSeed);
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
    for (const prefix of options.roamsBy ?? []) this.#roamers.add(prefix, peer);
    return peer;
  }

  /**
   * Gives a peer another endpoint.
   *
   * @returns `""`, or why it stays where it is
   */
  move(peer: Peer, address: IpAddr, port: number, by: LearnedBy, now: Instant): string {
    const why = this.refuse(peer, address);
    if (why !== "") return why;
    if (!this.peers.move(peer, address, port, by, now)) return "another peer is there";
    this.moved = peer;
    return "";
  }

  /**
   * Turns a datagram into the IP packet that it carries.
   *
   * @param p the payload of the datagram, with the outer header's traffic class; after success the live range is the IP packet and `p.ifindex` its peer's
   * @param w0 underlay source address, four words
   * @param port underlay source port
   * @param now the time (default 0)
   * @returns `None`, or why the caller has to drop the packet
   */
  input(p: Packet, w0: number, w1: number, w2: number, w3: number, port: number, now: Instant = 0): DropReason {
    const encapsulation = this.encapsulation;
    let reason = encapsulation.parse(p);
    if (reason !== DropReason.None) return reason;
    const peer = this.peers.byEndpoint(w0, w1, w2, w3, encapsulation.matchPort ? port : encapsulation.networkId) ??
      this.#roam(p, w0, w1, w2, w3, port, now);
    if (peer === null) return DropReason.UnknownPeer;
    if (isKeepalive(p)) {
      p.ifindex = peer.ifindex;
      return DropReason.None;
    }
    reason = checkSource(p, peer);
    if (reason === DropReason.None && isNestedTooDeep(p, encapsulation, peer.port)) reason = DropReason.TunnelNesting;
    if (reason === DropReason.None && (p.outerTrafficClass & 3) !== 0) reason = carryEcnIn(p);
    if (reason !== DropReason.None) {
      peer.countDrop(reason);
      return reason;
    }
    p.ifindex = peer.ifindex;
    peer.packetsIn++;
    peer.bytesIn += p.length;
    return DropReason.None;
  }

  /**
   * Wraps the IP packet `p` for the peer of interface `p.ifindex`, and says what traffic class it is to have outside.
   *
   * @returns the peer that it goes to
   * @throws {Error} if the interface has no peer, which is a fault of the program: routes lead to peers only
   */
  output(p: Packet): Peer {
    const peer = this.peers.byIfindex(p.ifindex);
    if (peer === null) throw new Error(`interface ${p.ifindex} has no peer`);
    if (!isKeepalive(p)) {
      peer.packetsOut++;
      peer.bytesOut += p.length;
    }
    p.outerTrafficClass = outerTrafficClass(p, peer.isEcnNormal);
    this.encapsulation.emit(p, peer.networkId);
    return peer;
  }

  /**
   * The peer that a whole IP packet from an unknown endpoint is of, if it may roam; then it is at that endpoint from now on.
   * Where peers have network identifiers, they are free in their source port, and keep the one that they are sent to.
   */
  #roam(p: Packet, w0: number, w1: number, w2: number, w3: number, port: number, now: Instant): Peer | null {
    if (this.#roamers.isEmpty || port === 0) return null;
    const { matchPort, networkId } = this.encapsulation;
    const h = this.#header;
    if (parseIp(p.view, p.start, p.end, h) !== DropReason.None) return null;
    if (h.version === 6 && isV4Words(h.src0, h.src1, h.src2)) return null;
    const peer = this.#roamers.find(h.src0, h.src1, h.src2, h.src3);
    if (peer === null || peer.networkId !== networkId || now - peer.movedAt < ROAM_HOLD) return null;
    const why = this.move(peer, new IpAddr(w0, w1, w2, w3), matchPort ? port : peer.port, "roaming", now);
    return why === "" ? peer : null;
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

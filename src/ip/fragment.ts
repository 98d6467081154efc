/**
 * Packets cut into fragments: those of this host that are allowed to be, and of others those of IPv4 without "don't fragment"
 * (RFC 791 section 3.2, RFC 8200 section 4.5; a router never cuts an IPv6 packet).
 *
 * Each fragment is a packet of its own, as long as the MTU and the unit of eight bytes allow, but for the last. Either all
 * fragments are sent or none: they are made only if the pool has as many packets.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { HEADROOM_BYTES, type Packet, type PacketPool } from "../base/packet.ts";
import { copyBytes } from "../base/ring_buffer.ts";
import type { Instant } from "../base/time.ts";
import { checksumFinish, checksumSum } from "../wire/checksum.ts";
import type { IpHeader } from "../wire/ip_header.ts";
import { IPV4_HEADER_BYTES } from "../wire/ipv4.ts";
import { copyFragmentOptions } from "../wire/ipv4_options.ts";
import { IPV6_HEADER_BYTES } from "../wire/ipv6.ts";
import { emitFragmentHeader, FRAGMENT_HEADER_BYTES, FragmentHeader, Ipv6Extension } from "../wire/ipv6_extension.ts";
import type { IpLower } from "./network.ts";

/** Cuts packets. */
export class Fragmenter {
  /** Packets cut. */
  packets = 0;
  /** Fragments made of them. */
  fragments = 0;
  readonly #pool: PacketPool;
  readonly #lower: IpLower;
  readonly #header = new FragmentHeader();

  /** Makes one that gives fragments to `lower`. */
  constructor(pool: PacketPool, lower: IpLower) {
    this.#pool = pool;
    this.#lower = lower;
  }

  /**
   * Sends the IPv4 packet `p`, whose header stands in it and is `ip`, in fragments of at most `mtu` bytes, with its flow,
   * interface and departure time. `p` stays with the caller, its header as it was.
   *
   * @returns `None`, `TooBig` if no byte of data fits beside the header, or `PoolExhausted`; then nothing was sent
   */
  sendIpv4(p: Packet, ip: IpHeader, mtu: number, now: Instant): DropReason {
    const { headerLength } = ip;
    const data = p.start + headerLength;
    const bytes = p.end - data;
    const most = (mtu - headerLength) & ~7;
    if (most < 8) return DropReason.TooBig;
    if (!this.#hasRoom(Math.ceil(bytes / most))) return DropReason.PoolExhausted;
    let room = most;
    for (let done = 0; done < bytes;) {
      const q = this.#pool.acquire(HEADROOM_BYTES)!;
      let headerBytes = headerLength;
      if (done === 0 || headerLength === IPV4_HEADER_BYTES) copyBytes(p.bytes, p.start, q.bytes, q.start, headerLength);
      else {
        copyBytes(p.bytes, p.start, q.bytes, q.start, IPV4_HEADER_BYTES);
        const options = copyFragmentOptions(
          p.view,
          p.start + IPV4_HEADER_BYTES,
          data,
          q.view,
          q.start + IPV4_HEADER_BYTES,
        );
        headerBytes = IPV4_HEADER_BYTES + options;
        room = (mtu - headerBytes) & ~7;
      }
      const isLast = bytes - done <= mtu - headerBytes;
      const n = isLast ? bytes - done : room;
      q.l4 = q.start + headerBytes;
      q.end = q.l4 + n;
      copyBytes(p.bytes, data + done, q.bytes, q.l4, n);
      const { view, start } = q;
      view.setUint8(start, 0x40 | (headerBytes >>> 2));
      view.setUint16(start + 2, headerBytes + n);
      view.setUint16(start + 6, ((ip.fragmentOffset + done) >>> 3) | (isLast && !ip.moreFragments ? 0 : 0x2000));
      view.setUint16(start + 10, 0);
      view.setUint16(start + 10, checksumFinish(checksumSum(view, start, q.l4)));
      done += n;
      this.#send(q, p, mtu, now);
    }
    this.packets++;
    return DropReason.None;
  }

  /**
   * Sends the IPv6 packet `p` of this host, whose header stands in it without extension headers and is `ip`, as
   * {@linkcode Fragmenter.sendIpv4} does.
   *
   * @param id identification of the fragments
   */
  sendIpv6(p: Packet, ip: IpHeader, id: number, mtu: number, now: Instant): DropReason {
    const data = p.start + IPV6_HEADER_BYTES;
    const bytes = p.end - data;
    const room = (mtu - IPV6_HEADER_BYTES - FRAGMENT_HEADER_BYTES) & ~7;
    if (room < 8) return DropReason.TooBig;
    if (!this.#hasRoom(Math.ceil(bytes / room))) return DropReason.PoolExhausted;
    const h = this.#header;
    h.nextHeader = ip.protocol;
    h.id = id;
    for (let done = 0; done < bytes;) {
      const q = this.#pool.acquire(HEADROOM_BYTES)!;
      copyBytes(p.bytes, p.start, q.bytes, q.start, IPV6_HEADER_BYTES);
      const n = Math.min(bytes - done, room);
      q.l4 = q.start + IPV6_HEADER_BYTES;
      q.end = q.l4 + FRAGMENT_HEADER_BYTES + n;
      q.view.setUint16(q.start + 4, FRAGMENT_HEADER_BYTES + n);
      q.view.setUint8(q.start + 6, Ipv6Extension.Fragment);
      h.offset = done;
      h.more = done + n < bytes;
      emitFragmentHeader(q.view, q.l4, h);
      copyBytes(p.bytes, data + done, q.bytes, q.l4 + FRAGMENT_HEADER_BYTES, n);
      done += n;
      this.#send(q, p, mtu, now);
    }
    this.packets++;
    return DropReason.None;
  }

  #hasRoom(packets: number): boolean {
    return this.#pool.limit - this.#pool.inUse >= packets;
  }

  #send(q: Packet, whole: Packet, mtu: number, now: Instant): void {
    if (q.length > mtu) throw new Error(`a fragment of ${q.length} bytes for an MTU of ${mtu}`);
    q.ifindex = whole.ifindex;
    q.flow = whole.flow;
    q.departAt = whole.departAt;
    this.fragments++;
    this.#lower.send(q, now);
  }
}

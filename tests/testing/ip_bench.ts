/**
 * An IP layer alone, with what it gives up and down.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import type { Packet } from "../../src/base/packet.ts";
import { PacketList } from "../../src/base/packet_list.ts";
import { IpLayer, type IpLayerOptions } from "../../src/ip/ip_layer.ts";
import { IcmpHeader, parseIcmp } from "../../src/wire/icmp.ts";
import { IpInterface, IpPrefix } from "../../src/wire/ip_addr.ts";
import { IpHeader, parseIp } from "../../src/wire/ip_header.ts";
import { ipPacket, type IpPacketOptions, TestPool } from "./ip_packets.ts";

/** An IP layer with what it gave up and down. */
export class IpBench {
  /** Its pool and drops. */
  readonly memory: TestPool;
  /** What went up. */
  readonly up: PacketList = new PacketList();
  /** What went down. */
  readonly down: PacketList = new PacketList();
  /** The layer. */
  readonly ip: IpLayer;

  /** Makes it between interface 1 (10.7.0.0/24, fd07::/64, MTU 1500) and 2 (10.8.0.0/24, fd08::/64, MTU 1300). */
  constructor(forward = true, options: Partial<IpLayerOptions> = {}, limit?: number) {
    this.memory = new TestPool(limit);
    this.ip = new IpLayer({
      pool: this.memory.pool,
      sink: this.memory,
      upper: { input: (p) => this.up.push(p) },
      lower: { send: (p) => this.down.push(p) },
      hashSeed: 99,
      forward,
      ...options,
    });
    this.ip.addAddress(IpInterface.parse("10.7.0.1/24"));
    this.ip.addAddress(IpInterface.parse("fd07::1/64"));
    this.ip.addInterface({ ifindex: 1, name: "left", mtu: 1500 });
    this.ip.addInterface({ ifindex: 2, name: "right", mtu: 1300 });
    this.ip.routes.add(IpPrefix.parse("10.7.0.0/24"), 1);
    this.ip.routes.add(IpPrefix.parse("10.8.0.0/24"), 2);
    this.ip.routes.add(IpPrefix.parse("fd07::/64"), 1);
    this.ip.routes.add(IpPrefix.parse("fd08::/64"), 2);
  }

  /** Puts a packet in and says what became of it. */
  input(p: Packet, now = 0): string {
    const before = this.memory.drops.toJSON();
    const up = this.up.packets;
    const down = this.down.packets;
    this.ip.input(p, now);
    const reasons = Object.entries(this.memory.drops.toJSON()).filter(([name, n]) => n !== (before[name] ?? 0));
    return [
      ...reasons.map(([name]) => name),
      ...(this.up.packets > up ? ["up"] : []),
      ...(this.down.packets > down ? ["down"] : []),
    ].join(" ");
  }

  /** Makes a packet, puts it in and says what became of it. */
  send(options: IpPacketOptions, now = 0): string {
    return this.input(ipPacket(this.memory.pool, options), now);
  }

  /** The packet that went down, with its headers read and checked. */
  sent(): { p: Packet; ip: IpHeader; icmp: IcmpHeader; quote: Uint8Array } {
    const p = this.down.shift();
    assert(p !== null, "nothing was sent");
    const ip = new IpHeader();
    assertEquals(parseIp(p.view, p.start, p.end, ip), DropReason.None);
    const icmp = new IcmpHeader();
    const l4 = p.start + ip.headerLength;
    if (ip.protocol === 1 || ip.protocol === 58) {
      assertEquals(parseIcmp(p.view, l4, p.end, ip, icmp), DropReason.None);
    }
    return { p, ip, icmp, quote: p.bytes.slice(l4 + 8, p.end) };
  }

  /** Frees what was collected and checks that no packet is missing. */
  done(): void {
    for (const list of [this.up, this.down]) {
      for (let p = list.shift(); p !== null; p = list.shift()) this.memory.pool.release(p);
    }
    assertEquals(this.memory.pool.inUse, 0);
  }
}

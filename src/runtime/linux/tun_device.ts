/**
 * A TUN device of our own: the kernel's packets come in by it, and packets for the kernel leave by it.
 *
 * The device is made by {@linkcode openTun} and is gone when its descriptor is closed, however the process ends: it is not
 * persistent, and one that exists already is refused rather than taken. Addresses, MTU and routes of the kernel's side
 * are set by rtnetlink and go with the device.
 *
 * A call moves one packet, since the kernel has no call for many. It is copied once each way between its slot and a
 * buffer of the device, because FFI takes whole arrays only and making one for a part of a slot would be an allocation a
 * packet. The kernel queues at most {@linkcode QUEUE_PACKETS} for us and counts what is too much; what it does not take from
 * us is dropped as `PortSend`.
 *
 * Left out: several queues, virtio headers (the kernel cuts and checksums its segments itself), TAP.
 *
 * Reference: the kernel's Documentation/networking/tuntap.rst, include/uapi/linux/if_tun.h.
 *
 * @module
 */

import { DropReason } from "../../base/drop.ts";
import { HEADROOM_BYTES, type Packet } from "../../base/packet.ts";
import { copyBytes } from "../../base/ring_buffer.ts";
import type { Instant } from "../../base/time.ts";
import type { DeviceInterface } from "../../stack/device_interface.ts";
import type { TunConfig } from "../../stack/options.ts";
import type { DeviceSink, DeviceStats, PacketDevice } from "../packet_device.ts";
import { dropPacket, type PortContext } from "../udp_port.ts";
import { Errno } from "./abi.ts";
import { callError, type Libc, type Memory } from "./libc.ts";
import { RtNetlink } from "./rtnetlink.ts";

/** Packets of the kernel that wait to be read. */
export const QUEUE_PACKETS = 1000;

/** What makes devices, as a C string. */
const CLONE_DEVICE = "/dev/net/tun\0";

/** To be read and written, never waited for, not inherited. */
const OPEN_FLAGS = 2 | 0x800 | 0x80000;

const TUNSETIFF = 0x400454ca;
const SIOCGIFINDEX = 0x8933;

/** IP packets without anything in front; a new device. */
const TUN_FLAGS = 0x0001 | 0x1000 | 0x8000;

const NAME_BYTES = 16;
const IFREQ_BYTES = 40;

/** The largest IP packet: a buffer that is too small would cut packets in silence. */
const READ_BYTES = 65_536;

/** A device that was made and set up. */
export interface OpenedTun {
  /** The C library, to be released when the device is closed. */
  readonly libc: Libc;
  /** The descriptor. */
  readonly fd: number;
  /** The name that the device got. */
  readonly name: string;
  /** Its index in the system. */
  readonly systemIndex: number;
  /** A socket to the network configuration. */
  readonly netlink: RtNetlink;
}

/**
 * Makes a TUN device and sets it up.
 *
 * @param libc the C library, released if that fails
 * @throws {Deno.errors.PermissionDenied} without CAP_NET_ADMIN
 * @throws {Deno.errors.AlreadyExists} if there is a device of that name
 * @throws {Deno.errors.NotSupported} if the system has no TUN devices
 * @throws {Error} if an address or a route is refused
 */
export function openTun(libc: Libc, config: TunConfig): OpenedTun {
  let fd = -1;
  let netlink: RtNetlink | null = null;
  try {
    fd = libc.open(memoryOf(CLONE_DEVICE), OPEN_FLAGS);
    if (fd < 0) throw tunError(callError("open /dev/net/tun", fd), config.name);
    const request = new Uint8Array(new ArrayBuffer(IFREQ_BYTES));
    const view = new DataView(request.buffer);
    for (let i = 0; i < config.name.length; i++) request[i] = config.name.charCodeAt(i);
    view.setUint16(NAME_BYTES, TUN_FLAGS, true);
    const made = libc.ioctl(fd, TUNSETIFF, request);
    if (made < 0) throw tunError(callError("TUNSETIFF", made), config.name);
    let end = request.indexOf(0);
    if (end < 0 || end > NAME_BYTES) end = NAME_BYTES;
    const name = String.fromCharCode(...request.subarray(0, end));
    netlink = new RtNetlink(libc);
    const found = libc.ioctl(netlink.fd, SIOCGIFINDEX, request);
    if (found < 0) throw tunError(callError("SIOCGIFINDEX", found), name);
    const systemIndex = view.getInt32(NAME_BYTES, true);
    try {
      netlink.setUp(systemIndex, config.mtu, QUEUE_PACKETS);
      for (const own of config.addresses) netlink.addAddress(systemIndex, own);
      for (const to of config.routes) netlink.addRoute(systemIndex, to);
    } catch (error) {
      throw tunError(error as Error, name);
    }
    return { libc, fd, name, systemIndex, netlink };
  } catch (error) {
    netlink?.close();
    if (fd >= 0) libc.close(fd);
    libc.release();
    throw error;
  }
}

/** Gives back a device that was made and is not used. */
export function closeTun({ libc, fd, netlink }: OpenedTun): void {
  netlink.close();
  libc.close(fd);
  libc.release();
}

/** A TUN device of our own. */
export class TunDevice implements PacketDevice {
  readonly name: string;
  readonly ifindex: number;
  readonly isBlocked = false;
  onReadable: () => void = () => {};
  readonly #tun: OpenedTun;
  readonly #libc: Libc;
  readonly #context: PortContext;
  readonly #sink: DeviceSink;
  readonly #link: DeviceInterface;
  readonly #in: Memory = new Uint8Array(new ArrayBuffer(READ_BYTES));
  readonly #out: Memory;
  readonly #stats: { sendErrors: number; tooBig: number } = { sendErrors: 0, tooBig: 0 };
  /** The descriptor, or −1 when the device is gone. */
  #fd: number;
  /** Bytes of the packet that was read and not taken yet; 0 if there is none. */
  #pending = 0;
  #hasGiven = false;
  /** What the kernel dropped, when it was last asked. */
  #systemDrops: number | null = null;

  /**
   * Makes the device part of a host.
   *
   * @param tun what was made; closed with this
   * @param sink takes the kernel's packets
   * @param link the interface of the stack, which counts the packets
   */
  constructor(tun: OpenedTun, context: PortContext, sink: DeviceSink, link: DeviceInterface) {
    this.#tun = tun;
    this.#libc = tun.libc;
    this.#context = context;
    this.#sink = sink;
    this.#link = link;
    this.#out = new Uint8Array(new ArrayBuffer(context.pool.slotBytes));
    this.#fd = tun.fd;
    this.name = tun.name;
    this.ifindex = link.ifindex;
  }

  get fd(): number {
    return this.#fd;
  }

  get waiting(): number {
    return this.#pending > 0 ? 1 : 0;
  }

  receive(limit: number, now: Instant): number {
    let n = 0;
    while (n < limit && this.#pending > 0) {
      const bytes = this.#pending;
      this.#pending = 0;
      this.#take(bytes, now);
      n++;
      this.#read();
    }
    this.#hasGiven = n > 0;
    return n;
  }

  fill(): void {
    if (!this.#hasGiven && this.#pending === 0) this.#read();
    this.#hasGiven = false;
  }

  look(): boolean {
    if (this.#pending === 0) this.#read();
    if (this.#pending === 0) return false;
    this.onReadable();
    return true;
  }

  send(p: Packet): void {
    const length = p.end - p.start;
    copyBytes(p.bytes, p.start, this.#out, 0, length);
    const result = this.#fd < 0 ? -Errno.EIO : this.#libc.write(this.#fd, this.#out, length);
    if (result < 0) {
      this.#stats.sendErrors++;
      return dropPacket(this.#context, p, DropReason.PortSend);
    }
    this.#link.packetsOut++;
    this.#link.bytesOut += length;
    this.#context.pool.release(p);
  }

  stats(): DeviceStats {
    if (this.#fd >= 0) this.#systemDrops = this.#tun.netlink.sendDrops(this.#tun.systemIndex) ?? this.#systemDrops;
    const drops = this.#systemDrops;
    return drops === null ? { ...this.#stats } : { ...this.#stats, systemDrops: drops };
  }

  close(): void {
    if (this.#fd < 0) return;
    this.stats();
    this.#fd = -1;
    this.#pending = 0;
    closeTun(this.#tun);
  }

  #read(): void {
    if (this.#fd < 0) return;
    const n = this.#libc.read(this.#fd, this.#in);
    if (n > 0) this.#pending = n;
    else if (n < 0 && n !== -Errno.EAGAIN && n !== -Errno.EINTR) {
      this.close();
      this.#context.fault(
        new Deno.errors.NotConnected(`the TUN device ${this.name} is gone: ${callError("read", n).message}`),
      );
    }
  }

  #take(bytes: number, now: Instant): void {
    const { pool, drops } = this.#context;
    this.#link.packetsIn++;
    this.#link.bytesIn += bytes;
    if (bytes > pool.slotBytes - HEADROOM_BYTES) {
      this.#stats.tooBig++;
      return drops.count(DropReason.TooBig);
    }
    const p = pool.acquire(HEADROOM_BYTES);
    if (p === null) return drops.count(DropReason.PoolExhausted);
    copyBytes(this.#in, 0, p.bytes, HEADROOM_BYTES, bytes);
    p.end = HEADROOM_BYTES + bytes;
    this.#sink.input(this.ifindex, p, now);
  }
}

function memoryOf(text: string): Memory {
  const bytes = new Uint8Array(new ArrayBuffer(Math.max(256, text.length)));
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** What the system says about a device, in a sentence and as an error of Deno's class. */
function tunError(error: Error, name: string): Error {
  const code = (error as { code?: unknown }).code;
  const device = `the TUN device "${name}"`;
  if (code === "EPERM" || code === "EACCES") {
    return new Deno.errors.PermissionDenied(`${device} needs root, or CAP_NET_ADMIN: ${error.message}`);
  }
  if (code === "EBUSY") {
    return new Deno.errors.AlreadyExists(`${device} cannot be made: a device of that name exists (${error.message})`);
  }
  if (code === "ENOENT" || code === "ENODEV" || code === "ENXIO") {
    return new Deno.errors.NotSupported(`${device} cannot be made: this system has no TUN devices (${error.message})`);
  }
  return Object.assign(new Error(`${device} cannot be set up: ${error.message}`), { code, cause: error });
}

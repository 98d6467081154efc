/**
 * A network device of the operating system as the driver sees it: whole IP packets go in and out, and nobody is on the
 * other side but the kernel.
 *
 * ```text
 *   the kernel's queue (bounded, it counts its drops) ──receive()──► stack.input(ifindex)
 *   stack.pull() ── p.ifindex is the device's ──► send(p) ──► the kernel
 * ```
 *
 * A device is never told of packets by the event loop: it is asked in each turn, and {@linkcode PolledSource.look}ed at
 * by the sleeper in between. It takes a packet at once or drops it, counted, so it never holds up the ports.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";

/** A descriptor that is watched while the driver sleeps. */
export interface PolledSource {
  /** The descriptor; below 0 for one that is not to be watched. */
  readonly fd: number;
  /** True while it waits to be written. */
  readonly isBlocked: boolean;
  /**
   * Writes what waits, if there is room again, and reads if nothing waits to be taken; tells its owner if something waits
   * then.
   *
   * @returns true if something waits
   */
  look(): boolean;
}

/** Takes the packets of a device. */
export interface DeviceSink {
  /** Takes `p`, an IP packet that came in by interface `ifindex`. */
  input(ifindex: number, p: Packet, now: Instant): void;
}

/** What went wrong at a device, beside what its interface counts. */
export interface DeviceStats {
  /** Packets that the kernel did not take. */
  sendErrors: number;
  /** Packets of the kernel that are larger than a slot. */
  tooBig: number;
  /** Packets that the kernel dropped since they were not read in time; absent if that cannot be known. */
  systemDrops?: number;
}

/** A network device of the operating system. */
export interface PacketDevice extends PolledSource {
  /** Its name in the system. */
  readonly name: string;
  /** The interface of the stack that it is. */
  readonly ifindex: number;
  /** Called when a packet waits after there was none. */
  onReadable: () => void;
  /** More than 0 if packets wait to be received. */
  readonly waiting: number;
  /** Gives at most `limit` packets to the stack; returns how many came. */
  receive(limit: number, now: Instant): number;
  /** To be called at the end of a turn: looks for a packet if none waits and `receive` gave none. Nobody is told. */
  fill(): void;
  /** Gives `p` to the kernel and frees it. */
  send(p: Packet): void;
  /** The counters. */
  stats(): DeviceStats;
  /** Closes it; the system removes the device. */
  close(): void;
}

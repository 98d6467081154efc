/**
 * The interface that leads to the kernel of this machine: what a stack knows of a device that whoever drives it has.
 *
 * It comes after those of the peers. Packets that {@linkcode Stack.pull} gives with its index go to the device as they
 * are, without encapsulation; those of the device are given to {@linkcode Stack.input}. The device counts them here.
 *
 * @module
 */

import type { IpPrefix } from "../wire/ip_addr.ts";
import type { TunConfig } from "./options.ts";

/** An interface to the kernel and its counters. */
export class DeviceInterface {
  /** Index. */
  readonly ifindex: number;
  /** Name of the device. */
  readonly name: string;
  /** The addresses that are routed to it. */
  readonly allowed: readonly IpPrefix[];
  /** Packets that came. */
  packetsIn = 0;
  /** Their bytes. */
  bytesIn = 0;
  /** Packets that the device took. */
  packetsOut = 0;
  /** Their bytes. */
  bytesOut = 0;

  /** Makes an interface with its counters at 0. */
  constructor(ifindex: number, config: TunConfig) {
    this.ifindex = ifindex;
    this.name = config.name;
    this.allowed = config.allowed;
  }
}

/**
 * Which implementation carries the datagrams of a host and which one waits for its deadlines, and why.
 *
 * Asked for `auto`, the Linux port is used if FFI was granted for the C library, the operating system is Linux and the
 * machine's layouts are known; else `Deno.listenDatagram` where it exists, else `node:dgram`. Nobody is asked for the
 * permission of FFI. What is asked for by name is used or refused. The sleeper follows the port unless it is named:
 * `ppoll` with the Linux port, which needs a poll anyway, and else `hop`.
 *
 * @module
 */

import { formatEndpoint, type PortConfig, type SleeperConfig, type TunConfig } from "../stack/options.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import { DenoPort } from "./deno_port.ts";
import { DgramPort } from "./dgram_port.ts";
import { requireNet } from "./errors.ts";
import { acquireLibc, type Libc } from "./linux/libc.ts";
import type { PolledSource } from "./packet_device.ts";
import { type OpenedTun, openTun } from "./linux/tun_device.ts";
import { LinuxPort, UnsupportedError } from "./linux/linux_port.ts";
import { PollSleeper } from "./linux/poll_sleeper.ts";
import { RouteProbe } from "./linux/route_probe.ts";
import { type MakeSleeper, TimerSleeper } from "./sleeper.ts";
import { isPolled, type PortContext, type UdpPort } from "./udp_port.ts";
import type { RouteSource } from "./underlay_mtu.ts";

/** Binds a UDP port to an address; port 0 is any. */
export type OpenPort = (address: IpAddr, port: number, context: PortContext) => UdpPort | Promise<UdpPort>;

/** What a host runs on, for people. */
export interface UnderlayChoice {
  /** Which implementation. */
  kind: string;
  /** Why this one, and what it has to do without. */
  why: string;
}

/** The system's ways, until they are closed. */
export interface ClosableRoutes extends RouteSource {
  /** Gives back what it holds. */
  close(): void;
}

/** What carries the datagrams of a host and waits for its deadlines. */
export interface Underlay {
  /** Binds a port. */
  readonly open: OpenPort;
  /**
   * Makes a TUN device.
   *
   * @throws {Error} in a sentence, if there can be none here
   */
  openTun(config: TunConfig): OpenedTun;
  /** Makes the sleeper for the ports that were opened, and for a device. */
  makeSleeper(ports: readonly UdpPort[], device?: PolledSource | null): MakeSleeper;
  /** What tells the system's ways, for the ports that were opened and a device; `null` if nothing does. */
  openRoutes(ports: readonly UdpPort[], device: PolledSource | null): ClosableRoutes | null;
  /** Why `port` is of its kind. */
  whyPort(port: UdpPort): string;
  /** The sleeper, and why it is that one. */
  sleeper(): UnderlayChoice;
}

/** The underlay that the operating system gives. */
export class SystemUnderlay implements Underlay {
  readonly #config: PortConfig;
  readonly #sleeperConfig: SleeperConfig | null;
  readonly #acquire: () => Libc | string;
  readonly #whys = new Map<UdpPort, string>();
  #sleeper: UnderlayChoice = { kind: "hop", why: "nothing was opened" };

  /**
   * Chooses nothing yet.
   *
   * @param acquire gives the C library, or says why there is none
   */
  constructor(
    port: PortConfig,
    sleeper: SleeperConfig | null,
    acquire: () => Libc | string = acquireLibc,
  ) {
    this.#config = port;
    this.#sleeperConfig = sleeper;
    this.#acquire = acquire;
  }

  readonly open: OpenPort = async (address, port, context) => {
    await requireNet(formatEndpoint(address, port));
    const { kind } = this.#config;
    let why = "asked for";
    if (kind === "linux" || kind === "auto") {
      const opened = this.#openLinux(address, port, context);
      if (typeof opened !== "string") return opened;
      if (kind === "linux") throw refusal(`the port "linux" cannot be used: ${opened}`);
      why = opened;
    }
    if (kind === "deno" || (kind === "auto" && DenoPort.serves(address))) {
      return this.#because(why, DenoPort.open(address, port, context));
    }
    if (kind === "auto") {
      why += `; Deno.listenDatagram ${DenoPort.exists() ? "cannot serve ::" : "needs --unstable-net"}`;
    }
    return this.#because(why, await DgramPort.open(address, port, context));
  };

  openTun(config: TunConfig): OpenedTun {
    const libc = this.#acquire();
    if (typeof libc === "string") throw refusal(`the TUN device "${config.name}" cannot be made: ${libc}`);
    return openTun(libc, config);
  }

  makeSleeper(ports: readonly UdpPort[], device: PolledSource | null = null): MakeSleeper {
    const polled: PolledSource[] = ports.filter(isPolled);
    if (device !== null) polled.push(device);
    const asked = this.#sleeperConfig;
    const kind = asked ?? (polled.length > 0 ? "ppoll" : "hop");
    const why = asked !== null
      ? "asked for"
      : polled.length > 0
      ? `the ${device === null ? "port" : "device"} is polled`
      : "it needs no permission";
    this.#sleeper = { kind, why };
    if (kind !== "ppoll" && polled.length === 0) return (clock, onDue) => new TimerSleeper(kind, clock, onDue);
    const libc = this.#acquire();
    if (typeof libc === "string") throw refusal(`the sleeper "ppoll" cannot be used: ${libc}`);
    return (clock, onDue) => new PollSleeper(kind, libc, polled, clock, onDue);
  }

  openRoutes(ports: readonly UdpPort[], device: PolledSource | null): ClosableRoutes | null {
    if (device === null && !ports.some(isPolled)) return null;
    const libc = this.#acquire();
    return typeof libc === "string" ? null : new RouteProbe(libc);
  }

  whyPort(port: UdpPort): string {
    const why = this.#whys.get(port) ?? "asked for";
    return isPolled(port) ? [why, ...port.notes].join("; ") : why;
  }

  sleeper(): UnderlayChoice {
    return this.#sleeper;
  }

  #because<T extends UdpPort>(why: string, port: T): T {
    this.#whys.set(port, why);
    return port;
  }

  #openLinux(address: IpAddr, port: number, context: PortContext): LinuxPort | string {
    const libc = this.#acquire();
    if (typeof libc === "string") return libc;
    const { kind, ...options } = this.#config;
    const { path } = libc;
    try {
      const why = kind === "linux" ? "asked for" : `FFI is granted for ${path}`;
      return this.#because(why, LinuxPort.open(libc, address, port, context, options));
    } catch (error) {
      if (error instanceof UnsupportedError) return error.message;
      throw error;
    }
  }
}

function refusal(message: string): Error {
  return message.includes("not granted") ? new Deno.errors.NotCapable(message) : new Deno.errors.NotSupported(message);
}

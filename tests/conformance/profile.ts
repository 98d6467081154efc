/**
 * What a script expects of the system it was written on, as settings of our TCP: the profile, changed by system
 * settings (sysctls).
 *
 * The settings of FreeBSD are all named `net.inet.…`, those of Linux `net.ipv4.…` or without that prefix. A setting
 * without an equivalent changes nothing.
 *
 * @module
 */

import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { CONGESTION_CONTROLS } from "../../src/tcp/congestion/registry.ts";
import type { TcpOptions } from "../../src/tcp/options.ts";

/** Settings for a TCP. */
export type ProfileOptions = Partial<TcpOptions>;

/** Sysctl values by name, without `net.ipv4.`. */
export type Sysctls = ReadonlyMap<string, string>;

/** A sysctl's name as it is kept. */
export function sysctlName(name: string): string {
  return name.replace(/^net\.ipv4\./, "");
}

/** The profiles by name. */
export const PROFILES: ReadonlyMap<string, (sysctls: Sysctls) => ProfileOptions> = new Map([
  ["linux", linux],
  ["freebsd", freebsd],
]);

function linux(sysctls: Sysctls): ProfileOptions {
  const [, receive = 131072, receiveMost = 6291456] = words(sysctls, "tcp_rmem");
  const [, send = 16384] = words(sysctls, "tcp_wmem");
  const control = sysctls.get("tcp_congestion_control") ?? "cubic";
  return {
    initialCwndSegments: 10,
    minRto: 200 * MILLISECOND,
    initialRto: SECOND,
    delayedAck: "adaptive",
    quickAcks: 16,
    ackEverySecondSegment: false,
    delayFinAck: true,
    receiveBufferBytes: receive,
    windowShift: flag(sysctls, "tcp_window_scaling", true) ? Math.max(0, Math.floor(Math.log2(receiveMost)) - 15) : -1,
    sendBufferBytes: Math.max(send, 16384),
    windowScale: flag(sysctls, "tcp_window_scaling", true),
    timestamps: flag(sysctls, "tcp_timestamps", true),
    sack: flag(sysctls, "tcp_sack", true),
    rfc1337: flag(sysctls, "tcp_rfc1337", false),
    dsack: flag(sysctls, "tcp_dsack", true),
    ecn: (["off", "on", "accept"] as const)[number(sysctls, "tcp_ecn", 2)] ?? "off",
    synRetries: number(sysctls, "tcp_syn_retries", 6),
    synAckRetries: number(sysctls, "tcp_synack_retries", 5),
    retries: number(sysctls, "tcp_retries2", 15),
    finWait2: number(sysctls, "tcp_fin_timeout", 60) * SECOND,
    slowStartAfterIdle: flag(sysctls, "tcp_slow_start_after_idle", true),
    congestion: CONGESTION_CONTROLS.includes(control) ? control : "reno",
    slowStartExit: "hystart-linux",
    pacing: "off",
  };
}

function freebsd(sysctls: Sysctls): ProfileOptions {
  const tcp = (name: string, otherwise: number): number => number(sysctls, `net.inet.tcp.${name}`, otherwise);
  return {
    initialCwndSegments: tcp("initcwnd_segments", 10),
    minRto: tcp("rexmit_min", 30) * MILLISECOND,
    initialRto: tcp("rexmit_initial", 1000) * MILLISECOND,
    delayedAck: tcp("delacktime", 40) * MILLISECOND,
    quickAcks: 0,
    ackEverySecondSegment: true,
    delayFinAck: false,
    receiveBufferBytes: tcp("recvspace", 65536),
    windowShift: 6,
    sendBufferBytes: tcp("sendspace", 32768),
    windowScale: tcp("rfc1323", 1) !== 0,
    timestamps: tcp("rfc1323", 1) !== 0,
    sack: tcp("sack.enable", 1) !== 0,
    rfc1337: true,
    dsack: true,
    ecn: (["off", "on", "accept"] as const)[tcp("ecn.enable", 2)] ?? "off",
    timeWait: 2 * tcp("msl", 30000) * MILLISECOND,
    finWait2: tcp("finwait2_timeout", 60000) * MILLISECOND,
    slowStartAfterIdle: true,
    congestion: "reno",
    pacing: "off",
  };
}

function words(sysctls: Sysctls, name: string): number[] {
  return (sysctls.get(name) ?? "").split(/\s+/).filter((word) => word !== "").map(Number);
}

function number(sysctls: Sysctls, name: string, otherwise: number): number {
  const value = Number(sysctls.get(name) ?? otherwise);
  return Number.isFinite(value) ? value : otherwise;
}

function flag(sysctls: Sysctls, name: string, otherwise: boolean): boolean {
  return number(sysctls, name, otherwise ? 1 : 0) !== 0;
}

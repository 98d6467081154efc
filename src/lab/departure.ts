/**
 * The experiment `departure`: how late packets leave, in real time, by the sleeper that waits for them and the UDP port
 * that takes them.
 *
 * ```text
 *   flow i of n:  a UDP socket whose datagrams have departure times of an absolute schedule,
 *                 start + i × gap ÷ n + k × gap
 *        │  some 10 ms ahead of their time; each one that leaves brings its flow's next
 *        ▼
 *   FQ ─► driver, woken by the sleeper ─► the UDP port ─► a socket of the loopback
 *        ▲                                    │
 *        not before the departure time:       when the socket has been given the packet: lateness
 *        how late the host awoke
 * ```
 *
 * Everything between the sockets and the system is what a host runs. The schedule does not move with what is late, so
 * lateness that adds up is seen, and the mean rate has to be kept. Packets of the first moments are not counted: what
 * the runtime has not compiled yet is late once. CPU time is that of the whole process, with what the experiment itself
 * costs (some microseconds a packet), and that of a host without traffic is measured too.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import { type Duration, type Instant, MILLISECOND, SECOND, toMilliseconds } from "../base/time.ts";
import { MonotonicClock } from "../runtime/clock.ts";
import { type DrivenStack, Driver } from "../runtime/driver.ts";
import type { SleeperKind } from "../runtime/sleeper.ts";
import type { PortContext, UdpPort } from "../runtime/udp_port.ts";
import { SystemUnderlay } from "../runtime/underlay.ts";
import { parseHostConfig } from "../stack/config.ts";
import { Stack } from "../stack/stack.ts";
import { UdpSocket } from "../udp/udp_socket.ts";
import { IpAddr } from "../wire/ip_addr.ts";
import { LatencyHistogram } from "./workload/latency.ts";

/** A UDP port that is measured. */
export type DeparturePort = "dgram" | "deno" | "linux";

/** All of them. */
export const DEPARTURE_PORTS: readonly DeparturePort[] = ["dgram", "deno", "linux"];

/** The sleepers that are measured. */
export const DEPARTURE_SLEEPERS: readonly SleeperKind[] = ["timeout", "hop", "ppoll", "spin"];

/** Flows that send at a fixed gap. */
export interface DepartureLoad {
  /** How many flows; their times are spread evenly over the gap. */
  readonly flows: number;
  /** Time between two packets of a flow. */
  readonly gap: Duration;
}

/** The loads that are measured; none has more than 20,000 packets a second. */
export const DEPARTURE_LOADS: readonly DepartureLoad[] = [
  { flows: 1, gap: MILLISECOND / 10 },
  { flows: 10, gap: 10 * MILLISECOND },
  { flows: 100, gap: 50 * MILLISECOND },
  { flows: 1000, gap: 50 * MILLISECOND },
];

/**
 * The 99th percentile that a sleeper keeps on an idle machine, in milliseconds; `null` where nothing is promised: to
 * watch the clock without a pause suits at most 2,000 packets a second.
 */
export function departureGoal(sleeper: SleeperKind, packetsPerSec: number): number | null {
  if (sleeper === "spin") return packetsPerSec <= 2000 ? 0.03 : null;
  return { timeout: 4, hop: 0.5, ppoll: 0.3 }[sleeper];
}

/** What the experiment needs of the outside. */
export interface DepartureEnvironment {
  /** A UDP port of 127.0.0.1 where somebody is bound who does not answer. */
  readonly sinkPort: number;
  /** The CPU time that the process has used so far. */
  cpuTime(): Duration;
  /** Resolves after a time without use of the host. */
  delay(milliseconds: number): Promise<void>;
}

/** Packets that left within a range of lateness. */
export interface DepartureBin {
  /** The least lateness, in milliseconds. */
  from: number;
  /** The lateness that all were below, in milliseconds. */
  to: number;
  /** How many packets. */
  count: number;
}

/** How one load left. */
export interface DepartureResult {
  /** The UDP port. */
  port: DeparturePort;
  /** The sleeper. */
  sleeper: SleeperKind;
  /** Flows. */
  flows: number;
  /** Time between two packets of a flow, in milliseconds. */
  gap: number;
  /** Packets a second that were to leave. */
  packetsPerSec: number;
  /** Packets that left. */
  packets: number;
  /** Packets that never did. */
  missing: number;
  /** Packets that left before their time. */
  early: number;
  /** 99th percentile in milliseconds of how late the host awoke to packets, the sleeper's part; the rest is what followed. */
  wokeP99: number;
  /** Median lateness in milliseconds. */
  p50: number;
  /** 99th percentile. */
  p99: number;
  /** The greatest. */
  max: number;
  /** What p99 is to be at most on an idle machine, or `null`. */
  goal: number | null;
  /** How far the rate at which they left differs from the schedule's, as a share of it. */
  rateError: number;
  /** CPU time of the process over wall time. */
  cpuShare: number;
  /** The distribution of lateness. */
  histogram: DepartureBin[];
}

/** A host without traffic. */
export interface IdleResult {
  /** The UDP port. */
  port: DeparturePort;
  /** The sleeper. */
  sleeper: SleeperKind;
  /** CPU time of the process over wall time. */
  cpuShare: number;
}

/** Payload of a datagram, in bytes. */
const PAYLOAD_BYTES = 64;

/** How long packets leave before they are counted. */
const WARM_UP: Duration = 200 * MILLISECOND;

/** How far ahead of its time a packet is queued, and how many of a flow are at most. */
const AHEAD: Duration = 20 * MILLISECOND;
const AHEAD_PACKETS = 90;

/** How long the last packets are waited for. */
const PATIENCE: Duration = SECOND;

const SINK = "10.7.0.2";
const SINK_DATAGRAM_PORT = 9;

/** Bins of the distribution: four an octave, from a quarter of a microsecond on. */
const BINS_PER_OCTAVE = 4;
const BINS = 96;
const FIRST_BIN: Duration = 250;

/** Measures one load over one port with one sleeper, for so many seconds. */
export async function runDeparture(
  port: DeparturePort,
  sleeper: SleeperKind,
  load: DepartureLoad,
  seconds: number,
  environment: DepartureEnvironment,
): Promise<DepartureResult> {
  const schedule = new Schedule(load, seconds);
  await using host = await ProbedHost.open(port, sleeper, environment.sinkPort, load.flows);
  const record = new Departures(schedule, environment, (n) => host.send(n, schedule));
  host.onDeparted = (departAt) => record.departed(departAt, host.now());
  host.onPulled = (departAt, now) => record.pulled(departAt, now);
  schedule.begin(host.now() + AHEAD);
  for (let n = 0; n < schedule.aheadPackets; n++) host.send(n, schedule);
  await host.sleepUntil(schedule.end);
  for (const until = schedule.end + PATIENCE; record.missing > 0 && host.now() < until;) {
    await host.sleepUntil(host.now() + MILLISECOND);
  }
  const packetsPerSec = load.flows / load.gap * SECOND;
  return {
    port,
    sleeper,
    flows: load.flows,
    gap: toMilliseconds(load.gap),
    packetsPerSec,
    ...record.result(),
    early: Math.max(host.early, record.early),
    goal: departureGoal(sleeper, packetsPerSec),
  };
}

/** Measures what a host without traffic costs. */
export async function runIdle(
  port: DeparturePort,
  sleeper: SleeperKind,
  seconds: number,
  environment: DepartureEnvironment,
): Promise<IdleResult> {
  await using host = await ProbedHost.open(port, sleeper, environment.sinkPort, 0);
  await environment.delay(WARM_UP / MILLISECOND);
  const [cpu, from] = [environment.cpuTime(), host.now()];
  await environment.delay(seconds * 1000);
  return { port, sleeper, cpuShare: (environment.cpuTime() - cpu) / (host.now() - from) };
}

/** When packet `n` of all flows is to leave: their turns are one after the other. */
class Schedule {
  readonly flows: number;
  /** How many packets of all flows are queued. */
  readonly aheadPackets: number;
  /** The first packet that counts, and the one behind the last. */
  readonly firstCounted: number;
  readonly endPacket: number;
  start: Instant = 0;
  readonly #step: Duration;

  constructor({ flows, gap }: DepartureLoad, seconds: number) {
    this.flows = flows;
    this.#step = gap / flows;
    this.aheadPackets = flows * Math.max(2, Math.min(AHEAD_PACKETS, Math.ceil(AHEAD / gap)));
    this.firstCounted = Math.ceil(WARM_UP / this.#step);
    this.endPacket = this.firstCounted + Math.max(2, Math.round(seconds * SECOND / this.#step));
  }

  begin(start: Instant): void {
    this.start = start;
  }

  stampOf(n: number): Instant {
    return this.start + Math.round(n * this.#step);
  }

  packetOf(stamp: Instant): number {
    return Math.round((stamp - this.start) / this.#step);
  }

  get end(): Instant {
    return this.stampOf(this.endPacket);
  }
}

/** What is known of the packets that left. */
class Departures {
  readonly #schedule: Schedule;
  readonly #environment: DepartureEnvironment;
  readonly #queueNext: (n: number) => void;
  readonly #lateness = new LatencyHistogram();
  readonly #woke = new LatencyHistogram();
  readonly #bins = new Float64Array(BINS);
  /** Packets that the socket was given before their time. */
  early = 0;
  #count = 0;
  #firstAt: Instant = 0;
  #lastAt: Instant = 0;
  #firstStamp: Instant = 0;
  #lastStamp: Instant = 0;
  #firstCpu: Duration = 0;
  #lastCpu: Duration = 0;

  constructor(schedule: Schedule, environment: DepartureEnvironment, queueNext: (n: number) => void) {
    this.#schedule = schedule;
    this.#environment = environment;
    this.#queueNext = queueNext;
  }

  /** Packets that are still to leave. */
  get missing(): number {
    return this.#schedule.endPacket - this.#schedule.firstCounted - this.#count;
  }

  /** A turn that began at `now` took the packet of this departure time out of the queue. */
  pulled(departAt: Instant, now: Instant): void {
    if (this.#schedule.packetOf(departAt) >= this.#schedule.firstCounted) this.#woke.record(now - departAt);
  }

  /** The socket was given the packet of this departure time. */
  departed(departAt: Instant, now: Instant): void {
    const schedule = this.#schedule;
    const n = schedule.packetOf(departAt);
    const next = n + schedule.aheadPackets;
    if (next < schedule.endPacket) this.#queueNext(next);
    if (n < schedule.firstCounted) return;
    const late = now - departAt;
    if (late < 0) this.early++;
    this.#lateness.record(late);
    this.#bins[binOf(late)]! += 1;
    if (this.#count++ === 0) {
      this.#firstAt = now;
      this.#firstStamp = departAt;
      this.#firstCpu = this.#environment.cpuTime();
    }
    if (this.missing === 0) this.#lastCpu = this.#environment.cpuTime();
    this.#lastAt = now;
    this.#lastStamp = Math.max(this.#lastStamp, departAt);
  }

  result(): Pick<
    DepartureResult,
    "packets" | "missing" | "wokeP99" | "p50" | "p99" | "max" | "rateError" | "cpuShare" | "histogram"
  > {
    const lateness = this.#lateness;
    const span = this.#lastAt - this.#firstAt;
    const cpu = (this.missing === 0 ? this.#lastCpu : this.#environment.cpuTime()) - this.#firstCpu;
    return {
      packets: this.#count,
      missing: this.missing,
      wokeP99: this.#woke.percentile(99) ?? 0,
      p50: lateness.percentile(50) ?? 0,
      p99: lateness.percentile(99) ?? 0,
      max: lateness.percentile(100) ?? 0,
      rateError: span > 0 ? (this.#lastStamp - this.#firstStamp) / span - 1 : 0,
      cpuShare: span > 0 ? cpu / span : 0,
      histogram: [...this.#bins].flatMap((count, bin) =>
        count === 0 ? [] : [{ from: toMilliseconds(binFrom(bin)), to: toMilliseconds(binFrom(bin + 1)), count }]
      ),
    };
  }
}

function binOf(late: Duration): number {
  if (late < FIRST_BIN) return 0;
  return Math.min(BINS - 1, 1 + Math.floor(Math.log2(late / FIRST_BIN) * BINS_PER_OCTAVE));
}

function binFrom(bin: number): Duration {
  return bin === 0 ? 0 : FIRST_BIN * 2 ** ((bin - 1) / BINS_PER_OCTAVE);
}

/** A host's stack, driver, sleeper and port, with an eye on what the port is given. */
class ProbedHost implements AsyncDisposable {
  onDeparted: (departAt: Instant) => void = () => {};
  onPulled: (departAt: Instant, now: Instant) => void = () => {};
  /** Packets that were pulled before their time. */
  early = 0;
  readonly #clock = new MonotonicClock();
  readonly #stack: Stack;
  readonly #sockets: UdpSocket[] = [];
  readonly #payload = new Uint8Array(PAYLOAD_BYTES);
  readonly #remote: IpAddr = IpAddr.parse(SINK);
  #driver: Driver | null = null;
  #fault: unknown = null;

  private constructor(stack: Stack, flows: number) {
    this.#stack = stack;
    for (let i = 0; i < flows; i++) {
      const socket = stack.udp.bind(IpAddr.ANY_V4, 0);
      if (!(socket instanceof UdpSocket)) throw new Error("no port is free for another flow");
      this.#sockets.push(socket);
    }
  }

  static async open(port: DeparturePort, sleeper: SleeperKind, sinkPort: number, flows: number): Promise<ProbedHost> {
    const config = parseHostConfig({
      address: "10.7.0.1/24",
      listen: "127.0.0.1:0",
      peers: [{ name: "sink", endpoint: `127.0.0.1:${sinkPort}`, allowed: SINK }],
      seed: 1,
      port,
      sleeper,
    });
    const host = new ProbedHost(new Stack(config), flows);
    const fault = (error: unknown): void => {
      host.#fault ??= error;
    };
    const { pool, drops } = host.#stack;
    const context: PortContext = { pool, drops, fault, departed: (departAt) => host.onDeparted(departAt) };
    const underlay = new SystemUnderlay(config.port, config.sleeper);
    const ports: UdpPort[] = [];
    try {
      for (const { address, port } of config.listen) ports.push(await underlay.open(address, port, context));
      host.#driver = new Driver({
        stack: host.#probed(),
        clock: host.#clock,
        ports,
        sleeper: underlay.makeSleeper(ports),
        onFault: fault,
      });
    } catch (error) {
      await Promise.all(ports.map((port) => port.close()));
      throw error;
    }
    host.#driver.hold();
    return host;
  }

  now(): Instant {
    return this.#clock.now();
  }

  /** Resolves at or after `at`; rejects with what has gone wrong in the host. */
  async sleepUntil(at: Instant): Promise<void> {
    await this.#driver!.sleepUntil(at);
    if (this.#fault !== null) throw this.#fault;
  }

  /** Queues packet `n` of the schedule. */
  send(n: number, schedule: Schedule): void {
    const stack = this.#stack;
    const now = this.#clock.now();
    const departAt = schedule.stampOf(n);
    this.#sockets[n % schedule.flows]!.send(this.#payload, this.#remote, SINK_DATAGRAM_PORT, now, departAt);
    // Whatever else is queued is due earlier, and the driver waits for that.
    if (stack.qdisc.backlogPackets <= 1 || departAt <= now) this.#driver!.wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#driver!.stop(new Error("the experiment is over"));
    this.#driver!.letGo();
    this.#stack.close(this.now());
  }

  /** The stack as the driver sees it, which tells of packets that are pulled too early. */
  #probed(): DrivenStack {
    const stack = this.#stack;
    return {
      pool: stack.pool,
      drops: stack.drops,
      tunnel: stack.tunnel,
      inputDatagram: (p, w0, w1, w2, w3, port, now) => stack.inputDatagram(p, w0, w1, w2, w3, port, now),
      timeout: (now) => stack.timeout(now),
      setLateness: (lateness) => stack.setLateness(lateness),
      pull: (now) => this.#pull(now),
      nextAt: () => stack.nextAt(),
      pollEvent: () => stack.pollEvent(),
    };
  }

  #pull(now: Instant): Packet | null {
    const p = this.#stack.pull(now);
    if (p === null) return null;
    if (p.departAt > this.#clock.now()) this.early++;
    this.onPulled(p.departAt, now);
    return p;
  }
}

/**
 * The loop that drives a stack over UDP ports in real time.
 *
 * ```text
 *   one turn:  read the clock once
 *              → at most 64 datagrams a port, and packets of a device, into the stack
 *              → due timers; connections write what they have to say
 *              → at most 64 packets out, and no more than the ports have room for
 *              → events to the sockets
 *              → sleep until the next deadline, a datagram, room in a port, or a wake()
 * ```
 *
 * A port that reads its socket when it is called is asked for more at the end of a turn that it had nothing for: then
 * what is sent does not wait for a look at an empty socket.
 *
 * A turn runs from the event loop, never inside a call of a socket: many writes in a row make one turn, and neither
 * side nor the program starves, since the event loop goes round between turns. There is one exception: when a turn has
 * brought something to sockets, what the program does at once about it does not wait for the event loop, but only until
 * the program has made no call for some rounds of microtasks. Such a turn has no successor of its kind. An idle host has
 * nothing armed. A turn that finds nothing to do although the stack said "now" is not repeated at full speed.
 *
 * A port that hands its packets to the runtime one at a time may take longer for a batch than the next departure is away. So
 * when it has sent all, the driver has a turn if something is due by then.
 *
 * An exception in a turn is a fault of the program. It stops the driver and is handed to `onFault`; nothing is
 * swallowed.
 *
 * @module
 */

import { clearImmediate, clearInterval, setImmediate, setInterval } from "node:timers";
import { DropReason } from "../base/drop.ts";
import { DeadlineHeap } from "../base/deadline_heap.ts";
import { type Duration, type Instant, MILLISECOND, NEVER } from "../base/time.ts";
import type { SocketUser } from "../socket/engine.ts";
import type { Stack } from "../stack/stack.ts";
import type { Clock } from "./clock.ts";
import { Lateness, type LatenessStats } from "./lateness.ts";
import { type MakeSleeper, type Sleeper, TimerSleeper } from "./sleeper.ts";
import type { PacketDevice } from "./packet_device.ts";
import { isPolled, type PolledPort, type UdpPort } from "./udp_port.ts";

/** Datagrams a port and packets that one turn takes. */
const BUDGET = 64;

/**
 * Turns of the event loop between two turns of the driver once a batch has been sent without a pause. While something
 * is ready to run, the runtime looks at its sockets in every 61st turn only; without these, input and acknowledgments
 * would wait for 61 batches of output.
 */
const LOOK_TURNS = 61;

/**
 * Rounds of microtasks without a call that an answer waits for: enough to come from one awaited write of a stream to the
 * next, so that both go together.
 */
const ANSWER_ROUNDS = 6;

/** So often is there a turn for what became due while packets were being sent; then the runtime looks at its sockets first. */
const OVERTIME_TURNS = 8;

/** How often the stack may say "now" without there being anything to do. */
const IDLE_TURNS = 8;

/** How many turns pass before the stack is told anew how late departures are, if the turn was slept for. */
const LATENESS_TURNS = 16;

/** How long the driver sleeps when ports have no room, or when "now" turned out to be nothing. */
const BACK_OFF: Duration = 5 * MILLISECOND;

/** Longest interval of a timer, used to keep the process alive. */
const FOREVER_MILLISECONDS = 2 ** 31 - 1;

/** The part of a stack that the driver uses. */
export type DrivenStack =
  & Pick<Stack, "inputDatagram" | "timeout" | "setLateness" | "pull" | "nextAt" | "pollEvent" | "drops" | "pool">
  & {
    /** Finds the peer that a packet leaves to, and encapsulates the packet. */
    readonly tunnel: Pick<NonNullable<Stack["tunnel"]>, "output"> | null;
  };

/** What a driver is made of. */
export interface DriverOptions {
  /** What is driven. */
  stack: DrivenStack;
  /** What the time is read from. */
  clock: Clock;
  /** The ports, at most one an address family. */
  ports: readonly UdpPort[];
  /** A device of the system whose interface is one of the stack's; none, if left out. */
  device?: PacketDevice | null;
  /** Makes what it waits by; ports that are to be looked at need one that does. Default: the `hop` sleeper. */
  sleeper?: MakeSleeper;
  /** Told of an exception in a turn; the driver has stopped. */
  onFault: (error: unknown) => void;
}

/** Counters of a driver. */
export interface DriverStats {
  /** Turns of the loop. */
  turns: number;
  /** Packets handed to the ports and to the device. */
  packetsOut: number;
  /** Datagrams taken from the ports, and packets from the device. */
  datagramsIn: number;
  /** How late the loop was at the deadlines that it slept for. */
  lateness: LatenessStats;
}

interface Waiter {
  resolve(): void;
  reject(reason: unknown): void;
}

/** Drives one stack. */
export class Driver {
  readonly #stack: DrivenStack;
  readonly #clock: Clock;
  readonly #ports: readonly UdpPort[];
  readonly #device: PacketDevice | null;
  readonly #portV4: UdpPort | null;
  readonly #portV6: UdpPort | null;
  readonly #sleeper: Sleeper;
  readonly #onFault: (error: unknown) => void;
  readonly #turn: () => void;
  readonly #look: () => void;
  readonly #answer: () => void;
  readonly #polledPorts: readonly PolledPort[];
  readonly #lateness = new Lateness();
  readonly #deadlines = new DeadlineHeap();
  readonly #waiters: (Waiter | null)[] = [];
  readonly #freeWaiters: number[] = [];
  #scheduled: ReturnType<typeof setImmediate> | null = null;
  #running = false;
  #stoppedBy: Error | null = null;
  /** True from a turn that brought something to sockets until the program asks for the next one. */
  #mayAnswer = false;
  /** Rounds of microtasks until the answer's turn; 0 if there is none. */
  #answerRounds = 0;
  #sleptUntil: Instant = NEVER;
  #idleTurns = 0;
  #overtime = 0;
  #looksLeft = 0;
  #sentSinceLook = 0;
  #turns = 0;
  #packetsOut = 0;
  #datagramsIn = 0;
  #holds = 0;
  #keepAlive: ReturnType<typeof setInterval> | null = null;
  #closing: Promise<void> | null = null;

  /** Makes a driver at rest; the first turn follows at once. The process is not kept alive until `hold` is called. */
  constructor(options: DriverOptions) {
    this.#stack = options.stack;
    this.#clock = options.clock;
    this.#ports = options.ports;
    this.#device = options.device ?? null;
    this.#portV4 = options.ports.find((port) => port.address.isV4) ?? null;
    this.#portV6 = options.ports.find((port) => !port.address.isV4) ?? null;
    this.#onFault = options.onFault;
    this.#turn = () => this.#runTurn();
    this.#answer = () => {
      if (--this.#answerRounds > 0) return queueMicrotask(this.#answer);
      if (this.#scheduled !== null) return;
      this.#runTurn();
      this.#mayAnswer = false;
    };
    this.#look = () => {
      this.#scheduled = setImmediate(--this.#looksLeft > 0 ? this.#look : this.#turn);
    };
    const makeSleeper: MakeSleeper = options.sleeper ?? ((clock, onDue) => new TimerSleeper("hop", clock, onDue));
    this.#sleeper = makeSleeper(options.clock, this.#turn);
    this.#polledPorts = options.ports.filter(isPolled);
    if (this.#device !== null) this.#device.onReadable = this.#turn;
    for (const port of options.ports) {
      port.onReadable = isPolled(port) ? this.#turn : () => {
        this.#looksLeft = 0;
        this.wake();
      };
      port.onWritable = () => {
        if (!this.#running) this.#lookThenTurn();
      };
      if (!isPolled(port)) port.onSent = () => this.#sent();
    }
    this.wake();
  }

  /** True once it has stopped. */
  get isStopped(): boolean {
    return this.#stoppedBy !== null;
  }

  /** The present instant. */
  now(): Instant {
    return this.#clock.now();
  }

  /** Has a turn run soon: after the code that runs now and what it made ready, before the event loop waits. */
  wake(): void {
    if (this.#scheduled !== null || this.#running || this.#stoppedBy !== null) return;
    if (this.#answerRounds > 0) {
      this.#answerRounds = ANSWER_ROUNDS;
    } else if (this.#mayAnswer) {
      this.#mayAnswer = false;
      this.#answerRounds = ANSWER_ROUNDS;
      queueMicrotask(this.#answer);
    } else {
      this.#scheduled = setImmediate(this.#turn);
    }
  }

  /**
   * Resolves at or after `at`.
   *
   * @param signal rejects with its reason
   */
  sleepUntil(at: Instant, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#stoppedBy !== null) return Promise.reject(this.#stoppedBy);
    return new Promise<void>((resolve, reject) => {
      const id = this.#freeWaiters.pop() ?? this.#waiters.length;
      const onAbort = () => {
        this.#deadlines.clear(id);
        this.#takeWaiter(id)?.reject(signal!.reason);
      };
      const settle = <T>(settled: (value: T) => void) => (value: T) => {
        signal?.removeEventListener("abort", onAbort);
        settled(value);
      };
      this.#waiters[id] = { resolve: settle<void>(resolve), reject: settle(reject) };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#deadlines.set(id, at);
      this.wake();
    });
  }

  /** Keeps the process alive until `letGo` was called as often. */
  hold(): void {
    if (this.#holds++ === 0 && this.#stoppedBy === null) {
      this.#keepAlive = setInterval(() => {}, FOREVER_MILLISECONDS);
      this.#sleeper.keepAlive(true);
    }
  }

  /** Undoes one `hold`. */
  letGo(): void {
    // While it stops, the process is kept alive until it has.
    if (--this.#holds !== 0 || this.#stoppedBy !== null) return;
    this.#endKeepAlive();
    this.#sleeper.keepAlive(false);
  }

  /** The counters. */
  stats(): DriverStats {
    return {
      turns: this.#turns,
      packetsOut: this.#packetsOut,
      datagramsIn: this.#datagramsIn,
      lateness: this.#lateness.stats(),
    };
  }

  /** Resolves when no packet is on its way through the stack or a port, at the latest at `deadline`. */
  async drain(deadline: Instant): Promise<void> {
    this.wake();
    while (this.#stoppedBy === null && this.#stack.pool.inUse > 0 && this.now() < deadline) {
      await this.sleepUntil(Math.min(deadline, this.now() + MILLISECOND)).catch(() => {});
    }
  }

  /**
   * Stops the loop and closes the ports. Whoever sleeps is rejected with `reason`.
   *
   * @throws what kept a port from being closed; the others are closed then
   */
  async stop(reason: Error): Promise<void> {
    if (this.#stoppedBy === null) {
      this.#stoppedBy = reason;
      if (this.#scheduled !== null) clearImmediate(this.#scheduled);
      this.#scheduled = null;
      this.#sleeper.cancel();
      for (let id = 0; id < this.#waiters.length; id++) this.#takeWaiter(id)?.reject(reason);
    }
    // What the ports wait for does not keep the process alive by itself.
    this.#keepAlive ??= setInterval(() => {}, FOREVER_MILLISECONDS);
    try {
      await (this.#closing ??= this.#closeAll());
    } finally {
      this.#endKeepAlive();
    }
  }

  async #closeAll(): Promise<void> {
    // Not while somebody waits for what is closed.
    await this.#sleeper.close();
    this.#device?.close();
    const closed = await Promise.allSettled(this.#ports.map((port) => port.close()));
    for (const result of closed) if (result.status === "rejected") throw result.reason;
  }

  #runTurn(): void {
    if (this.#scheduled !== null) {
      clearImmediate(this.#scheduled);
      this.#scheduled = null;
    }
    if (this.#stoppedBy !== null) return;
    this.#running = true;
    try {
      this.#run();
    } catch (error) {
      this.#onFault(error);
    } finally {
      this.#running = false;
    }
  }

  #run(): void {
    const now = this.#clock.now();
    this.#turns++;
    if (this.#sleptUntil <= now) {
      this.#lateness.record(now - this.#sleptUntil);
      this.#sleptUntil = NEVER;
      if (this.#turns % LATENESS_TURNS === 0) this.#stack.setLateness(this.#lateness.quantile(0.99));
    }
    const received = this.#receive(now);
    this.#stack.timeout(now);
    const sent = this.#send(now);
    for (const port of this.#polledPorts) port.fill();
    if (this.#device !== null) this.#device.fill();
    const woken = this.#wakeWaiters(now);
    const events = this.#deliver(now);
    this.#datagramsIn += received;
    this.#packetsOut += sent;
    this.#sentSinceLook += sent;
    if (received + sent > 0) this.#sleeper.traffic(now);
    this.#mayAnswer = received > 0 && events > 0;
    this.#sleep(received + sent + woken + events > 0, now);
  }

  #receive(now: Instant): number {
    let n = 0;
    for (const port of this.#ports) n += port.receive(BUDGET, this.#stack, now);
    return this.#device === null ? n : n + this.#device.receive(BUDGET, now);
  }

  #send(now: Instant): number {
    const tunnel = this.#stack.tunnel;
    const device = this.#device;
    if (tunnel === null && device === null) return 0;
    let room = BUDGET;
    for (const port of this.#ports) room = Math.min(room, port.room());
    let n = 0;
    for (; n < room; n++) {
      const p = this.#stack.pull(now);
      if (p === null) break;
      if (device !== null && p.ifindex === device.ifindex) {
        device.send(p);
        continue;
      }
      const peer = tunnel!.output(p);
      const port = peer.address.isV4 ? this.#portV4 : this.#portV6;
      if (port === null) {
        this.#stack.drops.count(DropReason.PortSend);
        this.#stack.pool.release(p);
      } else {
        port.send(p, peer.address, peer.port);
      }
    }
    if (n > 0) { for (const port of this.#ports) port.flush(); }
    return n;
  }

  #deliver(now: Instant): number {
    let n = 0;
    for (let source = this.#stack.pollEvent(); source !== null; source = this.#stack.pollEvent()) {
      const { events, user } = source;
      source.events = 0;
      (user as SocketUser | null)?.onEvents(events, now);
      n++;
    }
    return n;
  }

  #wakeWaiters(now: Instant): number {
    let n = 0;
    for (let id = this.#deadlines.popDue(now); id >= 0; id = this.#deadlines.popDue(now)) {
      this.#takeWaiter(id)?.resolve();
      n++;
    }
    return n;
  }

  #takeWaiter(id: number): Waiter | null {
    const waiter = this.#waiters[id] ?? null;
    if (waiter !== null) {
      this.#waiters[id] = null;
      this.#freeWaiters.push(id);
    }
    return waiter;
  }

  #sleep(progress: boolean, now: Instant): void {
    if (this.#stoppedBy !== null) return;
    this.#idleTurns = progress ? 0 : this.#idleTurns + 1;
    const isWaiting = (this.#device?.waiting ?? 0) > 0 || this.#ports.some((port) => port.waiting > 0);
    const next = Math.min(this.#stack.nextAt(), this.#deadlines.nextAt());
    if (isWaiting || next <= now) {
      this.#sleptUntil = NEVER;
      const isBlocked = !isWaiting && this.#ports.some((port) => port.room() === 0);
      // A turn may make no progress that shows here and leave datagrams waiting: packets moved from one stage to the next.
      if (isWaiting || (!isBlocked && this.#idleTurns < IDLE_TURNS)) {
        if (isWaiting || this.#polledPorts.length === this.#ports.length || this.#sentSinceLook < BUDGET) {
          this.#scheduled = setImmediate(this.#turn);
        } else this.#lookThenTurn();
      } else {
        this.#sleeper.sleepUntil(now + BACK_OFF, now);
      }
      return;
    }
    this.#sentSinceLook = 0;
    this.#sleptUntil = next;
    this.#sleeper.sleepUntil(next, now);
  }

  /** A port has sent all it was given: what became due meanwhile does not wait for a timer, since the loop is awake. */
  #sent(): void {
    if (this.#running || this.#scheduled !== null || this.#sleptUntil > this.#clock.now()) return;
    if (++this.#overtime < OVERTIME_TURNS) {
      this.#scheduled = setImmediate(this.#turn);
    } else {
      this.#overtime = 0;
      this.#lookThenTurn();
    }
  }

  /** Has a turn run after the runtime has looked at its sockets. */
  #lookThenTurn(): void {
    if (this.#scheduled !== null || this.#stoppedBy !== null) return;
    this.#sentSinceLook = 0;
    this.#looksLeft = LOOK_TURNS;
    this.#scheduled = setImmediate(this.#look);
  }

  #endKeepAlive(): void {
    if (this.#keepAlive !== null) clearInterval(this.#keepAlive);
    this.#keepAlive = null;
  }
}

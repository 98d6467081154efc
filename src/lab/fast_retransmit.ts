/**
 * The experiment `fast-retransmit`: goodput under loss by size of the buffers, and many flows through a shallow queue.
 *
 * ```text
 *   single:  a ──── 50 ms, loss in both directions ──── b            10 MiB, buffers of 128 B … 32 KiB
 *
 *   multi:   a1 ─┐                          ┌─ 25 … 75 ms ─ b1       2 MiB each, buffers of 256 KiB
 *            a2 ─┼─ 200 Mbit/s, 64 KiB ─────┼─ 25 … 75 ms ─ b2       the same transmitter and delays back
 *            …  ─┘  drop-tail, each way     └─      …
 * ```
 *
 * Network, workload and metrics are those of smoltcp's `tests/netsim.rs` (see smoltcp_tables.ts), so that cells compare:
 * IP packets of up to 1,500 bytes, whose 14 bytes of Ethernet count in the queue; one buffer size for sending and
 * receiving on both ends; applications that are never the limit; the end when every flow has its bytes, those that were
 * faster sending on; bytes received over all of the time, handshake included. Different are the random streams, and there
 * is no ARP. TCP has the defaults of this stack but for giving up, which it never does.
 *
 * A cell is one run with one seed, a plain value that can be handed to a worker; so is its result.
 *
 * @module
 */

import { type Duration, MILLISECOND, SECOND } from "../base/time.ts";
import { Simulator } from "../netsim/simulator.ts";
import type { SimDirectionOptions } from "../netsim/topology.ts";
import type { HostOptions } from "../stack/config.ts";
import type { Stack } from "../stack/stack.ts";
import type { PacingMode } from "../tcp/pacing.ts";
import type { Tcb } from "../tcp/tcb.ts";
import { BulkSink, BulkSource, openBulk } from "./bulk.ts";
import { jainIndex } from "./statistics.ts";

/** What a fast retransmit sends again: the oldest segment, then what is known to be lost; or all that is outstanding. */
export type FastRetransmit = "oldest" | "whole-buffer";

/** One flow over a path of 100 ms that loses packets in both directions. */
export interface SingleFlowCell {
  /** Which of the two networks. */
  kind: "single";
  /** Congestion control by name. */
  control: string;
  /** Send and receive buffers of both ends. */
  bufferBytes: number;
  /** Probability that a packet is lost, each way. */
  loss: number;
  /** Seed of all randomness. */
  seed: number;
  /** How departures are spaced. */
  pacing: PacingMode;
  /** What a fast retransmit sends again. */
  fastRetransmit: FastRetransmit;
  /** Bytes to be received (default 10 MiB). */
  transferBytes?: number;
}

/** Flows that share a transmitter of 200 Mbit/s with a queue of 64 KiB in each direction. */
export interface MultiFlowCell {
  /** Which of the two networks. */
  kind: "multi";
  /** Congestion control by name. */
  control: string;
  /** Number of flows. */
  flows: number;
  /** Seed of all randomness. */
  seed: number;
  /** How departures are spaced. */
  pacing: PacingMode;
  /** What a fast retransmit sends again. */
  fastRetransmit: FastRetransmit;
  /** Bytes to be received by each flow (default 2 MiB). */
  transferBytes?: number;
}

/** One run. */
export type FastRetransmitCell = SingleFlowCell | MultiFlowCell;

/** What a run gave. */
export interface FastRetransmitResult {
  /** Bytes received in a second of virtual time, all flows together. */
  throughputBytesPerSec: number;
  /** The same of the slowest flow. */
  leastBytesPerSec: number;
  /** The same of the fastest flow. */
  mostBytesPerSec: number;
  /** Jain's index of what the flows received. */
  fairness: number;
  /** Packets that found the queue full, of all that came to it, both ways together. */
  dropRatio: number;
  /** Virtual time that it took. */
  seconds: number;
  /** Data bytes that the senders sent again, of all that they sent. */
  retransmittedRatio: number;
  /** Timeouts of retransmission at the senders. */
  timeouts: number;
}

/** Round-trip time of the single flow, and middle of those of many. */
const RTT: Duration = 100 * MILLISECOND;

/** Rate of the shared transmitter: 200 Mbit/s. */
export const MULTI_RATE_BYTES_PER_SEC = 25_000_000;

const MULTI_QUEUE_BYTES = 65_536;
const MULTI_BUFFER_BYTES = 262_144;
const ETHERNET_HEADER_BYTES = 14;
const SINGLE_TRANSFER_BYTES = 10 << 20;
const MULTI_TRANSFER_BYTES = 2 << 20;

/** Where a run is given up: 100 days. */
const END = 100 * 86_400 * SECOND;

/** So often that it never happens. */
const NEVER_GIVE_UP = 1 << 30;

interface Flow {
  sender: Tcb;
  sink: BulkSink;
}

interface FlowOptions {
  index: number;
  cell: FastRetransmitCell;
  bufferBytes: number;
  forth: SimDirectionOptions;
  back: SimDirectionOptions;
}

/** Runs one cell. */
export function runFastRetransmitCell(cell: FastRetransmitCell): FastRetransmitResult {
  return cell.kind === "single" ? runSingle(cell) : runMulti(cell);
}

function runSingle(cell: SingleFlowCell): FastRetransmitResult {
  const sim = new Simulator({ seed: cell.seed, digest: false });
  const way = { delay: RTT / 2, impair: `loss ${cell.loss * 100}% limit 1000000` };
  const flow = addFlow(sim, { index: 0, cell, bufferBytes: cell.bufferBytes, forth: way, back: way });
  return finish(sim, [flow], cell.transferBytes ?? SINGLE_TRANSFER_BYTES, 0);
}

function runMulti(cell: MultiFlowCell): FastRetransmitResult {
  const sim = new Simulator({ seed: cell.seed, digest: false });
  const shared = {
    rateBytesPerSec: MULTI_RATE_BYTES_PER_SEC,
    queueBytes: MULTI_QUEUE_BYTES,
    overheadBytes: ETHERNET_HEADER_BYTES,
  };
  const north = sim.addBottleneck("north", shared);
  const south = sim.addBottleneck("south", shared);
  const flows = Array.from({ length: cell.flows }, (_, index) => {
    const rng = sim.rng.fork("one-way delays").fork(`${index}`);
    const delay = (): Duration => Math.round((0.5 + rng.unit()) * RTT / 2);
    const forth = { bottleneck: north, delay: delay() };
    const back = { bottleneck: south, delay: delay() };
    return addFlow(sim, { index, cell, bufferBytes: MULTI_BUFFER_BYTES, forth, back });
  });
  const result = finish(sim, flows, cell.transferBytes ?? MULTI_TRANSFER_BYTES, 0);
  const offered = north.offeredPackets + south.offeredPackets;
  return { ...result, dropRatio: (north.droppedPackets + south.droppedPackets) / offered };
}

/** A sender and a receiver of their own, joined by a link, and a connection between them. */
function addFlow(sim: Simulator, { index, cell, bufferBytes, forth, back }: FlowOptions): Flow {
  const sink = new BulkSink();
  const a = addEnd(sim, `a${index}`, "10.0.0.1", "10.0.0.2", cell, bufferBytes, new BulkSource());
  const b = addEnd(sim, `b${index}`, "10.0.0.2", "10.0.0.1", cell, bufferBytes, sink);
  sim.link([`a${index}`, 1], [`b${index}`, 1], forth, back);
  return { sender: openBulk(a, b, "10.0.0.2", sim.now), sink };
}

function addEnd(
  sim: Simulator,
  name: string,
  own: string,
  other: string,
  cell: FastRetransmitCell,
  bufferBytes: number,
  app: BulkSink | BulkSource,
): Stack {
  const tcp: HostOptions["tcp"] = {
    congestion: cell.control,
    pacing: cell.pacing,
    fastRetransmit: cell.fastRetransmit,
    sendBufferBytes: bufferBytes,
    receiveBufferBytes: bufferBytes,
    retries: NEVER_GIVE_UP,
    synRetries: NEVER_GIVE_UP,
    synAckRetries: NEVER_GIVE_UP,
  };
  const peers = [{ name: "other", allowed: other, mtu: 1500 }];
  return sim.addStack(name, { address: `${own}/24`, peers, tcp }, app);
}

function finish(sim: Simulator, flows: readonly Flow[], targetBytes: number, dropRatio: number): FastRetransmitResult {
  let waiting = 0; // flows before it have all their bytes
  const isDone = (): boolean => {
    while (waiting < flows.length && flows[waiting]!.sink.bytes >= targetBytes) waiting++;
    return waiting === flows.length;
  };
  if (!sim.run(END, isDone)) {
    const got = flows.map((f) => f.sink.bytes).join(", ");
    throw new Error(`a flow stands still: ${got} of ${targetBytes} bytes after ${sim.now / SECOND} s`);
  }
  const seconds = sim.now / SECOND;
  const received = flows.map((f) => f.sink.bytes);
  const infos = flows.map((f) => f.sender.info());
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  const retransmitted = sum(infos.map((i) => i.bytesRetrans));
  return {
    throughputBytesPerSec: sum(received) / seconds,
    leastBytesPerSec: Math.min(...received) / seconds,
    mostBytesPerSec: Math.max(...received) / seconds,
    fairness: jainIndex(received),
    dropRatio,
    seconds,
    retransmittedRatio: retransmitted / (retransmitted + sum(infos.map((i) => i.bytesSent))),
    timeouts: sum(infos.map((i) => i.retransmits.timeout)),
  };
}

/**
 * A capture of the links of a simulation.
 *
 * Each direction of a link is up to three interfaces: `a>b` for what host `a` sends, `a>b:wire` for what arrives at
 * `b`, and `a>b:drop` for what is lost between, each packet with its reason as a comment. What happens inside a host
 * whose peers have impairments of their own is recorded by a `StackCapture` as that host's tap; both can record into
 * one capture. Time 0 of the simulation is the beginning of 1970.
 *
 * @module
 */

import { PcapngClock, PcapngDirection } from "../wire/pcapng.ts";
import type { PacketCapture } from "../stack/capture.ts";
import { type SimTracer, TraceKind } from "./topology.ts";

const SUFFIXES: Readonly<Record<TraceKind, string>> = {
  [TraceKind.Departure]: "",
  [TraceKind.Arrival]: ":wire",
  [TraceKind.Drop]: ":drop",
};

/** Makes a tracer, for {@linkcode Simulator.tracer}, that records into `capture`. */
export function captureLinks(capture: PacketCapture): SimTracer {
  const clock = new PcapngClock(0);
  const links = new Map<string, Map<string, Map<TraceKind, number>>>();
  const idOf = (from: string, to: string, kind: TraceKind): number => {
    const peers = getOrMake(links, from, () => new Map<string, Map<TraceKind, number>>());
    const ids = getOrMake(peers, to, () => new Map<TraceKind, number>());
    let id = ids.get(kind) ?? -1;
    if (id < 0) {
      id = capture.addInterface(`${from}>${to}${SUFFIXES[kind]}`, clock);
      ids.set(kind, id);
    }
    return id;
  };
  return (time, from, to, p, kind, reason) => {
    const id = idOf(from, to, kind);
    if (id < 0) return capture.countDropped();
    const direction = kind === TraceKind.Arrival ? PcapngDirection.Inbound : PcapngDirection.Outbound;
    capture.record(id, p, direction, reason, time);
  };
}

function getOrMake<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

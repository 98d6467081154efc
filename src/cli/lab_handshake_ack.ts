/**
 * `culvert lab handshake-ack`: from the SYN to the server's first byte.
 *
 * @module
 */

import { MICROSECOND, MILLISECOND, toMilliseconds } from "../base/time.ts";
import { type HandshakeAck, type HandshakeAckResult, runHandshakeAckCell, type Speaker } from "../lab/handshake_ack.ts";
import { median } from "../lab/statistics.ts";
import type { FlagSpecs } from "./flags.ts";
import { type Experiment, experimentHelp } from "./lab_experiment.ts";
import { JSON_FLAG, SEEDS_FLAG, seedsOf } from "./lab_flags.ts";
import { bold, table } from "./terminal.ts";

const FLAGS: FlagSpecs = {
  rtt: { value: "SECONDS", help: "round-trip time of the path (default 10ms)" },
  seeds: SEEDS_FLAG,
  json: JSON_FLAG,
};

const SPEAKERS: readonly Speaker[] = ["server", "client"];
const ACKS: readonly HandshakeAck[] = ["now", "delayed"];

/** The experiment `handshake-ack`. */
export const handshakeAck: Experiment = {
  name: "handshake-ack",
  summary: "SYN to the server's first byte, if the SYN-ACK is acknowledged at once or with data",
  help: experimentHelp(
    "handshake-ack",
    `How long it takes from the SYN to the first byte of the server, with a server that speaks first and with a client that
does, if the client acknowledges the SYN-ACK at once, and if that waits for data to ride on. In virtual time.`,
    FLAGS,
    [
      "culvert lab handshake-ack",
      "culvert lab handshake-ack --rtt 0.3ms",
      "culvert lab handshake-ack --json | jq '.server.delayed.firstByte'",
    ],
  ) + `
Permissions: none
`,
  flags: FLAGS,
  run(flags) {
    const rtt = flags.seconds("rtt", 2 * MICROSECOND, 10 * MILLISECOND);
    const seeds = seedsOf(flags);
    const measure = (speaker: Speaker, ack: HandshakeAck): HandshakeAckResult => {
      const runs = seeds.map((seed) => runHandshakeAckCell({ speaker, ack, rtt, seed }));
      return {
        firstByte: median(runs.map((run) => run.firstByte)),
        clientPackets: median(runs.map((run) => run.clientPackets)),
      };
    };
    const [server, client] = SPEAKERS.map((speaker) => {
      const [now, delayed] = ACKS.map((ack) => measure(speaker, ack)) as [HandshakeAckResult, HandshakeAckResult];
      return { now, delayed };
    }) as [Pair, Pair];
    const report = { rtt: toMilliseconds(rtt), seeds, server, client };
    console.log(flags.has("json") ? JSON.stringify(report) : format(report));
    return Promise.resolve(0);
  },
};

interface Pair {
  now: HandshakeAckResult;
  delayed: HandshakeAckResult;
}

function format({ rtt, server, client }: { rtt: number; server: Pair; client: Pair }): string {
  const row = (name: string, { now, delayed }: Pair): string[] => [
    name,
    `${now.firstByte.toFixed(3)} ms`,
    `${delayed.firstByte.toFixed(3)} ms`,
    `${(delayed.firstByte - now.firstByte).toFixed(3)} ms`,
    `${now.clientPackets}`,
    `${delayed.clientPackets}`,
  ];
  return [
    bold(`SYN to the server's first byte, round-trip time ${rtt} ms`),
    table([
      ["", "at once", "with data", "waiting costs", "client's packets: at once", "with data"].map(bold),
      row("server speaks first", server),
      row("client speaks first", client),
    ]),
  ].join("\n");
}

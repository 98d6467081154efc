/**
 * `culvert lab`: experiments with a result that can be checked, one file each.
 *
 * @module
 */

import { nearest } from "../stack/config_faults.ts";
import { type Command, UsageError } from "./command.ts";
import { Flags } from "./flags.ts";
import { departure } from "./lab_departure.ts";
import { edt } from "./lab_edt.ts";
import type { Experiment } from "./lab_experiment.ts";
import { fastRetransmit } from "./lab_fast_retransmit.ts";
import { handshakeAck } from "./lab_handshake_ack.ts";
import { hystart } from "./lab_hystart.ts";
import { rttEstimation } from "./lab_rtt_estimation.ts";

const EXPERIMENTS: readonly Experiment[] = [
  edt,
  departure,
  rttEstimation,
  fastRetransmit,
  hystart,
  handshakeAck,
];

const NAMES: readonly string[] = EXPERIMENTS.map((e) => e.name);

function help(): string {
  const width = Math.max(...NAMES.map((name) => name.length));
  return `Usage: culvert lab EXPERIMENT [OPTIONS]

Experiments:
${EXPERIMENTS.map((e) => `  ${e.name.padEnd(width)}  ${e.summary}`).join("\n")}

culvert lab EXPERIMENT --help tells more, with examples. All take --json.
`;
}

/** The experiment that the arguments of `lab` begin with. */
function chosen(args: readonly string[]): Experiment | undefined {
  return EXPERIMENTS.find((e) => e.name === args[0]);
}

/** The command `lab`. */
export const lab: Command = {
  name: "lab",
  summary: `experiments: ${NAMES.join(", ")}`,
  help: help(),
  helpFor: (args) => chosen(args)?.help ?? help(),
  async run(args) {
    const experiment = chosen(args);
    if (experiment === undefined) throw new UsageError(`lab: ${refusal(args[0])}`);
    return await experiment.run(
      new Flags({ command: `lab ${experiment.name}`, flags: experiment.flags }, args.slice(1)),
    );
  },
};

function refusal(found: string | undefined): string {
  const expected = `expected ${NAMES.length === 1 ? "" : "one of "}${NAMES.join(", ")}`;
  if (found === undefined) return `found no experiment, ${expected}`;
  if (found.startsWith("-")) return `found "${found}", ${expected} before the flags`;
  const near = nearest(found, NAMES);
  return `found "${found}", ${near === null ? expected : `did you mean "${near}"?`}`;
}

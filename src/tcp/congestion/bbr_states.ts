/**
 * The states of BBR and what each does to the rate and the window (draft-ietf-ccwg-bbr sections 5.1 and 5.6.1).
 *
 * @module
 */

/** The states. */
export enum BbrState {
  /** Doubles the rate each round. */
  Startup,
  /** Lets the queue of Startup run empty. */
  Drain,
  /** ProbeBW_DOWN: sends more slowly than the path delivers. */
  Down,
  /** ProbeBW_CRUISE: sends as fast as the path delivers. */
  Cruise,
  /** ProbeBW_REFILL: fills the pipe for a round. */
  Refill,
  /** ProbeBW_UP: probes for a higher rate. */
  Up,
  /** Lets the queue run empty to see the round-trip time of the path. */
  ProbeRtt,
}

/** What acknowledgments tell about a probe (BBR.ack_phase). */
export enum AckPhase {
  /** Nothing. */
  Init,
  /** The pipe is being filled. */
  Refilling,
  /** More is being sent, but its acknowledgments do not come yet. */
  ProbeStarting,
  /** They come. */
  ProbeFeedback,
  /** The probe is over, its last acknowledgments come. */
  ProbeStopping,
}

/** Pacing rate over the rate of the model, by state. */
export const PACING_GAIN: readonly number[] = [2.77, 0.5, 0.9, 1, 1, 1.25, 1];

/** Window over rate times round-trip time, by state. */
export const CWND_GAIN: readonly number[] = [2, 2, 2, 2, 2, 2.25, 0.5];

/** What the control says of a state's beginning. */
export const STATE_WHY: readonly string[] = [
  "bbr: startup",
  "bbr: drain",
  "bbr: probe down",
  "bbr: cruise",
  "bbr: refill",
  "bbr: probe up",
  "bbr: probe rtt",
];

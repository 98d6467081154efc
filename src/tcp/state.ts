/**
 * The states of a connection (RFC 9293 section 3.3.2) and what may be done in each.
 *
 * @module
 */

/** States of RFC 9293; the order matters to the predicates below. */
export enum TcpState {
  /** No connection. */
  Closed,
  /** Waiting for a request from any peer; only listeners are here. */
  Listen,
  /** A SYN was sent. */
  SynSent,
  /** A SYN was received and a SYN-ACK sent. */
  SynReceived,
  /** Open. */
  Established,
  /** We closed first; the FIN is not acknowledged. */
  FinWait1,
  /** We closed first; the FIN is acknowledged. */
  FinWait2,
  /** The peer closed first; we still may send. */
  CloseWait,
  /** Both closed at the same time; our FIN is not acknowledged. */
  Closing,
  /** The peer closed first, then we; our FIN is not acknowledged. */
  LastAck,
  /** Both are closed; old segments may still be on the way. */
  TimeWait,
}

const NAMES: readonly string[] = [
  "CLOSED",
  "LISTEN",
  "SYN-SENT",
  "SYN-RECEIVED",
  "ESTABLISHED",
  "FIN-WAIT-1",
  "FIN-WAIT-2",
  "CLOSE-WAIT",
  "CLOSING",
  "LAST-ACK",
  "TIME-WAIT",
];

/** The state's name as in RFC 9293. */
export function tcpStateName(state: TcpState): string {
  return NAMES[state] ?? "?";
}

/** True once both initial sequence numbers are known to both sides. */
export function isSynchronized(state: TcpState): boolean {
  return state >= TcpState.Established;
}

/** True while the application may hand over data. */
export function maySend(state: TcpState): boolean {
  return state === TcpState.Established || state === TcpState.CloseWait || state === TcpState.SynSent ||
    state === TcpState.SynReceived;
}

/** True while the peer may still send data. */
export function mayReceive(state: TcpState): boolean {
  return state === TcpState.Established || state === TcpState.FinWait1 || state === TcpState.FinWait2 ||
    state === TcpState.SynReceived || state === TcpState.SynSent;
}

/** How a sender stands to loss; names and order as in Linux. */
export enum RecoveryState {
  /** No loss known. */
  Open,
  /** Something is missing, but may only be late. */
  Disorder,
  /** The window goes down because of ECN. */
  Cwr,
  /** Fast recovery. */
  Recovery,
  /** After a retransmission timeout. */
  Loss,
}

/** Their names as `ss` and `tcp_info` know them, by state. */
export const RECOVERY_NAMES: readonly string[] = ["open", "disorder", "cwr", "recovery", "loss"];

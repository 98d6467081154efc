/**
 * ICMP errors by the names that scripts use.
 *
 * @module
 */

const UNREACHABLE_V4 = [
  "net_unreachable",
  "host_unreachable",
  "protocol_unreachable",
  "port_unreachable",
  "frag_needed",
  "source_route_failed",
  "net_unknown",
  "host_unknown",
  "source_host_isolated",
  "net_prohibited",
  "host_prohibited",
  "tos_net_unreachable",
  "tos_host_unreachable",
  "packet_filtered",
  "precedence_violation",
  "precedence_cutoff",
];
const UNREACHABLE_V6 = [
  "no_route",
  "admin_prohibited",
  "not_neighbour",
  "addr_unreachable",
  "port_unreachable",
];
const EXCEEDED = ["ttl_exceeded_in_transit", "fragment_reassembly_time_exceeded"];
const PARAMETER = ["pointer_error", "missing_option", "bad_length"];

const TYPES: Record<4 | 6, Record<string, readonly [type: number, codes: readonly string[]]>> = {
  4: {
    unreachable: [3, UNREACHABLE_V4],
    source_quench: [4, [""]],
    time_exceeded: [11, EXCEEDED],
    parameter_problem: [12, PARAMETER],
  },
  6: {
    unreachable: [1, UNREACHABLE_V6],
    packet_too_big: [2, [""]],
    time_exceeded: [3, EXCEEDED],
    parameter_problem: [4, PARAMETER],
  },
};

/** Type and code of an error of ICMP (version 4) or ICMPv6, or `null` for one that is not known. */
export function icmpCode(version: 4 | 6, type: string, code: string): [type: number, code: number] | null {
  const known = TYPES[version][type];
  if (known === undefined) return null;
  const [number, codes] = known;
  const index = codes.length === 1 ? 0 : codes.indexOf(code);
  return index < 0 ? null : [number, index];
}

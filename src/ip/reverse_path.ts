/**
 * Unicast reverse-path forwarding (RFC 3704, Linux's `rp_filter`): a packet is let in only if the routes know a way back to
 * its source.
 *
 * `strict`: by the interface that it came by (one of them, if several share the way). `loose`: by any. A default route is a
 * way; one that is no unicast route is none. Link-local sources have no routes and pass: they are never forwarded.
 *
 * @module
 */

import type { IpHeader } from "../wire/ip_header.ts";
import { AddressKind, addressKind } from "./address_kind.ts";
import { RouteKind, type RouteTable } from "./route_table.ts";

/** How strictly the way back is checked. */
export type ReversePathMode = "loose" | "strict";

/** True if a packet that came by interface `ifindex` may have its source. */
export function wayBackExists(routes: RouteTable, ip: IpHeader, ifindex: number, mode: ReversePathMode): boolean {
  const { src0, src1, src2, src3 } = ip;
  const route = routes.lookup(src0, src1, src2, src3);
  if (route === null || route.kind !== RouteKind.Unicast) {
    return addressKind(ip.version, src0, src1, src2, src3) === AddressKind.LinkLocal;
  }
  if (mode === "loose" || route.ifindex === ifindex) return true;
  const { group } = route;
  for (let i = 0; group !== null && i < group.length; i++) if (group[i]!.ifindex === ifindex) return true;
  return false;
}

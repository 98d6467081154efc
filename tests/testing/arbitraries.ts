/**
 * fast-check arbitraries for addresses, headers and payloads.
 *
 * @module
 */

import * as fc from "fast-check";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { IpHeader } from "../../src/wire/ip_header.ts";
import type { TcpHeader } from "../../src/wire/tcp.ts";
import { TCP_OPTIONS_BYTES_MAX, tcpOptionsLength } from "../../src/wire/tcp_options.ts";
import { tcpHeader } from "./packets.ts";

/** Any 8-bit number. */
export const u8: fc.Arbitrary<number> = fc.integer({ min: 0, max: 0xff });
/** Any 16-bit number, its ends often. */
export const u16: fc.Arbitrary<number> = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 0xffff }) },
  { weight: 1, arbitrary: fc.constantFrom(0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff) },
);
/** Any int32, the ends and the neighbourhood of 0 often. */
export const i32: fc.Arbitrary<number> = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: -0x80000000, max: 0x7fffffff }) },
  { weight: 1, arbitrary: fc.constantFrom(0, 1, -1, 0x7fffffff, -0x80000000) },
);
/** A payload of 0 to 99 bytes, of odd and even length. */
export const payload: fc.Arbitrary<Uint8Array<ArrayBuffer>> = fc.uint8Array({
  maxLength: 99,
  size: "max",
}) as fc.Arbitrary<
  Uint8Array<ArrayBuffer>
>;

/** Any IPv4 address. */
export const ipv4Addr: fc.Arbitrary<IpAddr> = i32.map((word) => IpAddr.v4(word));
/** Any IPv6 address that is not an IPv4-mapped one. */
export const ipv6Addr: fc.Arbitrary<IpAddr> = fc.oneof(
  fc.tuple(i32, i32, i32, i32),
  fc.tuple(fc.constant(0), fc.constant(0), fc.integer({ min: 0, max: 2 }), i32),
).map(([a, b, c, d]) => new IpAddr(a, b, c, d)).filter((address) => !address.isV4);
/** Two addresses of one family. */
export const addressPair: fc.Arbitrary<[IpAddr, IpAddr]> = fc.oneof(
  fc.tuple(ipv4Addr, ipv4Addr),
  fc.tuple(ipv6Addr, ipv6Addr),
);

/** An IP header of either version, as parsing could yield it from a header without options. */
export const ipHeaders: fc.Arbitrary<IpHeader> = fc.record({
  addresses: addressPair,
  trafficClass: u8,
  flowLabel: fc.integer({ min: 0, max: 0xfffff }),
  payloadLength: fc.integer({ min: 0, max: 200 }),
  id: u16,
  dontFragment: fc.boolean(),
  moreFragments: fc.boolean(),
  fragmentOffset: fc.integer({ min: 0, max: 0x1fff }).map((units) => units * 8),
  ttl: u8,
  protocol: u8,
}).map(({ addresses, flowLabel, id, dontFragment, moreFragments, fragmentOffset, ...both }) => {
  const h = new IpHeader();
  h.setAddresses(...addresses);
  h.setDefaults(both.protocol, both.payloadLength);
  Object.assign(h, both);
  if (h.version === 6) h.flowLabel = flowLabel;
  else Object.assign(h, { id, dontFragment, moreFragments, fragmentOffset });
  return h;
});

/** A TCP header with any combination of options that fits. */
export const tcpHeaders: fc.Arbitrary<TcpHeader> = fc.record({
  srcPort: u16,
  dstPort: u16,
  seq: i32,
  ack: i32,
  flags: u8,
  window: u16,
  urgent: u16,
  mss: fc.oneof(fc.constant(-1), u16),
  windowScale: fc.oneof(fc.constant(-1), u8),
  sackPermitted: fc.boolean(),
  timestamps: fc.option(fc.tuple(i32, i32)),
  sack: fc.array(fc.tuple(i32, i32), { maxLength: 4 }),
}).map(({ timestamps, sack, ...rest }) =>
  tcpHeader({
    ...rest,
    hasTimestamps: timestamps !== null,
    tsVal: timestamps?.[0] ?? 0,
    tsEcr: timestamps?.[1] ?? 0,
    sack: sack.flat(),
  })
).filter((h) => tcpOptionsLength(h) <= TCP_OPTIONS_BYTES_MAX);

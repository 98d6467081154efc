/**
 * Kinds of addresses, as far as a packet's validity depends on them (RFC 1122 section 3.2.1.3, RFC 1812 section 5.3.7,
 * RFC 4291 section 2).
 *
 * On a wire, source and destination must be {@linkcode AddressKind.Unicast} or {@linkcode AddressKind.LinkLocal}; all
 * else is a martian here, since no multicast is spoken. An IPv6 address in IPv4-mapped form is one too: inside, that
 * form stands for IPv4, and letting it in would let IPv6 packets pass for IPv4 ones.
 *
 * @module
 */

/** What an address may be used for. */
export enum AddressKind {
  /** One interface, anywhere. */
  Unicast = 0,
  /** One interface on this link: never forwarded. */
  LinkLocal,
  /** "This host": 0.0.0.0/8 or `::`. */
  Unspecified,
  /** Inside a host: 127.0.0.0/8 or `::1`. */
  Loopback,
  /** A group: 224.0.0.0/4 or ff00::/8. */
  Multicast,
  /** 240.0.0.0/4 with the limited broadcast, and the IPv4-compatible and IPv4-mapped forms in IPv6. */
  Reserved,
}

/** The kind of the address of these four words in a packet of `version`. */
export function addressKind(version: number, w0: number, w1: number, w2: number, w3: number): AddressKind {
  if (version === 4) {
    const first = w3 >>> 24;
    if (first === 0) return AddressKind.Unspecified;
    if (first === 127) return AddressKind.Loopback;
    if (first >= 240) return AddressKind.Reserved;
    if (first >= 224) return AddressKind.Multicast;
    return w3 >>> 16 === 0xa9fe ? AddressKind.LinkLocal : AddressKind.Unicast;
  }
  if (w0 >>> 24 === 0xff) return AddressKind.Multicast;
  if (w0 >>> 22 === 0x3fa) return AddressKind.LinkLocal;
  if ((w0 | w1) !== 0 || (w2 !== 0 && w2 !== 0xffff)) return AddressKind.Unicast;
  if (w2 === 0 && w3 === 0) return AddressKind.Unspecified;
  if (w2 === 0 && w3 === 1) return AddressKind.Loopback;
  return AddressKind.Reserved;
}

/** True if a packet on a wire may come from or go to an address of this kind. */
export function isWireKind(kind: AddressKind): boolean {
  return kind <= AddressKind.LinkLocal;
}

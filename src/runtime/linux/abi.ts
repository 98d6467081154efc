/**
 * Numbers and layouts of the Linux socket interface on machines with 64-bit little-endian words.
 *
 * x86-64 and arm64 agree in all of this. A C library may differ from the kernel in the type of a length (musl does),
 * but not in where its value stands.
 *
 * ```text
 *   sockaddr_in    family u16 │ port, network order │ address             16 bytes
 *   sockaddr_in6   family u16 │ port │ flow label u32 │ address │ scope   28 bytes
 *   iovec          base u64 │ length u64
 *   mmsghdr        name u64 │ its length u32 │ iovec u64 │ how many u64 │ control u64 │ its length u64 │ flags i32
 *                  │ bytes moved u32                                     64 bytes
 *   cmsghdr        length u64, with this header │ level i32 │ type i32 │ data, padded to 8
 *   pollfd         descriptor i32 │ wanted i16 │ found i16
 *   timespec       seconds i64 │ nanoseconds i64
 * ```
 *
 * References: the kernel's include/uapi (socket.h, in.h, in6.h, udp.h, net_tstamp.h, sock_diag.h).
 *
 * @module
 */

/** Address families. */
export const AddressFamily = { Unspecified: 0, Inet: 2, Inet6: 10 } as const;

/** Type and flags of a socket: a datagram socket that never blocks and is not inherited. */
export const SOCKET_TYPE: number = 2 | 0x800 | 0x80000;

/** Flags of an event descriptor: never blocks, is not inherited. */
export const EVENT_FLAGS: number = 0x800 | 0x80000;

/** Levels of options and of control messages. */
export const Level = { Socket: 1, Ip: 0, Ipv6: 41, Udp: 17 } as const;

/** Options at {@linkcode Level}`.Socket`. */
export const SocketOption = {
  SendBuffer: 7,
  ReceiveBuffer: 8,
  SendBufferForce: 32,
  ReceiveBufferForce: 33,
  MemInfo: 55,
  TxTime: 61,
} as const;

/** Options at {@linkcode Level}`.Ip`, some of which are also the types of control messages. */
export const IpOption = { Tos: 1, MtuDiscover: 10, ReceiveTos: 13, Mtu: 14 } as const;

/** Options at {@linkcode Level}`.Ipv6`, some of which are also the types of control messages. */
export const Ipv6Option = { MtuDiscover: 23, Mtu: 24, V6Only: 26, ReceiveTrafficClass: 66, TrafficClass: 67 } as const;

/** Never fragment, and refuse what is larger than the path is known to carry: a value of the options `MtuDiscover`. */
export const MTU_DISCOVER_DO = 2;

/** Options at {@linkcode Level}`.Udp` that are also the types of control messages. */
export const UdpOption = { Segment: 103, Gro: 104 } as const;

/** Flags of a message. */
export const MessageFlag = { ControlTruncated: 0x8, Truncated: 0x20, DontWait: 0x40, NoSignal: 0x4000 } as const;

/** Events of a poll. */
export const PollEvent = { In: 0x1, Out: 0x4 } as const;

/** Error numbers. */
export const Errno = {
  EPERM: 1,
  ENOENT: 2,
  EINTR: 4,
  EIO: 5,
  ENXIO: 6,
  EAGAIN: 11,
  EACCES: 13,
  EBUSY: 16,
  EEXIST: 17,
  ENODEV: 19,
  EINVAL: 22,
  ENOSYS: 38,
  EBADFD: 77,
  EMSGSIZE: 90,
  ENOPROTOOPT: 92,
  EAFNOSUPPORT: 97,
  EADDRINUSE: 98,
  EADDRNOTAVAIL: 99,
} as const;

/** The name of an error number, as `EADDRINUSE`, or `errno 123`. */
export function errnoName(errno: number): string {
  const found = Object.entries(Errno).find(([, value]) => value === errno);
  return found === undefined ? `errno ${errno}` : found[0];
}

/** Bytes of a `sockaddr_in`. */
export const SOCKADDR_IN_BYTES = 16;

/** Bytes of a `sockaddr_in6`. */
export const SOCKADDR_IN6_BYTES = 28;

/** Bytes kept for a socket address of either family. */
export const SOCKADDR_SLOT_BYTES = 32;

/** Bytes of an `iovec`. */
export const IOVEC_BYTES = 16;

/** Bytes of a `cmsghdr` without its data. */
export const CMSGHDR_BYTES = 16;

/** Bytes of an `mmsghdr`. */
export const MMSGHDR_BYTES = 64;

/** Offsets of the fields of an `mmsghdr`. */
export const MessageField = {
  Name: 0,
  NameLength: 8,
  Iovec: 16,
  IovecCount: 24,
  Control: 32,
  ControlLength: 40,
  Flags: 48,
  Moved: 56,
} as const;

/** Bytes of a `pollfd`. */
export const POLLFD_BYTES = 8;

/** Number of words that `SO_MEMINFO` gives, and which of them counts drops. */
export const MemInfo = { Words: 9, Drops: 8 } as const;

/** Writes a 64-bit word, a whole number of at least 0. */
export function setU64(view: DataView, at: number, value: number): void {
  view.setUint32(at, value % 0x100000000, true);
  view.setUint32(at + 4, Math.floor(value / 0x100000000), true);
}

/** Reads a 64-bit word; one too big for a number comes out inexact, but too big. */
export function getU64(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getUint32(at + 4, true) * 0x100000000;
}

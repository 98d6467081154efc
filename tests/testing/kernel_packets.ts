/**
 * Packets that a Linux 6.18 kernel sent through a TUN device, byte for byte, each with the line that `tcpdump -n -S`
 * prints for it (without what it says about the application protocol). IP header, transport header, options and data
 * are on lines of their own.
 *
 * The kernel (10.7.0.2, fd07::2) connects from port 40000 to port 80, sends 14 bytes, gets data with holes in front,
 * shuts down, and resets; then it answers on ports that are closed, that listen and speak ever more options; UDP; echo.
 *
 * @module
 */

import { fromHex } from "./bytes.ts";

/** One packet on the wire. */
export interface KernelPacket {
  /** Address family and what the packet is. */
  name: string;
  /** Its bytes in hex. */
  hex: string;
  /** What it says, in one line. */
  text: string;
}

/** The packets, IPv4 first, in the order in which they were sent. */
export const KERNEL_PACKETS: readonly KernelPacket[] = [
  {
    name: "v4 syn",
    hex: "4500003c b8c34000 40066de8 0a070002 0a070001 " +
      "9c400050 9c4fbba0 00000000 a002ff00 3bb10000 " +
      "02040550 0402080a 28afdc6e 00000000 0103030a",
    text:
      "IP 10.7.0.2.40000 > 10.7.0.1.80: Flags [S], seq 2622471072, win 65280, options [mss 1360,sackOK,TS val 682613870 ecr 0,nop,wscale 10], length 0",
  },
  {
    name: "v4 ack of synack",
    hex: "45000034 b8c44000 40066def 0a070002 0a070001 " +
      "9c400050 9c4fbba1 fffffff1 80100040 64f30000 " +
      "0101080a 28afdc6e 000003e8",
    text:
      "IP 10.7.0.2.40000 > 10.7.0.1.80: Flags [.], ack 4294967281, win 64, options [nop,nop,TS val 682613870 ecr 1000], length 0",
  },
  {
    name: "v4 data",
    hex: "45000042 b8c54000 40066de0 0a070002 0a070001 " +
      "9c400050 9c4fbba1 fffffff1 80180040 a2200000 " +
      "0101080a 28afdc83 000003e8 " +
      "68656c6c 6f2c2063 756c7665 7274",
    text:
      "IP 10.7.0.2.40000 > 10.7.0.1.80: Flags [P.], seq 2622471073:2622471087, ack 4294967281, win 64, options [nop,nop,TS val 682613891 ecr 1000], length 14",
  },
  {
    name: "v4 sack1",
    hex: "45000040 b8c64000 40066de1 0a070002 0a070001 " +
      "9c400050 9c4fbbaf fffffff1 b0100040 2eb70000 " +
      "0101080a 28afdc83 000003e9 0101050a fffffffb 00000005",
    text:
      "IP 10.7.0.2.40000 > 10.7.0.1.80: Flags [.], ack 4294967281, win 64, options [nop,nop,TS val 682613891 ecr 1001,nop,nop,sack 1 {4294967291:5}], length 0",
  },
  {
    name: "v4 sack2",
    hex: "45000048 b8c74000 40066dd8 0a070002 0a070001 " +
      "9c400050 9c4fbbaf fffffff1 d0100040 0e7f0000 " +
      "0101080a 28afdc83 000003e9 01010512 0000000f 00000019 fffffffb 00000005",
    text:
      "IP 10.7.0.2.40000 > 10.7.0.1.80: Flags [.], ack 4294967281, win 64, options [nop,nop,TS val 682613891 ecr 1001,nop,nop,sack 2 {15:25}{4294967291:5}], length 0",
  },
  {
    name: "v4 sack3",
    hex: "45000050 b8c84000 40066dcf 0a070002 0a070001 " +
      "9c400050 9c4fbbaf fffffff1 f0100040 ee1e0000 " +
      "0101080a 28afdc83 000003e9 0101051a 00000023 0000002d 0000000f 00000019 fffffffb 00000005",
    text:
      "IP 10.7.0.2.40000 > 10.7.0.1.80: Flags [.], ack 4294967281, win 64, options [nop,nop,TS val 682613891 ecr 1001,nop,nop,sack 3 {35:45}{15:25}{4294967291:5}], length 0",
  },
  {
    name: "v4 fin",
    hex: "45000050 b8c94000 40066dce 0a070002 0a070001 " +
      "9c400050 9c4fbbaf fffffff1 f0110040 ee1d0000 " +
      "0101080a 28afdc83 000003e9 0101051a 00000023 0000002d 0000000f 00000019 fffffffb 00000005",
    text:
      "IP 10.7.0.2.40000 > 10.7.0.1.80: Flags [F.], seq 2622471087, ack 4294967281, win 64, options [nop,nop,TS val 682613891 ecr 1001,nop,nop,sack 3 {35:45}{15:25}{4294967291:5}], length 0",
  },
  {
    name: "v4 ack filled",
    hex: "45000040 b8ca4000 40066ddd 0a070002 0a070001 " +
      "9c400050 9c4fbbb0 0000002d b0100040 2e770000 " +
      "0101080a 28afdc83 000003ed 0101050a fffffffb 00000005",
    text:
      "IP 10.7.0.2.40000 > 10.7.0.1.80: Flags [.], ack 45, win 64, options [nop,nop,TS val 682613891 ecr 1005,nop,nop,sack 1 {4294967291:5}], length 0",
  },
  {
    name: "v4 rst",
    hex: "45000034 b8cb4000 40066de8 0a070002 0a070001 " +
      "9c400050 9c4fbbb0 0000002d 80140040 648b0000 " +
      "0101080a 28afdc83 000003ed",
    text:
      "IP 10.7.0.2.40000 > 10.7.0.1.80: Flags [R.], seq 2622471088, ack 45, win 64, options [nop,nop,TS val 682613891 ecr 1005], length 0",
  },
  {
    name: "v4 rst-ack closed port",
    hex: "45000028 00004000 400626c0 0a070002 0a070001 " +
      "005115b3 00000000 0000004e 50140000 856e0000",
    text: "IP 10.7.0.2.81 > 10.7.0.1.5555: Flags [R.], seq 0, ack 78, win 0, length 0",
  },
  {
    name: "v4 synack mss only",
    hex: "4500002c 00004000 400626bc 0a070002 0a070001 " +
      "005a15b4 9a924570 0000004e 6012ff00 8f0a0000 " +
      "02040550",
    text: "IP 10.7.0.2.90 > 10.7.0.1.5556: Flags [S.], seq 2593277296, ack 78, win 65280, options [mss 1360], length 0",
  },
  {
    name: "v4 synack mss sack",
    hex: "45000030 00004000 400626b8 0a070002 0a070001 " +
      "005a15b5 a71fd986 0000004e 7012ff00 d95e0000 " +
      "02040550 01010402",
    text:
      "IP 10.7.0.2.90 > 10.7.0.1.5557: Flags [S.], seq 2803882374, ack 78, win 65280, options [mss 1360,nop,nop,sackOK], length 0",
  },
  {
    name: "v4 synack mss ws",
    hex: "45000030 00004000 400626b8 0a070002 0a070001 " +
      "005a15b6 7bfb35c0 0000004e 7012ff00 a93e0000 " +
      "02040550 0103030a",
    text:
      "IP 10.7.0.2.90 > 10.7.0.1.5558: Flags [S.], seq 2080060864, ack 78, win 65280, options [mss 1360,nop,wscale 10], length 0",
  },
  {
    name: "v4 synack mss sack ws",
    hex: "45000034 00004000 400626b4 0a070002 0a070001 " +
      "005a15b7 5dc94740 0000004e 8012ff00 a0e80000 " +
      "02040550 01010402 0103030a",
    text:
      "IP 10.7.0.2.90 > 10.7.0.1.5559: Flags [S.], seq 1573472064, ack 78, win 65280, options [mss 1360,nop,nop,sackOK,nop,wscale 10], length 0",
  },
  {
    name: "v4 udp",
    hex: "4500001f 401b4000 4011e6a2 0a070002 0a070001 " +
      "13880035 000b04a6 " +
      "6f6464",
    text: "IP 10.7.0.2.5000 > 10.7.0.1.53: UDP, length 3",
  },
  {
    name: "v4 port unreachable",
    hex: "45c0003c 8e5f0000 4001d791 0a070002 0a070001 " +
      "0303112b 00000000 " +
      "45000020 00014000 401126bc 0a070001 0a070002 17701771 000cde13 70696e67",
    text: "IP 10.7.0.2 > 10.7.0.1: ICMP 10.7.0.2 udp port 6001 unreachable, length 40",
  },
  {
    name: "v4 echo reply",
    hex: "4500002c 8e600000 4001d860 0a070002 0a070001 " +
      "0000c6b6 00070001 " +
      "20212223 24252627 28292a2b 2c2d2e2f",
    text: "IP 10.7.0.2 > 10.7.0.1: ICMP echo reply, id 7, seq 1, length 24",
  },
  {
    name: "v4 echo request",
    hex: "4500002c 8e614000 4001985f 0a070002 0a070001 " +
      "0800156f 1b420001 " +
      "d85e0d6b 00000000 e0830100 00000000",
    text: "IP 10.7.0.2 > 10.7.0.1: ICMP echo request, id 6978, seq 1, length 24",
  },
  {
    name: "v6 syn",
    hex: "6008444e 00280640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "9c400050 ba56f1d1 00000000 a002fb40 caa60000 " +
      "0204053c 0402080a 3eae0114 00000000 0103030a",
    text:
      "IP6 fd07::2.40000 > fd07::1.80: Flags [S], seq 3126260177, win 64320, options [mss 1340,sackOK,TS val 1051590932 ecr 0,nop,wscale 10], length 0",
  },
  {
    name: "v6 ack of synack",
    hex: "6008444e 00200640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "9c400050 ba56f1d2 fffffff1 8010003f f0150000 " +
      "0101080a 3eae0114 000003e8",
    text:
      "IP6 fd07::2.40000 > fd07::1.80: Flags [.], ack 4294967281, win 63, options [nop,nop,TS val 1051590932 ecr 1000], length 0",
  },
  {
    name: "v6 data",
    hex: "6008444e 002e0640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "9c400050 ba56f1d2 fffffff1 8018003f 2d440000 " +
      "0101080a 3eae0128 000003e8 " +
      "68656c6c 6f2c2063 756c7665 7274",
    text:
      "IP6 fd07::2.40000 > fd07::1.80: Flags [P.], seq 3126260178:3126260192, ack 4294967281, win 63, options [nop,nop,TS val 1051590952 ecr 1000], length 14",
  },
  {
    name: "v6 sack1",
    hex: "6008444e 002c0640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "9c400050 ba56f1e0 fffffff1 b010003f b9da0000 " +
      "0101080a 3eae0128 000003e9 0101050a fffffffb 00000005",
    text:
      "IP6 fd07::2.40000 > fd07::1.80: Flags [.], ack 4294967281, win 63, options [nop,nop,TS val 1051590952 ecr 1001,nop,nop,sack 1 {4294967291:5}], length 0",
  },
  {
    name: "v6 sack2",
    hex: "6008444e 00340640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "9c400050 ba56f1e0 fffffff1 d010003f 99a20000 " +
      "0101080a 3eae0128 000003e9 01010512 0000000f 00000019 fffffffb 00000005",
    text:
      "IP6 fd07::2.40000 > fd07::1.80: Flags [.], ack 4294967281, win 63, options [nop,nop,TS val 1051590952 ecr 1001,nop,nop,sack 2 {15:25}{4294967291:5}], length 0",
  },
  {
    name: "v6 sack3",
    hex: "6008444e 003c0640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "9c400050 ba56f1e0 fffffff1 f010003f 79420000 " +
      "0101080a 3eae0128 000003e9 0101051a 00000023 0000002d 0000000f 00000019 fffffffb 00000005",
    text:
      "IP6 fd07::2.40000 > fd07::1.80: Flags [.], ack 4294967281, win 63, options [nop,nop,TS val 1051590952 ecr 1001,nop,nop,sack 3 {35:45}{15:25}{4294967291:5}], length 0",
  },
  {
    name: "v6 fin",
    hex: "6008444e 003c0640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "9c400050 ba56f1e0 fffffff1 f011003f 79410000 " +
      "0101080a 3eae0128 000003e9 0101051a 00000023 0000002d 0000000f 00000019 fffffffb 00000005",
    text:
      "IP6 fd07::2.40000 > fd07::1.80: Flags [F.], seq 3126260192, ack 4294967281, win 63, options [nop,nop,TS val 1051590952 ecr 1001,nop,nop,sack 3 {35:45}{15:25}{4294967291:5}], length 0",
  },
  {
    name: "v6 ack filled",
    hex: "6008444e 002c0640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "9c400050 ba56f1e1 0000002d b010003f b99a0000 " +
      "0101080a 3eae0128 000003ed 0101050a fffffffb 00000005",
    text:
      "IP6 fd07::2.40000 > fd07::1.80: Flags [.], ack 45, win 63, options [nop,nop,TS val 1051590952 ecr 1005,nop,nop,sack 1 {4294967291:5}], length 0",
  },
  {
    name: "v6 rst",
    hex: "6008444e 00200640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "9c400050 ba56f1e1 0000002d 8014003f efae0000 " +
      "0101080a 3eae0128 000003ed",
    text:
      "IP6 fd07::2.40000 > fd07::1.80: Flags [R.], seq 3126260193, ack 45, win 63, options [nop,nop,TS val 1051590952 ecr 1005], length 0",
  },
  {
    name: "v6 rst-ack closed port",
    hex: "600ad883 00140640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "005115b3 00000000 0000004e 50140000 9f6c0000",
    text: "IP6 fd07::2.81 > fd07::1.5555: Flags [R.], seq 0, ack 78, win 0, length 0",
  },
  {
    name: "v6 synack mss only",
    hex: "6004ec36 00180640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "005a15b4 fb51c10e 0000004e 6012fb40 d07e0000 " +
      "0204053c",
    text: "IP6 fd07::2.90 > fd07::1.5556: Flags [S.], seq 4216439054, ack 78, win 64320, options [mss 1340], length 0",
  },
  {
    name: "v6 synack mss sack",
    hex: "600970dc 001c0640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "005a15b5 f389ab5c 0000004e 7012fb40 d8f00000 " +
      "0204053c 01010402",
    text:
      "IP6 fd07::2.90 > fd07::1.5557: Flags [S.], seq 4085885788, ack 78, win 64320, options [mss 1340,nop,nop,sackOK], length 0",
  },
  {
    name: "v6 synack mss ws",
    hex: "60089d4c 001c0640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "005a15b6 f4e39f56 0000004e 7012fb40 e4910000 " +
      "0204053c 0103030a",
    text:
      "IP6 fd07::2.90 > fd07::1.5558: Flags [S.], seq 4108558166, ack 78, win 64320, options [mss 1340,nop,wscale 10], length 0",
  },
  {
    name: "v6 synack mss sack ws",
    hex: "60023823 00200640 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "005a15b7 ddc7c4ad 0000004e 8012fb40 c14e0000 " +
      "0204053c 01010402 0103030a",
    text:
      "IP6 fd07::2.90 > fd07::1.5559: Flags [S.], seq 3720856749, ack 78, win 64320, options [mss 1340,nop,nop,sackOK,nop,wscale 10], length 0",
  },
  {
    name: "v6 udp",
    hex: "60009935 000b1140 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "13880035 000b1ea4 " +
      "6f6464",
    text: "IP6 fd07::2.5000 > fd07::1.53: UDP, length 3",
  },
  {
    name: "v6 port unreachable",
    hex: "6004cb95 003c3a40 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "01049343 00000000 " +
      "60000000 000c1140 fd070000 00000000 00000000 00000001 fd070000 00000000 00000000 00000002 17701771 000cf811 70696e67",
    text: "IP6 fd07::2 > fd07::1: ICMP6, destination unreachable, unreachable port, fd07::2 udp port 6001, length 60",
  },
  {
    name: "v6 echo reply",
    hex: "6009497f 00183a40 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "81004b51 00070001 " +
      "20212223 24252627 28292a2b 2c2d2e2f",
    text: "IP6 fd07::2 > fd07::1: ICMP6, echo reply, id 7, seq 1, length 24",
  },
  {
    name: "v6 echo request",
    hex: "60029dc9 00183a40 fd070000 00000000 00000000 00000002 fd070000 00000000 00000000 00000001 " +
      "8000678f 1b430001 " +
      "d85e0d6b 00000000 18fd0400 00000000",
    text: "IP6 fd07::2 > fd07::1: ICMP6, echo request, id 6979, seq 1, length 24",
  },
];

/** The bytes of the packet called `name`. */
export function kernelPacket(name: string): Uint8Array<ArrayBuffer> {
  const found = KERNEL_PACKETS.find((p) => p.name === name);
  if (found === undefined) throw new RangeError(`no kernel packet is called "${name}"`);
  return fromHex(found.hex);
}

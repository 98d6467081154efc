/**
 * tshark as a judge of capture files, where it is installed.
 *
 * @module
 */

import { assertEquals } from "@std/assert";

/** True if tshark can be run here. */
export const HAS_TSHARK: boolean = await (async () => {
  try {
    const { success } = await new Deno.Command("tshark", { args: ["--version"], stdout: "null", stderr: "null" })
      .output();
    return success;
  } catch {
    return false;
  }
})();

if (!HAS_TSHARK) console.log("skipped: the tests that read captures by tshark, which is not installed here");

const PROTOCOLS = ["ip", "tcp", "udp", "icmp", "icmpv6"] as const;

const FIELDS = [
  "frame.interface_name",
  "frame.comment",
  "frame.packet_flags_direction",
  "_ws.malformed",
  ...PROTOCOLS.map((protocol) => `${protocol}.checksum.status`),
];

/** Values of a checksum's status: 0 is wrong, 1 is right, 2 was not looked at. */
const RIGHT = "1";

/** A packet as tshark sees it. */
export interface TsharkPacket {
  /** Name of its interface. */
  name: string;
  /** Its comment, or `""`. */
  comment: string;
  /** 1 in, 2 out. */
  direction: number;
  /** Protocols whose checksums tshark found right. */
  verified: string[];
}

/** Has tshark read a capture; checks that it finds no malformed packet and no wrong checksum. */
export async function readByTshark(path: string): Promise<TsharkPacket[]> {
  const preferences = ["ip", "tcp", "udp"].flatMap((protocol) => ["-o", `${protocol}.check_checksum:TRUE`]);
  const fields = FIELDS.flatMap((field) => ["-e", field]);
  const { stdout, stderr, code } = await new Deno.Command("tshark", {
    args: ["-n", "-r", path, ...preferences, "-T", "fields", ...fields],
  }).output();
  const errors = new TextDecoder().decode(stderr).split("\n").filter((line) => !/^$|Running as user "root"/.test(line));
  assertEquals([code, errors], [0, []]);
  const lines = new TextDecoder().decode(stdout).split("\n").filter((line) => line !== "");
  return lines.map((line, i) => {
    const [name, comment, direction, malformed, ...statuses] = line.split("\t") as [string, string, string, string];
    assertEquals(malformed, "", `packet ${i + 1} is malformed: ${line}`);
    const verified = PROTOCOLS.filter((protocol, at) => {
      const status = (statuses[at] ?? "") as string;
      // Several: an ICMP error quotes a packet.
      assertEquals(status.split(",").includes("0"), false, `packet ${i + 1} has a wrong checksum of ${protocol}`);
      return status.split(",").includes(RIGHT);
    });
    return { name, comment, direction: Number(direction), verified };
  });
}

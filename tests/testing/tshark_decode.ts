/**
 * Single packets as tshark decodes them.
 *
 * @module
 */

import { assertEquals } from "@std/assert";

/**
 * Has tshark decode IP packets and gives the fields asked for, of each packet.
 *
 * @param packets IP packets of either version
 * @param fields names of fields, like `gre.key`
 * @param args further arguments
 */
export async function decodeByTshark(
  packets: readonly Uint8Array[],
  fields: readonly string[],
  args: readonly string[] = [],
): Promise<string[][]> {
  const path = await Deno.makeTempFile({ suffix: ".pcap" });
  try {
    await Deno.writeFile(path, pcap(packets));
    const { stdout, code } = await new Deno.Command("tshark", {
      args: ["-n", "-r", path, ...args, "-T", "fields", ...fields.flatMap((field) => ["-e", field])],
      stderr: "null",
    }).output();
    assertEquals(code, 0);
    return new TextDecoder().decode(stdout).trimEnd().split("\n").map((line) => line.split("\t"));
  } finally {
    await Deno.remove(path);
  }
}

/** A capture file of raw IP packets. */
function pcap(packets: readonly Uint8Array[]): Uint8Array {
  const length = 24 + packets.reduce((sum, packet) => sum + 16 + packet.length, 0);
  const bytes = new Uint8Array(length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, 0xa1b2c3d4);
  view.setUint16(4, 2);
  view.setUint16(6, 4);
  view.setUint32(16, 65_535);
  view.setUint32(20, 101); // LINKTYPE_RAW
  let at = 24;
  for (const packet of packets) {
    view.setUint32(at + 8, packet.length);
    view.setUint32(at + 12, packet.length);
    bytes.set(packet, at + 16);
    at += 16 + packet.length;
  }
  return bytes;
}

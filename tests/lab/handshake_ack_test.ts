import { assertEquals } from "@std/assert";
import { MILLISECOND } from "../../src/base/time.ts";
import { type HandshakeAck, runHandshakeAckCell, type Speaker } from "../../src/lab/handshake_ack.ts";

const run = (speaker: Speaker, ack: HandshakeAck, rtt = 10 * MILLISECOND) =>
  runHandshakeAckCell({ speaker, ack, rtt, seed: 1 });

Deno.test("lab handshake-ack: an acknowledgment that waits delays a server that speaks first by its whole delay", () => {
  assertEquals(run("server", "now"), { firstByte: 20, clientPackets: 2 });
  assertEquals(run("server", "delayed"), { firstByte: 60, clientPackets: 2 });
});

Deno.test("lab handshake-ack: a client that speaks first loses nothing and saves a packet", () => {
  const [now, delayed] = [run("client", "now", 2 * MILLISECOND), run("client", "delayed", 2 * MILLISECOND)];
  assertEquals([now.firstByte, delayed.firstByte], [4, 4]);
  assertEquals(delayed.clientPackets, now.clientPackets - 1);
});

/**
 * `--tun`: what it says, and what is wrong with it.
 *
 * @module
 */

import { assertEquals, assertRejects } from "@std/assert";
import { UsageError } from "../../src/cli/command.ts";
import { Flags } from "../../src/cli/flags.ts";
import { HOST_FLAGS, planHost } from "../../src/cli/host_flags.ts";

const HOST = ["--address", "10.9.0.1/24", "--peer", "r1=192.0.2.1:4790,10.7.0.0/24", "--forward"];

async function tunOf(text: string): Promise<unknown[]> {
  const { config } = await planHost(new Flags({ command: "up", flags: HOST_FLAGS }, [...HOST, "--tun", text]));
  const { name, addresses, allowed, routes, mtu } = config.tun!;
  return [name, addresses.map(String), allowed.map(String), routes.map(String), mtu];
}

Deno.test("--tun: a name, addresses, routes, what is behind, and the MTU", async () => {
  assertEquals(await tunOf("culv0,10.9.0.2/24"), ["culv0", ["10.9.0.2/24"], ["10.9.0.2/32"], [], 1472]);
  assertEquals(await tunOf("10.9.0.2/24"), ["culv%d", ["10.9.0.2/24"], ["10.9.0.2/32"], [], 1472]);
  assertEquals(
    await tunOf("t1, 10.9.0.2/24, fd09::2/64, route 10.7.0.0/24, route fd07::/64, allow 10.10.0.0/16, mtu 1280"),
    [
      "t1",
      ["10.9.0.2/24", "fd09::2/64"],
      ["10.9.0.2/32", "fd09::2/128", "10.10.0.0/16"],
      ["10.7.0.0/24", "fd07::/64"],
      1280,
    ],
  );
});

Deno.test("--tun: what is wrong is said in one line", async () => {
  const cases: [text: string, message: string][] = [
    ["culv0", "--tun"],
    ["culv0,10.9.0.2", "--tun"],
    ["culv0,10.9.0.2/24,mtu many", "--tun: found"],
    ["culv0,10.9.0.2/24,via 10.7.0.0/24", "--tun: found"],
    ["culv0,10.9.0.2/24,route 192.0.2.0/24", "the tunnel would lead into itself"],
    ["culv0,10.9.0.1/24", "this host itself has that address"],
  ];
  for (const [text, message] of cases) {
    const error = await assertRejects(() => tunOf(text), UsageError, message, text);
    assertEquals(error.message.includes("\n"), false, text);
  }
});

/**
 * The router in the README is one that can be opened, and a file for the command `up`.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { parse } from "yaml";
import { prepareHost } from "../../src/runtime/open_host.ts";
import { Stack } from "../../src/stack/stack.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";

Deno.test("the README's router has the routes, peers and settings that it says", async () => {
  const text = await Deno.readTextFile(new URL("../../README.md", import.meta.url));
  const yaml = /## Routing[^]*?```yaml\n([^]*?)```/.exec(text)?.[1];
  assert(yaml !== undefined);
  const { config } = await prepareHost(parse(yaml), () => Promise.resolve([IpAddr.parse("192.0.2.2")]));
  const { interfaces, routes, forward } = new Stack({ ...config, seed: 1 }).inspect(0);
  assertEquals(forward, true);
  assertEquals(interfaces.map(({ name, endpoint, state, mtu }) => `${name} ${endpoint} ${state} ${mtu}`), [
    "b 192.0.2.2:7000 unheard 1472",
    "c 192.0.2.3:7000 unheard 1472",
    "kernel 192.0.2.4:7000 null 1472",
  ]);
  assertEquals(interfaces.map(({ hostname, learnedBy }) => [hostname, learnedBy])[0], ["b.example", "dns"]);
  assertEquals(routes.filter(({ to }) => to === "10.20.0.0/16").map(({ via, weight }) => [via, weight]), [
    ["b", 3],
    ["c", 1],
  ]);
});

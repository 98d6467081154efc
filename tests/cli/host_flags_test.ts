/**
 * The host of a command: what flags say, what a file says, and what comes of both.
 *
 * @module
 */

import { assertEquals, assertRejects } from "@std/assert";
import { UsageError } from "../../src/cli/command.ts";
import { Flags } from "../../src/cli/flags.ts";
import { HOST_FLAGS, type HostPlan, planHost } from "../../src/cli/host_flags.ts";
import { formatNetem } from "../../src/impair/parse.ts";
import { formatEndpoint } from "../../src/stack/options.ts";

function plan(args: string[], file?: string): Promise<HostPlan> {
  return planHost(new Flags({ command: "test", flags: HOST_FLAGS }, args), file);
}

async function withFile(text: string, use: (path: string) => Promise<void>): Promise<void> {
  const path = await Deno.makeTempFile({ suffix: ".yaml" });
  try {
    await Deno.writeTextFile(path, text);
    await use(path);
  } finally {
    await Deno.remove(path);
  }
}

/** Impairments of all peers, as text: out, in. */
function impairments({ config }: HostPlan): (string | null)[][] {
  return config.peers.map(({ impair }) => [impair.out, impair.in].map((c) => c === null ? null : formatNetem(c)));
}

Deno.test("host flags: everything that flags can say", async () => {
  const { config, services } = await plan([
    ...["--address", "10.7.0.1/24", "--address", "fd07::1/64", "--listen", "127.0.0.1:7001"],
    ...["--peer", "b=127.0.0.1:7002,10.7.0.2,fd07::2", "--peer", "127.0.0.1:7003,10.7.0.3/32"],
    ...["--route", "10.9.0.0/16,b", "--forward", "--mtu", "1400", "--qdisc", "pfifo", "--congestion", "reno"],
    ...["--impair", "delay 20ms", "--impair-in", "loss 1%", "--seed", "7"],
  ]);
  assertEquals(config.addresses.map(String), ["10.7.0.1/24", "fd07::1/64"]);
  assertEquals(config.listen.map(({ address, port }) => formatEndpoint(address, port)), ["127.0.0.1:7001"]);
  assertEquals(
    config.peers.map(({ name, allowed, mtu }) => [name, allowed.map(String), mtu]),
    [
      ["b", ["10.7.0.2/32", "fd07::2/128"], 1400],
      ["127.0.0.1:7003", ["10.7.0.3/32"], 1400],
    ],
  );
  assertEquals(config.routes.map(({ to, via }) => `${to} ${via}`), ["10.9.0.0/16 b"]);
  assertEquals([config.forward, config.qdisc.kind, config.tcp.congestion, config.seed], [true, "pfifo", "reno", 7]);
  assertEquals(services, {});
});

Deno.test("host flags: impairments of both directions", async () => {
  const both = await plan([
    ...["--address", "10.7.0.1/24", "--peer", "127.0.0.1:7002,10.7.0.2"],
    ...["--impair", "delay 20ms", "--impair-in", "loss 1%"],
  ]);
  assertEquals(impairments(both), [["delay 20ms", "loss 1%"]]);
});

Deno.test("host flags: a peer by the IPv6 address of the underlay, vxlan-gpe by its number", async () => {
  const { config } = await plan(["--address", "10.7.0.1/24", "--peer", "b=[::1]:4790,10.7.0.2", "--vni", "42"]);
  assertEquals(config.encapsulation, { kind: "vxlan-gpe", vni: 42 });
  const [{ endpoint, vni }] = config.peers as [typeof config.peers[0]];
  assertEquals([formatEndpoint(endpoint!.address, endpoint!.port), vni], ["[::1]:4790", 42]);
});

const FILE = `
address: 10.7.0.1/24
listen: 127.0.0.1:7001
peers:
  - { name: b, endpoint: "127.0.0.1:7002", allowed: 10.7.0.2, impair: delay 1ms }
  - { name: c, endpoint: "127.0.0.1:7003", allowed: 10.7.0.3, impair: { in: delay 2ms } }
  - { name: d, endpoint: "127.0.0.1:7004", allowed: 10.7.0.4 }
impair: { out: loss 5%, in: loss 6% }
seed: 3
services: { echo: 7 }
`;

Deno.test("host flags: a file alone", () =>
  withFile(FILE, async (path) => {
    for (const read of [await plan([], path), await plan(["--config", path]), await plan(["--config", path], path)]) {
      assertEquals(impairments(read), [["delay 1ms", "loss 6%"], ["loss 5%", "delay 2ms"], ["loss 5%", "loss 6%"]]);
      assertEquals([read.config.seed, read.services], [3, { echo: 7 }]);
    }
  }));

Deno.test("host flags: an impairment on the command line is that of every peer, in its direction", () =>
  withFile(FILE, async (path) => {
    const out = await plan(["--impair", "delay 9ms"], path);
    assertEquals(impairments(out), [["delay 9ms", "loss 6%"], ["delay 9ms", "delay 2ms"], ["delay 9ms", "loss 6%"]]);
    const into = await plan(["--impair-in", "loss 9%"], path);
    assertEquals(impairments(into), [["delay 1ms", "loss 9%"], ["loss 5%", "loss 9%"], ["loss 5%", "loss 9%"]]);
  }));

Deno.test("host flags: other flags replace what the file says", () =>
  withFile(FILE, async (path) => {
    const { config } = await plan(["--seed", "9", "--peer", "x=127.0.0.1:7009,10.7.0.9"], path);
    assertEquals([config.seed, config.peers.map(({ name }) => name)], [9, ["x"]]);
  }));

Deno.test("host flags: JSON is YAML", () =>
  withFile('{ "address": ["10.7.0.1/24"], "tcp": { "initialRto": "2s" } }', async (path) => {
    assertEquals((await plan([], path)).config.tcp.initialRto, 2_000_000_000);
  }));

Deno.test("host flags: a file that flags make wrong is told by the flag", () =>
  withFile(FILE, async (path) => {
    await assertRejects(
      () => plan(["--route", "10.9.0.0/16,e"], path),
      UsageError,
      'test: --route: via: found "e", expected the name of a peer',
    );
    // And the other way round: the file is at fault for what the flags leave to it.
    await assertRejects(() => plan(["--listen", "[::1]:7001"], path), UsageError, `${path}:5:26: peers[0].endpoint`);
  }));

/**
 * Impairments of an open host: changed while it runs, and files that they name.
 *
 * @module
 */

import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { MILLISECOND } from "../../src/base/time.ts";
import { MemoryNetwork } from "../../src/runtime/memory_port.ts";
import { readImpairFiles, readNetem } from "../../src/runtime/impair_files.ts";
import { type Host, openHost, openHostOver } from "../../src/runtime/open_host.ts";
import type { PingAnswer } from "../../src/socket/ping.ts";
import { freePort } from "../testing/host_pair.ts";
import { withFolder } from "../testing/run_cli.ts";

async function pair(): Promise<[Host, Host]> {
  const network = new MemoryNetwork();
  const open = (own: number, other: number) =>
    openHostOver({
      address: `10.7.0.${own}/24`,
      listen: `127.0.0.1:700${own}`,
      peers: [{ name: `peer${other}`, endpoint: `127.0.0.1:700${other}`, allowed: `10.7.0.${other}` }],
    }, (address, port, context) => network.open(address, port, context));
  return [await open(1, 2), await open(2, 1)];
}

async function rtt(host: Host): Promise<number> {
  const answers: PingAnswer[] = await Array.fromAsync(host.ping("10.7.0.2", { count: 1 }));
  const [answer] = answers;
  return answer?.kind === "reply" ? answer.rtt / MILLISECOND : Infinity;
}

Deno.test("host: an impairment is changed by peer and direction while the host runs", async () => {
  const [a, b] = await pair();
  await using _a = a;
  await using _b = b;
  const before = await rtt(a);
  a.setImpairment("peer2", "out", "delay 30ms");
  b.setImpairment("peer1", "out", { delay: 30 * MILLISECOND });
  const between = await rtt(a);
  assert(between >= 60 && before < 60, `${before} ${between}`);
  const { impairIn, impairOut } = a.inspect().interfaces[0]!;
  assertEquals([impairIn, impairOut?.netem, impairOut?.stats["pushed"]], [null, "delay 30ms", 1]);
  // What is delayed now is let go, and not lost, when the delay ends.
  a.setImpairment("peer2", "out", "delay 300ms");
  const waiting = rtt(a);
  while (a.inspect().interfaces[0]!.impairOut?.stats["qlen"] !== 1) {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  a.setImpairment("peer2", "out", null);
  b.setImpairment("peer1", "out", null);
  assert(await waiting >= 300);
  a.setImpairment("peer2", "in", "loss 100%");
  const lost = await Array.fromAsync(a.ping("10.7.0.2", { count: 1, timeout: 20 * MILLISECOND }));
  assertEquals(lost.map(({ kind }) => kind), ["timeout"]);
});

Deno.test("host: wrong calls are refused in words, and change nothing", async () => {
  const [a, b] = await pair();
  await using _a = a;
  await using _b = b;
  assertThrows(() => a.setImpairment("b", "out", ""), TypeError, 'there is no peer "b": expected peer2');
  assertThrows(() => a.setImpairment("peer2", "up" as "in", ""), TypeError, 'must be "in" or "out", got "up"');
  assertThrows(() => a.setImpairment("peer2", "in", "dealy 1ms"), TypeError, 'netem: word 1 "dealy"');
  assertThrows(() => a.setImpairment("peer2", "in", { loss: 2 }), RangeError, "netem loss must be");
  assertEquals(a.inspect().interfaces[0]!.impairIn, null);
});

Deno.test("host: files that impairments name are read, from text and in the options", () =>
  withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/my.dist`, "# a table\n-8192 0\n8192\n");
    await Deno.writeTextFile(`${folder}/wire`, "0s 20ms 1% 50mbit\n1s 30ms 0% unlimited\n");
    await Deno.writeTextFile(`${folder}/cell`, "1\n3\n7\n");
    assertEquals(readNetem(`delay 2ms 1ms distribution ${folder}/my.dist`).distribution, {
      name: `${folder}/my.dist`,
      values: [-8192, 0, 8192],
    });
    const options = {
      address: "10.7.0.1/24",
      impair: `trace ${folder}/wire loop`,
      peers: [
        { name: "b", endpoint: "127.0.0.1:9", allowed: "10.7.0.2", impair: { in: `delivery ${folder}/cell` } },
        { name: "c", endpoint: "127.0.0.1:10", allowed: "10.7.0.3", impair: "delay 1ms" },
      ],
    };
    const network = new MemoryNetwork();
    await using host = await openHostOver(
      readImpairFiles(options, (path, why) => assert(false, `${path} ${why}`)),
      (address, port, context) => network.open(address, port, context),
    );
    assertEquals(host.inspect().interfaces.map(({ impairIn, impairOut }) => [impairIn?.netem, impairOut?.netem]), [
      [`delivery ${folder}/cell`, `trace ${folder}/wire loop`],
      [undefined, "delay 1ms"],
    ]);
  }));

Deno.test("host: a file that cannot be read is told with the path of its impairment", async () => {
  const listen = `127.0.0.1:${await freePort()}`;
  const peer = { endpoint: "127.0.0.1:9", allowed: "10.7.0.2" };
  const error = await assertRejects(
    () => openHost({ address: "10.7.0.1/24", listen, peers: [{ ...peer, impair: { out: "trace /nowhere/at/all" } }] }),
    TypeError,
  );
  assert(
    /peers\[0\]\.impair\.out: found .*expected an impairment whose files can be read .*word 2/.test(error.message),
  );
});

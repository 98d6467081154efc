/**
 * Ping.
 *
 * @module
 */

import {
  assert,
  assertEquals,
  assertGreaterOrEqual,
  assertLess,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import type { Host } from "../../src/runtime/host.ts";
import type { PingAnswer, PingOptions } from "../../src/socket/ping.ts";
import { FAMILIES, pairTest } from "../testing/host_pair.ts";

async function all(host: Host, to: string, options: PingOptions): Promise<PingAnswer[]> {
  return await Array.fromAsync(host.ping(to, options));
}

for (const family of FAMILIES) {
  pairTest(`ping IPv${family}: every request is answered, its time measured`, async (openPair) => {
    await using pair = await openPair({ impair: "delay 3ms" });
    const to = pair.addressB(family);
    const answers = await all(pair.a, to, { count: 4, interval: 2 * MILLISECOND, sizeBytes: 100, ttl: 9 });
    assertEquals(answers.map(({ kind, seq }) => [kind, seq]), [1, 2, 3, 4].map((seq) => ["reply", seq]));
    for (const answer of answers) {
      assert(answer.kind === "reply");
      assertEquals([answer.from, answer.bytes, answer.ttl, answer.duplicate], [to, 100, 64, false]);
      assertGreaterOrEqual(answer.rtt, 6 * MILLISECOND);
      assertLess(answer.rtt, 5 * SECOND);
    }
    assertEquals(pair.a.inspect().ping, []);
    assertEquals(pair.a.inspect().sockets, 0);
  });

  pairTest(`ping IPv${family}: nobody there is a timeout`, async (openPair) => {
    await using pair = await openPair();
    const nobody = family === 4 ? "10.7.0.77" : "fd07::77";
    const answers = await all(pair.a, nobody, { count: 2, interval: 5 * MILLISECOND, timeout: 30 * MILLISECOND });
    assertEquals(answers, [{ kind: "timeout", seq: 1 }, { kind: "timeout", seq: 2 }]);
  });

  pairTest(`ping IPv${family}: a host answers itself`, async (openPair) => {
    await using pair = await openPair();
    const answers = await all(pair.a, pair.addressA(family), { count: 3, interval: MILLISECOND });
    assertEquals(answers.map(({ kind }) => kind), ["reply", "reply", "reply"]);
  });
}

pairTest("ping: lost requests are timeouts between replies, doubled answers do not count", async (openPair) => {
  await using pair = await openPair({ impair: "delay 1ms loss 30% duplicate 30%" });
  const answers = await all(pair.a, "fd07::2", { count: 40, interval: MILLISECOND, timeout: 200 * MILLISECOND });
  const replies = answers.filter((answer) => answer.kind === "reply");
  const firsts = replies.filter(({ duplicate }) => !duplicate);
  const lost = answers.filter(({ kind }) => kind === "timeout");
  assertEquals(firsts.length + lost.length, 40);
  assert(firsts.length > 0 && lost.length > 0 && replies.length > firsts.length);
});

pairTest("ping: what cannot be sent is an error in words, request by request", async (openPair) => {
  await using pair = await openPair();
  const noRoute = await all(pair.a, "192.0.2.1", { count: 2, interval: MILLISECOND });
  assertEquals(noRoute.map(({ kind, seq }) => [kind, seq]), [["error", 1], ["error", 2]]);
  const [tooBig] = await all(pair.a, "10.7.0.2", { count: 1, sizeBytes: 2000 });
  for (const [answer, word] of [[noRoute[0], "route"], [tooBig, "MTU"]] as const) {
    assert(answer?.kind === "error");
    assertStringIncludes(answer.message, word);
  }
});

pairTest("ping: bad options are told at the call", async (openPair) => {
  await using pair = await openPair();
  const bad: [PingOptions, string][] = [
    [{ count: 1.5 }, "count"],
    [{ count: -1 }, "count"],
    [{ interval: 0 }, "interval"],
    [{ interval: NaN }, "interval"],
    [{ interval: 200 }, "in ns"],
    [{ interval: 1000 }, "1000000 (1 ms)"],
    [{ timeout: -1 }, "timeout"],
    [{ sizeBytes: 70000 }, "size"],
    [{ ttl: 0 }, "ttl"],
  ];
  for (const [options, word] of bad) assertThrows(() => pair.a.ping("10.7.0.2", options), RangeError, word);
  assertThrows(() => pair.a.ping("there"), TypeError, "there");
  assertEquals(await all(pair.a, "10.7.0.2", { count: 0 }), []);
});

pairTest("ping: a program that is late for every request still lets the event loop run", async (openPair) => {
  await using pair = await openPair();
  for (const to of ["192.0.2.1", "10.7.0.2"]) {
    let fired = false;
    const timer = setTimeout(() => fired = true, 5);
    let answers = 0;
    for await (const _ of pair.a.ping(to, { count: 100, interval: MILLISECOND })) {
      if (fired) break;
      answers++;
      for (const until = performance.now() + 2; performance.now() < until;);
    }
    clearTimeout(timer);
    assertLess(answers, 100);
  }
});

pairTest("ping: a signal ends it with its reason, at any time, and leaves nothing", async (openPair) => {
  await using pair = await openPair();
  const reason = new TypeError("enough");
  const options = { count: 5, signal: AbortSignal.abort(reason) };
  assertEquals(await all(pair.a, "10.7.0.2", options).catch((error) => error), reason);
  // While waiting for the next second.
  const abort = new AbortController();
  const seqs: number[] = [];
  await assertRejects(
    async () => {
      for await (const { seq } of pair.a.ping("10.7.0.2", { signal: abort.signal })) {
        seqs.push(seq);
        setTimeout(() => abort.abort(reason), 5);
      }
    },
    TypeError,
    "enough",
  );
  assertEquals(seqs, [1]);
  // While waiting for an answer.
  await assertRejects(
    () => all(pair.a, "10.7.0.77", { count: 1, signal: AbortSignal.timeout(10) }),
    DOMException,
  );
  assertEquals(pair.a.inspect().ping, []);
  assertEquals(pair.a.inspect().sockets, 0);
});

pairTest("ping: leaving the loop closes the socket", async (openPair) => {
  await using pair = await openPair();
  for await (const answer of pair.a.ping("10.7.0.2", { interval: MILLISECOND })) if (answer.seq === 3) break;
  assertEquals(pair.a.inspect().ping, []);
});

pairTest("ping: closing the host ends it", async (openPair) => {
  await using pair = await openPair();
  const pinging = all(pair.a, "10.7.0.77", { timeout: 100 * SECOND });
  await new Promise((resolve) => setTimeout(resolve, 5));
  await Promise.all([assertRejects(() => pinging, Deno.errors.BadResource), pair.a.close()]);
});

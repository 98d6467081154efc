import { assert, assertEquals } from "@std/assert";
import { SocketErrorKind } from "../../src/base/errors.ts";
import type { EventSource } from "../../src/base/event_queue.ts";
import { MILLISECOND, NEVER, SECOND } from "../../src/base/time.ts";
import type { HostOptions } from "../../src/stack/config.ts";
import { TcpListener } from "../../src/tcp/listener.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { StackNet, type StackNode } from "../testing/stack_net.ts";

/** Byte `i` of what travels in one direction. */
function byteAt(i: number, salt: number): number {
  return (i * 31 + (i >> 8) * 7 + salt) & 0xff;
}

/** Sends `total` bytes, reads and verifies as many, then closes. */
class Transfer {
  received = 0;
  ended = false;
  #sent = 0;
  #shut = false;
  readonly #chunk = new Uint8Array(8192);

  constructor(readonly tcb: Tcb, readonly total: number, readonly salt: number, readonly peerSalt: number) {}

  work(now: number): void {
    const { tcb } = this;
    for (;;) {
      const n = tcb.read(this.#chunk);
      if (n <= 0) break;
      for (let i = 0; i < n; i++) {
        if (this.#chunk[i] !== byteAt(this.received + i, this.peerSalt)) {
          throw new Error(`byte ${this.received + i} is wrong`);
        }
      }
      this.received += n;
    }
    while (this.#sent < this.total) {
      const want = Math.min(this.#chunk.length, this.total - this.#sent);
      for (let i = 0; i < want; i++) this.#chunk[i] = byteAt(this.#sent + i, this.salt);
      const n = tcb.write(this.#chunk, 0, want);
      if (n <= 0) break;
      this.#sent += n;
    }
    if (this.#sent === this.total && !this.#shut) {
      this.#shut = true;
      tcb.shutdownWrite(now);
    }
    if (tcb.readEnded) this.ended = true;
  }
}

function join(net: StackNet, a: StackNode, b: StackNode, to: string, total: number): Transfer[] {
  const listener = b.stack.tcp.listen(IpAddr.parse(to), 80);
  if (!(listener instanceof TcpListener)) throw new Error(SocketErrorKind[listener]);
  const tcb = a.stack.tcp.connect(IpAddr.parse(to), 80, {}, net.now);
  if (!(tcb instanceof Tcb)) throw new Error(SocketErrorKind[tcb]);
  const transfers = [new Transfer(tcb, total, 1, 2)];
  const onEvent = (source: EventSource, _events: number, now: number): void => {
    if (source === listener) {
      for (let t = listener.accept(); t !== null; t = listener.accept()) {
        const transfer = new Transfer(t, total, 2, 1);
        t.user = transfer;
        transfers.push(transfer);
        transfer.work(now);
      }
      return;
    }
    const transfer = source.user as Transfer;
    transfer.work(now);
  };
  tcb.user = transfers[0];
  a.onEvent = onEvent;
  b.onEvent = onEvent;
  return transfers;
}

function pair(changes: Partial<HostOptions>): { net: StackNet; a: StackNode; b: StackNode } {
  const net = new StackNet(MILLISECOND);
  const host = (n: number): HostOptions => ({
    address: [`10.7.0.${n}/24`, `fd07::${n}/64`],
    listen: `192.0.2.${n}:4790`,
    peers: [{
      name: n === 1 ? "b" : "a",
      endpoint: `192.0.2.${3 - n}:4790`,
      allowed: [`10.7.0.${3 - n}`, `fd07::${3 - n}`],
    }],
    seed: 7 + n,
    ...changes,
  });
  return { net, a: net.add(host(1)), b: net.add(host(2)) };
}

const paths: [string, number, Partial<HostOptions>][] = [
  ["a clean path", 1_000_000, {}],
  ["vxlan-gpe", 300_000, { encapsulation: { kind: "vxlan-gpe", vni: 1 } }],
  ["pfifo", 300_000, { qdisc: "pfifo" }],
  ["loss, jitter, duplicates and corruption", 400_000, {
    impair: { out: "delay 10ms 2ms loss 1% duplicate 1% corrupt 1%" },
  }],
  ["a bottleneck of 10 Mbit/s", 500_000, { impair: { out: "delay 5ms rate 10mbit limit 60" } }],
];

for (const [what, total, changes] of paths) {
  for (const to of ["10.7.0.2", "fd07::2"]) {
    Deno.test(`TCP over ${what}, to ${to}: every byte both ways, an orderly close, and no packet left`, () => {
      const { net, a, b } = pair(changes);
      const transfers = join(net, a, b, to, total);
      const finished = net.run(600 * SECOND, () => transfers.length === 2 && transfers.every((t) => t.ended));
      assertEquals(transfers.map((t) => t.received), [total, total]);
      assert(finished, "not finished in ten minutes");
      if (changes.impair !== undefined) assert(a.stack.drops.total() > 0, "the path was not impaired");
      for (const { tcb } of transfers) tcb.close(net.now);
      net.run(net.now + 300 * SECOND);
      assertEquals(transfers.map((t) => TcpState[t.tcb.state]), ["Closed", "Closed"]);
      assertEquals([a.stack.tcp.connectionCount, b.stack.tcp.connectionCount], [0, 0]);
      assertEquals([a.stack.nextAt(), b.stack.nextAt()], [NEVER, NEVER]);
      net.noLeak();
    });
  }
}

Deno.test("TCP: a host connects to itself, and none of it leaves the host", () => {
  const { net, a } = pair({});
  let datagrams = 0;
  net.onDatagram = () => datagrams++;
  const transfers = join(net, a, a, "10.7.0.1", 500_000);
  assert(net.run(60 * SECOND, () => transfers.length === 2 && transfers.every((t) => t.ended)));
  assertEquals(transfers.map((t) => t.received), [500_000, 500_000]);
  assertEquals(datagrams, 0);
  for (const { tcb } of transfers) tcb.close(net.now);
  net.run(net.now + 300 * SECOND);
  net.noLeak();
});

Deno.test("TCP small queues: the queue holds little of a connection, and what leaves makes room for more at once", () => {
  const smallQueueBytes = 10_000;
  const { net, a, b } = pair({ congestion: "none", tcp: { smallQueueBytes } });
  net.delay = 10 * MILLISECOND;
  const transfers = join(net, a, b, "10.7.0.2", 300_000);
  let most = 0;
  const done = (): boolean => {
    most = Math.max(most, a.stack.qdisc.backlogBytes);
    return transfers.length === 2 && transfers.every((t) => t.ended);
  };
  net.onDatagram = () => most = Math.max(most, a.stack.qdisc.backlogBytes);
  assert(net.run(SECOND, done));
  assert(most > 1000 && most < smallQueueBytes + 3000, `the queue held ${most} bytes`);
  // A queue's worth each round trip would take 30 of them.
  assert(net.now < 100 * MILLISECOND, `it took ${net.now / MILLISECOND} ms`);
});

Deno.test("TCP small queues hold on the way to oneself: nothing is dropped, with any amount to send", () => {
  const { net, a } = pair({ congestion: "none", tcp: { smallQueueBytes: 50_000 } });
  const transfers = join(net, a, a, "fd07::1", 1_000_000);
  assert(net.run(SECOND, () => transfers.length === 2 && transfers.every((t) => t.ended)));
  assertEquals(a.stack.drops.toJSON(), {});
});

Deno.test("TCP: a closed port refuses, and a peer that is gone times out", () => {
  const { net, a } = pair({});
  const refused = a.stack.tcp.connect(IpAddr.parse("10.7.0.2"), 81, {}, net.now) as Tcb;
  net.run(net.now + SECOND);
  assertEquals(SocketErrorKind[refused.error], "ConnectionRefused");
  assertEquals(a.stack.tcp.connect(IpAddr.parse("10.9.0.1"), 80, {}, net.now), SocketErrorKind.HostUnreachable);
  net.delay = NEVER;
  const lost = a.stack.tcp.connect(IpAddr.parse("fd07::2"), 81, {}, net.now) as Tcb;
  net.run(net.now + 600 * SECOND);
  assertEquals(SocketErrorKind[lost.error], "TimedOut");
  net.noLeak();
});

Deno.test("TCP: a router in the middle carries a connection", () => {
  const net = new StackNet(5 * MILLISECOND);
  const outer = (n: number): StackNode =>
    net.add({
      address: [`10.${n}.0.1/24`, `fd0${n}::1/64`],
      listen: `192.0.2.${n}:4790`,
      peers: [{ name: "r", endpoint: "192.0.2.9:4790", allowed: ["0.0.0.0/0", "::/0"] }],
      seed: n,
    });
  const a = outer(1);
  const c = outer(2);
  const r = net.add({
    address: ["10.9.0.1/24", "fd09::1/64"],
    listen: "192.0.2.9:4790",
    peers: [
      { name: "a", endpoint: "192.0.2.1:4790", allowed: ["10.1.0.0/24", "fd01::/64"] },
      { name: "c", endpoint: "192.0.2.2:4790", allowed: ["10.2.0.0/24", "fd02::/64"], impair: "loss 0.5%" },
    ],
    forward: true,
    seed: 9,
  });
  for (const to of ["10.2.0.1", "fd02::1"]) {
    const transfers = join(net, a, c, to, 200_000);
    assert(net.run(net.now + 60 * SECOND, () => transfers.length === 2 && transfers.every((t) => t.ended)));
    assertEquals(transfers.map((t) => t.received), [200_000, 200_000]);
    for (const { tcb } of transfers) tcb.close(net.now);
  }
  net.run(net.now + 300 * SECOND);
  assert(r.stack.ip.forwarded > 400);
  net.noLeak();
});

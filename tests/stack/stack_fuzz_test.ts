import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { SECOND } from "../../src/base/time.ts";
import { type HostOptions, parseHostConfig } from "../../src/stack/config.ts";
import { Stack } from "../../src/stack/stack.ts";
import type { UdpSocket } from "../../src/udp/udp_socket.ts";
import { checksumFinish, checksumSum } from "../../src/wire/checksum.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { pattern } from "../testing/ip_packets.ts";
import { StackNet } from "../testing/stack_net.ts";

function options(n: number, encapsulation: "raw" | "vxlan-gpe"): HostOptions {
  return {
    address: [`10.7.0.${n}/24`, `fd07::${n}/64`],
    listen: `192.0.2.${n}:4790`,
    peers: [{ name: "peer", endpoint: `192.0.2.${3 - n}:4790`, allowed: [`10.7.0.${3 - n}`, `fd07::${3 - n}`] }],
    forward: true,
    encapsulation,
    seed: n,
  };
}

/** Datagrams from host 1 to host 2 of a conversation with all that the stack can say. */
function conversation(encapsulation: "raw" | "vxlan-gpe"): Uint8Array[] {
  const net = new StackNet(1000);
  const a = net.add(options(1, encapsulation));
  const b = net.add(options(2, encapsulation));
  const seen: Uint8Array[] = [];
  net.onDatagram = (bytes, from) => {
    if (from === a) seen.push(bytes);
  };
  for (const to of ["10.7.0.2", "fd07::2"].map((text) => IpAddr.parse(text))) {
    b.stack.tcp.listen(to, 80);
    const tcb = a.stack.tcp.connect(to, 80, {}, net.now);
    const ping = a.stack.icmp.openPing(to);
    const udp = a.stack.udp.bind(to.isV4 ? IpAddr.ANY_V4 : IpAddr.ANY_V6, 0) as UdpSocket;
    if (typeof tcb === "number" || typeof ping === "number") throw new Error("not opened");
    net.run(net.now + SECOND);
    tcb.write(pattern(5000), 0, 5000);
    ping.send(1, 40, 64, net.now);
    udp.send(pattern(40), to, 53, net.now);
    net.run(net.now + SECOND);
    tcb.abort(net.now);
    net.run(net.now + SECOND);
  }
  return seen;
}

for (const encapsulation of ["raw", "vxlan-gpe"] as const) {
  const good = conversation(encapsulation);
  const header = encapsulation === "raw" ? 0 : 8;

  Deno.test(`${encapsulation}: good datagrams with bytes changed, cut and repeated never throw and never leak`, () => {
    assert(good.length >= 16, `only ${good.length} datagrams`);
    const change = fc.record({
      which: fc.nat(good.length - 1),
      edits: fc.array(fc.tuple(fc.nat(120), fc.nat(255)), { maxLength: 3 }),
      cut: fc.option(fc.nat(120)),
      mend: fc.boolean(),
      wait: fc.constantFrom(0, 1000, SECOND, 100 * SECOND),
    });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 20, size: "max" }), (changes) => {
        const stack = new Stack(parseHostConfig(options(2, encapsulation)));
        for (const to of ["10.7.0.2", "fd07::2"]) stack.tcp.listen(IpAddr.parse(to), 80);
        let now = 0;
        for (const { which, edits, cut, mend, wait } of changes) {
          const p = stack.pool.acquire()!;
          const bytes = good[which]!.subarray(0, cut ?? undefined);
          p.bytes.set(bytes, p.start);
          p.end = p.start + bytes.length;
          for (const [at, value] of edits) if (at < bytes.length) p.bytes[p.start + at] = value;
          // Give an IPv4 packet a right header checksum again, so that what comes after it is tried too.
          const ip = p.start + header;
          if (mend && p.end - ip >= 20 && p.bytes[ip]! === 0x45) {
            p.view.setUint16(ip + 10, 0);
            p.view.setUint16(ip + 10, checksumFinish(checksumSum(p.view, ip, ip + 20)));
          }
          stack.inputDatagram(p, 0, 0, 0xffff, IpAddr.parse("192.0.2.1").w3, 4790, now);
          stack.timeout(now);
          for (let out = stack.pull(now); out !== null; out = stack.pull(now)) {
            assert(out.length >= 20 && out.length <= 1472);
            stack.tunnel!.output(out);
            stack.pool.release(out);
          }
          while (stack.pollEvent() !== null);
          now += wait;
        }
        stack.close(now);
        assertEquals(stack.pool.inUse, 0);
      }),
      { numRuns: 300 },
    );
  });
}

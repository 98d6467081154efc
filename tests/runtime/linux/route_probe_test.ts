/**
 * The system's ways: asked for on real sockets, and, in a network namespace of its own, followed by hosts whose underlay
 * becomes narrower while they talk.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { Level } from "../../../src/runtime/linux/abi.ts";
import { RouteProbe } from "../../../src/runtime/linux/route_probe.ts";
import { IpAddr } from "../../../src/wire/ip_addr.ts";
import { FakeLibc } from "../../testing/fake_libc.ts";
import { NO_LINUX_PORT } from "../../testing/host_pair.ts";
import { libcForTest } from "../../testing/port_poll.ts";

const ignore = NO_LINUX_PORT !== "";

Deno.test({
  name: "route probe: MTU and source of the way, again and again for one address after the other",
  ignore,
  fn() {
    const probe = new RouteProbe(libcForTest());
    try {
      for (const text of ["127.0.0.1", "::1", "127.0.0.2", "127.0.0.1"]) {
        const to = IpAddr.parse(text);
        const route = probe.route(to);
        assert(route !== null && route.mtu >= 1280, `${text}: ${route?.mtu}`);
        assert(`${route.source}`.startsWith(text.startsWith("127") ? "127.0.0." : "::1"), `${route.source}`);
      }
    } finally {
      probe.close();
    }
  },
});

Deno.test("route probe: what the system refuses is no way, and all is given back", () => {
  class Refusing extends FakeLibc {
    refused = "";
    override connect(): number {
      return this.refused === "connect" ? -101 : 0;
    }
    override getsockopt(_fd: number, level: number, option: number, value: Uint8Array<ArrayBuffer>): number {
      if (this.refused === "getsockopt") return -92;
      assertEquals([level, option], [Level.Ip, 14]);
      new DataView(value.buffer).setInt32(0, 1400, true);
      return 4;
    }
    override getsockname(_fd: number, address: Uint8Array<ArrayBuffer>): number {
      if (this.refused === "getsockname") return -9;
      address.set([10, 9, 0, 2], 4);
      return 0;
    }
  }
  const libc = new Refusing();
  const probe = new RouteProbe(libc);
  const to = IpAddr.parse("192.0.2.7");
  const found = probe.route(to)!;
  assertEquals([found.mtu, `${found.source}`], [1400, "10.9.0.2"]);
  for (const call of ["connect", "getsockopt", "getsockname"]) {
    libc.refused = call;
    assertEquals(probe.route(to), null);
  }
  probe.close();
  assertEquals([libc.closed, libc.releases], [[3], 1]);
  const none = new Refusing();
  none.socketResult = -97;
  const blind = new RouteProbe(none);
  assertEquals(blind.route(to), null);
  // For want of descriptors, perhaps: it is tried again.
  none.socketResult = 3;
  assertEquals(blind.route(to)?.mtu, 1400);
  blind.close();
  assertEquals(none.closed, [3]);
});

/** Two hosts in a namespace whose loopback gets narrower in the middle of a transfer. */
const PROGRAM = `
import { openHost } from "./mod.ts";
const lo = (mtu) => new Deno.Command("ip", { args: ["link", "set", "lo", "mtu", String(mtu)] }).output();
const loopback = Deno.args[0];
const open = (n, own, other) => openHost({
  address: ["10.7.0." + n + "/24", "fd07::" + n + "/64"],
  listen: loopback + ":" + own,
  port: "linux",
  peers: [{ endpoint: loopback + ":" + other, allowed: ["10.7.0.0/24", "fd07::/64"] }],
});
const a = await open(1, 7001, 7002);
const b = await open(2, 7002, 7001);
const mtus = () => [a, b].map((host) => host.inspect().interfaces[0].mtu);
const before = mtus();
const listener = b.listen({ port: 80 });
const conn = await a.connect({ hostname: Deno.args[1], port: 80 });
const served = await listener.accept();
const total = 4_000_000;
let got = 0;
const reading = (async () => {
  const buffer = new Uint8Array(65536);
  for (let n = await served.read(buffer); n !== null; n = await served.read(buffer)) got += n;
})();
const bytes = new Uint8Array(total / 2);
for (let n = 0; n < bytes.length;) n += await conn.write(bytes.subarray(n));
await lo(1300);
for (let n = 0; n < bytes.length;) n += await conn.write(bytes.subarray(n));
await conn.closeWrite();
await reading;
const { drops, ports } = a.inspect();
console.log(JSON.stringify({ before, after: mtus()[0], got, drops, notes: ports[0].why, retransmits: conn.info().retransmits }));
await Promise.all([a.close(), b.close()]);
`;

const canUnshare = !ignore && await new Deno.Command("unshare", {
  args: ["--net", "ip", "link", "set", "lo", "up"],
  stdout: "null",
  stderr: "null",
}).output().then(({ success }) => success, () => false);

for (const [loopback, inner, headers] of [["127.0.0.1", "10.7.0.2", 28], ["[::1]", "10.7.0.2", 48]] as const) {
  Deno.test({
    name:
      `underlay MTU: hosts take it from the system, and heed a narrower one in the middle of a transfer, ${loopback}`,
    // Needs root, to have a network of its own.
    ignore: !canUnshare,
    async fn() {
      const command = 'ip link set lo mtu 1400 up && exec "$@"';
      const file = await Deno.makeTempFile({ dir: new URL("../../..", import.meta.url).pathname, suffix: ".ts" });
      try {
        await Deno.writeTextFile(file, PROGRAM);
        const { stdout, stderr } = await new Deno.Command("unshare", {
          args: ["--net", "sh", "-c", command, "sh", Deno.execPath(), "run", "-A", "--no-check", file, loopback, inner],
        }).output();
        const text = new TextDecoder().decode(stdout);
        assert(text !== "", new TextDecoder().decode(stderr));
        const { before, after, got, drops, notes } = JSON.parse(text);
        assertEquals(before, [1400 - headers, 1400 - headers]);
        assertEquals([after, got], [1300 - headers, 4_000_000]);
        assertEquals(drops["too-big"] ?? 0, 0);
        assert(!notes.includes("fragment"), notes);
      } finally {
        await Deno.remove(file);
      }
    },
  });
}

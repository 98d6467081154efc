/**
 * What a host runs on: chosen by what is granted and what there is, and told why.
 *
 * @module
 */

import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { DropCounters } from "../../src/base/drop.ts";
import { PacketPool } from "../../src/base/packet.ts";
import { MILLISECOND } from "../../src/base/time.ts";
import { MonotonicClock } from "../../src/runtime/clock.ts";
import { DenoPort } from "../../src/runtime/deno_port.ts";
import { Errno } from "../../src/runtime/linux/abi.ts";
import { acquireLibc, type Libc, libcPaths, type Platform } from "../../src/runtime/linux/libc.ts";
import { LinuxPort } from "../../src/runtime/linux/linux_port.ts";
import { openHost } from "../../src/runtime/open_host.ts";
import { SystemUnderlay } from "../../src/runtime/underlay.ts";
import type { PortConfig, SleeperConfig } from "../../src/stack/options.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { FakeLibc } from "../testing/fake_libc.ts";
import { freePort, NO_LINUX_PORT, openPair, portTest } from "../testing/host_pair.ts";

const LOOPBACK = IpAddr.parse("127.0.0.1");
const NOT_GRANTED = "FFI is not granted: run with --allow-ffi=/x";

/** The kind that is chosen where the Linux port is not. */
const PORTABLE = DenoPort.serves(LOOPBACK) ? "deno" : "dgram";

/** Opens one port and says what was chosen. */
async function choose(port: PortConfig, sleeper: SleeperConfig | null, acquire: () => Libc | string) {
  const clock = new MonotonicClock();
  const underlay = new SystemUnderlay(port, sleeper, acquire);
  const opened = await underlay.open(LOOPBACK, 0, {
    pool: new PacketPool(8),
    drops: new DropCounters(),
    fault: () => {},
  });
  try {
    const made = underlay.makeSleeper([opened])(clock, () => {});
    await made.close();
    return { port: opened.kind, why: underlay.whyPort(opened), sleeper: underlay.sleeper(), made: made.kind };
  } finally {
    await opened.close();
  }
}

Deno.test("underlay: auto falls back to the portable port, and says why", async () => {
  for (
    const [problem, acquire] of [
      [NOT_GRANTED, () => NOT_GRANTED],
      ["the operating system is darwin, not Linux", () => acquireLibc(platformOf({ os: "darwin" }))],
      ["the layouts of riscv64 are not known", () => acquireLibc(platformOf({ arch: "riscv64" }))],
      ["socket failed with EPERM", () => Object.assign(new FakeLibc(), { socketResult: -Errno.EPERM })],
      ["recvmmsg failed with ENOSYS", () => Object.assign(new FakeLibc(), { emptyResult: -Errno.ENOSYS })],
    ] as const
  ) {
    const chosen = await choose({ kind: "auto" }, null, acquire);
    assertEquals(chosen.port, PORTABLE);
    assertStringIncludes(chosen.why, problem);
    assertEquals(chosen.sleeper, { kind: "hop", why: "it needs no permission" });
    assertEquals(chosen.made, "hop");
    const named = await assertRejects(() => choose({ kind: "linux" }, null, acquire), Error, problem);
    assertEquals(named.name, problem === NOT_GRANTED ? "NotCapable" : "NotSupported");
  }
});

Deno.test("underlay: auto takes the Linux port where the library is there", async () => {
  const libc = new FakeLibc();
  const chosen = await choose({ kind: "auto" }, null, () => libc);
  assertEquals(chosen.port, "linux");
  assertEquals(chosen.why, "FFI is granted for fake");
  assertEquals(chosen.sleeper, { kind: "ppoll", why: "the port is polled" });
  // The port and the sleeper each give the library back.
  assertEquals(libc.releases, 2);
  for (const kind of ["timeout", "hop", "spin", "ppoll"] as const) {
    const { sleeper, made, port } = await choose({ kind: "linux" }, kind, () => libc);
    assertEquals([port, made, sleeper], ["linux", kind, { kind, why: "asked for" }]);
  }
});

Deno.test("underlay: what the port does without is told with it", async () => {
  const libc = new FakeLibc();
  libc.onOption = (level) => level === 17 ? Errno.ENOPROTOOPT : 0;
  const { why } = await choose({ kind: "linux" }, null, () => libc);
  assertEquals(why, "asked for; no UDP_GRO (ENOPROTOOPT); no UDP_SEGMENT (ENOPROTOOPT); no trains: not asked for");
});

Deno.test("underlay: ppoll with another port needs the library only for itself", async () => {
  const libc = new FakeLibc();
  const { port, made } = await choose({ kind: "dgram" }, "ppoll", () => libc);
  assertEquals([port, made, libc.releases], ["dgram", "ppoll", 1]);
  await assertRejects(() => choose({ kind: "dgram" }, "ppoll", () => NOT_GRANTED), Deno.errors.NotCapable, "ppoll");
  assertEquals((await choose({ kind: "dgram" }, "spin", () => NOT_GRANTED)).made, "spin");
});

function platformOf(fields: Partial<Platform>): Platform {
  return { os: "linux", arch: "x86_64", isGranted: () => true, open: () => new FakeLibc(), ...fields };
}

Deno.test("libc: known for both architectures and both libraries, nowhere else", () => {
  for (const arch of ["x86_64", "aarch64"]) {
    const paths = libcPaths(arch);
    assert(paths.includes(`/lib/${arch}-linux-gnu/libc.so.6`));
    assert(paths.includes("/usr/lib64/libc.so.6"));
    assert(paths.includes(`/lib/ld-musl-${arch}.so.1`));
    assert(paths.every((path) => path.startsWith("/")));
  }
  for (const arch of ["", "arm", "toString", "riscv64"]) assertEquals(libcPaths(arch), []);
});

Deno.test("libc: only granted places are tried, the first that opens is taken", () => {
  const tried: string[] = [];
  const granted = ["/lib64/libc.so.6", "/lib/libc.so.6"];
  const platform = platformOf({
    isGranted: (path) => path !== undefined && granted.includes(path),
    open: (path) => {
      tried.push(path);
      if (path === "/lib64/libc.so.6") throw new Error("there is no such file");
      return new FakeLibc();
    },
  });
  assert(typeof acquireLibc(platform) !== "string");
  assertEquals(tried, granted);
});

Deno.test("libc: with everything granted the loader's own search is the last resort", () => {
  const tried: string[] = [];
  const platform = platformOf({
    open: (path) => {
      tried.push(path);
      throw new Error(`no ${path}`);
    },
  });
  assertEquals(acquireLibc(platform), "no C library can be opened: no /lib/x86_64-linux-gnu/libc.so.6");
  assertEquals(tried.slice(-2), ["libc.so.6", "libc.musl-x86_64.so.1"]);
});

Deno.test("libc: without a grant nothing is opened, and the flag is named", () => {
  const platform = platformOf({ isGranted: () => false, open: () => assertThrows(() => {}) as never });
  assertStringIncludes(String(acquireLibc(platform)), "--allow-ffi=/lib/x86_64-linux-gnu/libc.so.6");
});

Deno.test({
  name: "underlay: a permission for the path of the C library is enough, and is not asked for",
  ignore: NO_LINUX_PORT !== "",
  async fn() {
    const libc = acquireLibc() as Libc;
    const { path } = libc;
    const [portA, portB] = [await freePort(), await freePort()];
    libc.release();
    const said = async (...flags: string[]): Promise<string> => {
      const module = new URL("../../src/runtime/open_host.ts", import.meta.url).href;
      const child = new Deno.Command(Deno.execPath(), {
        args: ["run", "--no-check", "--no-prompt", "--allow-net=127.0.0.1", ...flags, "-"],
        cwd: new URL("../..", import.meta.url),
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      const writer = child.stdin.getWriter();
      await writer.write(new TextEncoder().encode(`
        import { openHost } from ${JSON.stringify(module)};
        const open = (own, other) => openHost({
          address: "10.7.0." + own + "/24",
          listen: "127.0.0.1:" + (own === 1 ? ${portA} : ${portB}),
          peers: [{ endpoint: "127.0.0.1:" + (own === 1 ? ${portB} : ${portA}), allowed: "10.7.0.0/24" }],
        });
        const a = await open(1), b = await open(2);
        for await (const { kind } of a.ping("10.7.0.2", { count: 1 })) console.log(kind);
        const { ports, sleeper } = a.inspect();
        console.log(ports[0].kind, sleeper.kind, ports[0].why);
        await a.close();
        await b.close();
      `));
      await writer.close();
      const { stdout, stderr } = await child.output();
      return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    };
    assertEquals(await said(`--allow-ffi=${path}`), `reply\nlinux ppoll FFI is granted for ${path}\n`);
    const without = await said();
    assertStringIncludes(without, "reply\ndgram hop FFI is not granted");
  },
});

portTest("underlay: a mark made outside reaches the tunnel, if the port can read it", async (port) => {
  if (NO_LINUX_PORT !== "") return;
  const context = { pool: new PacketPool(64), drops: new DropCounters(), fault: () => {} };
  const middle = LinuxPort.open(acquireLibc() as Libc, LOOPBACK, 0, context);
  const open = (own: number) =>
    openHost({
      address: `10.7.0.${own}/24`,
      listen: "127.0.0.1:0",
      port,
      peers: [{ name: "other", endpoint: `127.0.0.1:${middle.port}`, allowed: "10.7.0.0/24", ecn: "normal" }],
    });
  await using a = await open(1);
  await using b = await open(2);
  const [portA, portB] = [a.endpoints[0]!.port, b.endpoints[0]!.port];
  let mark = 0;
  const seen: number[] = [];
  const forward = setInterval(() => {
    middle.look();
    middle.receive(64, {
      inputDatagram: (p, _w0, _w1, _w2, _w3, from) => {
        seen.push(p.outerTrafficClass);
        p.outerTrafficClass = mark;
        middle.send(p, LOOPBACK, from === portA ? portB : portA);
      },
    }, 0);
    middle.flush();
  }, 1);
  const ping = async (): Promise<string> => {
    const [answer] = await Array.fromAsync(a.ping("10.7.0.2", { count: 1, timeout: 200 * MILLISECOND }));
    return answer!.kind;
  };
  assertEquals(await ping(), "reply");
  mark = 3;
  assertEquals(await ping(), port === "linux" ? "timeout" : "reply");
  assertEquals(b.inspect().interfaces[0]!.drops, port === "linux" ? { "ce-not-ect": 1 } : {});
  // A ping is Not-ECT, and so it is outside.
  assertEquals(new Set(seen), new Set([0]));
  clearInterval(forward);
  await middle.close();
});

for (const sleeper of ["timeout", "hop", "spin", "ppoll"] as const) {
  portTest(`underlay: a host works with the sleeper ${sleeper}`, async (port) => {
    if (sleeper === "ppoll" && NO_LINUX_PORT !== "") return;
    await using pair = await openPair({ sockets: 4, port, impair: "delay 3ms", host: { sleeper } });
    const pings = await Array.fromAsync(pair.a.ping("10.7.0.2", { count: 5, interval: MILLISECOND }));
    for (const answer of pings) assert(answer.kind === "reply" && answer.rtt >= 6 * MILLISECOND);
    const { sleeper: said, ports, runtime } = pair.a.inspect();
    assertEquals([said, ports[0]!.kind], [{ kind: sleeper, why: "asked for" }, port]);
    assert(runtime.lateness.count > 0);
  });
}

Deno.test("underlay: nonsense is told with its path", async () => {
  const options = { address: "10.7.0.1/24" };
  await assertRejects(() => openHost({ ...options, port: "fast" as "auto" }), TypeError, "port");
  await assertRejects(() => openHost({ ...options, sleeper: "deep" as "hop" }), TypeError, "sleeper");
  await assertRejects(
    () => openHost({ ...options, port: { kind: "linux", receiveBufferBytes: 1 } }),
    TypeError,
    "port.receiveBufferBytes",
  );
});

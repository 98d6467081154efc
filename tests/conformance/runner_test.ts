/**
 * The conformance runner itself: on scripts of our own, and on changed ones, each of which it must fail for the reason
 * that was put into it.
 *
 * @module
 */

import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { dataBytes, Flow, REMOTE_BASE } from "./flow.ts";
import { decodeScript, type Event, type Script, type TcpPacket } from "./format.ts";
import { type Entry, loadDirectory, LoadError } from "./load.ts";
import { main } from "./main.ts";
import { play } from "./player.ts";
import { ACK, buildPacket, FIN, parsePacket, PSH, RST, type Segment } from "./segment.ts";
import { isBasic } from "./select.ts";

const OWN = decodeURIComponent(new URL("own", import.meta.url).pathname);
const own = loadDirectory(OWN);

function load(name: string): Script {
  const entry = own.find(({ file }) => file === `${name}.json`);
  assert(entry !== undefined);
  return structuredClone(entry.script);
}

for (const { file, feature, script } of own) {
  Deno.test(`conformance runner: own script ${file} (${feature})`, () => {
    const { failure, trace } = play(script);
    assertEquals(failure, null, trace.join("\n"));
  });
}

/** Plays an own script with a change; it must fail at `line` with these words. */
function assertFails(
  name: string,
  change: (script: Script) => void,
  line: number,
  expected: string,
  got: string,
): void {
  const script = load(name);
  change(script);
  const { failure, trace } = play(script);
  assert(failure !== null, trace.join("\n"));
  assertEquals(failure.line, line, JSON.stringify(failure));
  assertStringIncludes(failure.expected, expected);
  assertStringIncludes(failure.got, got);
}

/** Changes the event at a line. */
function at(line: number, change: (event: Event & { kind: Exclude<Event["kind"], "malformed"> }) => void) {
  return (script: Script): void => {
    const event = script.events.find((candidate) => candidate.line === line);
    assert(event !== undefined && event.kind !== "malformed");
    change(event);
  };
}

function packetAt(line: number, change: (packet: TcpPacket) => void) {
  return at(line, (event) => {
    assert((event.kind === "expect" || event.kind === "inject") && event.packet.proto === "tcp");
    change(event.packet);
  });
}

function remove(line: number) {
  return (script: Script): void => {
    script.events = script.events.filter((event) => event.line !== line);
  };
}

/** The number of the first line of `name` whose event is about `text`. */
function lineOf(name: string, text: string, nth = 0): number {
  const lines = load(name).events.filter((event) => JSON.stringify(event).includes(text)).map(({ line }) => line);
  assert(lines[nth] !== undefined, text);
  return lines[nth];
}

function expectLine(name: string, nth: number): number {
  return lineOf(name, `"kind":"expect"`, nth);
}

Deno.test("conformance runner: a packet that is missing, one too many, and a wrong one", () => {
  const synAck = expectLine("server", 0);
  const data = expectLine("server", 1);
  const fin = expectLine("server", 2);
  assertFails("server", remove(lineOf("server", `"write"`)), data, "1:2501(2500)", "nothing until");
  assertFails("server", remove(data), fin, "F. 2501:2501(0)", ". 1:1001(1000)");
  assertFails("server", packetAt(synAck, (p) => p.ack = 2), synAck, "ack 2", "ack 1 for 2");
  assertFails("server", packetAt(synAck, (p) => p.seq = [1, 1]), synAck, "1:1(0)", "seq 0 for 1");
  assertFails("server", packetAt(fin, (p) => p.flags |= RST), fin, "FR.", "flags F. for FR.");
  assertFails("server", packetAt(fin, (p) => p.urg = 3), fin, "F.", "urg 0 for 3");
  assertFails("server", packetAt(fin, (p) => p.win = 1), fin, "win 1", "for 1");
  assertFails("server", packetAt(fin, (p) => p.ecn = 2), fin, "ect0", "ecn noecn for ect0");
  // PSH is not compared.
  const script = load("server");
  packetAt(data, (p) => p.flags ^= PSH)(script);
  packetAt(fin, (p) => p.flags ^= PSH)(script);
  assertEquals(play(script).failure, null);
});

Deno.test("conformance runner: options are a set, and null is any", () => {
  const synAck = expectLine("receive", 0);
  const change = (options: TcpPacket["options"]) => packetAt(synAck, (p) => p.options = options);
  const passes = (options: TcpPacket["options"]) => {
    const script = load("receive");
    change(options)(script);
    assertEquals(play(script).failure, null);
  };
  passes([{ k: "sackOK" }, { k: "nop" }, { k: "mss", v: 1460 }]);
  passes(null);
  assertFails("receive", change([]), synAck, "<>", "options <mss 1460,sackOK> for <>");
  assertFails("receive", change([{ k: "mss", v: 1461 }, { k: "sackOK" }]), synAck, "mss 1461", "mss 1460");
  assertFails("receive", change([{ k: "mss", v: 1460 }]), synAck, "<mss 1460>", "sackOK");
  const sack = expectLine("receive", 2);
  assertFails(
    "receive",
    packetAt(sack, (p) => p.options = [{ k: "sack", blocks: [[301, 402]] }]),
    sack,
    "sack 301:402",
    "sack 301:401",
  );
});

Deno.test("conformance runner: pieces are joined, never split", () => {
  const data = expectLine("server", 1);
  const split = (script: Script, lengths: number[]): void => {
    const i = script.events.findIndex(({ line }) => line === data);
    const event = script.events[i]!;
    assert(event.kind === "expect");
    let seq = 1;
    script.events.splice(
      i,
      1,
      ...lengths.map((len): Event => {
        const packet = { ...event.packet, seq: [seq, seq + len] as [number, number], len } as TcpPacket;
        seq += len;
        return { ...event, packet };
      }),
    );
  };
  for (const lengths of [[1000, 1000, 500], [2000, 500], [1000, 1500]]) {
    const script = load("server");
    split(script, lengths);
    assertEquals(play(script).failure, null, `${lengths}`);
  }
  assertFails("server", (s) => split(s, [500, 2000]), data, "1:501(500)", "len 1000 for 500");
  assertFails("server", (s) => split(s, [1500, 1000]), data, "1:1501(1500)", "len 1000 for 1500");
  assertFails("server", (s) => split(s, [2600]), data, "1:2601(2600)", "len 2500 for 2600");
});

Deno.test("conformance runner: only equal pieces in a row are joined, the FIN on the last", () => {
  const flow = new Flow(1, 2, { window: true, tsTickMicroseconds: 0, toleranceMicroseconds: 4000 });
  const piece = (seq: number, len: number, flags = ACK, ack = 1): Segment => ({
    srcPort: 1,
    dstPort: 2,
    seq,
    ack,
    flags,
    window: 100,
    urgent: 0,
    options: [],
    payload: dataBytes(true, seq, len),
    ecn: 0,
  });
  const expected = (len: number): TcpPacket => ({
    proto: "tcp",
    flags: ACK,
    seq: [1, 1 + len],
    len,
    ack: 1,
    win: null,
    urg: null,
    options: [],
    ecn: null,
  });
  const first = piece(1, 1000);
  assert(flow.continues(expected(2000), [first], piece(1001, 1000)));
  assert(flow.continues(expected(2000), [first], piece(1001, 1000, ACK | PSH)));
  assert(flow.continues(expected(2000), [first], piece(1001, 1000, ACK | FIN)));
  assert(flow.continues(expected(1100), [first], piece(1001, 100)));
  assert(!flow.continues(expected(1999), [first], piece(1001, 1000)), "too long");
  assert(!flow.continues(expected(3000), [first], piece(1002, 1000)), "a gap");
  assert(!flow.continues(expected(3000), [first], piece(1001, 1001)), "a larger one");
  assert(!flow.continues(expected(3000), [first], piece(1001, 1000, ACK, 2)), "another ack");
  assert(!flow.continues(expected(3000), [first, piece(1001, 500)], piece(1501, 500)), "behind a shorter one");
  assert(!flow.continues(expected(3000), [piece(1, 1000, ACK | FIN)], piece(1001, 1000)), "behind a FIN");
  assertEquals(flow.differences(expected(1000), [first]), []);
  first.payload[17]! ^= 1;
  assertEquals(flow.differences(expected(1000), [first]), ["wrong data at 18"]);
});

Deno.test("conformance runner: times", () => {
  const ack = expectLine("receive", 1);
  const moved = (seconds: number) => at(ack, (event) => event.t = { type: "rel", start: seconds, end: seconds });
  for (const seconds of [0.0361, 0.0439]) {
    const script = load("receive");
    moved(seconds)(script);
    assertEquals(play(script).failure, null, `${seconds}`);
  }
  assertFails("receive", moved(0.0441), ack, "at 0.054100 s", "(at 0.050000 s)");
  assertFails("receive", moved(0.0359), ack, "at 0.045900 s", "nothing until 0.049900 s");
  const wide = load("receive");
  moved(0.06)(wide);
  wide.options.tolerance_usecs = "20000";
  assertEquals(play(wide).failure, null);
  const narrow = load("receive");
  moved(0.0439)(narrow);
  narrow.options.tolerance_usecs = "10";
  assertEquals(play(narrow).failure, null);
  // An event whose time has passed.
  const peek = lineOf("receive", "MSG_PEEK");
  assertFails(
    "receive",
    at(peek, (event) => event.t = { type: "abs", start: 0.04, end: 0.04 }),
    peek,
    "0.04",
    "already",
  );
  // A range is what it says.
  const syn = expectLine("times", 1);
  assertFails(
    "times",
    at(syn, (event) => event.t = { type: "relrange", start: 0.5, end: 0.99 }),
    syn,
    "S 0:0(0)",
    "nothing until 0.994",
  );
});

Deno.test("conformance runner: results, errors and values of calls", () => {
  const call = (line: number, change: (call: { result: unknown; errno: string | null; args: unknown[] }) => void) =>
    at(line, (event) => {
      assert(event.kind === "syscall");
      change(event.call);
    });
  const blocked = lineOf("receive", "EAGAIN");
  assertFails("receive", call(blocked, (c) => c.errno = "EPIPE"), blocked, "EPIPE", "EAGAIN");
  assertFails("receive", call(blocked, (c) => c.result = 0), blocked, "= 0", "-1 EAGAIN");
  const inq = lineOf("receive", "SIOCINQ");
  assertFails("receive", call(inq, (c) => c.args[2] = { array: [99] }), inq, "[99]", "SIOCINQ is 100");
  const error = lineOf("refused", "ECONNREFUSED");
  assertFails("refused", call(error, (c) => c.args[3] = { array: [0] }), error, "[0]", "SO_ERROR is 111");
  const poll = lineOf("refused", "POLLHUP");
  assertFails(
    "refused",
    call(poll, (c) => c.args[0] = { array: [{ fields: { fd: 3, events: 4, revents: 4 } }] }),
    poll,
    "revents=4",
    "revents of 3 is 28",
  );
  // A call that is to return at once and does not, one that is never over, and one that is over too early.
  const accept = lineOf("blocking", `"accept"`);
  const until = (end: number | null) => (script: Script) =>
    at(accept, (event) => {
      if (event.kind === "syscall") event.call.blockingEnd = end;
    })(script);
  assertFails("blocking", until(null), accept, "at once", "it blocks");
  assertFails("blocking", until(0.21), accept, "at 0.210000 s", "returns at 0.200000 s");
  assertFails(
    "blocking",
    (script) => {
      script.events = script.events.filter(({ line }) => line <= accept);
    },
    accept,
    "until 0.200000 s",
    "it blocks still",
  );
  assertFails(
    "server",
    at(lineOf("server", `"accept"`), (event) => event.kind === "syscall" && (event.call.result = 3)),
    lineOf("server", `"accept"`),
    "something that the runner knows",
    "descriptor 3 is in use",
  );
});

Deno.test("conformance runner: timestamps", () => {
  const ack = expectLine("client", 1);
  const change = (val: number, ecr: number) => packetAt(ack, (p) => p.options = [{ k: "ts", val, ecr }]);
  const late = load("client");
  change(154, 700)(late);
  packetAt(lineOf("client", `"ecr":250`), (p) => p.options = [{ k: "ts", val: 860, ecr: 250 }])(late);
  assertEquals(play(late).failure, null);
  assertFails("client", change(155, 700), ack, "TS val 155", "TSval 150 for 155");
  assertFails("client", change(150, 701), ack, "ecr 701", "TS ecr 700");
  const unchecked = load("client");
  delete unchecked.options.tcp_ts_tick_usecs;
  change(7, 700)(unchecked);
  assertEquals(play(unchecked).failure, null);
});

Deno.test("conformance runner: assertions on tcp_info, and counts of states", () => {
  const state = lineOf("info", "TCP_LISTEN");
  const assertion = (json: unknown) =>
    at(state, (event) => {
      assert(event.kind === "code");
      const script = decodeScript({
        profile: "linux",
        events: [{ line: 1, kind: "code", t: { type: "any" }, code: { asserts: [json] } }],
      });
      const decoded = script.events[0]!;
      assert(decoded.kind === "code", JSON.stringify(decoded));
      event.asserts = decoded.asserts;
    });
  const listening = { op: "==", a: { var: "tcpi_state" }, b: { var: "TCP_LISTEN" } };
  for (const json of [listening, { op: "and", a: listening, b: { op: "<", a: 1, b: { op: "+", a: 1, b: 1 } } }]) {
    const script = load("info");
    assertion(json)(script);
    assertEquals(play(script).failure, null);
  }
  assertFails("info", assertion({ op: "not", a: listening }), state, "not(", "tcpi_state (10)");
  assertFails("info", assertion({ op: "~", a: listening }), state, "the runner knows", "operator ~");
  assertFails("info", assertion({ op: "==", a: { var: "tcpi_x" }, b: 0 }), state, "the runner knows", "tcpi_x");
  const count = lineOf("closed", "LISTEN");
  const counted = (state: string, count: number) =>
    at(lineOf("closed", "LISTEN"), (event) => {
      if (event.kind === "sysctl") event.actions = [{ op: "assert_state_count", state, count }];
    });
  assertFails("closed", counted("LISTEN", 2), count, "2 sockets in LISTEN", "1");
  assertFails("closed", counted("OPEN", 1), count, "a state that the runner knows", "OPEN");
});

Deno.test("conformance runner: what it does not know is a failure, never skipped", () => {
  const json = (events: unknown[], more: object = {}) => decodeScript({ profile: "linux", events, ...more });
  const fails = (script: Script, expected: string, got: string) => {
    const { failure } = play(script);
    assert(failure !== null);
    assertStringIncludes(failure.expected, expected);
    assertStringIncludes(failure.got, got);
  };
  const t = { type: "abs", start: 0 };
  fails(json([{ line: 1, kind: "reboot", t }]), "an event that the runner knows", `got "reboot"`);
  fails(json([{ line: 1, kind: "code", t: { type: "later" }, code: {} }]), "an event", `t.type: expected abs`);
  fails(json([{ line: 1, kind: "code", t, code: { asserts: [] } }]), "an event", "at least one assertion");
  const call = { name: "fork", args: [3], result: 0, errno: null, blocking_end: null };
  fails(json([{ line: 1, kind: "syscall", t, syscall: call }]), "the runner knows", "system call fork");
  const udp = { ...call, name: "socket", args: [{ any: true }, { sym: "SOCK_DGRAM" }, 0], result: 3 };
  fails(json([{ line: 1, kind: "syscall", t, syscall: udp }]), "the runner knows", "SOCK_DGRAM");
  const packet = { proto: "tcp", flags: ["SYN"], seq: [0, 0], len: 0, ack: null, win: 1, options: [{ k: "md5" }] };
  fails(json([{ line: 1, kind: "inject", t, packet }]), "an event that the runner knows", `got "md5"`);
  fails(json([], { profile: "plan9" }), "a profile of linux,freebsd", "plan9");
  fails(json([], { options: { speed: "9" } }), "options of", "speed");
  fails(json([], { options: { mtu: "big" } }), "a number as mtu", "big");
  fails(json([], { unsupported: ["line 7"] }), "a script without omissions", "line 7");
  const option = {
    ...call,
    name: "setsockopt",
    args: [3, { sym: "SOL_TCP" }, { sym: "TCP_MD5SIG" }, { array: [1] }, 4],
  };
  const open = { ...call, name: "socket", args: [{ any: true }, { sym: "SOCK_STREAM" }, 0], result: 3 };
  fails(
    json([{ line: 1, kind: "syscall", t, syscall: open }, { line: 2, kind: "syscall", t, syscall: option }]),
    "setsockopt(3, SOL_TCP, TCP_MD5SIG, [1], 4) = 0",
    "-1 ENOPROTOOPT",
  );
});

Deno.test("conformance runner: sequence numbers cross the wrap, and packets survive the codec", () => {
  const flow = new Flow(8080, 40000, { window: true, tsTickMicroseconds: 0, toleranceMicroseconds: 4000 });
  const packet: TcpPacket = {
    proto: "tcp",
    flags: ACK | PSH,
    seq: [150, 350],
    len: 200,
    ack: 7,
    win: 500,
    urg: 9,
    options: [{ k: "nop" }, { k: "nop" }, { k: "sack", blocks: [[10, 20], [30, 40]] }, { k: "wscale", v: 3 }],
    ecn: 3,
  };
  const s = flow.incoming(packet);
  assertEquals(s.seq, (REMOTE_BASE + 150) % 2 ** 32);
  assert(REMOTE_BASE + 350 > 2 ** 32);
  for (const size of [4, 16]) {
    const source = crypto.getRandomValues(new Uint8Array(size));
    const destination = crypto.getRandomValues(new Uint8Array(size));
    const bytes = buildPacket(source, destination, s);
    const parsed = parsePacket(bytes);
    assert(typeof parsed !== "string", `${parsed}`);
    assertEquals({ ...parsed, options: parsed.options.slice(0, 4) }, { ...s, options: s.options });
    for (const [i, problem] of [[bytes.length - 1, "checksum"], [size === 4 ? 3 : 5, "length"]] as const) {
      const broken = bytes.slice();
      broken[i]! ^= 1;
      const said = parsePacket(broken);
      assert(typeof said === "string");
      assertStringIncludes(said, problem);
    }
  }
});

Deno.test("conformance runner: which scripts the gate is about", () => {
  const entry = (change: (script: Script) => void, scored = true, file = "x.json"): Entry => {
    const script = load("server");
    change(script);
    return { file, feature: "", suite: "", scored, script };
  };
  const line = expectLine("server", 0);
  assert(isBasic(entry(() => {})));
  assert(isBasic(entry(packetAt(line, (p) => p.options = [{ k: "sackOK" }]))));
  assert(!isBasic(entry(() => {}, false)));
  assert(!isBasic(entry(() => {}, true, "a/prr-1.json")));
  assert(!isBasic(entry(() => {}, true, "a/rack-1.json")));
  assert(!isBasic(entry(packetAt(line, (p) => p.flags |= 0x40))));
  assert(!isBasic(entry(packetAt(line, (p) => p.options = [{ k: "sack", blocks: [[1, 2]] }]))));
  assertEquals(own.filter(isBasic).map(({ file }) => file).includes("info.json"), false);
});

/** Runs the program; returns its exit code and what it printed. */
function program(...args: string[]): { code: number; out: string; err: string } {
  const { log, error } = console;
  const out: string[] = [];
  const err: string[] = [];
  console.log = (text: string) => out.push(text);
  console.error = (text: string) => err.push(text);
  try {
    return { code: main(args), out: out.join("\n"), err: err.join("\n") };
  } finally {
    console.log = log;
    console.error = error;
  }
}

Deno.test("conformance program: report, object, gate", () => {
  const { code, out } = program("--dir", OWN);
  assertEquals(code, 0);
  assertStringIncludes(out, `${own.length} of ${own.length} scripts passed`);
  const json = program("--dir", OWN, "--json", "--only", "server");
  assertEquals(JSON.parse(json.out), { scripts: 1, passed: 1, failed: [], leftovers: 0 });
  const gate = program("--dir", OWN, "--require", "basic");
  assertEquals(gate.code, 0);
  assertStringIncludes(gate.out, "passed");
  assertStringIncludes(program("--help").out, "--require SELECTION");
});

Deno.test("conformance program: a failure is reported, and only the gate makes it an error", () => {
  const directory = Deno.makeTempDirSync();
  try {
    const server = JSON.parse(Deno.readTextFileSync(`${OWN}/server.json`));
    server.events.find((event: { kind: string }) => event.kind === "expect").packet.ack = 77;
    Deno.writeTextFileSync(`${directory}/bad.json`, JSON.stringify(server));
    Deno.writeTextFileSync(`${directory}/good.json`, Deno.readTextFileSync(`${OWN}/server.json`));
    const row = (file: string) => ({ file, feature: "x", suite: "y", scored: true });
    Deno.writeTextFileSync(`${directory}/index.json`, JSON.stringify([row("bad.json"), row("good.json")]));
    Deno.writeTextFileSync(`${directory}/good.txt`, "good.json\n");
    const json = program("--dir", directory, "--json");
    assertEquals(json.code, 0);
    const report = JSON.parse(json.out);
    assertEquals([report.scripts, report.passed, report.failed.length], [2, 1, 1]);
    assertEquals(report.failed[0].script, "bad.json");
    assertEquals(report.failed[0].line, expectLine("server", 0));
    assertStringIncludes(report.failed[0].expected, "ack 77");
    assertStringIncludes(report.failed[0].got, "ack 1 for 77");
    assertStringIncludes(program("--dir", directory).out, "1 of 2 scripts passed");
    const gate = program("--dir", directory, "--require", "scored");
    assertEquals(gate.code, 1);
    assertStringIncludes(gate.out, "2 scripts, 1 passed\n  failed: bad.json");
    assertEquals(program("--dir", directory, "--require", `${directory}/good.txt`).code, 0);
    assertStringIncludes(program("--dir", directory, "--trace").err, "> S. 0:0(0) ack 1");
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("conformance program: a bad argument or directory is one line and exit code 2", () => {
  const directory = Deno.makeTempDirSync();
  const bad = (expected: string, ...args: string[]) => {
    const { code, out, err } = program(...args);
    assertEquals([code, out, err.split("\n").length], [2, "", 1], err);
    assertStringIncludes(err, expected);
  };
  try {
    bad("--speed is not known: expected --dir", "--speed");
    bad("x is not known", "x");
    bad("--dir needs a value", "--dir");
    bad("no script of", "--dir", OWN, "--only", "nothing-of-the-kind");
    bad("expected basic, scored, all, noted or a file", "--dir", OWN, "--require", "most");
    bad("there is no script ", "--dir", OWN, "--require", `${OWN}/server.json`);
    bad("there is no directory", "--dir", `${directory}/none`);
    bad("is not a directory", "--dir", `${OWN}/index.json`);
    bad("index.json cannot be read", "--dir", directory);
    const index = (json: unknown) => Deno.writeTextFileSync(`${directory}/index.json`, JSON.stringify(json));
    const row = { file: "a.json", feature: "x", suite: "y", scored: true };
    Deno.writeTextFileSync(`${directory}/index.json`, "[");
    bad("index.json: expected JSON", "--dir", directory);
    index({});
    bad("index.json: the index: expected an array, got {}", "--dir", directory);
    index([]);
    bad("expected at least one script", "--dir", directory);
    index([{ ...row, scored: 1 }]);
    bad("[0].scored: expected true or false, got 1", "--dir", directory);
    index([{ ...row, file: "../a.json" }]);
    bad("[0].file: expected a path below the directory", "--dir", directory);
    index([{ ...row, suite: undefined }]);
    bad("[0].suite: expected a text, got nothing", "--dir", directory);
    index([row]);
    bad("a.json cannot be read", "--dir", directory);
    Deno.writeTextFileSync(`${directory}/a.json`, `{"profile":"linux"}`);
    bad("a.json: events: expected an array, got nothing", "--dir", directory);
    Deno.writeTextFileSync(`${directory}/a.json`, `{"profile":"linux","events":[{}]}`);
    bad("a.json: events[0].line: expected an integer, got nothing", "--dir", directory);
    assertThrows(() => loadDirectory(directory), LoadError, "a.json");
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

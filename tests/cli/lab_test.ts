/**
 * `culvert lab`: its table of experiments, how wrong calls are refused, and short runs of those in real time.
 *
 * @module
 */

import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { CHART_PACKAGES, drawSvg } from "../../src/cli/chart.ts";
import { assertRefused, callCli, CliProcess } from "../testing/run_cli.ts";

const NAMES = (await callCli("lab", "--help")).out.split("\n").flatMap((line) =>
  /^ {2}(\S+) {2,}/.exec(line)?.[1] ?? []
);

Deno.test("lab: help lists the experiments, and each has its own", async () => {
  for (const name of ["edt", "departure"]) assert(NAMES.includes(name), name);
  for (const name of NAMES) {
    const { code, out, err } = await callCli("lab", name, "--help");
    assertEquals([code, err], [0, ""]);
    assert(out.startsWith(`Usage: culvert lab ${name} `), name);
    for (const part of ["Options:", "Examples:", "--json"]) assert(out.includes(part), `${name}: ${part}`);
  }
});

Deno.test("lab: wrong calls are told in one line", async () => {
  assertRefused(await callCli("lab"), "lab: found no experiment, expected one of edt, departure");
  assertRefused(await callCli("lab", "edtt"), 'lab: found "edtt", did you mean "edt"?');
  assertRefused(await callCli("lab", "--json", "edt"), 'lab: found "--json"', "before the flags");
  assertRefused(await callCli("lab", "edt", "--sed", "1"), 'lab edt: unknown flag "--sed"', "did you mean --seed?");
  assertRefused(await callCli("lab", "edt", "--port", "dgram"), "lab edt: --port: expected with --real only");
  assertRefused(await callCli("lab", "edt", "--real", "--seed", "1"), "lab edt: --seed: expected without --real");
  assertRefused(await callCli("lab", "edt", "--real", "--port", "udp"), '--port: found "udp", expected one of auto');
  assertRefused(await callCli("lab", "edt", "--real", "-t", "601"), '--seconds: found "601", expected at most 600 s');
  assertRefused(await callCli("lab", "departure", "--sleeper", "nap"), 'found "nap", expected one of timeout, hop');
  assertRefused(await callCli("lab", "departure", "--port", "memory"), 'found "memory", expected one of dgram');
  assertRefused(await callCli("lab", "departure", "-t", "601"), '--seconds: found "601", expected at most 600 s');
  assertRefused(await callCli("lab", "rtt-estimation", "-j", "0"), 'lab rtt-estimation: --jobs: found "0"');
  assertRefused(await callCli("lab", "fast-retransmit", "-j", "257"), 'lab fast-retransmit: --jobs: found "257"');
  assertRefused(await callCli("lab", "fast-retransmit", "--rows", "none", "--flows", "none"), "expected some");
  assertRefused(await callCli("lab", "departure", "--svg", "/no/such/folder/a.svg"), '--svg: found "/no/such');
});

Deno.test("lab hystart: a wrong call makes no file", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const svg = `${folder}/a.svg`;
    assertRefused(await callCli("lab", "hystart", "--svg", svg, "--jobs", "0"), 'lab hystart: --jobs: found "0"');
    assertEquals([...Deno.readDirSync(folder)], []);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("lab departure: without permissions it says which one is missing", async () => {
  await using child = new CliProcess([], ["lab", "departure", "--sleeper", "hop", "--port", "dgram"]);
  assertRefused(await child.result(), "--allow-net=127.0.0.1");
  await using noFfi = new CliProcess([], ["lab", "departure", "--port", "linux"]);
  assertRefused(await noFfi.result(), "--port linux: ");
});

Deno.test("lab departure: one object for scripts, and a chart", async () => {
  const svg = await Deno.makeTempFile({ suffix: ".svg" });
  try {
    const permissions = ["--allow-net=127.0.0.1", "--allow-run", `--allow-write=${svg}`];
    const args = ["--port", "dgram", "--sleeper", "hop", "--sleeper", "timeout", "--seconds", "0.02", "--json"];
    await using child = new CliProcess(permissions, ["lab", "departure", ...args, "--svg", svg]);
    const { code, out, err } = await child.result();
    assertEquals(code, 0, err);
    assert(err.includes("starting"), err);
    const { seconds, loads, idle, skipped } = JSON.parse(out);
    assertEquals(seconds, 0.02);
    assertEquals(skipped, {});
    assertEquals(idle.map((r: { sleeper: string }) => r.sleeper), ["timeout", "hop"]);
    assertEquals(loads.length, 8);
    for (const r of loads) {
      assertEquals([r.port, r.early, r.missing], ["dgram", 0, 0]);
      assertEquals(r.packets, Math.round(r.packetsPerSec * 0.02));
    }
    const text = await Deno.readTextFile(svg);
    assert(text.startsWith("<svg ") && text.includes('xmlns="http://www.w3.org/2000/svg"'), text.slice(0, 200));
    for (const part of ["timeout", "hop", "dgram", "1000 flows, a packet every 50 ms", "<rect"]) {
      assert(text.includes(part), part);
    }
  } finally {
    await Deno.remove(svg);
  }
});

Deno.test("lab edt: one object for scripts in virtual time, without any permission", async () => {
  await using child = new CliProcess([], ["lab", "edt", "--seconds", "0.1", "--seed", "3", "--json"]);
  const { code, out, err } = await child.result();
  assertEquals(code, 0, err);
  const { seed, qdisc, edt } = JSON.parse(out);
  assertEquals([seed, qdisc.pacing, edt.pacing], [3, "qdisc", "edt"]);
  assert(qdisc.info.rtt > edt.info.rtt);
});

Deno.test("lab edt --real: two processes, both modes, all figures", async () => {
  const permissions = ["--allow-net=127.0.0.1", "--allow-run"];
  await using child = new CliProcess(permissions, ["lab", "edt", "--real", "--port", "dgram", "-t", "0.1", "--json"]);
  const { code, out, err } = await child.result();
  assertEquals(code, 0, err);
  assert(err.includes("departures by qdisc: one flow"), err);
  const results = JSON.parse(out);
  for (const pacing of ["qdisc", "edt"]) {
    const r = results[pacing];
    assertEquals([r.pacing, r.info.pacing], [pacing, pacing]);
    // The queueing discipline counts headers too. On a loaded machine the flow may be in slow start still, which has a lower
    // rate than its limit.
    const limit = pacing === "qdisc" ? 24e6 * 1472 / 1420 : 24e6;
    assert(r.info.pacingRate > 0 && r.info.pacingRate <= Math.ceil(limit), `${r.info.pacingRate}`);
    assertEquals(r.underlay, "port dgram, sleeper hop");
    assert(/ pacing_rate [\d.]+Mbps /.test(r.line), r.line);
    assert(r.baseRtt > 0 && r.info.minRtt > 0);
    assert(r.goodputMbitPerSec > 0 && r.goodputMbitPerSec < 40, `${r.goodputMbitPerSec}`);
    for (const times of [r.small, r.large]) assert(times.count >= 10 && times.p50 > 0 && times.p50 <= times.p999);
  }
});

Deno.test("lab edt --real: what cannot be used here is one line", async () => {
  const permissions = ["--allow-net=127.0.0.1", "--allow-run"];
  for (const flags of [["--port", "linux"], ["--sleeper", "ppoll"]]) {
    await using child = new CliProcess(permissions, ["lab", "edt", "--real", ...flags]);
    assertRefused(await child.result(), `lab edt: ${flags.join(" ")}: `);
  }
  await using noRun = new CliProcess(["--allow-net=127.0.0.1"], ["lab", "edt", "--real"]);
  assertRefused(await noRun.result(), "--allow-run");
});

Deno.test("chart: packages are those of the import map, and a chart is a whole SVG document", async () => {
  for (const file of ["deno.json", "deno.jsr.json"]) {
    const { imports } = JSON.parse(await Deno.readTextFile(new URL(`../../${file}`, import.meta.url)));
    for (const [name, specifier] of Object.entries(CHART_PACKAGES)) assertEquals(imports[name], specifier);
  }
  const svg = await drawSvg((plot) => ({ width: 200, marks: [plot.dot([[1, 2]], { r: 7 })] }));
  assert(/^<svg [^]*<circle [^]*<\/svg>\n$/.test(svg), svg);
  assertAlmostEquals(Number(/ r="([\d.]+)"/.exec(svg)?.[1]), 7);
});

/**
 * The architecture holds: see ARCHITECTURE.md for the rules in words.
 *
 * Every rule is first shown to fail on bad samples and to pass good ones, then it is put to the files that exist.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import {
  checkDirections,
  checkExportDocs,
  checkGlobals,
  checkLength,
  checkModuleDoc,
  checkPromises,
  checkReach,
  checkReExports,
  MAX_LINES,
  type Rule,
  type Violation,
} from "./testing/architecture.ts";

const root = new URL("../", import.meta.url);

/** Every TypeScript file below these folders, and these files, by path from the root. */
function read(...places: string[]): Map<string, string> {
  const sources = new Map<string, string>();
  for (const place of places) {
    try {
      if (!place.endsWith("/")) {
        sources.set(place, Deno.readTextFileSync(new URL(place, root)));
        continue;
      }
      for (const { name, isDirectory } of Deno.readDirSync(new URL(place, root))) {
        if (!isDirectory && !name.endsWith(".ts")) continue;
        for (const [path, source] of read(place + name + (isDirectory ? "/" : ""))) sources.set(path, source);
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return sources;
}

const library = read("mod.ts", "src/");

function assertNone(violations: Violation[]): void {
  assertEquals(violations.map(({ path, line, message }) => `${path}:${line}: ${message}`).join("\n"), "");
}

/** What a rule says of a sample, as the lines it points at. */
interface Sample {
  rule: Rule;
  path: string;
  source: string;
  lines: number[];
}

function bad(rule: Rule, path: string, source: string, ...lines: number[]): Sample {
  return { rule, path, source, lines: lines.length === 0 ? [1] : lines };
}

function good(rule: Rule, path: string, source: string): Sample {
  return { rule, path, source, lines: [] };
}

const samples: Record<string, Sample[]> = {
  "imports go down the layers": [
    bad(checkDirections, "src/base/a.ts", `import { b } from "../wire/b.ts";`),
    bad(checkDirections, "src/tcp/a.ts", `import type { Route } from "../ip/route_table.ts";`),
    bad(checkDirections, "src/tcp/congestion/a.ts", `export { Fq } from "../../qdisc/fq.ts";`),
    bad(checkDirections, "src/impair/a.ts", `export * from "../tunnel/peer_table.ts";`),
    bad(checkDirections, "src/udp/a.ts", `type X = import("../stack/stack.ts").Stack;`),
    bad(checkDirections, "src/stack/a.ts", `const x = import("../socket/tcp_conn.ts");`),
    bad(checkDirections, "src/stack/a.ts", `const x = import(name);`),
    bad(checkDirections, "src/stack/a.ts", `let name = "zod"; const x = import(name);`),
    bad(checkDirections, "src/stack/a.ts", `const name = "../socket/tcp_conn.ts"; const x = import(name);`),
    good(checkDirections, "src/stack/a.ts", `const name: string = "npm:zod@1"; const x = import(name);`),
    bad(checkDirections, "src/socket/a.ts", `import "../runtime/driver.ts";`),
    bad(checkDirections, "src/runtime/a.ts", `import x = require("../host/tun.ts");`),
    bad(checkDirections, "src/host/a.ts", `import { Simulator } from "@culvert/culvert/netsim";`),
    bad(checkDirections, "src/netsim/a.ts", `\nimport { Conn } from "../socket/tcp_conn.ts";`, 2),
    bad(checkDirections, "src/lab/a.ts", `import { main } from "../cli/main.ts";`),
    bad(checkDirections, "src/host/a.ts", `import { openHost } from "../../mod.ts";`),
    bad(checkDirections, "src/wire/a.ts", `import { helper } from "../../tests/testing/helper.ts";`),
    bad(checkDirections, "mod.ts", `export { Simulator } from "./src/netsim/mod.ts";`),
    bad(checkDirections, "src/util/a.ts", `export {};`),
    bad(checkDirections, "src/a.ts", `export {};`),
    good(checkDirections, "src/tcp/a.ts", `import "./b.ts"; import "./congestion/c.ts"; import "../wire/seq.ts";`),
    good(checkDirections, "src/stack/a.ts", `import "../tcp/tcb.ts"; import "../ip/input.ts"; import "ipaddr.js";`),
    good(checkDirections, "src/lab/a.ts", `import "../netsim/simulator.ts"; import "../host/tun.ts";`),
    good(
      checkDirections,
      "src/cli/a.ts",
      `import d from "../../deno.json" with { type: "json" }; import "../../mod.ts";`,
    ),
    good(checkDirections, "src/base/a.ts", `// import "../cli/main.ts"\nconst s = 'import "../cli/main.ts"';`),
  ],
  "the core does not touch the host": [
    bad(checkGlobals, "src/base/a.ts", `const now = Date.now();`),
    bad(checkGlobals, "src/base/a.ts", `const a = (when: Date) => when;`),
    bad(checkGlobals, "src/tcp/a.ts", `const iss = Math.random();`),
    bad(checkGlobals, "src/tcp/a.ts", `const { random } = Math;`),
    bad(checkGlobals, "src/tcp/a.ts", `const iss = Math["random"]();`),
    bad(checkGlobals, "src/ip/a.ts", `const id = crypto.getRandomValues(new Uint8Array(2));`),
    bad(checkGlobals, "src/qdisc/a.ts", `setTimeout(() => {}, 1);\nsetInterval(() => {}, 1);`, 1, 2),
    bad(checkGlobals, "src/qdisc/a.ts", `setImmediate(f); queueMicrotask(f);`, 1, 1),
    bad(checkGlobals, "src/impair/a.ts", `console.log(1);`),
    bad(checkGlobals, "src/impair/a.ts", `const g = globalThis["Deno"];`),
    bad(checkGlobals, "src/stack/a.ts", `const t = performance.now();`),
    bad(checkGlobals, "src/stack/a.ts", `const text = \`\${Deno.pid}\`;`),
    bad(checkGlobals, "src/socket/a.ts", `throw new Deno.errors.TimedOut();`),
    bad(checkGlobals, "src/socket/a.ts", `const shorthand = { console };`),
    bad(checkGlobals, "src/netsim/a.ts", `import { hrtime } from "node:process";`),
    bad(checkGlobals, "src/netsim/a.ts", `const x = await import("node:fs");`),
    bad(checkGlobals, "src/lab/stats.ts", `const now = Date.now();`),
    bad(checkGlobals, "src/base/a.ts", `export { Date };`),
    good(
      checkGlobals,
      "src/base/a.ts",
      `// Date.now()\nconst s = "Deno"; /* console */ const r = /setTimeout/; a.Date = 1;`,
    ),
    good(
      checkGlobals,
      "src/base/a.ts",
      `const o = { Date: 1 }; const { Date: d } = o; o.Date; Math.floor(1); o.random;`,
    ),
    good(
      checkGlobals,
      "src/base/a.ts",
      `class A { self = 1; crypto() {} } interface B { Deno: A } type C = B["Deno"];`,
    ),
    good(checkGlobals, "src/runtime/a.ts", `import "node:dgram"; Deno.pid; Date.now(); Math.random(); console.log(1);`),
    good(checkGlobals, "src/host/a.ts", `import "node:stream"; setTimeout(f, 1);`),
    good(checkGlobals, "src/cli/a.ts", `console.log(Deno.args);`),
    good(checkGlobals, "src/lab/targets/a.ts", `performance.now();`),
    good(checkGlobals, "src/lab/agent.ts", `performance.now();`),
  ],
  "promises stay in the sockets and above": [
    bad(checkPromises, "src/tcp/a.ts", `async function f() {}`),
    bad(checkPromises, "src/tcp/a.ts", `const f = async () => {};`),
    bad(checkPromises, "src/tcp/a.ts", `class A {\n  async b() {}\n}`, 2),
    bad(checkPromises, "src/stack/a.ts", `await something;`),
    bad(checkPromises, "src/stack/a.ts", `for await (const x of y) {}`),
    bad(checkPromises, "src/stack/a.ts", `await using x = y();`),
    bad(checkPromises, "src/netsim/a.ts", `const p = new Promise(() => {});`),
    bad(checkPromises, "src/netsim/a.ts", `interface A {\n  done: Promise<void>;\n}`, 2),
    bad(checkPromises, "src/ip/a.ts", `type A = AsyncIterable<number>;`),
    good(
      checkPromises,
      "src/tcp/a.ts",
      `// async await Promise\nconst s = "await"; const o = { async: 1, await: 2 }; o.async;`,
    ),
    good(checkPromises, "src/tcp/a.ts", `using x = y();`),
    good(checkPromises, "src/socket/a.ts", `async function f(): Promise<void> { await x; }`),
    good(checkPromises, "src/lab/a.ts", `await x;`),
  ],
  "no file is too long": [
    bad(checkLength, "src/tcp/a.ts", "\n".repeat(MAX_LINES + 1), MAX_LINES + 1),
    bad(checkLength, "tests/tcp/a_test.ts", "\n".repeat(MAX_LINES) + "x", MAX_LINES + 1),
    good(checkLength, "src/tcp/a.ts", "\n".repeat(MAX_LINES)),
  ],
  "every file begins with a module doc": [
    bad(checkModuleDoc, "src/tcp/a.ts", `export {};`),
    bad(checkModuleDoc, "src/tcp/a.ts", `import "./b.ts";\n/**\n * Text.\n *\n * @module\n */`),
    bad(checkModuleDoc, "src/tcp/a.ts", `/** A doc comment of the next symbol. */\nexport const a = 1;`),
    bad(checkModuleDoc, "src/tcp/a.ts", `/* Text.\n * @module */`),
    bad(checkModuleDoc, "src/tcp/a.ts", `/** @module */`),
    bad(checkModuleDoc, "src/tcp/a.ts", `/** Text. */\n/** @module */`),
    good(checkModuleDoc, "src/tcp/a.ts", `/**\n * Text.\n *\n * @module\n */\nexport {};`),
    good(checkModuleDoc, "src/cli/a.ts", `#!/usr/bin/env -S deno run\n/** Text. @modules\n * @module */`),
  ],
  "every exported symbol is documented": [
    bad(checkExportDocs, "src/tcp/a.ts", `export const a = 1;`),
    bad(
      checkExportDocs,
      "src/tcp/a.ts",
      `export function f(): void {}\nexport class A {}\nexport interface B {}`,
      1,
      2,
      3,
    ),
    bad(
      checkExportDocs,
      "src/tcp/a.ts",
      `export type T = 1;\nexport enum E { A }\nexport abstract class C {}`,
      1,
      2,
      3,
    ),
    bad(checkExportDocs, "src/tcp/a.ts", `export default function () {}`),
    bad(checkExportDocs, "src/tcp/a.ts", `export default 1;`),
    bad(checkExportDocs, "src/tcp/a.ts", `const a = 1;\nfunction b() {}\nexport { a, b as c };`, 1, 2),
    bad(checkExportDocs, "src/tcp/a.ts", `const a = 1;\nexport default a;`),
    bad(checkExportDocs, "src/tcp/a.ts", `/** Text. @module */\nexport const a = 1;`, 2),
    bad(checkExportDocs, "src/tcp/a.ts", `// Text.\nexport const a = 1;\n/* Text. */\nexport const b = 1;`, 2, 4),
    bad(checkExportDocs, "src/tcp/a.ts", `/** */\nexport const a = 1;`, 2),
    bad(checkExportDocs, "src/tcp/a.ts", `export function f(): void;\nexport function f(a?: 1): void {}`),
    good(
      checkExportDocs,
      "src/tcp/a.ts",
      `/** Text. */\nexport function f(): void;\nexport function f(a?: 1): void {}`,
    ),
    good(
      checkExportDocs,
      "src/tcp/a.ts",
      `/** Module.\n * @module */\n\n/** Text. */\nexport const a = 1, b = 2;\nconst c = 1;`,
    ),
    good(checkExportDocs, "src/tcp/a.ts", `/** Text. */\nconst a = 1;\nimport { b } from "./b.ts";\nexport { a, b };`),
    good(checkExportDocs, "src/tcp/a.ts", `export { a } from "./a.ts"; export * from "./b.ts"; function f() {}`),
  ],
  "a mod.ts only re-exports": [
    bad(checkReExports, "mod.ts", `export const version = "1";`),
    bad(checkReExports, "mod.ts", `import { a } from "./src/a.ts";\nexport { a };`, 1, 2),
    bad(checkReExports, "src/netsim/mod.ts", `export class A {}`),
    good(checkReExports, "mod.ts", `export { a, type B } from "./src/a.ts"; export type { C } from "./src/c.ts";`),
    good(checkReExports, "src/stack/stack.ts", `export const a = 1;`),
  ],
};

for (const [rule, cases] of Object.entries(samples)) {
  Deno.test(`architecture rule: ${rule}`, () => {
    for (const { rule, path, source, lines } of cases) {
      assertEquals(rule(path, source).map(({ line }) => line), lines, `${path}\n${source}`);
    }
  });
}

Deno.test("architecture rule: @std stays out of reach of mod.ts", () => {
  const reach = (...files: [path: string, source: string][]) =>
    checkReach("mod.ts", new Map(files)).map(({ path }) => path);
  const entry: [string, string] = ["mod.ts", `export { a } from "./src/host/a.ts";`];
  assertEquals(reach(entry, ["src/host/a.ts", `import { assert } from "@std/assert";`]), ["src/host/a.ts"]);
  assertEquals(reach(entry, ["src/host/a.ts", `const x = import("jsr:@std/log@^0.224.14");`]), ["src/host/a.ts"]);
  assertEquals(
    reach(entry, ["src/host/a.ts", `import type { B } from "./b.ts";`], ["src/host/b.ts", `export * from "@std/log";`]),
    ["src/host/b.ts"],
  );
  assertEquals(
    reach(entry, ["src/host/a.ts", `import "./a.ts"; import "zod";`], ["src/cli/b.ts", `import "@std/log";`]),
    [],
  );
});

Deno.test("architecture: layers, globals, promises, docs", () => {
  const rules = [checkDirections, checkGlobals, checkPromises, checkModuleDoc, checkExportDocs, checkReExports];
  assertNone([...library].flatMap(([path, source]) => rules.flatMap((rule) => rule(path, source))));
});

Deno.test("architecture: @std stays out of reach of mod.ts", () => {
  assertNone(checkReach("mod.ts", library));
});

Deno.test("architecture: no file is too long", () => {
  const all = new Map([...library, ...read("tests/", "examples/", "bench/", "vendor/")]);
  assert(all.has("tests/architecture_test.ts"));
  assertNone([...all].flatMap(([path, source]) => checkLength(path, source)));
});

/**
 * The runner judges: whatever is changed in a script that passes makes it fail. On scripts from outside, if there are
 * any; on our own always.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { type Entry, loadDirectory } from "./load.ts";
import { defaultDirectory } from "./main.ts";
import { mutants } from "./mutate.ts";
import { play } from "./player.ts";

function passing(directory: string): Entry[] {
  return loadDirectory(directory).filter(({ script }) => play(script).failure === null);
}

/** How many changes were tried; fails if one of them passed. */
function tryAll(entries: Entry[]): number {
  const survivors: string[] = [];
  let tried = 0;
  for (const { file, script } of entries) {
    const changed = mutants(script);
    assert(changed.length > 0, `${file} checks nothing`);
    tried += changed.length;
    for (const { line, what, script } of changed) {
      if (play(script).failure === null) survivors.push(`${file}:${line}: ${what}`);
    }
  }
  assertEquals(survivors, []);
  return tried;
}

const directory = defaultDirectory();

function exists(): boolean {
  try {
    return Deno.statSync(`${directory}/index.json`).isFile;
  } catch {
    return false;
  }
}

const outside = exists();
if (!outside) {
  console.log(`no conformance scripts in ${directory}: their mutation test is skipped (CONFORMANCE_DIR names another)`);
}

Deno.test({
  name: "conformance: changing anything checked makes ten passing scripts fail",
  ignore: !outside,
  fn: () => {
    // Those that check several packets, spread over the suites.
    const rich = passing(directory).filter(({ script }) => script.events.filter((e) => e.kind === "expect").length > 2);
    const step = Math.floor(rich.length / 10);
    assert(step > 0, `only ${rich.length} scripts pass`);
    const ten = Array.from({ length: 10 }, (_, i) => rich[i * step]!);
    const tried = tryAll(ten);
    console.log(`${tried} changes in ${ten.length} of ${rich.length} scripts`);
  },
});

Deno.test("conformance: changing anything checked makes each of our own scripts fail", () => {
  const own = passing(decodeURIComponent(new URL("own", import.meta.url).pathname));
  assert(own.length >= 10);
  assert(tryAll(own) > 200);
});

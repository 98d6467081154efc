/**
 * The two configuration files say the same, and the stand-ins in vendor/std are taken for what they stand for.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";

const root = new URL("../", import.meta.url);

function readJson(path: string): Record<string, unknown> {
  return JSON.parse(Deno.readTextFileSync(new URL(path, root)));
}

Deno.test("config: deno.jsr.json is deno.json without links and lock", () => {
  const { links, ...linked } = readJson("deno.json");
  const { lock, ...published } = readJson("deno.jsr.json");
  assertEquals(links, ["./vendor/std"]);
  assertEquals(lock, false);
  assertEquals(published, linked);
});

Deno.test("config: each stand-in has the lowest version that its import allows", () => {
  const imports = readJson("deno.json").imports as Record<string, string>;
  const wanted = Object.entries(imports).filter(([name]) => name.startsWith("@std/"));
  const { workspace } = readJson("vendor/std/deno.json") as { workspace: string[] };
  const members = workspace.map((folder) => readJson(`vendor/std/${folder}/deno.json`));
  assert(members.length > 0);
  assertEquals(
    members.map(({ name, version }) => [name, `jsr:${name}@^${version}`]),
    wanted,
  );
});

Deno.test("config: no package.json, which would put another deno in the way of the tasks", () => {
  assertEquals([...Deno.readDirSync(root)].map(({ name }) => name).filter((name) => name === "package.json"), []);
});

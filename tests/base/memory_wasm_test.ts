/**
 * The bytes of the WebAssembly module are what its text says. After a change of the text:
 * `deno test -A tests/base/memory_wasm_test.ts -- --update`.
 */

import { assertEquals } from "@std/assert";
import wabt from "wabt";
import { WASM_BASE64 } from "../../src/base/wasm/memory_wasm.ts";

const TEXT = new URL("../../src/base/wasm/memory.wat", import.meta.url);
const BYTES = new URL("../../src/base/wasm/memory_wasm.ts", import.meta.url);

Deno.test("the embedded module is the one in memory.wat", async () => {
  const { parseWat } = await wabt();
  const module = parseWat("memory.wat", await Deno.readTextFile(TEXT), { simd: true });
  const { buffer } = module.toBinary({});
  module.destroy();
  const base64 = btoa(String.fromCharCode(...buffer));
  if (Deno.args.includes("--update")) return await Deno.writeTextFile(BYTES, moduleText(base64));
  assertEquals(WASM_BASE64, base64);
});

function moduleText(base64: string): string {
  const lines = base64.match(/.{1,110}/g)!.map((line) => `  "${line}"`);
  return `/**
 * The bytes of \`memory.wat\`, made by \`deno test -A tests/base/memory_wasm_test.ts -- --update\`; a test compares the two.
 *
 * @module
 */

/** A WebAssembly module, in base64. */
export const WASM_BASE64: string = ${lines.join(" +\n").trimStart()};
`;
}

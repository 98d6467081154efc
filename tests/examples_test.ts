import { assert, assertEquals, assertMatch } from "@std/assert";

const EXAMPLES = new URL("../examples/", import.meta.url);

/** What each example must print. */
const EXPECTED: Record<string, RegExp> = {
  "two_hosts.ts": /HELLO OVER 10\.7\.0\.1\nHELLO OVER FD07::1\n(ping \d: .* ms\n){3}/,
  "two_processes.ts": /10 requests, [\d.]+ ms each; RTT [\d.]+ ms/,
  "http.ts": /you asked for \/weather/,
  "impaired_link.ts": /"impair-loss":\d+/,
  "simulation.ts": /^seed 1: (.*), digest (\w+) .*\nseed 1: \1, digest \2 .*\nseed 2: (?!.*\2)/,
};

Deno.test("examples: each has a test and at most 60 lines", async () => {
  const names: string[] = [];
  for await (const entry of Deno.readDir(EXAMPLES)) names.push(entry.name);
  assertEquals(names.sort(), Object.keys(EXPECTED).sort());
  for (const name of names) {
    const lines = (await Deno.readTextFile(new URL(name, EXAMPLES))).trimEnd().split("\n").length;
    assert(lines <= 60, `${name} has ${lines} lines, expected at most 60`);
  }
});

for (const [name, expected] of Object.entries(EXPECTED)) {
  Deno.test(`example: ${name}`, async () => {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--quiet",
        "--allow-net=127.0.0.1",
        "--allow-run",
        "--allow-env",
        new URL(name, EXAMPLES).href,
      ],
      env: { NO_COLOR: "1" },
      stdin: "null",
    }).output();
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    assertMatch(new TextDecoder().decode(stdout), expected);
  });
}

/**
 * The stand-in for `@std/cli/parse-args`: values, and the types of the result.
 *
 * @module
 */

import { assertEquals, assertThrows } from "@std/assert";
import { parseArgs } from "@std/cli/parse-args";

/** Compiles only where `Actual` and `Expected` are the same type. */
function typed<Expected>() {
  return <Actual>(
    _value: Actual,
    ..._same: (<T>() => T extends Actual ? 1 : 2) extends (<T>() => T extends Expected ? 1 : 2) ? [] : [never]
  ): void => {};
}

Deno.test("parseArgs: without declarations", () => {
  assertEquals<unknown>(parseArgs([]), { _: [] });
  assertEquals<unknown>(
    parseArgs(["a", "5", "--x", "--y", "-1", "--z=", "-abc", "d", "-n5", "-m=6", "--", "--w", "7"]),
    {
      _: ["a", 5, "--w", "7"],
      x: true,
      y: true,
      1: true,
      z: "",
      a: true,
      b: true,
      c: "d",
      n: 5,
      m: 6,
    },
  );
  assertEquals<unknown>(parseArgs(["--x=1", "--x", "2"]), { _: [], x: 2 }, "the last one wins");
  assertEquals<unknown>(parseArgs(["--no-x", "--no-z", "w"]), {
    _: [],
    "no-x": true,
    "no-z": "w",
  });
});

Deno.test("parseArgs: boolean and string", () => {
  const options = { boolean: ["json", "quiet"], string: ["port", "name"] } as const;
  assertEquals<unknown>(parseArgs(["--json", "a", "--port", "05", "--name"], options), {
    _: ["a"],
    json: true,
    quiet: false,
    port: "05",
    name: "",
  });
  assertEquals<unknown>(parseArgs(["--json=false", "--quiet", "true", "--name=a=b"], options), {
    _: [],
    json: false,
    quiet: true,
    name: "a=b",
  });
  const args = parseArgs(["--port", "1", "2"], { boolean: ["json"], string: ["port"] });
  typed<boolean>()(args.json);
  typed<string | undefined>()(args.port);
  typed<unknown>()(args.other);
  typed<(string | number)[]>()(args._);
  typed<string | undefined>()(parseArgs([], { string: "one" }).one);
});

Deno.test("parseArgs: collect", () => {
  const options = { string: ["add"], collect: ["add", "other"] } as const;
  assertEquals<unknown>(parseArgs([], options), { _: [], add: [] });
  assertEquals<unknown>(parseArgs(["--add", "1", "--add=2", "--other", "3"], options), {
    _: [],
    add: ["1", "2"],
    other: [3],
  });
  const args = parseArgs([], { string: ["add"], collect: ["add", "other"] });
  typed<string[]>()(args.add);
  typed<unknown[]>()(args.other);
});

Deno.test({
  name: "parseArgs: the stand-in refuses an option that is boolean and in collect",
  ignore: !import.meta.resolve("@std/cli/parse-args").startsWith("file:"),
  fn: () => void assertThrows(() => parseArgs([], { boolean: ["a"], collect: ["a"] }), TypeError, `"a"`),
});

Deno.test("parseArgs: negatable", () => {
  const options = {
    boolean: ["color"],
    string: ["file", "add"],
    collect: ["add"],
    negatable: ["color", "file", "add"],
  };
  assertEquals<unknown>(parseArgs(["--no-color", "--no-file", "--no-add", "x"], options), {
    _: ["x"],
    color: false,
    file: false,
    add: false,
  });
  assertEquals<unknown>(parseArgs(["--no-file", "--file", "a", "--add=1", "--no-add", "--add=2"], options), {
    _: [],
    color: false,
    file: "a",
    add: ["2"],
  });
  assertEquals<unknown>(parseArgs([], { ...options, default: { color: true } }).color, true);
  assertEquals<unknown>(parseArgs(["--no-color"], { ...options, default: { color: true } }).color, false);
  const args = parseArgs([], { boolean: ["color"], string: ["file"], negatable: ["color", "file"] });
  typed<boolean>()(args.color);
  typed<string | false | undefined>()(args.file);
});

Deno.test("parseArgs: default and alias", () => {
  const args = parseArgs(["-p", "80"], {
    string: ["port", "host"],
    boolean: ["help"],
    alias: { port: "p", help: ["h", "?"] },
    default: { host: "::1", ttl: 64 },
  });
  assertEquals<unknown>(args, {
    _: [],
    port: "80",
    p: "80",
    help: false,
    h: false,
    "?": false,
    host: "::1",
    ttl: 64,
  });
  typed<string>()(args.host);
  typed<string | undefined>()(args.p);
  typed<boolean>()(args.h);
  typed<unknown>()(args.ttl);
  assertEquals<unknown>(parseArgs([], { alias: { port: "p" }, default: { port: 1 } }), { _: [], port: 1, p: 1 });
  assertEquals<unknown>(parseArgs(["-v", "1", "-v", "2"], { alias: { all: "v" }, collect: ["all"] }), {
    _: [],
    all: [1, 2],
    v: [1, 2],
  });
});

Deno.test("parseArgs: unknown", () => {
  const heard: [string, string | undefined][] = [];
  const unknown = (arg: string, key?: string) => {
    heard.push([arg, key]);
    return false;
  };
  const options = { boolean: ["b"], string: ["s"], collect: ["c"], negatable: ["b"], unknown };
  const args = ["--b", "--s", "1", "--c", "2", "--no-b", "--x=1", "--y", "--no-z", "-b", "-q", "a", "--", "--w"];
  assertEquals<unknown>(parseArgs(args, options), { _: ["--w"], b: true, s: "1", c: [2] });
  assertEquals(heard, [["--x=1", "x"], ["--y", "y"], ["--no-z", "no-z"], ["-q", "q"]]);
  heard.length = 0;
  assertEquals<unknown>(parseArgs(["a"], options)._, []);
  assertEquals(heard, [["a", undefined]]);
});

Deno.test("parseArgs: -- and stopEarly", () => {
  const args = parseArgs(["a", "--", "--b", "5"], { "--": true });
  assertEquals<unknown>(args, { _: ["a"], "--": ["--b", "5"] });
  typed<string[]>()(args["--"]);
  assertEquals<unknown>(parseArgs(["--x", "1", "run", "--no-y", "2"], { stopEarly: true }), {
    _: ["run", "--no-y", "2"],
    x: 1,
  });
});

Deno.test("parseArgs: names that objects inherit are options like others", () => {
  const args = parseArgs(["--__proto__", "1", "--constructor=2", "--toString", "3", "--valueOf"], {
    string: ["toString"],
  });
  assertEquals(Object.keys(args).sort(), ["_", "toString", "valueOf"]);
  assertEquals<unknown>(Object.getOwnPropertyDescriptor(args, "toString")?.value, "3");
  assertEquals(Object.getPrototypeOf(args), Object.prototype);
});

/**
 * A host in a YAML file: read with the places of its values, so that a fault in it can be pointed at.
 *
 * The file holds the options of `openHost` and, beside them, `services`: ports on which the host itself answers. JSON is
 * YAML too.
 *
 * ```yaml
 * address: 10.7.0.2/24
 * listen: 127.0.0.1:7002
 * peers:
 *   - name: a
 *     endpoint: 127.0.0.1:7001
 *     allowed: 10.7.0.1
 *     impair: delay 20ms loss 0.5%
 * services:
 *   echo: 7
 * ```
 *
 * @module
 */

import { type Document, isMap, isNode, isScalar, LineCounter, parseDocument, visit } from "yaml";
import type { PathStep } from "../stack/config_faults.ts";
import { inOneLine, messageOf, UsageError } from "./command.ts";

/** The largest file that is read. */
const FILE_BYTES = 1 << 20;

/** What the YAML package asks the environment for, and needs to be let. */
export const YAML_ENV = "LOG_TOKENS,LOG_STREAM";

/** A file and what it says. */
export interface HostFile {
  /** Its path. */
  readonly path: string;
  /** What it says, as plain values. */
  readonly value: Readonly<Record<string, unknown>>;
  /** Where a value stands (or its key): `host.yaml:3:5`. If there is none, where it would belong. */
  place(path: readonly PathStep[], isKey: boolean): string;
}

/**
 * Reads a file.
 *
 * @param command goes before the message of an error
 * @throws {UsageError} if there is no such file, or it is not YAML with keys and values
 */
export async function readHostFile(command: string, path: string): Promise<HostFile> {
  const text = await readText(command, path);
  const lines = new LineCounter();
  const placeOf = (offset: number): string => {
    const { line, col } = lines.linePos(Math.min(offset, text.length));
    return `${path}:${Math.max(line, 1)}:${Math.max(col, 1)}`;
  };
  const document = parse(command, path, text, lines);
  const fault = faultOf(document);
  if (fault !== null) {
    const line = text.slice(text.lastIndexOf("\n", fault.offset - 1) + 1).split("\n", 1)[0]!.trim();
    const found = line === "" ? "the end of the file" : JSON.stringify(line.slice(0, 60));
    throw new UsageError(
      `${command}: ${placeOf(fault.offset)}: found ${found}, expected valid YAML (${fault.text})`,
    );
  }
  let value: unknown;
  try {
    value = document.toJS();
  } catch (error) {
    throw new UsageError(`${command}: ${path}: expected YAML without excessive aliases (${messageOf(error)})`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    const found = value === null ? "nothing" : Array.isArray(value) ? "a list" : `a ${typeof value}`;
    throw new UsageError(
      `${command}: ${placeOf(0)}: found ${found}, expected the keys of a host, like "address: 10.7.0.1/24"`,
    );
  }
  return {
    path,
    value: value as Record<string, unknown>,
    place: (steps, isKey) => placeOf(offsetOf(document, steps, isKey)),
  };
}

async function readText(command: string, path: string): Promise<string> {
  const refuse = (why: string) =>
    new UsageError(`${command}: ${path}: ${why}, expected a YAML file that describes a host`);
  try {
    const bytes = await readBytes(path);
    if (bytes === null) throw refuse(`found more than ${FILE_BYTES} bytes`);
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    if (error instanceof Deno.errors.NotFound) throw refuse("found no such file");
    if (error instanceof Deno.errors.NotCapable) {
      throw refuse(`cannot be read (${missingPermission(error, "read", path)})`);
    }
    if (error instanceof Deno.errors.IsADirectory) throw refuse("found a folder");
    if (error instanceof TypeError) throw refuse("found bytes that are not UTF-8");
    throw refuse(`cannot be read (${messageOf(error)})`);
  }
}

/** What a file holds; `null` if that is too much. A pipe and a device have no size beforehand. */
async function readBytes(path: string): Promise<Uint8Array | null> {
  using file = await Deno.open(path);
  const bytes = new Uint8Array(FILE_BYTES + 1);
  let length = 0;
  while (length < bytes.length) {
    const n = await file.read(bytes.subarray(length));
    if (n === null) return bytes.subarray(0, length);
    length += n;
  }
  return null;
}

/** Which flag of the runtime is missing; devices and the like are opened with all permissions only. */
export function missingPermission(error: Error, kind: "read" | "write", path: string): string {
  return `run with ${/--allow-all/.test(error.message) ? "--allow-all" : `--allow-${kind}=${path}`}`;
}

/** What is wrong with the form of a document, and where; an alias of nothing is among that. */
function faultOf(document: Document): { offset: number; text: string } | null {
  const [error] = [...document.errors, ...document.warnings];
  if (error !== undefined) {
    const isSecond = error.code === "MULTIPLE_DOCS";
    return { offset: error.pos[0], text: isSecond ? "one document, not several" : inOneLine(error.message) };
  }
  let fault: { offset: number; text: string } | null = null;
  visit(document, {
    Alias(_key, node) {
      if (node.resolve(document) !== undefined) return;
      fault = { offset: node.range?.[0] ?? 0, text: `no anchor "&${node.source}" stands before "*${node.source}"` };
      return visit.BREAK;
    },
  });
  return fault;
}

function parse(command: string, path: string, text: string, lineCounter: LineCounter): Document {
  try {
    return parseDocument(text, { lineCounter, prettyErrors: false });
  } catch (error) {
    if (!(error instanceof Deno.errors.NotCapable)) throw error;
    throw new UsageError(`${command}: ${path}: the YAML reader cannot work without --allow-env=${YAML_ENV}`);
  }
}

/** Where in the text a value or its key begins; or what is nearest above it. */
function offsetOf(document: Document, path: readonly PathStep[], isKey: boolean): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? node.range?.[0] ?? 0 : 0;
  path.forEach((step, i) => {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => (isScalar(key) ? key.value : key) === step);
      if (pair !== undefined && isKey && i === path.length - 1 && isNode(pair.key)) {
        offset = pair.key.range?.[0] ?? offset;
      }
      node = pair?.value;
    } else {
      node = document.getIn(path.slice(0, i + 1).map(String), true);
    }
    if (isNode(node) && !(isKey && i === path.length - 1)) offset = node.range?.[0] ?? offset;
  });
  return offset;
}

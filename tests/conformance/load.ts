/**
 * Reads a directory of conformance scripts: `index.json`, and every file that it lists.
 *
 * @module
 */

import { decodeScript, FormatError, list, record, type Script, shown, text } from "./format.ts";

/** A script with what the index says of it. */
export interface Entry {
  /** Path below the directory. */
  file: string;
  /** What the script is about. */
  feature: string;
  /** Where it comes from. */
  suite: string;
  /** True for agreed behaviour; the others are advice. */
  scored: boolean;
  /** The script itself. */
  script: Script;
}

/** The directory cannot be used; the message says why, in one line. */
export class LoadError extends Error {
  override name = "LoadError";
}

/** Reads all scripts of a directory, in the order of its index. */
export function loadDirectory(directory: string): Entry[] {
  let isDirectory: boolean;
  try {
    isDirectory = Deno.statSync(directory).isDirectory;
  } catch {
    throw new LoadError(`there is no directory ${directory}`);
  }
  if (!isDirectory) throw new LoadError(`${directory} is not a directory: expected one that holds index.json`);
  return inFile("index.json", () => {
    const rows = list(readJson(directory, "index.json"), "the index");
    if (rows.length === 0) throw new FormatError("expected at least one script");
    return rows.map((row, i) => decodeRow(directory, row, `[${i}]`));
  });
}

function decodeRow(directory: string, json: unknown, path: string): Entry {
  const row = record(json, path);
  const file = text(row.file, `${path}.file`);
  if (file.startsWith("/") || file.split("/").includes("..")) {
    throw new FormatError(`${path}.file: expected a path below the directory, got ${shown(file)}`);
  }
  const { scored } = row;
  if (typeof scored !== "boolean") {
    throw new FormatError(`${path}.scored: expected true or false, got ${shown(scored)}`);
  }
  const entry = {
    file,
    feature: text(row.feature, `${path}.feature`),
    suite: text(row.suite, `${path}.suite`),
    scored,
  };
  return { ...entry, script: inFile(file, () => decodeScript(readJson(directory, file))) };
}

function readJson(directory: string, file: string): unknown {
  let source: string;
  try {
    source = Deno.readTextFileSync(`${directory}/${file}`);
  } catch (error) {
    throw new LoadError(`${file} cannot be read: ${error instanceof Error ? error.message : error}`);
  }
  try {
    return JSON.parse(source);
  } catch (error) {
    throw new FormatError(`expected JSON (${error instanceof Error ? error.message : error})`);
  }
}

/** Names the file in the message of a {@linkcode FormatError}. */
function inFile<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof FormatError) throw new LoadError(`${file}: ${error.message}`);
    throw error;
  }
}

/**
 * The rules of the architecture as functions from a file to what is wrong with it.
 *
 * Each rule takes the path of a file, relative to the root of the repository, and its text, and returns its
 * violations; none reads a file, so that a test can show that it fails on a bad sample. Files are parsed by the
 * TypeScript compiler: words in comments, strings, and names of properties are never taken for the thing itself.
 *
 * What a rule forbids by name it forbids for every use of the name that is not a property's: a local variable named
 * `process` is refused as well, which costs nobody anything and keeps the rules free of scope analysis.
 *
 * Left out: what an npm package does inside, and files reached by a computed path.
 *
 * @module
 */

import ts from "typescript";

/** One breach of one rule. */
export interface Violation {
  /** The file, relative to the root of the repository. */
  path: string;
  /** The line, counted from 1. */
  line: number;
  /** What is wrong, in a sentence. */
  message: string;
}

/** A rule that looks at one file. */
export type Rule = (path: string, source: string) => Violation[];

/** The most lines a file may have. */
export const MAX_LINES = 800;

const PACKAGE = "@culvert/culvert";

const MIDDLE = ["tcp", "udp", "icmp", "ip", "qdisc", "impair", "tunnel"] as const;
const CORE = ["base", "wire", ...MIDDLE, "stack"] as const;
const SOCKETS = [...CORE, "socket", "runtime", "host"] as const;
const BELOW_CLI = [...SOCKETS, "netsim", "lab"] as const;

/** For every layer, the layers that its files may import. `entry` is the package's own mod.ts. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  base: ["base"],
  wire: ["base", "wire"],
  ...Object.fromEntries(MIDDLE.map((layer) => [layer, ["base", "wire", layer]])),
  stack: CORE,
  socket: [...CORE, "socket"],
  runtime: [...CORE, "socket", "runtime"],
  host: SOCKETS,
  netsim: [...CORE, "netsim"],
  lab: BELOW_CLI,
  cli: [...BELOW_CLI, "cli", "entry", "configuration"],
  entry: SOCKETS,
};

/** Names of what only the outermost layers may touch: the host's clock, timers, randomness, console and globals. */
const HOST_NAMES: ReadonlySet<string> = new Set([
  ...["Deno", "process", "globalThis", "self", "console", "crypto", "performance", "Date", "Temporal"],
  ...["setTimeout", "setInterval", "setImmediate", "queueMicrotask", "clearTimeout", "clearInterval", "clearImmediate"],
]);

/** Names of types and values that stand for work finished later. */
const PROMISE_NAMES: ReadonlySet<string> = new Set([
  ...["Promise", "PromiseLike", "AsyncIterable", "AsyncIterator", "AsyncIterableIterator"],
  ...["AsyncGenerator", "AsyncGeneratorFunction", "AsyncDisposable", "AsyncDisposableStack"],
]);

const PROMISE_LAYERS: ReadonlySet<string> = new Set(["socket", "runtime", "host", "lab", "cli"]);

/** The layer of a file: its folder in src, `entry` for mod.ts, or `undefined` for what lies outside. */
function layerOf(path: string): string | undefined {
  if (path === "mod.ts") return "entry";
  if (path === "deno.json") return "configuration";
  return /^src\/([^/]+)\/./.exec(path)?.[1];
}

function mayTouchHost(path: string): boolean {
  const layer = layerOf(path);
  if (layer === "lab") return /^src\/lab\/(targets\/|agent|journal)/.test(path);
  return layer === "runtime" || layer === "host" || layer === "cli";
}

let parsed: ts.SourceFile | undefined;

/** The syntax tree of a file. The last one is kept, since the rules look at one file after another. */
function parse(path: string, source: string): ts.SourceFile {
  if (parsed?.fileName !== path || parsed.text !== source) {
    parsed = ts.createSourceFile(path, source, ts.ScriptTarget.Latest, true);
  }
  return parsed;
}

function violation(at: ts.Node, message: string): Violation {
  const file = at.getSourceFile();
  return { path: file.fileName, line: file.getLineAndCharacterOfPosition(at.getStart()).line + 1, message };
}

/** Every node below `node`, depth first. */
function* descendants(node: ts.Node): Generator<ts.Node> {
  const children: ts.Node[] = [];
  ts.forEachChild(node, (child) => void children.push(child));
  for (const child of children) {
    yield child;
    yield* descendants(child);
  }
}

interface Import {
  node: ts.Node;
  /** `undefined` for an `import()` of something computed. */
  specifier: string | undefined;
}

/** The strings that constants of a file stand for. */
function stringConstants(file: ts.SourceFile): Map<string, string> {
  const found = new Map<string, string>();
  for (const statement of file.statements) {
    if (!ts.isVariableStatement(statement) || (statement.declarationList.flags & ts.NodeFlags.Const) === 0) continue;
    for (const { name, initializer } of statement.declarationList.declarations) {
      if (ts.isIdentifier(name) && initializer && ts.isStringLiteralLike(initializer)) {
        found.set(name.text, initializer.text);
      }
    }
  }
  return found;
}

/** All that a file imports or re-exports, types and `import()` included, also that of a constant. */
function importsOf(path: string, source: string): Import[] {
  const found: Import[] = [];
  const constants = stringConstants(parse(path, source));
  const textOf = (name: ts.Node | undefined): string | undefined =>
    name && (ts.isStringLiteralLike(name) ? name.text : ts.isIdentifier(name) ? constants.get(name.text) : undefined);
  const add = (node: ts.Node, name: ts.Node | undefined) => found.push({ node, specifier: textOf(name) });
  for (const node of descendants(parse(path, source))) {
    if (ts.isImportDeclaration(node)) add(node, node.moduleSpecifier);
    else if (ts.isExportDeclaration(node) && node.moduleSpecifier !== undefined) add(node, node.moduleSpecifier);
    else if (ts.isExternalModuleReference(node)) add(node, node.expression);
    else if (ts.isImportTypeNode(node)) {
      add(node, ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined);
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      add(node, node.arguments[0]);
    }
  }
  return found;
}

/** The path that a specifier names in this repository, or `undefined` for a package or a builtin. */
function resolve(from: string, specifier: string): string | undefined {
  if (specifier === PACKAGE) return "mod.ts";
  if (specifier === `${PACKAGE}/netsim`) return "src/netsim/mod.ts";
  if (specifier === `${PACKAGE}/cli`) return "src/cli/main.ts";
  if (!/^(\.|\/|file:)/.test(specifier)) return undefined;
  return new URL(specifier, `file:///${from}`).pathname.slice(1);
}

/** Imports go down the layers only; siblings in the middle, and the two heads, never meet. */
export const checkDirections: Rule = (path, source) => {
  const layer = layerOf(path);
  const allowed = layer === undefined ? undefined : MAY_IMPORT[layer];
  if (layer === undefined || allowed === undefined) {
    return [{ path, line: 1, message: `belongs to no layer; the layers are ${Object.keys(MAY_IMPORT).join(", ")}` }];
  }
  const found: Violation[] = [];
  for (const { node, specifier } of importsOf(path, source)) {
    if (specifier === undefined) {
      found.push(violation(node, "imports something computed, whose layer cannot be told"));
      continue;
    }
    const target = resolve(path, specifier);
    if (target === undefined) continue;
    const targetLayer = layerOf(target);
    if (targetLayer === undefined || !allowed.includes(targetLayer)) {
      found.push(violation(node, `${layer} may not import ${specifier} (${targetLayer ?? "outside the layers"})`));
    }
  }
  return found;
};

/** Is this identifier a use of the name, rather than the name of a property or a member? */
function isUse(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent)) return parent.name !== node;
  if (ts.isQualifiedName(parent)) return parent.right !== node;
  if (ts.isBindingElement(parent) || ts.isImportSpecifier(parent)) return parent.propertyName !== node;
  if (ts.isExportSpecifier(parent)) return parent.propertyName === undefined || parent.propertyName === node;
  if (
    ts.isPropertyAssignment(parent) || ts.isClassElement(parent) || ts.isTypeElement(parent) || ts.isEnumMember(parent)
  ) return parent.name !== node;
  return true;
}

/** Only the outermost layers touch the host: its globals, `Math.random` and `node:` modules. */
export const checkGlobals: Rule = (path, source) => {
  if (mayTouchHost(path)) return [];
  const found: Violation[] = [];
  for (const { node, specifier } of importsOf(path, source)) {
    if (specifier?.startsWith("node:")) found.push(violation(node, `may not import ${specifier}`));
  }
  for (const node of descendants(parse(path, source))) {
    if (!ts.isIdentifier(node) || !isUse(node)) continue;
    if (HOST_NAMES.has(node.text)) found.push(violation(node, `may not use ${node.text}`));
    if (node.text === "Math" && mayBeRandom(node)) found.push(violation(node, "may not use Math.random"));
  }
  return found;
};

/** Anything but `Math.name`, where the name is not `random`. */
function mayBeRandom(math: ts.Identifier): boolean {
  const { parent } = math;
  return !ts.isPropertyAccessExpression(parent) || parent.expression !== math || parent.name.text === "random";
}

/** Only the sockets and what stands above them know promises. */
export const checkPromises: Rule = (path, source) => {
  if (PROMISE_LAYERS.has(layerOf(path) ?? "")) return [];
  const found: Violation[] = [];
  for (const node of descendants(parse(path, source))) {
    if (ts.isIdentifier(node) && PROMISE_NAMES.has(node.text) && isUse(node)) {
      found.push(violation(node, `may not use ${node.text}`));
    } else if (node.kind === ts.SyntaxKind.AsyncKeyword) {
      found.push(violation(node, "may not have an async function"));
    } else if (node.kind === ts.SyntaxKind.AwaitKeyword || ts.isAwaitExpression(node) || isAwaitUsing(node)) {
      found.push(violation(node, "may not await"));
    }
  }
  return found;
};

function isAwaitUsing(node: ts.Node): boolean {
  return ts.isVariableDeclarationList(node) && (node.flags & ts.NodeFlags.BlockScoped) === ts.NodeFlags.AwaitUsing;
}

/** No file is longer than {@linkcode MAX_LINES}. */
export const checkLength: Rule = (path, source) => {
  const lines = source.split("\n").length - (source.endsWith("\n") ? 1 : 0);
  if (lines <= MAX_LINES) return [];
  return [{ path, line: MAX_LINES + 1, message: `has ${lines} lines; split it by subject at ${MAX_LINES}` }];
};

/** Every file begins with a doc comment that has an `@module` tag and says something. */
export const checkModuleDoc: Rule = (path, source) => {
  const comment = /^(?:#!.*\n)?\s*\/\*\*([^]*?)\*\//.exec(source)?.[1];
  const text = comment?.replace(/^\s*\*/gm, "");
  if (text !== undefined && /^\s*@module\b/m.test(text) && /\w/.test(text.replace(/@module[^]*/, ""))) return [];
  return [{ path, line: 1, message: "does not begin with a doc comment that has text and @module" }];
};

/** Has this declaration a doc comment of its own, with text in it? */
function isDocumented(node: ts.Node): boolean {
  return ts.getJSDocCommentsAndTags(node).some((doc) =>
    ts.isJSDoc(doc) &&
    !doc.tags?.some((tag) => tag.tagName.text === "module") &&
    (ts.getTextOfJSDocComment(doc.comment) ?? "").trim() !== ""
  );
}

function namesOf(statement: ts.Statement): string[] {
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.map(({ name }) => name.getText());
  }
  if (ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement)) {
    return [statement.name?.text ?? "default"];
  }
  if (
    ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement) || ts.isEnumDeclaration(statement) ||
    ts.isModuleDeclaration(statement)
  ) return [statement.name.text];
  return [];
}

function isExported(statement: ts.Statement): boolean {
  return ts.canHaveModifiers(statement) &&
    (ts.getModifiers(statement) ?? []).some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);
}

/** Every exported symbol that is declared here has a doc comment; of an overloaded function, every signature. */
export const checkExportDocs: Rule = (path, source) => {
  const { statements } = parse(path, source);
  const exportedBelow = new Set<string>();
  const found: Violation[] = [];
  for (const statement of statements) {
    if (ts.isExportAssignment(statement) && !isDocumented(statement)) {
      const named = ts.isIdentifier(statement.expression) ? statement.expression.text : undefined;
      if (named === undefined) found.push(violation(statement, "the default export has no doc comment"));
      else exportedBelow.add(named);
    }
    const list = ts.isExportDeclaration(statement) && !statement.moduleSpecifier ? statement.exportClause : undefined;
    if (list === undefined || !ts.isNamedExports(list)) continue;
    for (const { propertyName, name } of list.elements) exportedBelow.add((propertyName ?? name).text);
  }

  const signatures = new Set(
    statements.filter(ts.isFunctionDeclaration).filter(({ body }) => body === undefined).map(({ name }) => name?.text),
  );
  for (const statement of statements) {
    const names = namesOf(statement);
    if (!isExported(statement) && !names.some((name) => exportedBelow.has(name))) continue;
    const isBodyOfOverload = ts.isFunctionDeclaration(statement) && statement.body !== undefined &&
      signatures.has(statement.name?.text);
    if (names.length === 0 || isBodyOfOverload || isDocumented(statement)) continue;
    found.push(violation(statement, `${names.join(", ")} is exported without a doc comment`));
  }
  return found;
};

/** A mod.ts only re-exports. */
export const checkReExports: Rule = (path, source) => {
  if (!/(^|\/)mod\.ts$/.test(path)) return [];
  return parse(path, source).statements
    .filter((statement) => !(ts.isExportDeclaration(statement) && statement.moduleSpecifier !== undefined))
    .map((statement) => violation(statement, "is not a re-export, and a mod.ts has nothing else"));
};

/** Nothing that is reachable from `entry` imports `@std/*`. `sources` has the text of every file by path. */
export function checkReach(entry: string, sources: ReadonlyMap<string, string>): Violation[] {
  const found: Violation[] = [];
  const reachedFrom = new Map<string, string | undefined>([[entry, undefined]]);
  for (const path of reachedFrom.keys()) {
    const source = sources.get(path);
    if (source === undefined) continue;
    for (const { node, specifier } of importsOf(path, source)) {
      if (specifier === undefined) continue;
      const target = resolve(path, specifier);
      if (target !== undefined) {
        if (!reachedFrom.has(target)) reachedFrom.set(target, path);
      } else if (/^(jsr:\/?)?@std\//.test(specifier)) {
        const chain = [path];
        for (let at = reachedFrom.get(path); at !== undefined; at = reachedFrom.get(at)) chain.unshift(at);
        found.push(violation(node, `imports ${specifier} and is reachable from ${entry} (${chain.join(" → ")})`));
      }
    }
  }
  return found;
}

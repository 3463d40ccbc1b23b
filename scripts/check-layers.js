/**
 * Checks the shape of src/ that docs/architecture.md describes, and fails when a file breaks it.
 *
 * Rules, by the name that a message carries:
 *   place    src/ holds index.ts and the folders of LAYERS, nothing else
 *   name     no file or folder is called utils, helpers, common or misc
 *   barrel   only src/index.ts may do nothing but export other files again
 *   default  no default exports
 *   layer    a file imports from its own folder and from folders below it
 *   exists   a relative import ends in .js and names a file that is there
 *   package  Node's modules are written `node:...`, packages are declared in package.json
 *   pure     a pure folder uses no Node API: no node: modules, no packages but those of PURE_PACKAGES, no global
 *            names that a browser lacks, and imports only pure files, so that purity holds through the whole
 *            import graph
 *   cycle    no file reaches itself through imports (type-only imports count too)
 *
 * usage: node scripts/check-layers.js [REPOSITORY]     exit status 1 and one line per violation
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

/** Folders of src/, top to bottom. index.ts stands between cli and communicator: only cli may import it. */
const LAYERS = [
  'cli',
  'index.ts',
  'communicator',
  'observe',
  'doctor',
  'verifier',
  'planning',
  'tuning',
  'topology',
  'collectives',
  'kernel',
  'device',
  'transport',
  'bootstrap',
  'system',
  'errors',
];

/** Layers that run in a browser as they are. */
const PURE_LAYERS = new Set([
  'doctor',
  'verifier',
  'planning',
  'tuning',
  'topology',
  'collectives',
  'kernel',
  'errors',
]);

/** Reads sysfs and NVML: the one part of a pure layer that belongs to Node. */
const NODE_PARTS_OF_PURE_LAYERS = ['topology/detect/'];

/** Packages that run in a browser as they are, each with the one part of a pure layer that may import it. */
const PURE_PACKAGES = new Map([
  // A parser of XML in plain ECMAScript; its one dependency holds character tables.
  ['saxes', 'topology/xml/'],
]);

/** Globals beyond ECMAScript that Node 20 and every current browser share; a pure file may use these. */
const SHARED_GLOBALS = new Set([
  'AbortController',
  'AbortSignal',
  'TextDecoder',
  'TextEncoder',
  'WebAssembly',
  'clearTimeout',
  'performance',
  'queueMicrotask',
  'setTimeout',
  'structuredClone',
]);

const REFUSED_NAMES = new Set(['util', 'utils', 'helper', 'helpers', 'common', 'misc']);

const BUILTINS = new Set(builtinModules);

/**
 * @typedef {{ file: string, line: number, rule: string, text: string }} Violation
 * @typedef {{ specifier: string, line: number, url: boolean }} Import  url: `new URL('./x.js', import.meta.url)`
 */

/** All files below `folder`, as paths relative to it with forward slashes, sorted. */
function listFiles(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .sort();
}

/** The layer of a file of src/: its first folder, or `index.ts`. */
const layerOf = (file) => (file.includes('/') ? file.slice(0, file.indexOf('/')) : file);

function isPure(file) {
  return PURE_LAYERS.has(layerOf(file)) && !NODE_PARTS_OF_PURE_LAYERS.some((part) => file.startsWith(part));
}

const lineOf = (source, node) => source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1;

const stringOf = (node) => (node !== undefined && ts.isStringLiteralLike(node) ? node.text : undefined);

function isImportMetaUrl(node) {
  return (
    node !== undefined &&
    ts.isPropertyAccessExpression(node) &&
    node.name.text === 'url' &&
    ts.isMetaProperty(node.expression)
  );
}

/** The module that `node` names, if it is any form of import. */
function importOf(node) {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) {
    return { specifier: stringOf(node.moduleSpecifier), url: false };
  }
  if (ts.isImportEqualsDeclaration(node) && ts.isExternalModuleReference(node.moduleReference)) {
    return { specifier: stringOf(node.moduleReference.expression), url: false };
  }
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
    return { specifier: stringOf(node.argument.literal), url: false };
  }
  if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
    return { specifier: stringOf(node.arguments[0]), url: false };
  }
  if (
    ts.isNewExpression(node) &&
    node.expression.getText() === 'URL' &&
    isImportMetaUrl(node.arguments?.[1])
  ) {
    const specifier = stringOf(node.arguments?.[0]);
    return { specifier: specifier?.endsWith('.js') ? specifier : undefined, url: true };
  }
  return undefined;
}

function isDefaultExport(node) {
  if (ts.isExportAssignment(node)) return true;
  if (ts.isExportSpecifier(node)) return node.name.text === 'default';
  return (
    ts.canHaveModifiers(node) &&
    (ts.getModifiers(node) ?? []).some((modifier) => modifier.kind === ts.SyntaxKind.DefaultKeyword)
  );
}

/** One pass over a file: its imports and the lines of its default exports. */
function readSource(source) {
  /** @type {Import[]} */
  const imports = [];
  const defaults = [];
  const visit = (node) => {
    const found = importOf(node);
    if (found?.specifier !== undefined) imports.push({ ...found, line: lineOf(source, node) });
    if (isDefaultExport(node)) defaults.push(lineOf(source, node));
    ts.forEachChild(node, visit);
  };
  visit(source);
  return { imports, defaults };
}

function isBarrel(source) {
  const body = source.statements;
  return body.length > 0 && body.every((node) => ts.isExportDeclaration(node) && node.moduleSpecifier);
}

/** Violations of place, name, barrel and default: what a file is, apart from what it imports. */
function checkFile(file, source, defaults) {
  const found = [];
  const say = (line, rule, text) => found.push({ file, line, rule, text });
  if (!LAYERS.includes(layerOf(file))) {
    const what = file.includes('/') ? `folder ${layerOf(file)}/` : 'file';
    say(1, 'place', `the ${what} has no place in src/; there are index.ts and ${LAYERS.join(', ')}`);
  }
  for (const part of file.split('/')) {
    const name = part.replace(/\..*$/, '');
    if (REFUSED_NAMES.has(name)) say(1, 'name', `'${name}' says nothing; name it after its one idea`);
  }
  if (file !== 'index.ts' && isBarrel(source)) {
    say(1, 'barrel', 'only exports other files again; import those where they are');
  }
  for (const line of defaults) say(line, 'default', 'default export; export it by its name');
  return found;
}

/** Violations of one import that does not start with a dot. */
function checkPackageImport(file, { specifier, line }, packages) {
  const say = (rule, text) => ({ file, line, rule, text });
  if (specifier.startsWith('#'))
    return say('exists', `'${specifier}': src/ imports its files by relative path`);
  const part = PURE_PACKAGES.get(specifier);
  const allowed = part !== undefined && file.startsWith(part);
  if (isPure(file) && !allowed)
    return say('pure', `a pure file imports '${specifier}'; it may import pure files of src/ only`);
  if (specifier.startsWith('node:')) return undefined;
  if (BUILTINS.has(specifier)) return say('package', `write 'node:${specifier}' for '${specifier}'`);
  const name = specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
  if (!packages.has(name)) return say('package', `'${name}' is not a dependency in package.json`);
  return undefined;
}

/** Violations of one relative import. */
function checkRelativeImport(file, target, { specifier, line }, known) {
  const say = (rule, text) => ({ file, line, rule, text });
  if (target === undefined || !known.has(target)) {
    return say('exists', `'${specifier}' names no file; write the relative path of the .ts file with .js`);
  }
  const from = layerOf(file);
  const to = layerOf(target);
  if (LAYERS.includes(from) && LAYERS.includes(to) && LAYERS.indexOf(to) < LAYERS.indexOf(from)) {
    return say('layer', `${from}/ imports '${specifier}' of ${to}/, which stands above it`);
  }
  if (isPure(file) && !isPure(target)) {
    return say('pure', `a pure file imports '${specifier}', which is not pure`);
  }
  return undefined;
}

/** The file of src/ that a relative specifier in `file` stands for, or undefined. */
function targetOf(file, specifier) {
  if (!specifier.endsWith('.js')) return undefined;
  const path = join(dirname(file), specifier).split(sep).join('/');
  return path.startsWith('..') ? undefined : path.replace(/\.js$/, '.ts');
}

/**
 * The first cycle through each group of files that reach each other (depth-first search, three colours).
 * @param {Map<string, { target: string, line: number }[]>} graph
 */
function checkCycles(graph) {
  const found = [];
  const state = new Map();
  const path = [];
  const visit = (file) => {
    state.set(file, 'open');
    path.push(file);
    for (const { target, line } of graph.get(file) ?? []) {
      if (state.get(target) === 'open') {
        const cycle = [...path.slice(path.indexOf(target)), target];
        found.push({ file, line, rule: 'cycle', text: `imports go round: ${cycle.join(' -> ')}` });
      } else if (!state.has(target)) {
        visit(target);
      }
    }
    path.pop();
    state.set(file, 'done');
  };
  for (const file of graph.keys()) if (!state.has(file)) visit(file);
  return found;
}

/** True where an identifier is looked up in scope (not a property name, a key, or a label). */
function isLookedUp(node) {
  const parent = node.parent;
  if (ts.isPropertyAccessExpression(parent) || ts.isMetaProperty(parent)) return parent.name !== node;
  if (ts.isQualifiedName(parent)) return parent.right !== node;
  if (ts.isPropertyAssignment(parent) || ts.isEnumMember(parent)) return parent.name !== node;
  if (ts.isBindingElement(parent)) return parent.propertyName !== node;
  if (ts.isImportSpecifier(parent) || ts.isNamedTupleMember(parent)) return false;
  if (ts.isExportSpecifier(parent)) return parent.parent.parent.moduleSpecifier === undefined;
  if (ts.isImportTypeNode(parent) || ts.isLabeledStatement(parent) || ts.isBreakOrContinueStatement(parent)) {
    return false;
  }
  return true;
}

/** True where the name stands for something that the file or ECMAScript's library declares. */
function isDeclared(checker, node) {
  if (node.text === 'undefined' || node.text === 'arguments' || ts.isConstTypeReference(node.parent))
    return true;
  let symbol = checker.getSymbolAtLocation(node);
  if (ts.isShorthandPropertyAssignment(node.parent)) {
    symbol = checker.getShorthandAssignmentValueSymbol(node.parent);
  } else if (ts.isExportSpecifier(node.parent)) {
    symbol = checker.getExportSpecifierLocalTargetSymbol(node.parent);
  }
  // An unknown type name gets a made-up symbol, which nothing declares.
  return symbol?.declarations !== undefined;
}

/**
 * Uses of names that neither the file nor ECMAScript declares. The files are bound against ECMAScript's own
 * library without @types/node and without the DOM, so `process`, `Buffer`, `require`, `document` stay unknown.
 */
function checkPureGlobals(root, files) {
  const names = files.map((file) => join(root, 'src', file));
  const program = ts.createProgram(names, {
    lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
    types: [],
    noResolve: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
  });
  const checker = program.getTypeChecker();
  const found = [];
  files.forEach((file, index) => {
    const source = program.getSourceFile(names[index]);
    const refuse = (node, name) => {
      const text = `a pure file uses the global '${name}', which is not in both Node and browsers`;
      found.push({ file, line: lineOf(source, node), rule: 'pure', text });
    };
    const visit = (node) => {
      if (ts.isIdentifier(node) && isLookedUp(node)) {
        if (node.text === 'globalThis') {
          const name = ts.isPropertyAccessExpression(node.parent) ? node.parent.name.text : undefined;
          if (name === undefined || !SHARED_GLOBALS.has(name)) refuse(node, `globalThis.${name ?? '[...]'}`);
        } else if (!SHARED_GLOBALS.has(node.text) && !isDeclared(checker, node)) {
          refuse(node, node.text);
        }
      }
      ts.forEachChild(node, visit);
    };
    if (source !== undefined) visit(source);
  });
  return found;
}

/** Names of the packages that src/ may import: dependencies, optional and peer ones; not development ones. */
function declaredPackages(root) {
  const path = join(root, 'package.json');
  const manifest = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {};
  const { dependencies, optionalDependencies, peerDependencies } = manifest;
  return new Set(Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies }));
}

/**
 * Every violation in src/ of the repository at `root`, and how many files were read.
 * @param {string} root
 * @returns {{ violations: Violation[], count: number }}
 */
export function checkLayers(root) {
  const src = join(root, 'src');
  const files = listFiles(src).filter((file) => /\.[cm]?tsx?$/.test(file));
  const known = new Set(files);
  const packages = declaredPackages(root);
  const violations = [];
  const graph = new Map();
  for (const file of files) {
    const text = readFileSync(join(src, file), 'utf8');
    const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true);
    const { imports, defaults } = readSource(source);
    violations.push(...checkFile(file, source, defaults));
    const edges = [];
    for (const entry of imports) {
      const dotted = entry.specifier.startsWith('.');
      const target = dotted ? targetOf(file, entry.specifier) : undefined;
      const violation = dotted
        ? checkRelativeImport(file, target, entry, known)
        : checkPackageImport(file, entry, packages);
      if (violation !== undefined) violations.push(violation);
      // A worker's file may import the file that starts it: the URL loads nothing into the starter.
      if (target !== undefined && !entry.url) edges.push({ target, line: entry.line });
    }
    graph.set(file, edges);
  }
  violations.push(...checkCycles(graph), ...checkPureGlobals(root, files.filter(isPure)));
  return { violations, count: files.length };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = resolve(process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), '..'));
  const { violations, count } = checkLayers(root);
  for (const { file, line, rule, text } of violations)
    console.error(`src/${file}:${line}: [${rule}] ${text}`);
  if (violations.length > 0) {
    console.error(`${violations.length} broken rules in ${count} files of src/`);
    process.exitCode = 1;
  } else {
    console.log(`layers: ${count} files of src/ in order`);
  }
}

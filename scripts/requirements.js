/**
 * Keeps docs/requirements.md, the list of the specification's requirements that tests prove.
 *
 * A test that would fail if a requirement were broken ends its title with the requirement's id in brackets:
 * `it('sends chunks in ring order [C10-02]', ...)`, several as `[C10-02, SP-01]` or
 * `[C10-02] [SP-01]`. The page must hold each id that some title cites, with the requirement's sentence, and
 * no other id; sentences are read from the page itself, so the check needs no specification. Skipped and todo tests prove nothing and are not counted.
 *
 * usage: node scripts/requirements.js                    check; exit status 1 and one line per fault
 *        node scripts/requirements.js --update FOLDER    write the page, sentences from FOLDER's *.md files:
 *                                                        `C10-01 | [core] | sentence |` or `C10-01 [core] sentence`
 *        --root REPOSITORY                               another repository than this script's own
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import ts from 'typescript';

const ID = '(?:C\\d{2}|SP)-\\d{2}';
const CITATION = new RegExp(`(?:\\[${ID}(?:, ${ID})*\\] ?)+$`);
const DEFINITION = new RegExp(`^[^A-Za-z]*(${ID})[\\s|]+\\[([a-z-]+)\\][\\s|]+(.*?)[\\s|]*$`);
const ENTRY = new RegExp(`^- \\*\\*(${ID})\\*\\* (.*)$`);

/** The last literal text of a string or template, where a title's citation stands; else ''. */
function endOfTitle(node) {
  if (node === undefined) return '';
  if (ts.isStringLiteralLike(node)) return node.text;
  if (ts.isTemplateExpression(node)) return node.templateSpans.at(-1)?.literal.text ?? '';
  return '';
}

/** True for `it.skip(...)`, `describe.todo(...)`, `it.skip.each(...)(...)`. */
function isSkipped(callee) {
  if (ts.isCallExpression(callee)) return isSkipped(callee.expression);
  if (!ts.isPropertyAccessExpression(callee)) return false;
  return callee.name.text === 'skip' || callee.name.text === 'todo' || isSkipped(callee.expression);
}

/**
 * Ids that the titles of one test file cite. A title is the first argument of any call, since a suite may
 * wrap `it` in a function of its own; what stands inside a skipped suite is skipped with it.
 */
function citationsOf(name, text) {
  const ids = [];
  const visit = (node) => {
    if (ts.isCallExpression(node)) {
      if (isSkipped(node.expression)) return;
      const cited = CITATION.exec(endOfTitle(node.arguments[0]));
      if (cited !== null) ids.push(...cited[0].match(new RegExp(ID, 'g')));
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(name, text, ts.ScriptTarget.ES2022, true));
  return ids;
}

/** Every cited id with the test files (relative to test/) that cite it. */
function readCitations(root) {
  const folder = join(root, 'test');
  const cited = new Map();
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.test.ts'),
  );
  for (const file of files.sort()) {
    for (const id of citationsOf(file, readFileSync(join(folder, file), 'utf8'))) {
      cited.set(id, [...new Set([...(cited.get(id) ?? []), file])]);
    }
  }
  return cited;
}

/** The specification's sentences by id, and the heading of the chapter that each id's family belongs to. */
function readSpecification(folder) {
  const sentences = new Map();
  const chapters = new Map();
  for (const file of readdirSync(folder).sort()) {
    if (!file.endsWith('.md')) continue;
    const lines = readFileSync(join(folder, file), 'utf8').split('\n');
    const first = lines.find((line) => line.startsWith('# ')) ?? file;
    const heading = first.replace(/^# (Chapter )?(\d+ - )?/, '').trim();
    for (const line of lines) {
      const definition = DEFINITION.exec(line);
      if (definition === null) continue;
      sentences.set(definition[1], definition[3]);
      chapters.set(familyOf(definition[1]), heading);
    }
  }
  return { sentences, chapters };
}

/** `C10` of `C10-02`. */
const familyOf = (id) => id.slice(0, id.indexOf('-'));

function readPage(path) {
  const entries = new Map();
  const repeated = [];
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
  for (const line of lines) {
    const entry = ENTRY.exec(line);
    if (entry === null) continue;
    if (entries.has(entry[1])) repeated.push(entry[1]);
    entries.set(entry[1], entry[2].trim());
  }
  return { entries, repeated };
}

/** What is wrong with the page, one sentence per fault. */
function check(root, path) {
  const cited = readCitations(root);
  const { entries, repeated } = readPage(path);
  const faults = repeated.map((id) => `${id} is listed twice`);
  for (const [id, files] of cited) {
    if (!entries.has(id)) faults.push(`${id} is cited by test/${files[0]} but not listed; run --update`);
    else if (entries.get(id) === '') faults.push(`${id} is listed without its sentence`);
  }
  for (const id of entries.keys()) {
    if (!cited.has(id)) faults.push(`${id} is listed but no test title cites it`);
  }
  return { faults, count: cited.size };
}

const INTRODUCTION = `# Requirements that tests prove

tutti is built to a written specification of NCCL's behaviour. Each requirement below is proved by at least one
test that fails when it is broken; the test's title ends with the id, so \`grep -rn 'C10-01' test\` finds it.
This page is written by \`scripts/requirements.js\` and checked against the test titles by \`npm run check\`.
`;

/** Writes the page; returns the cited ids that the specification does not know. */
function update(root, path, folder) {
  const { sentences, chapters } = readSpecification(folder);
  const ids = [...readCitations(root).keys()].sort();
  const unknown = ids.filter((id) => !sentences.has(id));
  let page = INTRODUCTION;
  let family = '';
  for (const id of ids.filter((each) => sentences.has(each))) {
    if (familyOf(id) !== family) {
      family = familyOf(id);
      page += `\n## ${family}: ${chapters.get(family)}\n\n`;
    }
    page += `- **${id}** ${sentences.get(id)}\n`;
  }
  writeFileSync(path, page);
  return unknown;
}

const { values } = parseArgs({ options: { update: { type: 'string' }, root: { type: 'string' } } });
const root = values.root ?? join(dirname(fileURLToPath(import.meta.url)), '..');
const path = join(root, 'docs/requirements.md');
const unknown = values.update === undefined ? [] : update(root, path, values.update);
const { faults, count } = check(root, path);
const all =
  unknown.length === 0 ? faults : unknown.map((id) => `${id} is cited but the specification has no such id`);
for (const fault of all) console.error(`requirements: ${fault}`);
if (all.length > 0) process.exitCode = 1;
else console.log(`requirements: ${count} cited by test titles and listed in docs/requirements.md`);

/**
 * The answer of `tutti doctor`: reads, diagnoses, and looks up the lines that are shown.
 */
import { diagnose, type Verdict } from '../../doctor/diagnose.js';
import type { Job } from '../../doctor/model/job.js';
import type { Place } from '../../doctor/model/place.js';
import { LineSplitter } from '../../doctor/read/line-splitter.js';
import { readJob, type Source } from '../../doctor/read/read-job.js';
import { unwrapped } from '../../doctor/read/wrapped-lines.js';
import { jsonReport } from '../../doctor/report/json.js';
import { numberLines } from '../../doctor/report/numbers.js';
import { isFault } from '../../doctor/report/outcome.js';
import { textReport } from '../../doctor/report/text.js';
import { TuttiError } from '../../errors/tutti-error.js';
import type { Style } from '../../topology/report/style.js';
import { liveOutput } from './live.js';
import type { DoctorOptions } from './options.js';
import { filesOf, type NamedFile, sourcesOf } from './sources.js';

export interface DoctorOutput {
  readonly lines: readonly string[];
  readonly verdict: 'healthy' | 'findings' | 'unreadable';
}

/** Characters that are shown of a line. */
const MAX_LINE_SHOWN = 600;

/** Pipes cannot be read twice: their beginning is kept to show lines of it. */
const MAX_KEPT_INPUT = 32 * 1024 * 1024;

/** Beyond this, files are not read a second time to show their lines. */
const MAX_SHOWN_FILE = 64 * 1024 * 1024;

/** Sources of which a copy is kept. */
async function* kept(sources: AsyncIterable<Source>, copies: Map<string, string[]>): AsyncGenerator<Source> {
  for await (const { name, text } of sources) yield { name, text: copied(text, copies, name) };
}

async function* copied(
  text: Source['text'],
  copies: Map<string, string[]>,
  name: string,
): AsyncGenerator<string> {
  const into: string[] = [];
  copies.set(name, into);
  let length = 0;
  for await (const piece of text) {
    if (length < MAX_KEPT_INPUT) into.push(piece);
    length += piece.length;
    yield piece;
  }
}

async function* inTurn(files: readonly NamedFile[], copies: Map<string, string[]>): AsyncGenerator<Source> {
  for (const file of files) {
    const sources = sourcesOf([file]);
    yield* file.isStream ? kept(sources, copies) : sources;
  }
}

export async function doctorOutput(
  options: DoctorOptions,
  style: Style,
  note: (text: string) => void,
  isWhole = true,
): Promise<DoctorOutput> {
  if (options.live) return liveOutput(options.paths, options.json, style);
  let isFailing = false;
  const fail = (text: string): void => {
    isFailing = true;
    note(text);
  };
  const files = await filesOf(options.paths, fail, note);
  const copies = new Map<string, string[]>();
  const job = await readJob(inTurn(files, copies));
  const verdicts = diagnose(job);
  const verdict = verdicts.some(isFault)
    ? 'findings'
    : !isFailing && isReadable(job, files)
      ? 'healthy'
      : 'unreadable';
  if (options.json) return { lines: jsonLines(jsonReport(job, verdicts)), verdict };
  if (verdict === 'unreadable' && !job.files.some(({ kinds }) => kinds.size > 0)) {
    for (const { name, problems, last } of job.files) {
      for (const problem of problems) note(`${name}: ${problem}`);
      if (problems.length === 0) note(`${name}: ${last === undefined ? 'empty' : 'not understood'}`);
    }
    note('nothing that the doctor knows is in the input; see tutti doctor --help for the kinds of files');
    return { lines: [], verdict };
  }
  const texts = await lineTexts(files, verdicts, copies);
  const textOf = ({ file, line }: Place) => texts.get(`${file}\0${line}`);
  const numbers = options.numbers ? numberLines(job, style) : [];
  return { lines: [...textReport(job, verdicts, style, textOf, isWhole), ...numbers], verdict };
}

/** JSON in lines; characters that JSON allows and terminals obey are escaped. */
function jsonLines(value: unknown): string[] {
  const text = JSON.stringify(value, null, 2);
  const escaped = (found: string): string => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return text.replace(/[\u007f-\u009f]/g, escaped).split('\n');
}

/** Something was recognised, all could be read, and every file that was named by itself was understood. */
function isReadable(job: Job, files: readonly NamedFile[]): boolean {
  const named = new Set(files.flatMap(({ name, isNamed }) => (isNamed ? [name] : [])));
  return (
    job.files.some(({ kinds }) => kinds.size > 0) &&
    job.files.every(
      ({ name, kinds, problems }) => problems.length === 0 && (kinds.size > 0 || !named.has(name)),
    )
  );
}

/** The lines that verdicts cite. */
async function lineTexts(
  files: readonly NamedFile[],
  verdicts: readonly Verdict[],
  copies: ReadonlyMap<string, readonly string[]>,
): Promise<Map<string, string>> {
  const wanted = new Map<string, Set<number>>();
  for (const { evidence } of verdicts) {
    for (const { file, line } of evidence) wanted.set(file, (wanted.get(file) ?? new Set()).add(line));
  }
  const texts = new Map<string, string>();
  const take = async ({ name, text }: Source): Promise<void> => {
    const lines = wanted.get(name);
    if (lines === undefined) return;
    for (const [line, found] of await linesOf(text, lines)) texts.set(`${name}\0${line}`, found);
  };
  for (const [name, text] of copies) await take({ name, text });
  const again = files.filter(
    ({ name, isStream }) =>
      !isStream && [...wanted.keys()].some((one) => one === name || one.startsWith(`${name}/`)),
  );
  for await (const source of sourcesOf(again)) await take(source);
  return texts;
}

async function linesOf(text: Source['text'], wanted: ReadonlySet<number>): Promise<Map<number, string>> {
  const found = new Map<number, string>();
  const last = Math.max(...wanted);
  let number = 0;
  const splitter = new LineSplitter((line) => {
    number++;
    if (wanted.has(number)) found.set(number, (unwrapped(line) ?? line).slice(0, MAX_LINE_SHOWN));
  });
  let length = 0;
  try {
    for await (const piece of text) {
      splitter.push(piece);
      length += piece.length;
      if (number >= last || length > MAX_SHOWN_FILE) break;
    }
  } catch (error) {
    // What cannot be read has been told when it was read first.
    if (!TuttiError.is(error)) throw error;
  }
  splitter.end();
  return found;
}

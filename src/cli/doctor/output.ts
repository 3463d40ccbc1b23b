/**
 * The answer of `tutti doctor`: reads, diagnoses, and looks up the lines that are shown.
 */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { diagnose, type Verdict } from '../../doctor/diagnose.js';
import type { Job } from '../../doctor/model/job.js';
import type { Place } from '../../doctor/model/place.js';
import { readJob } from '../../doctor/read/read-job.js';
import { jsonReport } from '../../doctor/report/json.js';
import { numberLines } from '../../doctor/report/numbers.js';
import { textReport } from '../../doctor/report/text.js';
import type { Style } from '../../topology/report/style.js';
import { liveOutput } from './live.js';
import type { DoctorOptions } from './options.js';
import { filesOf, type NamedFile, sourceOf } from './sources.js';

export interface DoctorOutput {
  readonly lines: readonly string[];
  readonly verdict: 'healthy' | 'findings' | 'unreadable';
}

/** Characters that are shown of a line. */
const MAX_LINE_SHOWN = 600;

/** The standard input cannot be read twice: its beginning is kept to show lines of it. */
const MAX_KEPT_INPUT = 32 * 1024 * 1024;

async function* kept(text: AsyncIterable<string> | Iterable<string>, into: string[]): AsyncGenerator<string> {
  let length = 0;
  for await (const piece of text) {
    if (length < MAX_KEPT_INPUT) into.push(piece);
    length += piece.length;
    yield piece;
  }
}

/** Larger files are not read a second time to show their lines. */
const MAX_SHOWN_FILE = 64 * 1024 * 1024;

export async function doctorOutput(
  options: DoctorOptions,
  style: Style,
  note: (text: string) => void,
  isWhole = true,
): Promise<DoctorOutput> {
  if (options.live) return liveOutput(options.paths, options.json, style);
  const files = await filesOf(options.paths);
  let isFailing = false;
  const fail = (text: string): void => {
    isFailing = true;
    note(text);
  };
  const input: string[] = [];
  const job = await readJob(
    files.map((file) => {
      const source = sourceOf(file, fail);
      return file.path === '-' ? { ...source, text: kept(source.text, input) } : source;
    }),
  );
  const verdicts = diagnose(job);
  const verdict =
    verdicts.length > 0 ? 'findings' : !isFailing && isReadable(job, files) ? 'healthy' : 'unreadable';
  if (options.json) return { lines: jsonLines(jsonReport(job, verdicts)), verdict };
  if (verdict === 'unreadable' && !job.files.some(({ kinds }) => kinds.size > 0)) {
    for (const { name, problems, last } of job.files) {
      for (const problem of problems) note(`${name}: ${problem}`);
      if (problems.length === 0) note(`${name}: ${last === undefined ? 'empty' : 'not understood'}`);
    }
    note('nothing that the doctor knows is in the input; see tutti doctor --help for the kinds of files');
    return { lines: [], verdict };
  }
  const texts = await lineTexts(files, verdicts, input.join(''));
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

/** The lines that verdicts cite, from files of ordinary size. */
async function lineTexts(
  files: readonly NamedFile[],
  verdicts: readonly Verdict[],
  input: string,
): Promise<Map<string, string>> {
  const wanted = new Map<string, Set<number>>();
  for (const { evidence } of verdicts) {
    for (const { file, line } of evidence) wanted.set(file, (wanted.get(file) ?? new Set()).add(line));
  }
  const texts = new Map<string, string>();
  for (const { name, path } of files) {
    const lines = wanted.get(name);
    if (lines !== undefined && path === '-') {
      const all = input.split('\n');
      for (const line of lines) {
        const text = all[line - 1];
        if (text !== undefined)
          texts.set(`${name}\0${line}`, text.replace(/\r$/, '').slice(0, MAX_LINE_SHOWN));
      }
      continue;
    }
    if (lines === undefined || (await stat(path)).size > MAX_SHOWN_FILE) continue;
    const last = Math.max(...lines);
    let number = 0;
    const stream = createReadStream(path, { encoding: 'utf8' });
    for await (const line of createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY })) {
      number++;
      if (lines.has(number)) texts.set(`${name}\0${number}`, line.slice(0, MAX_LINE_SHOWN));
      if (number >= last) break;
    }
    stream.destroy();
  }
  return texts;
}

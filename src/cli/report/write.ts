/**
 * Collects, anonymises and writes.
 */
import { closeSync, openSync, rmSync } from 'node:fs';
import { hostname } from 'node:os';
import { Anonymiser, type Replacement } from '../../doctor/anonymise/anonymiser.js';
import { suspiciousLines } from '../../doctor/anonymise/secrets.js';
import { diagnose } from '../../doctor/diagnose.js';
import { liveChecks } from '../../doctor/live-checks.js';
import { allHosts } from '../../doctor/read/hosts.js';
import { readJob } from '../../doctor/read/read-job.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { writeWhole } from '../../topology/detect/output-file.js';
import { liveFacts } from '../doctor/live.js';
import { filesOf, sourcesOf } from '../doctor/sources.js';
import { packageVersion } from '../version.js';
import type { ReportOptions } from './options.js';
import { type TarEntry, tarArchive } from './tar.js';

/** Characters of all files together: an archive is to be sent by mail or attached to an issue. */
const MAX_LENGTH = 256 * 1024 * 1024;

/** Lines that a warning names. */
const MAX_WARNED = 10;

/** Writes the archive. Resolves with lines that say what is in it and what was replaced. */
export async function writeReport(
  { paths, output }: ReportOptions,
  env: NodeJS.ProcessEnv,
): Promise<string[]> {
  const files = await textsOf(paths);
  const sources = files.map(({ name, text }) => ({ name, text: [text] }));
  const job = await readJob(sources);
  const own = hostname();
  const anonymiser = new Anonymiser([...allHosts(job), own, own.split('.')[0]!]);
  const facts = await liveFacts([], env);
  const unlimited = (_: string, value: unknown): unknown =>
    value === Number.POSITIVE_INFINITY ? 'unlimited' : value;
  const machine = JSON.stringify(
    { version: packageVersion(), checks: liveChecks(facts), facts },
    unlimited,
    2,
  );
  const texts: TarEntry[] = [
    ...files.map(({ name, text }) => ({ name: `files/${name}`, text })),
    { name: 'verdicts.json', text: JSON.stringify({ verdicts: diagnose(job) }, null, 2) },
    { name: 'machine.json', text: machine },
  ];
  // A name may be told in one file and stand without a hint in another, or above.
  for (const { name, text } of texts) {
    anonymiser.learn(name);
    anonymiser.learn(text);
  }
  const entries = texts.map(({ name, text }) => ({
    name: `tutti-report/${anonymiser.apply(name)}`,
    text: anonymiser.apply(text),
  }));
  try {
    writeNew(output, tarArchive(entries));
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const reason = code === 'EEXIST' ? 'it exists already; name another file with -o' : message;
    throw new TuttiError('systemError', `cannot write ${output}: ${reason}`, { cause });
  }
  const { replacements } = anonymiser;
  return [
    `${output}: ${entries.length} files, ${replacements.length} names, addresses and secrets replaced (${countsOf(replacements)}); look through it before you send it`,
    ...replacements.map(
      ({ kind, original, standIn }) => `  ${kind}  ${shown(kind, original)}  ->  ${standIn}`,
    ),
    ...warnings(entries),
  ];
}

/** `2 hosts, 1 user`. */
function countsOf(replacements: readonly Replacement[]): string {
  const counts = new Map<string, number>();
  for (const { kind } of replacements) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts].map(([kind, count]) => `${kind}: ${count}`).join(', ') || 'none';
}

/** Secrets are not printed: what is printed gets into logs. */
const shown = (kind: Replacement['kind'], original: string): string =>
  kind === 'secret' ? `${original.slice(0, Math.min(4, original.length >> 1))}...` : original;

/** What may still be a secret, by the lines of the archive. */
function warnings(entries: readonly TarEntry[]): string[] {
  const places = entries
    .filter(({ name }) => name.startsWith('tutti-report/files/'))
    .flatMap(({ name, text }) => suspiciousLines(text).map((line) => `${name}:${line}`));
  if (places.length === 0) return [];
  const more = places.length > MAX_WARNED ? ` and ${places.length - MAX_WARNED} more` : '';
  return [
    `warning: these lines look as if they held a secret that is still there: ${places.slice(0, MAX_WARNED).join(', ')}${more}`,
  ];
}

/** Writes a file that is not there yet, whole or not at all. */
function writeNew(path: string, data: Uint8Array): void {
  closeSync(openSync(path, 'wx'));
  try {
    writeWhole(path, data);
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  }
}

async function textsOf(paths: readonly string[]): Promise<TarEntry[]> {
  const found: TarEntry[] = [];
  const files = await filesOf(paths, (text) => {
    throw new TuttiError('systemError', text);
  });
  let length = 0;
  for await (const { name, text } of sourcesOf(files)) {
    const pieces: string[] = [];
    for await (const piece of text) {
      pieces.push(piece);
      length += piece.length;
      if (length > MAX_LENGTH) {
        throw new TuttiError(
          'invalidArgument',
          `the files have more than ${MAX_LENGTH >> 20} MiB together; give fewer, or cut logs to their beginning and end`,
        );
      }
    }
    const whole = pieces.join('');
    // What is no text cannot be anonymised.
    if (!whole.slice(0, 4096).includes('\0'))
      found.push({ name: name.replace(/\.(?:gz|zst)$/, ''), text: whole });
  }
  return found;
}

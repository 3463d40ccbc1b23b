/** The cases of test/cases/doctor: what an operator has at hand, and the right answer (see the README there). */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { diagnose, type Verdict } from '#src/doctor/diagnose.js';
import type { Job } from '#src/doctor/model/job.js';
import { readJob } from '#src/doctor/read/read-job.js';

const ROOT = fileURLToPath(new URL('../cases/doctor', import.meta.url));

export interface Cited {
  readonly file: string;
  readonly line: number;
}

export interface ExpectedVerdict {
  readonly id: string;
  readonly alsoAccept?: readonly string[];
  readonly severity: string;
  readonly confidence: string;
  readonly culprit: Readonly<Record<string, unknown>>;
  readonly evidence: readonly Cited[];
  readonly workaround: string | null;
  readonly consequences?: readonly { readonly id: string; readonly evidence: readonly Cited[] }[];
}

export interface Expected {
  readonly title: string;
  readonly healthy: boolean;
  readonly verdicts: readonly ExpectedVerdict[];
  readonly mustNot: readonly { readonly id: string }[];
}

export interface Case {
  readonly name: string;
  readonly files: ReadonlyMap<string, string>;
  readonly expected: Expected;
}

export const CASES: readonly Case[] = readdirSync(ROOT)
  .filter((name) => name !== 'README.md')
  .map((name) => {
    const texts = readdirSync(`${ROOT}/${name}`).map(
      (file) => [file, readFileSync(`${ROOT}/${name}/${file}`, 'utf8')] as const,
    );
    return {
      name,
      files: new Map(texts.filter(([file]) => file !== 'expect.json')),
      expected: JSON.parse(new Map(texts).get('expect.json')!) as Expected,
    };
  });

/** Reads and diagnoses texts by file name. */
export async function examine(
  files: Iterable<readonly [string, string]>,
): Promise<{ job: Job; verdicts: Verdict[] }> {
  const job = await readJob([...files].map(([name, text]) => ({ name, text: [text] })));
  return { job, verdicts: diagnose(job) };
}

/** Numbers within 10 %, lists in any order, everything else equal. */
function isSame(actual: unknown, expected: unknown): boolean {
  if (typeof actual === 'number' && typeof expected === 'number')
    return Math.abs(actual - expected) <= 0.1 * Math.abs(expected);
  if (Array.isArray(actual) && Array.isArray(expected)) {
    return (
      actual.length === expected.length && expected.every((one) => actual.some((other) => isSame(other, one)))
    );
  }
  return actual === expected;
}

/** What is wrong with verdicts by the rules of the README; an empty list when they are right. */
export function differences(verdicts: readonly Verdict[], expected: Expected): string[] {
  const found: string[] = [];
  for (const one of expected.verdicts) {
    const verdict = verdicts.find(({ id }) => id === one.id || one.alsoAccept?.includes(id) === true);
    if (verdict === undefined) {
      found.push(`${one.id} is missing`);
      continue;
    }
    const { severity, confidence, culprit, evidence, consequences } = verdict;
    if (severity !== one.severity) found.push(`${one.id} is ${severity}, not ${one.severity}`);
    if (confidence !== one.confidence) found.push(`${one.id} is ${confidence}, not ${one.confidence}`);
    for (const [key, value] of Object.entries(one.culprit)) {
      if (!isSame(culprit[key], value))
        found.push(`${one.id}: ${key} is ${JSON.stringify(culprit[key])}, not ${JSON.stringify(value)}`);
    }
    found.push(...uncited(one.id, evidence, one.evidence));
    for (const consequence of one.consequences ?? []) {
      const shown = consequences.find(({ id }) => id === consequence.id);
      if (shown === undefined) found.push(`${one.id} does not explain ${consequence.id}`);
      else found.push(...uncited(consequence.id, shown.evidence, consequence.evidence));
    }
  }
  for (const { id } of verdicts) {
    const isKnown = expected.verdicts.some((one) => one.id === id || one.alsoAccept?.includes(id) === true);
    if (!isKnown) found.push(`${id} is no fault here`);
  }
  return found;
}

/** Files of which no expected line is cited. */
function uncited(id: string, actual: readonly Cited[], expected: readonly Cited[]): string[] {
  return [...new Set(expected.map(({ file }) => file))].flatMap((file) => {
    const lines = expected.filter((one) => one.file === file).map(({ line }) => line);
    const cited = actual.filter((one) => one.file === file).map(({ line }) => line);
    return cited.some((line) => lines.includes(line))
      ? []
      : [`${id} cites ${file}:${cited.join(',')}, not ${lines.join(',')}`];
  });
}

/**
 * Applies all rules to a job and sorts causes from consequences.
 */
import type { Job } from './model/job.js';
import { distinctPlaces, type Place } from './model/place.js';
import { RULES } from './rules/registry.js';
import type { Confidence, Culprit, Finding, Rule, Severity } from './rules/rule.js';
import { runsOf } from './runs.js';

/** What the fault of a verdict caused. */
export interface Consequence {
  readonly id: string;
  readonly evidence: readonly Place[];
  readonly why: string;
}

export interface Verdict {
  readonly id: string;
  readonly severity: Severity;
  readonly confidence: Confidence;
  readonly text: string;
  readonly culprit: Culprit;
  readonly evidence: readonly Place[];
  readonly repair: string;
  readonly workaround: string | null;
  readonly consequences: readonly Consequence[];
  /** Where the files hold several runs: the one that it is about; absent where it is about all of them. */
  readonly run?: string;
}

interface Found {
  readonly rule: Rule;
  readonly finding: Finding;
  readonly consequences: Consequence[];
  /** Names of the runs. */
  readonly runs: string[];
}

const RANK: Readonly<Record<Severity, number>> = { error: 0, warning: 1, info: 2 };
const TRUST: Readonly<Record<Confidence, number>> = { certain: 0, likely: 1, possible: 2 };

/** The verdicts on a job, worst first. Several runs are judged one by one. */
export function diagnose(job: Job, rules: readonly Rule[] = RULES): Verdict[] {
  const runs = runsOf(job);
  const found = new Map<string, Found>();
  for (const run of runs) {
    for (const one of judge(run.job, run.name, rules)) {
      // What machines or files show that belong to all runs is said once.
      const { text, culprit, evidence } = one.finding;
      const key = JSON.stringify([one.rule.id, text, culprit, evidence]);
      const known = found.get(key);
      if (known === undefined) found.set(key, one);
      else {
        known.runs.push(run.name);
        known.consequences.push(...one.consequences);
      }
    }
  }
  return [...found.values()].sort(byWeight).map((one) => verdictOf(one, runs.length));
}

const byWeight = (a: Found, b: Found): number =>
  RANK[a.finding.severity] - RANK[b.finding.severity] ||
  Number(isStandstill(b)) - Number(isStandstill(a)) ||
  TRUST[a.finding.confidence] - TRUST[b.finding.confidence];

/** Findings that are kept of one rule: nobody reads more, and causes are looked for among all. */
const MAX_FINDINGS = 200;

/** What is found in one run, causes with their consequences. */
function judge(job: Job, run: string, rules: readonly Rule[]): Found[] {
  const found = (rule: Rule, others: readonly Finding[]): Found[] =>
    rule
      .find(job, others)
      .slice(0, MAX_FINDINGS)
      .map((finding) => ({ rule, finding, consequences: [], runs: [run] }));
  const first = rules.filter(({ isLast }) => isLast !== true).flatMap((rule) => found(rule, []));
  const others = first.map(({ finding }) => finding);
  const all = [...first, ...rules.filter(({ isLast }) => isLast).flatMap((rule) => found(rule, others))];
  all.sort(byWeight);
  const verdicts: Found[] = [];
  for (const one of all) {
    const cause = causeOf(one, all);
    if (cause === undefined) verdicts.push(one);
    else {
      cause.consequences.push({
        id: one.rule.id,
        evidence: distinctPlaces(one.finding.evidence),
        why: one.finding.why ?? one.finding.text,
      });
    }
  }
  return verdicts;
}

/** A job that fails or stands still comes before one that is slow. */
const isStandstill = ({ rule }: Found): boolean =>
  rule.causes?.some((effect) => effect === 'blocks' || effect === 'kills' || effect === 'hangs') === true;

/** Whether a finding can be the cause of another: never one that weighs less. */
function canExplain(candidate: Found, one: Found): boolean {
  const { explainedBy } = one.rule;
  if (explainedBy === undefined || candidate.rule.id === one.rule.id) return false;
  if (RANK[candidate.finding.severity] > RANK[one.finding.severity]) return false;
  if (!('effects' in explainedBy)) return explainedBy.includes(candidate.rule.id);
  if (explainedBy.also?.includes(candidate.rule.id) === true) return true;
  // What is explained by any fault explains no other that is.
  const isSymptom = candidate.rule.explainedBy !== undefined && 'effects' in candidate.rule.explainedBy;
  return (
    !isSymptom &&
    candidate.finding.severity !== 'info' &&
    candidate.rule.causes?.some((effect) => explainedBy.effects.includes(effect)) === true
  );
}

/** The finding, itself no consequence, that explains another. */
function causeOf(
  one: Found,
  all: readonly Found[],
  passed: ReadonlySet<Found> = new Set([one]),
): Found | undefined {
  for (const candidate of all) {
    if (passed.has(candidate) || !canExplain(candidate, one)) continue;
    return causeOf(candidate, all, new Set([...passed, candidate])) ?? candidate;
  }
  return undefined;
}

/** Longest sentence: values that logs quote may have any length. */
const MAX_SENTENCE = 1200;

const shortened = (text: string): string =>
  text.length > MAX_SENTENCE ? `${text.slice(0, MAX_SENTENCE)}...` : text;

function verdictOf({ rule, finding, consequences, runs }: Found, all: number): Verdict {
  const { severity, confidence, text, culprit, repair, workaround } = finding;
  return {
    id: rule.id,
    severity,
    confidence,
    text: shortened(text),
    culprit,
    evidence: distinctPlaces(finding.evidence),
    repair: shortened(repair),
    workaround,
    consequences,
    ...(runs.length === all ? {} : { run: runs.join(', ') }),
  };
}

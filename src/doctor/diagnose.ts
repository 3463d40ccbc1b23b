/**
 * Applies all rules to a job and sorts causes from consequences.
 */
import type { Job } from './model/job.js';
import { distinctPlaces, type Place } from './model/place.js';
import { RULES } from './rules/registry.js';
import type { Confidence, Culprit, Finding, Rule, Severity } from './rules/rule.js';

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
}

interface Found {
  readonly rule: Rule;
  readonly finding: Finding;
  readonly consequences: Consequence[];
}

const RANK: Readonly<Record<Severity, number>> = { error: 0, warning: 1, info: 2 };
const TRUST: Readonly<Record<Confidence, number>> = { certain: 0, likely: 1, possible: 2 };

/** The verdicts on a job, worst first. */
export function diagnose(job: Job, rules: readonly Rule[] = RULES): Verdict[] {
  const all = rules.flatMap((rule) =>
    rule.find(job).map((finding): Found => ({ rule, finding, consequences: [] })),
  );
  const byWeight = [...all].sort(
    (a, b) =>
      RANK[a.finding.severity] - RANK[b.finding.severity] ||
      TRUST[a.finding.confidence] - TRUST[b.finding.confidence],
  );
  const verdicts: Found[] = [];
  for (const one of byWeight) {
    const cause = causeOf(one, byWeight);
    if (cause === undefined) verdicts.push(one);
    else {
      cause.consequences.push({
        id: one.rule.id,
        evidence: distinctPlaces(one.finding.evidence),
        why: one.finding.why ?? one.finding.text,
      });
    }
  }
  return verdicts.map(verdictOf);
}

/** The finding, itself no consequence, that explains another. */
function causeOf(
  one: Found,
  all: readonly Found[],
  passed: ReadonlySet<Found> = new Set([one]),
): Found | undefined {
  const { explainedBy } = one.rule;
  if (explainedBy === undefined) return undefined;
  for (const candidate of all) {
    if (passed.has(candidate) || candidate.rule.id === one.rule.id) continue;
    const isCause = candidate.rule.explainedBy === undefined;
    const fits =
      explainedBy === 'any'
        ? isCause && candidate.finding.severity !== 'info'
        : explainedBy.includes(candidate.rule.id);
    if (!fits) continue;
    return causeOf(candidate, all, new Set([...passed, candidate])) ?? candidate;
  }
  return undefined;
}

function verdictOf({ rule, finding, consequences }: Found): Verdict {
  const { severity, confidence, text, culprit, repair, workaround } = finding;
  return {
    id: rule.id,
    severity,
    confidence,
    text,
    culprit,
    evidence: distinctPlaces(finding.evidence),
    repair,
    workaround,
    consequences,
  };
}

/**
 * What a rule is: one fault, how to find it in the model of a job, and what to say about it.
 *
 * A rule reads the model, never text. Causes hide consequences: a symptom names the faults that explain it, and is shown
 * below the first of them that was found; alone it is a verdict of its own, with less to go on.
 */
import type { Job } from '../model/job.js';
import type { Place } from '../model/place.js';

/** error: it fails or is slow by a factor; warning: it costs or will fail; info: explains, nothing is broken. */
export type Severity = 'error' | 'warning' | 'info';
export type Confidence = 'certain' | 'likely' | 'possible';

/** What to point at, and the numbers behind it: host, rank, hca, interface, variable ... */
export type Culprit = Readonly<Record<string, unknown>>;

export interface Finding {
  readonly severity: Severity;
  readonly confidence: Confidence;
  /** The verdict in a sentence. */
  readonly text: string;
  readonly culprit: Culprit;
  readonly evidence: readonly Place[];
  /** One sentence: what repairs it. */
  readonly repair: string;
  /** One sentence: what only hides it, and its cost; null where there is nothing. */
  readonly workaround: string | null;
  /** For symptoms: why it follows from its cause. */
  readonly why?: string;
}

export interface Rule {
  /** Short stable name of the fault. */
  readonly id: string;
  /** What it looks for, for people. */
  readonly looksFor: string;
  /** Lines that make it speak, for people and for tests. */
  readonly example: readonly ExampleFile[];
  /** Where the fault is described. */
  readonly references: readonly string[];
  /**
   * Faults that explain this one, by id; `any` for every cause of severity error or warning. Absent for causes.
   */
  readonly explainedBy?: readonly string[] | 'any';
  find(job: Job): readonly Finding[];
}

export interface ExampleFile {
  readonly name: string;
  readonly text: string;
}

/** An example in one file, line by line. */
export const example = (name: string, ...lines: string[]): ExampleFile => ({
  name,
  text: `${lines.join('\n')}\n`,
});

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

/**
 * What a fault can do to a job. blocks: the set-up of communicators does not end; kills: processes or connections fail
 * while others wait for them; hangs: operations never end; slows: everything goes on, at less speed.
 */
export type Effect = 'blocks' | 'kills' | 'hangs' | 'slows';

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
  /** What the fault can do to a job; a symptom is explained only by a fault that can cause it. */
  readonly causes?: readonly Effect[];
  /** Faults that explain this one, by id, or by what they can do (`also`: and by id). Absent for causes. */
  readonly explainedBy?:
    | readonly string[]
    | { readonly effects: readonly Effect[]; readonly also?: readonly string[] };
  /** It looks at what the other rules leave unexplained, so it runs after them. */
  readonly isLast?: true;
  /** `others`: what the other rules found, for rules that are last. */
  find(job: Job, others?: readonly Finding[]): readonly Finding[];
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

/** Runs `tutti tune` in this process, as most tests do: the answer, the notes, or the error. */
import { join } from 'node:path';
import { parseTuneOptions, type TuneOptions } from '#src/cli/tune/options.js';
import { tuningOutput } from '#src/cli/tune/output.js';
import { plainStyle } from '#src/topology/report/style.js';

const GOLDEN = join(import.meta.dirname, '../../golden');

/** The topology file of a golden machine. */
export const topologyOf = (machine: string): string => join(GOLDEN, machine, 'topo.xml');

export interface Run {
  readonly text: string;
  readonly isDecided: boolean;
  readonly notes: readonly string[];
}

/** The answer to a command line; throws what the command would report. */
export async function tune(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Run> {
  const options = parseTuneOptions(args) as TuneOptions;
  const notes: string[] = [];
  const note = (text: string) => notes.push(text);
  const { lines, isDecided } = await tuningOutput(options, { env, style: plainStyle(120), note });
  return { text: lines.join('\n'), isDecided, notes };
}

/** The text without the breaks that keep lines to the width. */
export const unwrapped = (text: string): string => text.replaceAll(/\n {2}(?=\S)/g, ' ');

/** What the tests read of the JSON; docs/tuning.md describes all of it. */
export interface TuneJson {
  readonly nRanks: number;
  readonly tuner: string | null;
  readonly environment: Readonly<Record<string, string>>;
  readonly functions: readonly FunctionJson[];
  readonly whatIf: readonly ({ readonly variables: string; readonly error: string | null } & Partial<
    Pick<TuneJson, 'functions' | 'environment'>
  >)[];
}

export interface FunctionJson {
  readonly function: string;
  readonly calls: readonly CallJson[];
  readonly changes: readonly {
    readonly bytes: number;
    readonly from: string | null;
    readonly to: string | null;
    readonly reason: string;
  }[];
}

export interface CallJson {
  readonly bytes: number;
  readonly error: string | null;
  readonly choice: {
    readonly algorithm: string;
    readonly protocol: string;
    readonly time: number;
    readonly chosenBy: string;
    readonly maxChannels: number;
  } | null;
  readonly placement: {
    readonly firstChannel: number;
    readonly lastChannel: number;
    readonly shared: boolean;
    readonly parts: readonly {
      readonly channels: number;
      readonly bytes: number;
      readonly chunkBytes: number;
    }[];
  } | null;
  readonly symmetric: {
    readonly runs: string;
    readonly kernel: string | null;
    readonly time: number | null;
    readonly blocks: number | null;
    readonly reason: string;
    readonly candidates: readonly {
      readonly kernel: string;
      readonly time: number;
      readonly blocks: number;
    }[];
  } | null;
  readonly candidates: readonly {
    readonly algorithm: string;
    readonly protocol: string;
    readonly time: number;
    readonly latency: number | null;
    readonly bytesTime: number | null;
  }[];
}

/** The answer as JSON. */
export async function tuneJson(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<TuneJson> {
  return JSON.parse((await tune([...args, '--json'], env)).text) as TuneJson;
}

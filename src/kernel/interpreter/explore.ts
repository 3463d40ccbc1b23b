/** Runs one scenario under many seeds and reports the first that fails, with the way to see it again. */

import { TuttiError } from '../../errors/tutti-error.js';
import { MachineFault } from './fault.js';
import type { MachineOptions } from './machine.js';

/** Builds a machine with the given options, runs it and checks its result; throws when something is wrong. */
export type Scenario = (options: MachineOptions) => void;

export interface ExploreOptions {
  /** How many seeds. */
  seeds: number;
  /** The first seed; 0 by default. */
  from?: number;
  /** Which memory; `both` by default: every seed runs in both. */
  memory?: 'strong' | 'weak' | 'both';
}

export interface Failure {
  readonly seed: number;
  readonly memory: 'strong' | 'weak';
  /** What the scenario threw, from a second run that kept a trace. */
  readonly error: unknown;
  /** Runs until the failure. */
  readonly runs: number;
}

/** Accesses that the report of a failing seed shows. */
const TRACE_LENGTH = 40;

function attempt(scenario: Scenario, options: MachineOptions): { error: unknown } | undefined {
  try {
    scenario(options);
    return undefined;
  } catch (error) {
    return { error };
  }
}

/** The first failing seed, or undefined when all pass. */
export function findFailure(scenario: Scenario, options: ExploreOptions): Failure | undefined {
  const { seeds, from = 0, memory = 'both' } = options;
  let runs = 0;
  for (let seed = from; seed < from + seeds; seed++) {
    for (const mode of ['strong', 'weak'] as const) {
      if (memory !== 'both' && memory !== mode) continue;
      runs++;
      const failed = attempt(scenario, { seed, memory: mode });
      if (failed === undefined) continue;
      const again = attempt(scenario, { seed, memory: mode, traceLength: TRACE_LENGTH });
      return { seed, memory: mode, error: (again ?? failed).error, runs };
    }
  }
  return undefined;
}

/** Throws the failure of the first failing seed, with a hint for its replay; returns the number of runs. */
export function explore(scenario: Scenario, options: ExploreOptions): number {
  const failure = findFailure(scenario, options);
  if (failure === undefined) {
    return options.seeds * ((options.memory ?? 'both') === 'both' ? 2 : 1);
  }
  const { seed, memory, error, runs } = failure;
  const text = error instanceof Error ? error.message : String(error);
  const hint = `explore(scenario, { seeds: 1, from: ${seed}, memory: '${memory}' })`;
  const rank = error instanceof MachineFault ? error.rank : undefined;
  throw new TuttiError(
    'internalError',
    `seed ${seed} with ${memory} memory fails (run ${runs}): ${text}\nreplay: ${hint}`,
    rank === undefined ? { cause: error } : { cause: error, rank },
  );
}

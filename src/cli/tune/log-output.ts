/**
 * The lines that NCCL logs under TUNING: the table of the model, then a line per call, in its own words.
 */
import { ELEMENT_TYPES } from '../../kernel/element-types.js';
import type { LogSink } from '../../topology/log.js';
import type { Environment } from '../../topology/settings.js';
import { decisionLine, logTables } from '../../tuning/log-lines.js';
import type { TunerPlugin } from '../../tuning/tuner.js';
import { noteVariables, watchedCluster } from './cluster.js';
import type { TuneOptions } from './options.js';
import { scenarioOf } from './scenario.js';
import { sweepSizes } from './sweep-sizes.js';

/**
 * Lines of rank 0 for all calls that the options ask about, each alone in its group.
 *
 * @throws TuttiError as scenarioOf, or if nothing can run a call
 */
export function logOutput(
  options: TuneOptions,
  env: Environment,
  tuner: TunerPlugin | undefined,
  note: (text: string) => void,
): string[] {
  const lines: string[] = [];
  const log: LogSink = (level, subsystem, text) => {
    if (subsystem === 'TUNING') lines.push(text);
    else if (level === 'WARN') note(text);
  };
  noteVariables(options, env, note);
  const { cluster } = watchedCluster(options, env, note, log);
  const { tables, study } = scenarioOf(cluster, options, env, tuner, log);
  // A single rank has no table, and no call of it is decided.
  if (tables.input.nRanks <= 1) return lines;
  logTables(tables, log);
  const { type, op, registered } = options;
  const sizes = options.size === undefined ? [...sweepSizes(options.sweep)] : [options.size];
  for (const fn of options.functions) {
    const calls = study({ function: fn, type, op, registered });
    for (const count of new Set(sizes.map((bytes) => calls.countFor(bytes)))) {
      const { call, decision, placed, problem } = calls.at(count);
      if (problem !== undefined) throw problem;
      if (decision === undefined || placed === undefined) continue;
      // NCCL names what one rank passes: elements times their size.
      const bytes = count * ELEMENT_TYPES[type].size;
      const channels = { first: placed.firstChannel, last: placed.lastChannel };
      lines.push(decisionLine({ ...call, bytes }, decision, channels));
    }
  }
  return lines;
}

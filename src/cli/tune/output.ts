/**
 * What `tutti tune` does once its options are read: describes the cluster, decides, and makes the asked text and files.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { LogSink } from '../../topology/log.js';
import { headline } from '../../topology/report/headline.js';
import { jsonText } from '../../topology/report/json.js';
import { fitted, type Style, wrap } from '../../topology/report/style.js';
import type { Environment } from '../../topology/settings.js';
import { isScattered } from '../../tuning/algorithms.js';
import { callReport } from '../../tuning/report/call-report.js';
import { type JsonInput, tuningJson } from '../../tuning/report/json.js';
import type { MessageKind } from '../../tuning/report/message.js';
import { exactBytesText } from '../../tuning/report/quantities.js';
import { sweepSvg } from '../../tuning/report/svg.js';
import { type Sweep, sweepOf, sweepReport } from '../../tuning/report/sweep-report.js';
import { whatIfCall, whatIfSweep } from '../../tuning/report/what-if-report.js';
import type { TunerPlugin } from '../../tuning/tuner.js';
import { writeOutput } from '../topo/files.js';
import { STANDARD } from '../topo/machine-options.js';
import { isUnchanged, noteVariables, type WatchedCluster, watchedCluster } from './cluster.js';
import { logOutput } from './log-output.js';
import type { TuneOptions } from './options.js';
import { unreadText, variablesInEffect, watched } from './read-variables.js';
import { type Scenario, scenarioOf } from './scenario.js';
import { sweepSizes } from './sweep-sizes.js';
import { loadTuner } from './tuner-file.js';
import { environmentWith, type WhatIf } from './what-if.js';

/** Where the command runs. */
export interface TuneContext {
  readonly env: Environment;
  readonly style: Style;
  /** Receives sentences for the user that are no part of the answer. */
  readonly note: (text: string) => void;
}

export interface TuneOutput {
  /** Lines of the answer, without their ends. */
  readonly lines: readonly string[];
  /** Something can run every call that was asked about, and every what-if could be read. */
  readonly isDecided: boolean;
}

/** A cluster under an environment with what was asked of it. */
interface Answer {
  readonly scenario: Scenario;
  readonly cluster: WatchedCluster;
  readonly env: Environment;
  /** Variables that were looked at. */
  readonly read: ReadonlySet<string>;
  readonly sweeps: readonly Sweep[];
}

/** What became of a what-if: an answer, or why there is none. */
interface Alternative {
  readonly whatIf: WhatIf;
  readonly answer: Answer | TuttiError;
}

/**
 * Answers.
 *
 * @throws TuttiError if the cluster cannot be described, a tuner fails, or a file cannot be written
 */
export async function tuningOutput(options: TuneOptions, context: TuneContext): Promise<TuneOutput> {
  const { tuner, ignoreBrokenTuner } = options;
  if (tuner === undefined) return answerWith(options, context, undefined);
  try {
    return answerWith(options, context, await loadTuner(tuner));
  } catch (error) {
    if (!ignoreBrokenTuner || !TuttiError.is(error)) throw error;
    // If the tuner was not to blame, this fails as well and says what is.
    const output = answerWith(options, context, undefined);
    context.note(`${error.message}; going on without it`);
    return output;
  }
}

function answerWith(options: TuneOptions, context: TuneContext, tuner: TunerPlugin | undefined): TuneOutput {
  const { env, style, note } = context;
  if (options.show === 'log') return { lines: logOutput(options, env, tuner, note), isDecided: true };
  const notes = new Set<string>();
  const answer = answerUnder(options, env, tuner, (text) => notes.add(text));
  for (const text of notes) note(text);
  const alternatives = options.whatIf.map((whatIf) =>
    tryOut(whatIf, options, context, tuner, { known: answer.cluster, said: notes }),
  );
  const problems = answer.sweeps.flatMap(({ calls }) =>
    calls.flatMap(({ problem }) => problem?.message ?? []),
  );
  for (const problem of new Set(problems)) note(problem);
  const unread = alternatives.filter((one) => TuttiError.is(one.answer));
  for (const { whatIf, answer: error } of unread)
    note(`--what-if ${whatIf.text}: ${(error as TuttiError).message}`);
  const isDecided = problems.length === 0 && unread.length === 0;
  if (options.svg !== undefined) {
    const svg = picture(options, answer, alternatives);
    if (options.svg === STANDARD) return { lines: svg.trimEnd().split('\n'), isDecided };
    writeOutput(options.svg, svg, 'picture', 'utf8');
  }
  const lines =
    options.show === 'json' ? [json(answer, alternatives)] : text(options, answer, alternatives, style);
  return { lines, isDecided };
}

/** @param known a cluster that is taken if it is the same under these variables */
function answerUnder(
  options: TuneOptions,
  env: Environment,
  tuner: TunerPlugin | undefined,
  note: (text: string) => void,
  known?: WatchedCluster,
): Answer {
  const warn: LogSink = (level, _, text) => {
    if (level === 'WARN') note(text);
  };
  noteVariables(options, env, note);
  const cluster =
    known !== undefined && isUnchanged(known, env) ? known : watchedCluster(options, env, note, warn);
  const environment = watched(env);
  const scenario = scenarioOf(cluster.cluster, options, environment.env, tuner, warn);
  const sizes = options.size === undefined ? [...sweepSizes(options.sweep)] : [options.size];
  const sweeps = kindsOf(options).map((kind) => sweepOf(scenario.study(kind, options.windows), sizes));
  return { scenario, cluster, env, read: new Set([...(cluster.read ?? []), ...environment.read]), sweeps };
}

const kindsOf = ({ functions, type, op, registered }: TuneOptions): MessageKind[] =>
  functions.map((fn) => ({ function: fn, type, op, registered }));

/** The answer under other variables, which may be that there is none. */
function tryOut(
  whatIf: WhatIf,
  options: TuneOptions,
  { env, note }: TuneContext,
  tuner: TunerPlugin | undefined,
  { known, said }: { readonly known: WatchedCluster; readonly said: ReadonlySet<string> },
): Alternative {
  const told: string[] = [];
  const say = (text: string) => {
    told.push(text);
    if (!said.has(text)) note(`with ${whatIf.text}: ${text}`);
  };
  try {
    const answer = answerUnder(options, environmentWith(env, whatIf), tuner, say, known);
    if (answer.cluster.read !== undefined) {
      for (const name of Object.keys(whatIf.variables)) {
        const unread = unreadText(name, answer.read);
        const isTold = told.some((text) => text.split(/[ =]/).includes(name));
        if (unread !== undefined && !isTold) note(unread);
      }
    }
    return { whatIf, answer };
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    return { whatIf, answer: error };
  }
}

function text(
  options: TuneOptions,
  answer: Answer,
  alternatives: readonly Alternative[],
  style: Style,
): string[] {
  const { scenario, env, read, sweeps } = answer;
  const lines = wrap(headline(scenario.cluster), style.width, '  ');
  const variables = Object.entries(variablesInEffect(env, read));
  if (variables.length > 0) {
    lines.push(...wrap(`With ${variables.map((pair) => pair.join('=')).join(' ')}`, style.width, '  '));
  }
  for (const [at, sweep] of sweeps.entries()) {
    const { study } = sweep;
    const [call] = sweep.calls;
    lines.push('');
    if (options.size === undefined) lines.push(...sweepReport(sweep, scenario.limits, style));
    else {
      if (call!.call.bytes !== options.size)
        lines.push(...wrap(roundedText(options.size, sweep), style.width));
      lines.push(...callReport({ study, call: call!, limits: scenario.limits }, style));
    }
    for (const alternative of alternatives) {
      lines.push('', ...alternativeText(alternative, sweep, at, options.size === undefined, style));
    }
  }
  return fitted(lines, style.width);
}

function roundedText(bytes: number, { study, calls }: Sweep): string {
  const { type } = study.kind;
  const { nRanks } = study.tables.input;
  const per = isScattered(study.function) ? ` for each of ${nRanks} ranks` : '';
  return `${exactBytesText(bytes)} are no whole number of ${type}${per}; ${exactBytesText(calls[0]!.call.bytes)} are.`;
}

function alternativeText(
  { whatIf, answer }: Alternative,
  now: Sweep,
  at: number,
  isSweep: boolean,
  style: Style,
): string[] {
  if (TuttiError.is(answer)) {
    return [style.heading(`With ${whatIf.text}`), ...wrap(`- ${answer.message}`, style.width, '  ')];
  }
  const other = answer.sweeps[at]!;
  if (isSweep) return whatIfSweep(whatIf.text, now, other, style);
  const pair = { study: now.study, now: now.calls[0]!, other: other.calls[0]! };
  return whatIfCall(whatIf.text, pair, style);
}

function json(answer: Answer, alternatives: readonly Alternative[]): string {
  const input = ({ scenario, env, read, sweeps }: Answer): JsonInput => ({
    cluster: scenario.cluster,
    tables: scenario.tables,
    limits: scenario.limits,
    variables: variablesInEffect(env, read),
    sweeps,
  });
  const tried = alternatives.map(({ whatIf, answer: other }) => ({
    text: whatIf.text,
    answer: TuttiError.is(other) ? other.message : input(other),
  }));
  return jsonText(tuningJson(input(answer), tried));
}

/** A picture always shows a sweep; one size is marked in it. */
function picture(options: TuneOptions, answer: Answer, alternatives: readonly Alternative[]): string {
  const swept = ({ scenario, sweeps }: Answer): readonly Sweep[] =>
    options.size === undefined
      ? sweeps
      : kindsOf(options).map((kind) => sweepOf(scenario.study(kind), sweepSizes(options.sweep)));
  return sweepSvg({
    cluster: answer.scenario.cluster,
    sweeps: swept(answer),
    others: alternatives.flatMap(({ whatIf, answer: other }) =>
      TuttiError.is(other) ? [] : [{ label: whatIf.text, sweeps: swept(other) }],
    ),
    mark: options.size,
  });
}

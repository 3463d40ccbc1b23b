/**
 * `tutti tune --host`: what a communicator on host memory chooses, by the host's cost model, and why.
 */
import { ALGORITHMS, supports } from '../../../collectives/registry.js';
import { readHostModel } from '../../../communicator/host-constants-file.js';
import type { Style } from '../../../topology/report/style.js';
import { wrap } from '../../../topology/report/style.js';
import { candidateName, type DataCollective } from '../../../tuning/host/candidates.js';
import { crowding } from '../../../tuning/host/cost.js';
import type { HostModel } from '../../../tuning/host/host-model.js';
import { functionName, hostChoices } from '../../../tuning/host-choices.js';
import {
  candidatesOnHost,
  DIRECT_MARGIN,
  fastest,
  type HostCandidate,
  type HostSelectionInput,
} from '../../../tuning/host-selection.js';
import { bytesText, moreText, numberText, timeCell, timeText } from '../../../tuning/report/quantities.js';
import { left, right, textTable } from '../../../tuning/report/text-table.js';
import { sweepSizes } from '../sweep-sizes.js';
import { type HostOptions, testNameOf } from './options.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** One call with all candidates. */
interface Answer {
  readonly collective: DataCollective;
  readonly ranks: number;
  readonly bytes: number;
  readonly candidates: readonly HostCandidate[];
  /** Undefined where nothing may run the call. */
  readonly choice: HostCandidate | undefined;
}

/** Lines of the answer, and whether every call has a choice. */
export function hostOutput(
  options: HostOptions,
  env: Environment,
  style: Style,
  warn: (text: string) => void,
): { readonly lines: readonly string[]; readonly isDecided: boolean } {
  const read = readHostModel(env, warn);
  const model: HostModel = { ...read, cores: options.cores ?? read.cores };
  const choices = hostChoices({ algorithm: env.NCCL_ALGO, protocol: env.NCCL_PROTO });
  const perNode = Number(env.TUTTI_RANKS_PER_NODE ?? 0);
  const answerOf = (collective: DataCollective, ranks: number, bytes: number): Answer => {
    const input: HostSelectionInput = {
      collective,
      op: 'sum',
      bytes,
      ranks,
      shared: !options.sockets,
      choices,
      model,
      ranksPerNode: perNode >= 1 ? perNode : undefined,
    };
    const candidates = candidatesOnHost(input, collective);
    return {
      ...{ collective, ranks, bytes, candidates },
      choice: fastest(candidates.filter(({ obstacle }) => obstacle === undefined)),
    };
  };
  const sizes = options.size === undefined ? [...sweepSizes(options.sweep)] : [options.size];
  const answers = options.collectives.flatMap((collective) =>
    options.ranks.map((ranks) => sizes.map((bytes) => answerOf(collective, ranks, bytes))),
  );
  const isDecided = answers.flat().every(({ choice }) => choice !== undefined);
  if (options.json) return { lines: [jsonOf(answers.flat(), model, options.sockets)], isDecided };
  const body = answers.flatMap((group) =>
    options.size === undefined ? sweepLines(group, style) : callLines(group[0]!, style),
  );
  return { lines: [...headLines(model, options, style), ...body], isDecided };
}

function headLines(model: HostModel, { sockets, ranks }: HostOptions, style: Style): string[] {
  const path = sockets ? 'through sockets' : 'in shared memory';
  const crowd = ranks.map((count) => {
    const per = crowding(count, model.cores, sockets ? 'socket' : 'window');
    const what = sockets ? 'threads (two for each rank)' : 'ranks';
    return per > 1
      ? `${count} ranks take turns: ${numberText(per)} ${what} per core`
      : `${count} ranks have a core each`;
  });
  const cores = `${model.cores} ${model.cores === 1 ? 'core' : 'cores'}`;
  const source = model.source === undefined ? 'standard constants' : `constants of ${model.source}`;
  return wrap(
    `Ranks of one host ${path}, ${cores}: ${crowd.join('; ')}. Predicted with ${source}.`,
    style.width,
  );
}

function title({ collective, ranks, bytes }: Answer, isSweep: boolean): string {
  const size = isSweep ? '' : ` of ${bytesText(bytes)}`;
  return `${functionName(collective)}${size} on ${ranks} ranks`;
}

/** A line for each size; rows of the same choice follow each other. */
function sweepLines(answers: readonly Answer[], style: Style): string[] {
  let before: string | undefined;
  const rows = answers.map(({ bytes, candidates, choice }) => {
    if (choice === undefined) return ['', bytesText(bytes), 'nothing may run it', '', '', ''];
    const name = candidateName(choice);
    const changes = before !== undefined && before !== name;
    before = name;
    const able = candidates.filter((one) => one.obstacle === undefined && one !== choice);
    const next = fastest(able);
    return [
      changes ? '>' : '',
      bytesText(bytes),
      name,
      timeCell(choice.prediction!.time),
      (bytes / choice.prediction!.time / 1e3).toFixed(2),
      next === undefined ? '' : nextText(choice, next),
    ];
  });
  const columns = [left(''), right('size'), left('choice'), right('us'), right('GB/s'), left('next best')];
  const [head, ...body] = textTable(columns, rows, style.width);
  return ['', style.strong(title(answers[0]!, true)), ...head!.map(style.dim), ...body.flat()];
}

function nextText(choice: HostCandidate, next: HostCandidate): string {
  const ratio = next.prediction!.time / choice.prediction!.time;
  const how = ratio >= 1 ? moreText(ratio) : 'faster, but not by the margin for what is not direct';
  return `${candidateName(next)} (${how})`;
}

/** All candidates of one call. */
function callLines(answer: Answer, style: Style): string[] {
  const { candidates, choice, collective } = answer;
  const able = candidates
    .filter(({ obstacle }) => obstacle === undefined)
    .sort((a, b) => a.prediction!.time - b.prediction!.time);
  const rows = able.map((one) => {
    const { time, latency, bytesTime } = one.prediction!;
    return [
      one === choice ? '>' : '',
      candidateName(one),
      timeCell(time),
      timeCell(latency),
      timeCell(bytesTime),
      (answer.bytes / time / 1e3).toFixed(2),
    ];
  });
  const columns = [left(''), left(''), right('us'), right('latency'), right('bytes'), right('GB/s')];
  const [head, ...body] = textTable(columns, rows, style.width);
  const without = ALGORITHMS.filter((name) => !supports(name, collective));
  const excluded = [
    ...candidates
      .filter(({ obstacle }) => obstacle !== undefined)
      .map(
        (one) =>
          `- ${candidateName(one)} ${one.obstacle === 'not in the list' ? 'is not in the list' : one.obstacle}`,
      ),
    ...(without.length === 0 ? [] : [`- ${without.join(', ')}: no program for ${functionName(collective)}`]),
  ];
  return [
    ...['', style.strong(title(answer, false)), ''],
    ...whyLines(able, choice, style),
    ...(rows.length === 0 ? [] : ['', ...head!.map(style.dim), ...body.flat()]),
    ...(excluded.length === 0 ? [] : ['', 'Not available', ...excluded]),
  ];
}

function whyLines(able: readonly HostCandidate[], choice: HostCandidate | undefined, style: Style): string[] {
  if (choice === undefined) return ['Nothing may run it.'];
  const { time, latency } = choice.prediction!;
  const next = fastest(able.filter((one) => one !== choice));
  const first = able[0]!;
  const share = latency / time;
  const texts = [
    `${candidateName(choice)}, predicted ${timeText(time)}, ${Math.round(100 * share)} % of it before the first byte.`,
  ];
  if (first !== choice) {
    texts.push(
      `${candidateName(first)} is predicted to take ${timeText(first.prediction!.time)}, which is less, but not less than ` +
        `${DIRECT_MARGIN * 100} %: direct algorithms go first, since they find out at once when ranks disagree.`,
    );
  } else if (next !== undefined) {
    const less = next.prediction!.latency > latency ? 'less latency' : 'more bandwidth';
    texts.push(
      `The next, ${candidateName(next)}, would take ${timeText(next.prediction!.time)}; ${candidateName(choice)} has ${less}.`,
    );
  }
  return texts.flatMap((text) => wrap(text, style.width));
}

function jsonOf(answers: readonly Answer[], { cores, source }: HostModel, sockets: boolean): string {
  const calls = answers.map(({ collective, ranks, bytes, candidates, choice }) => ({
    collective: testNameOf(collective),
    ranks,
    bytes,
    choice: choice === undefined ? null : candidateName(choice),
    candidates: candidates.map((one) => ({
      name: candidateName(one),
      time: one.prediction?.time ?? null,
      latency: one.prediction?.latency ?? null,
      bytesTime: one.prediction?.bytesTime ?? null,
      obstacle: one.obstacle ?? null,
    })),
  }));
  const path = sockets ? 'socket' : 'window';
  return JSON.stringify(
    { format: 'tutti host tuning', version: 1, cores, source: source ?? null, path, calls },
    null,
    2,
  );
}

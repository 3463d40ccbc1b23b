/**
 * The answer about one call: the choice and why, all candidates, where it runs, where another would be chosen.
 */
import { listText } from '../../topology/report/quantities.js';
import { type Style, wrap } from '../../topology/report/style.js';
import { isNvls } from '../algorithms.js';
import { carriedBandwidth } from '../bandwidth.js';
import { modelOf } from '../model.js';
import { type BandwidthBound, bandwidthBounds, boundsText, graphWord } from './bandwidth-bound.js';
import { LARGEST_BYTES } from './boundaries.js';
import { type Candidate, cellLabel, labelOf } from './candidate.js';
import type { GraphLimits } from './graph-limits.js';
import { latencyParts, latencySum, latencyText } from './latency-parts.js';
import { reduces } from './message.js';
import { channelCount, type PlacedCall } from './placed-call.js';
import {
  bandwidthCell,
  bandwidthWord,
  bytesText,
  exactBytesText,
  FUNCTION_WORDS,
  numberText,
  percentText,
  timeCell,
  timeText,
} from './quantities.js';
import { dominanceText, exclusionTexts, nextBest } from './reasons.js';
import type { FunctionStudy, PlacedStudy } from './study.js';
import { symmetricCall } from './symmetric-report.js';
import { left, right, textTable } from './text-table.js';

/** What the model's choice is measured in. */
export interface CallReport {
  readonly study: FunctionStudy;
  readonly call: PlacedStudy;
  readonly limits: GraphLimits;
}

export const ONE_RANK = 'There is one rank: NCCL copies the data, and no algorithm is chosen.';

/** `All-reduce of 1 MB (262144 float32, sum)` */
export function callTitle(study: FunctionStudy, { call, count }: PlacedStudy): string {
  const { function: fn, type, op } = study.kind;
  const word = FUNCTION_WORDS[fn];
  const name = word[0]!.toUpperCase() + word.slice(1);
  const perRank = fn === 'AllGather' || fn === 'ReduceScatter' ? ' per rank' : '';
  return `${name} of ${bytesText(call.bytes)} (${count} ${type}${perRank}${reduces(fn) ? `, ${op}` : ''})`;
}

/** `Tree/LL128, predicted 83.2 us, 12.6 GB/s (busbw 24.4)` */
export function choiceText(call: PlacedStudy): string {
  const { chosen, decision } = call;
  if (decision === undefined || chosen === undefined) return 'nothing can run it';
  const { algbw, busbw, time } = chosen;
  return `${labelOf(chosen)}, predicted ${timeText(time)}, ${bandwidthWord(algbw)} GB/s (busbw ${bandwidthWord(busbw)})`;
}

/** All lines about one call. */
export function callReport(report: CallReport, style: Style): string[] {
  const { study, call } = report;
  const { chosen } = call;
  const name = callTitle(study, call);
  if (study.tables.input.nRanks <= 1) return [style.strong(name), ONE_RANK];
  const paint = chosen === undefined ? style.warn : style.strong;
  const lines = wrap(`${name}: ${choiceText(call)}`, style.width, '  ').map(paint);
  const point = (text: string) => lines.push(...wrap(`- ${text}`, style.width, '  '));
  if (chosen !== undefined) {
    lines.push('', style.heading('Why'));
    for (const text of whyTexts(report, chosen)) point(text);
    lines.push('', style.heading('Candidates'), ...candidateTable(study, call, style));
  }
  const excluded = exclusionTexts(call.excluded);
  if (excluded.length > 0) {
    lines.push('', style.heading('Not available'));
    for (const text of excluded) point(text);
  }
  if (call.placed !== undefined) {
    lines.push('', style.heading('How it runs'));
    for (const text of placementTexts(call, call.placed)) point(text);
    const own = ownChannelsText(report, call.placed);
    if (own !== undefined) point(own);
  }
  const symmetric = symmetricCall(call, style);
  if (symmetric.length > 0) lines.push('', ...symmetric);
  return lines;
}

/** Sentences on the choice. */
export function whyTexts(report: CallReport, chosen: Candidate): string[] {
  const { study, call } = report;
  const texts = [...deciderTexts(study, call)];
  const next = nextBest(call);
  texts.push(
    next ?? (call.candidates.length === 1 ? 'It is the only candidate.' : `It is not the fastest one.`),
  );
  texts.push(...termTexts(report, chosen));
  if (study.isRepeatable) texts.push(...rangeTexts(study, call, chosen));
  return texts;
}

/** Who decided, if it was not the model. */
function deciderTexts({ tables }: FunctionStudy, { decision, candidates, chosen }: PlacedStudy): string[] {
  if (decision === undefined || chosen === undefined) return [];
  const { chosenBy, tuner } = decision;
  const texts: string[] = [];
  if (chosenBy === 'efficiency') {
    const [fastest] = candidates;
    texts.push(
      `The policy EFFICIENCY decides (NCCL_CTA_POLICY): NVLS with registered buffers needs ${decision.maxChannels} ` +
        `channels, no more than ${labelOf(fastest!)}, which the model predicts at ${timeText(fastest!.time)}.`,
    );
  }
  if (tuner !== undefined && chosenBy === 'tuner') {
    const before = tuner.modelCosts;
    const best = [...before.entries()]
      .filter(([, cost]) => cost >= 0)
      .reduce<readonly [number, number] | undefined>(
        (a, b) => (a === undefined || b[1] < a[1] ? b : a),
        undefined,
      );
    const channels = tuner.channels === 0 ? '' : ` and asks for ${tuner.channels} channels`;
    const model =
      best === undefined
        ? 'the model has no candidate'
        : `the model's choice is ${cellLabel(best[0])} with ${timeText(best[1])}`;
    texts.push(`Tuner ${tuner.name} changes the costs${channels}; ${model}.`);
  }
  if (!chosen.isModelled && chosenBy === 'model' && tables.input.nRanks > 1) {
    texts.push(
      `NCCL multiplies the time of rings of more than 8 ranks by 1024 for 8-bit floats, which lose precision at every step.`,
    );
  }
  return texts;
}

/** What the time consists of, and what each part comes from. */
function termTexts({ study, call, limits }: CallReport, chosen: Candidate): string[] {
  const { terms, algorithm, protocol } = chosen;
  if (terms === undefined) return [];
  const cell = { fn: study.function, algorithm, protocol };
  const parts = latencyText(latencyParts(study.tables, cell));
  const factor =
    terms.latencyFactor === 1
      ? ''
      : `, times ${numberText(terms.latencyFactor)} at this size (Simple rings wait for each other)`;
  const dominance = dominanceText(chosen);
  const first = dominance === undefined ? '' : `${dominance[0]!.toUpperCase()}${dominance.slice(1)}. `;
  const { bandwidth } = modelOf(study.tables, study.function, algorithm, protocol);
  const bounds = bandwidthBounds(study.tables, cell);
  const { input, constants } = study.tables;
  const times = numberText(carriedBandwidth(input, constants, cell) / bandwidth);
  const speed = `${bytesText(call.call.bytes)} at ${numberText(terms.bandwidth)} GB/s`;
  const efficiency =
    terms.efficiency === 1
      ? ''
      : `, ${percentText(terms.efficiency)} (efficiency of trees at this size) of ${numberText(bandwidth)} GB/s`;
  return [
    `${first}Latency ${timeText(terms.latency)}: ${parts}${factor}.`,
    `Bytes ${timeText(terms.bytes)}: ${speed}${efficiency}; channels carry ${times} times the message, and the limit is ${boundsText(bounds)}.`,
    ...fullestTexts(bounds, limits),
  ];
}

/** The links that the graphs fill which bound candidates, a sentence per graph. */
export function fullestTexts(bounds: readonly BandwidthBound[], limits: GraphLimits): string[] {
  const graphs = new Set(bounds.flatMap((bound) => (bound.kind === 'graph' ? [bound.graph] : [])));
  return [...graphs].flatMap((graph) => {
    const limit = limits[graph];
    if (limit?.fallback) {
      return [`The ${graphWord(graph)} graph is a simple order that NCCL takes where its search finds none.`];
    }
    return limit?.link === undefined ? [] : [`Fullest link of the ${graphWord(graph)} graph: ${limit.link}.`];
  });
}

/** From where to where the choice holds, and where the next best would win. */
function rangeTexts(study: FunctionStudy, call: PlacedStudy, chosen: Candidate): string[] {
  const limit = study.countFor(LARGEST_BYTES);
  const below = study.changeBelow(call.count);
  const above = study.changeAbove(call.count, limit);
  const labelAt = (count: number) => {
    const { chosen: one } = study.at(count);
    return one === undefined ? 'nothing' : labelOf(one);
  };
  const name = labelOf(chosen);
  const texts: string[] = [];
  const from =
    below === undefined
      ? undefined
      : `from ${bytesText(study.bytesOf(below + 1))} (below: ${labelAt(below)})`;
  const to =
    above === undefined
      ? undefined
      : `up to ${bytesText(study.bytesOf(above))} (from there: ${labelAt(above)})`;
  if (from === undefined && to === undefined) texts.push(`${name} is the choice at every size.`);
  else texts.push(`${name} is the choice ${[from, to].filter((one) => one !== undefined).join(' ')}.`);
  const next = call.candidates.find((one) => one !== chosen);
  if (next === undefined || next.time < chosen.time) return texts;
  const nextLabel = labelOf(next);
  const mentioned = [below, above].some((at) => at !== undefined && labelAt(at) === nextLabel);
  if (mentioned) return texts;
  const overtakes = study.overtakes(call, next, limit);
  const where = [
    ...(overtakes.below === undefined ? [] : [`at ${bytesText(study.bytesOf(overtakes.below))} and below`]),
    ...(overtakes.above === undefined ? [] : [`from ${bytesText(study.bytesOf(overtakes.above))} on`]),
  ];
  texts.push(
    where.length === 0
      ? `There is no size at which ${nextLabel} is faster than ${name}.`
      : `${nextLabel} would be faster than ${name} ${where.join(', and ')}.`,
  );
  return texts;
}

/** `; us x 1024`: what the sum of both terms is multiplied by to be the cost; nothing if it is the cost. */
function costFactorText({ terms, time, isModelled }: Candidate): string {
  if (terms === undefined || isModelled || !(time > 0)) return '';
  return `; us x ${numberText(time / (terms.latency + terms.bytes))}`;
}

/** All candidates with their times, fastest first. */
export function candidateTable(
  study: FunctionStudy,
  { candidates, chosen }: PlacedStudy,
  style: Style,
): string[] {
  const rows = candidates.map((one) => {
    const { algorithm, protocol, terms, time, algbw, busbw } = one;
    const parts = latencyParts(study.tables, { fn: study.function, algorithm, protocol });
    const factor =
      terms === undefined || terms.latencyFactor === 1 ? '' : `${numberText(terms.latencyFactor)} x `;
    const sum = latencySum(parts);
    return [
      one === chosen ? '>' : '',
      labelOf(one),
      timeCell(time),
      terms === undefined ? '' : timeCell(terms.latency),
      terms === undefined ? '' : timeCell(terms.bytes),
      bandwidthCell(algbw),
      bandwidthCell(busbw),
      terms === undefined ? '' : `${factor === '' ? sum : `${factor}(${sum})`}${costFactorText(one)}`,
    ];
  });
  const columns = [
    left(''),
    left(''),
    right('us'),
    right('latency'),
    right('bytes'),
    right('algbw'),
    right('busbw'),
    left('latency: start + steps in nodes + steps between nodes'),
  ];
  const [titles, ...lines] = textTable(columns, rows, style.width);
  return [
    ...titles!,
    ...lines.flatMap((row, at) => (candidates[at] === chosen ? row.map(style.strong) : row)),
  ];
}

/** Why a call has more channels than the communicator; undefined if it has not. */
function ownChannelsText(
  { study, call: { decision } }: CallReport,
  { lastChannel }: PlacedCall,
): string | undefined {
  const { nChannels } = study.tables.input;
  if (decision === undefined || !isNvls(decision.algorithm) || lastChannel < nChannels) return undefined;
  return (
    `NVLS has channels of its own, which NCCL_NVLS_NCHANNELS, NCCL_MIN_CTAS and NCCL_MAX_CTAS bound; ` +
    `those of the other algorithms (NCCL_MAX_NCHANNELS) are ${nChannels}`
  );
}

/** Channels, threads, bytes and chunks. */
export function placementTexts({ decision }: PlacedStudy, placed: PlacedCall): string[] {
  const { firstChannel, lastChannel, threads, parts, shared } = placed;
  const count = channelCount(placed);
  const channels =
    count === 1 ? `1 channel (${firstChannel})` : `${count} channels (${firstChannel}-${lastChannel})`;
  const bound =
    decision !== undefined && decision.maxChannels > count
      ? `, of ${decision.maxChannels} that the decision allows`
      : '';
  const blocks = `${channels}${bound}, each a block of ${threads} threads (${threads / 32} warps)`;
  if (shared) {
    const [part] = parts;
    return [
      blocks,
      `the channels share ${exactBytesText(part!.bytes)}, in chunks of ${exactBytesText(part!.chunkBytes)}`,
    ];
  }
  const texts = parts.map(
    ({ channels: n, bytes, chunkBytes }) =>
      `${parts.length > 1 ? `${n} x ` : ''}${exactBytesText(bytes)}${parts.length > 1 ? '' : ' per channel'} in chunks of ${exactBytesText(chunkBytes)}`,
  );
  return [blocks, `${listText(texts)}${parts.length > 1 ? ' per channel' : ''}`];
}

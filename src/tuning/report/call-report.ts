/**
 * The answer about one call: the choice and why, all candidates, where it runs, where another would be chosen.
 */
import { listText } from '../../topology/report/quantities.js';
import { type Style, wrap } from '../../topology/report/style.js';
import { type BandwidthBound, bandwidthBounds, boundsText, graphWord } from './bandwidth-bound.js';
import { LARGEST_BYTES } from './boundaries.js';
import { type Candidate, cellLabel, labelOf } from './candidate.js';
import type { GraphLimits } from './graph-limits.js';
import { latencyParts, latencyText } from './latency-parts.js';
import { reduces } from './message.js';
import { channelCount, type PlacedCall } from './placed-call.js';
import {
  bandwidthCell,
  bytesText,
  FUNCTION_WORDS,
  numberText,
  percentText,
  timeCell,
  timeText,
} from './quantities.js';
import { dominanceText, exclusionTexts, nextBest } from './reasons.js';
import type { FunctionStudy, PlacedStudy } from './study.js';
import { textTable } from './text-table.js';

/** What the model's choice is measured in. */
export interface CallReport {
  readonly study: FunctionStudy;
  readonly call: PlacedStudy;
  readonly limits: GraphLimits;
}

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
  const { chosen, decision, problem } = call;
  if (decision === undefined || chosen === undefined)
    return `nothing can run it. ${problem?.message ?? ''}`.trim();
  const { algbw, busbw, time } = chosen;
  return `${labelOf(chosen)}, predicted ${timeText(time)}, ${numberText(algbw)} GB/s (busbw ${numberText(busbw)})`;
}

/** All lines about one call. */
export function callReport(report: CallReport, style: Style): string[] {
  const { study, call } = report;
  const { chosen } = call;
  const title = `${callTitle(study, call)}: ${choiceText(call)}`;
  const lines = wrap(title, style.width, '  ').map(chosen === undefined ? style.warn : style.strong);
  if (study.tables.input.nRanks <= 1) {
    return [...lines, 'There is one rank: NCCL copies the data, and no algorithm is chosen.'];
  }
  const point = (text: string) => lines.push(...wrap(`- ${text}`, style.width, '  '));
  if (chosen !== undefined) {
    lines.push('', style.heading('Why'));
    for (const text of whyTexts(report, chosen)) point(text);
    lines.push('', style.heading('Candidates'), ...candidateTable(call, style));
  }
  const excluded = exclusionTexts(call.excluded);
  if (excluded.length > 0) {
    lines.push('', style.heading('Not available'));
    for (const text of excluded) point(text);
  }
  if (call.placed !== undefined) {
    lines.push('', style.heading('How it runs'));
    for (const text of placementTexts(call, call.placed)) point(text);
  }
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
  const efficiency =
    terms.efficiency === 1
      ? ''
      : `, of which NCCL counts ${percentText(terms.efficiency)} at this size (efficiency of trees)`;
  const bounds = bandwidthBounds(study.tables, cell);
  return [
    `${first}Latency ${timeText(terms.latency)}: ${parts}${factor}.`,
    `Bytes ${timeText(terms.bytes)}: ${bytesText(call.call.bytes)} at ${numberText(terms.bandwidth)} GB/s, limited by ` +
      `${boundsText(bounds)}${efficiency}.${fullestText(bounds, limits)}`,
  ];
}

/** The links that the graphs fill which bound a candidate. */
export function fullestText(bounds: readonly BandwidthBound[], limits: GraphLimits): string {
  const graphs = new Set(bounds.flatMap((bound) => (bound.kind === 'graph' ? [bound.graph] : [])));
  return [...graphs]
    .flatMap((graph) =>
      limits[graph] === undefined
        ? []
        : [` Fullest link of the ${graphWord(graph)} graph: ${limits[graph]}.`],
    )
    .join('');
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
      ? `${nextLabel} is faster than ${name} at no size.`
      : `${nextLabel} would be faster than ${name} ${where.join(', and ')}.`,
  );
  return texts;
}

/** All candidates with their times, fastest first. */
export function candidateTable({ candidates, chosen }: PlacedStudy, style: Style): string[] {
  const hasTerms = candidates.some(({ terms }) => terms !== undefined);
  const rows = candidates.map((one) => {
    const { terms, time, algbw, busbw } = one;
    return [
      labelOf(one),
      timeCell(time),
      ...(hasTerms
        ? [
            terms === undefined ? '' : timeCell(terms.latency),
            terms === undefined ? '' : timeCell(terms.bytes),
          ]
        : []),
      bandwidthCell(algbw),
      bandwidthCell(busbw),
      one === chosen ? '<- chosen' : '',
    ];
  });
  const right = (title: string) => ({ title, align: 'right' as const });
  const table = textTable(
    [
      { title: '', align: 'left' },
      right('us'),
      ...(hasTerms ? [right('latency'), right('bytes')] : []),
      right('algbw'),
      right('busbw'),
      { title: '', align: 'left' },
    ],
    rows,
  );
  return table.map((line, at) => (candidates[at - 1] === chosen && at > 0 ? style.strong(line) : line));
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
      `the channels share ${bytesText(part!.bytes)}, in chunks of ${bytesText(part!.chunkBytes)}`,
    ];
  }
  const texts = parts.map(
    ({ channels: n, bytes, chunkBytes }) =>
      `${parts.length > 1 ? `${n} x ` : ''}${bytesText(bytes)}${parts.length > 1 ? '' : ' per channel'} in chunks of ${bytesText(chunkBytes)}`,
  );
  return [blocks, `${listText(texts)}${parts.length > 1 ? ' per channel' : ''}`];
}

/**
 * Everything about decisions as plain values for JSON. docs/tuning.md describes the form; fields may be added within a
 * version, others keep their meaning. Times are microseconds, bandwidths GB/s, sizes bytes.
 */
import type { Cluster } from '../../topology/cluster.js';
import { headline } from '../../topology/report/headline.js';
import type { JsonValue } from '../../topology/report/json.js';
import type { Exclusion } from '../exclusion.js';
import type { TuningTables } from '../model.js';
import { FunctionId } from '../names.js';
import type { BandwidthBound } from './bandwidth-bound.js';
import type { Candidate } from './candidate.js';
import type { GraphLimits } from './graph-limits.js';
import { latencyParts } from './latency-parts.js';
import { reduces } from './message.js';
import { changeReason } from './reasons.js';
import type { Change, PlacedStudy } from './study.js';
import { modelRows, type Sweep } from './sweep-report.js';
import type { SymmetricStudy } from './symmetric-study.js';

/** Version of the form. */
export const TUNING_JSON_VERSION = 1;

const FORMAT = 'tutti tuning';

/** What was asked of one cluster. */
export interface JsonInput {
  readonly cluster: Cluster;
  readonly tables: TuningTables;
  readonly limits: GraphLimits;
  /** Variables of NCCL that are set and have been read. */
  readonly variables: Readonly<Record<string, string>>;
  readonly sweeps: readonly Sweep[];
}

/** Answer, and what became of each what-if. */
export function tuningJson(
  input: JsonInput,
  whatIf: readonly { readonly text: string; readonly answer: JsonInput | string }[],
): JsonValue {
  return {
    format: FORMAT,
    version: TUNING_JSON_VERSION,
    ...answerJson(input),
    whatIf: whatIf.map(({ text, answer }) =>
      typeof answer === 'string'
        ? { variables: text, error: answer }
        : { variables: text, error: null, ...answerJson(answer) },
    ),
  };
}

function answerJson({ cluster, tables, limits, variables, sweeps }: JsonInput): {
  [name: string]: JsonValue;
} {
  const { input, tuner } = tables;
  return {
    summary: headline(cluster),
    nRanks: input.nRanks,
    nNodes: input.nNodes,
    nChannels: input.nChannels,
    environment: { ...variables },
    tuner: tuner?.name ?? null,
    graphs: Object.entries(input.graphs).map(([name, graph]) => ({
      name,
      nChannels: graph.nChannels,
      bwIntra: single(graph.bwIntra),
      bwInter: single(graph.bwInter),
      fullestLink: limits[name as keyof GraphLimits]?.link ?? null,
      fallback: limits[name as keyof GraphLimits]?.fallback ?? false,
    })),
    functions: sweeps.map((sweep) => functionJson(sweep, tables)),
  };
}

function functionJson({ study, calls, changes }: Sweep, tables: TuningTables): JsonValue {
  const { kind } = study;
  return {
    function: kind.function,
    type: kind.type,
    op: reduces(kind.function) ? kind.op : null,
    registered: kind.registered,
    model: modelRows(study).map(({ cell, algorithm, protocol, latency, bandwidth, peakBusbw, bounds }) => ({
      algorithm,
      protocol,
      latency: single(latency),
      latencyParts: latencyParts(tables, { fn: kind.function, algorithm, protocol }).map((part) => ({
        kind: part.kind,
        link: part.link ?? null,
        count: part.count,
        each: part.each,
      })),
      bandwidth: single(bandwidth),
      peakBusbw: single(peakBusbw),
      bounds: bounds.map(boundJson),
      maxThreads: tables.maxThreads[cell]!,
    })),
    excluded: (tables.exclusions[FunctionId[kind.function]] ?? []).map(exclusionJson),
    calls: calls.map(callJson),
    changes: changes.map(changeJson),
  };
}

const boundJson = (bound: BandwidthBound): JsonValue =>
  bound.kind === 'graph' ? { ...bound, each: single(bound.each) } : { ...bound };

const exclusionJson = ({ algorithm, protocol, rule, reason, variable }: Exclusion): JsonValue => ({
  algorithm,
  protocol,
  rule,
  reason,
  variable: variable ?? null,
});

function callJson({
  call,
  count,
  decision,
  chosen,
  candidates,
  excluded,
  problem,
  placed,
  symmetric,
}: PlacedStudy): JsonValue {
  return {
    bytes: call.bytes,
    count,
    error: problem?.message ?? null,
    choice:
      decision === undefined
        ? null
        : {
            algorithm: decision.algorithm,
            protocol: decision.protocol,
            time: single(chosen?.time ?? decision.time),
            algbw: chosen === undefined ? null : single(chosen.algbw),
            busbw: chosen === undefined ? null : single(chosen.busbw),
            chosenBy: decision.chosenBy,
            maxChannels: decision.maxChannels,
            warps: decision.warps,
          },
    placement:
      placed === undefined
        ? null
        : {
            firstChannel: placed.firstChannel,
            lastChannel: placed.lastChannel,
            threads: placed.threads,
            shared: placed.shared,
            parts: placed.parts.map((part) => ({ ...part })),
          },
    candidates: candidates.map(candidateJson),
    excluded: excluded.map(exclusionJson),
    symmetric: symmetric === undefined ? null : symmetricJson(symmetric),
  };
}

const symmetricJson = ({
  registration,
  runner,
  reason,
  algbw,
  busbw,
  choice,
}: SymmetricStudy): JsonValue => ({
  registration,
  runs: runner.kind,
  kernel: runner.kind === 'kernel' ? runner.kernel : null,
  method: runner.kind === 'copy engines' ? runner.method : null,
  blocks: runner.kind === 'kernel' ? runner.blocks : null,
  time: runner.kind === 'kernel' ? single(runner.time) : null,
  algbw: algbw === undefined ? null : single(algbw),
  busbw: busbw === undefined ? null : single(busbw),
  reason,
  candidates: (choice?.candidates ?? []).map(({ kernel, time, blocks, penalised }) => ({
    kernel: kernel.name,
    time: single(time),
    blocks,
    penalised: single(penalised),
  })),
  excluded: (choice?.excluded ?? []).map(({ kernel, rule, reason: why, variable }) => ({
    kernel,
    rule,
    reason: why,
    variable: variable ?? null,
  })),
});

const candidateJson = ({ algorithm, protocol, time, algbw, busbw, terms }: Candidate): JsonValue => ({
  algorithm,
  protocol,
  time: single(time),
  latency: terms === undefined ? null : single(terms.latency),
  bytesTime: terms === undefined ? null : single(terms.bytes),
  bandwidth: terms === undefined ? null : single(terms.bandwidth),
  efficiency: terms?.efficiency ?? null,
  latencyFactor: terms?.latencyFactor ?? null,
  algbw: single(algbw),
  busbw: single(busbw),
});

/** A number of single precision with as few digits as tell it from its neighbours. */
function single(value: number): number {
  const wanted = Math.fround(value);
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(wanted.toPrecision(digits));
    if (Math.fround(short) === wanted) return short;
  }
  return Number(wanted.toPrecision(9));
}

const changeJson = (change: Change): JsonValue => ({
  bytes: change.bytes,
  from: change.from ?? null,
  to: change.to ?? null,
  reason: changeReason(change),
});

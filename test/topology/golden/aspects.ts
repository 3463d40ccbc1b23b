/**
 * The aspects that are compared, each a part of a golden file: a difference in an early one (`system`) explains those
 * in the later ones.
 */
import { compareTrees, type Difference } from './difference.js';
import {
  type GoldenDecision,
  type GoldenDomain,
  type GoldenParts,
  type GoldenRings,
  type GoldenSystem,
  type GoldenTuning,
  GRAPH_NAMES,
} from './format.js';

/** Fields of `comm` that tuning decides: sizes of buffers, and heads after CollNet's setup. */
const TUNED: readonly string[] = ['buffSizes', 'p2pChunkSize', 'collNetHeadsNum'];

const ofComm =
  (pick: (field: string) => boolean): Pick =>
  ({ comm }) =>
    comm && { comm: Object.fromEntries(Object.entries(comm).filter(([field]) => pick(field))) };

const ofTuning =
  (pick: (tuning: GoldenTuning) => object): Pick =>
  ({ tuning }) =>
    tuning && { tuning: pick(tuning) };

/** Fields of a decision that say where the call is placed; the others say how it was chosen. */
const PLACED: readonly string[] = [
  'threads',
  'channelLo',
  'channelHi',
  'nChannels',
  'countLo',
  'countMid',
  'countHi',
  'chunkBytesLo',
  'chunkBytesMid',
  'chunkBytesHi',
  'collnetCount',
  'chunkCount',
];

/** A part of all decisions; a communicator of one rank decides nothing. */
const ofDecisions =
  (pick: (field: string) => boolean): Pick =>
  ({ comm, decisions }) => {
    if (decisions === undefined || (comm?.rankToNode as readonly number[] | undefined)?.length === 1) {
      return undefined;
    }
    const part = (decision: GoldenDecision) =>
      Object.fromEntries(Object.entries(decision).filter(([field]) => pick(field)));
    return {
      decisions: Object.fromEntries(Object.entries(decisions).map(([fn, list]) => [fn, list.map(part)])),
    };
  };

/** Part of a file that an aspect compares, at its place in the file; undefined if the file has none. */
type Pick = (parts: GoldenParts) => unknown;

/** The systems of a file, each turned by `pick`; undefined if there is none or it lacks that part. */
const ofSystems =
  (pick: (system: GoldenSystem) => object | undefined): Pick =>
  ({ system, domainSystems }) =>
    system && pick(system) && { system: pick(system), domainSystems: (domainSystems ?? []).map(pick) };

const ofDomains =
  (pick: (domain: GoldenDomain) => object): Pick =>
  ({ search }) =>
    search && { search: search.map(pick) };

const ofChannels =
  (pick: (channel: GoldenRings) => object): Pick =>
  ({ channels }) =>
    channels && { channels: channels.map(pick) };

const searches = GRAPH_NAMES.map(
  (name) => [`search-${name}`, ofDomains((domain) => ({ [name]: domain[name] }))] as const,
);

/** In the order in which NCCL computes them. */
const PICKS: ReadonlyMap<string, Pick> = new Map<string, Pick>([
  ['system', ofSystems(({ paths: _, ...system }) => system)],
  ['paths', ofSystems(({ paths }) => paths && { paths })],
  [
    'domains',
    ({ nDomains, search }) =>
      search && { nDomains, search: search.map(({ leaderRank, ranks }) => ({ leaderRank, ranks })) },
  ],
  ...searches,
  ['aligned', ({ aligned }) => aligned && { aligned }],
  ['comm', ofComm((field) => !TUNED.includes(field))],
  ['rings', ofChannels(({ ring, ringPrevNextConsistent }) => ({ ring, ringPrevNextConsistent }))],
  ['trees', ofChannels(({ treeUp, treeDown, treeDepth }) => ({ treeUp, treeDown, treeDepth }))],
  [
    'collnet',
    (parts) => {
      const has = parts.channels?.some((channel) => 'collnetChain' in channel || 'collnetDirect' in channel);
      if (has !== true) return undefined;
      return ofChannels(({ collnetChain, collnetDirect }) => ({ collnetChain, collnetDirect }))(parts);
    },
  ],
  ['nvls', ({ nvlsChannelsInfo }) => nvlsChannelsInfo && { nvlsChannelsInfo }],
  ['buffers', ofComm((field) => TUNED.includes(field))],
  ['threads', ofTuning(({ maxThreads, threadThresholds }) => ({ maxThreads, threadThresholds }))],
  ['latencies', ofTuning(({ latencies }) => ({ latencies }))],
  ['bandwidths', ofTuning(({ bandwidths }) => ({ bandwidths }))],
  ['decisions', ofDecisions((field) => !PLACED.includes(field))],
  ['placements', ofDecisions((field) => PLACED.includes(field))],
]);

export const ASPECTS: readonly string[] = [...PICKS.keys()];

/** What became of one aspect of one file. */
export interface AspectResult {
  readonly aspect: string;
  /** Number of differences. */
  readonly count: number;
  /** The first of them. */
  readonly first: readonly Difference[];
}

/** Aspects that a word names: one of them, or all that start with it. */
export function aspectsNamed(word: string): readonly string[] {
  return ASPECTS.filter((aspect) => aspect === word || aspect.startsWith(`${word}-`));
}

/** The part of a file that belongs to an aspect, undefined if the file has none. */
export function partOf(aspect: string, parts: GoldenParts): unknown {
  const pick = PICKS.get(aspect);
  if (pick === undefined) throw new Error(`no aspect '${aspect}'; there are ${ASPECTS.join(', ')}`);
  return pick(parts);
}

/** Compares one aspect; null if neither side has it (no NVLS, no CollNet). */
export function compareAspect(
  aspect: string,
  expected: GoldenParts,
  got: GoldenParts,
  limit = 5,
): AspectResult | null {
  const [a, b] = [partOf(aspect, expected), partOf(aspect, got)];
  if (a === undefined && b === undefined) return null;
  const first: Difference[] = [];
  return { aspect, count: compareTrees(a, b, first, limit), first };
}

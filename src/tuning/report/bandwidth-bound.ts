/**
 * What a candidate's bandwidth is limited by: the speed of the graph's channels, or a cap of the model.
 *
 * Found by asking the model: what it is limited by is what makes it slower when it is lowered a little.
 */
import { listText } from '../../topology/report/quantities.js';
import { PATH_TYPE_NAMES } from '../../topology/system/path-type.js';
import { graphNameOf } from '../algorithms.js';
import { carriedBandwidth, type ModelCell, modelBandwidth } from '../bandwidth.js';
import { GENERATIONS, type Generation, type TuningConstants } from '../constants.js';
import type { ModelGraphs } from '../input.js';
import type { TuningTables } from '../model.js';
import { numberText, percentText } from './quantities.js';

/** Tables of the model that cap bandwidths. */
export const CAP_TABLES = [
  'llMaxBws',
  'perChMaxRingLL128Bws',
  'perChMaxTreeLL128Bws',
  'perChMaxTreeBws',
  'perChMaxNVLSTreeBws',
] as const;
export type CapTable = (typeof CAP_TABLES)[number];

export type BandwidthBound =
  /** Channels of a graph inside the nodes or to the NICs, GB/s of each. */
  | {
      readonly kind: 'graph';
      readonly graph: keyof ModelGraphs;
      readonly side: 'inside' | 'network';
      readonly channels: number;
      readonly each: number;
      readonly path: string;
      readonly share: number;
    }
  /** A number of the model, GB/s of a channel, or of all for LL, where `channels` is 1. */
  | {
      readonly kind: 'cap';
      readonly table: CapTable;
      readonly generation: Generation;
      readonly value: number;
      readonly channels: number;
      /** What algorithm and protocol leave of the bound: all channels carry the product of the three. */
      readonly share: number;
    };

/** By how much an input is lowered, and from which loss on it mattered: far above what single precision rounds off. */
const LOWERED = 1 - 2 ** -8;
const UNCHANGED = 1 - 2 ** -12;

/** What bounds a candidate that is available; several if they are equally tight. */
export function bandwidthBounds({ input, constants }: TuningTables, cell: ModelCell): BandwidthBound[] {
  const bandwidth = modelBandwidth(input, constants, cell);
  const slower = (changed: number) => changed < bandwidth * UNCHANGED;
  const name = graphNameOf(cell.algorithm);
  const graph = input.graphs[name];
  const carried = carriedBandwidth(input, constants, cell);
  const share = (channels: number, each: number) => carried / (channels * each);
  const bounds: BandwidthBound[] = [];
  // On one node no channel reaches a NIC: both speeds are those between GPUs.
  const outer = input.nNodes === 1 ? (['inside', 'typeIntra'] as const) : (['network', 'typeInter'] as const);
  for (const [speed, side, type] of [
    ['bwIntra', 'inside', 'typeIntra'],
    ['bwInter', ...outer],
  ] as const) {
    const lowered = { ...graph, [speed]: graph[speed] * LOWERED };
    const changed = { ...input, graphs: { ...input.graphs, [name]: lowered } };
    if (slower(modelBandwidth(changed, constants, cell))) {
      bounds.push({
        kind: 'graph',
        graph: name,
        side,
        channels: graph.nChannels,
        each: graph[speed],
        path: PATH_TYPE_NAMES[graph[type]] ?? `${graph[type]}`,
        share: share(graph.nChannels, graph[speed]),
      });
    }
  }
  for (const table of CAP_TABLES) {
    for (const generation of GENERATIONS) {
      const lowered = withLowered(constants, table, generation);
      if (!slower(modelBandwidth(input, lowered, cell))) continue;
      const column = constants[table][generation].findIndex((_, at) =>
        slower(modelBandwidth(input, withLowered(constants, table, generation, at), cell)),
      );
      const value = constants[table][generation][column]!;
      const channels = table === 'llMaxBws' ? 1 : graph.nChannels;
      bounds.push({ kind: 'cap', table, generation, value, channels, share: share(channels, value) });
    }
  }
  return bounds;
}

/** Constants with a row, or one column of it, lowered. */
function withLowered(
  constants: TuningConstants,
  table: CapTable,
  generation: Generation,
  column?: number,
): TuningConstants {
  const row = constants[table][generation];
  const lowered = row.map((value, at) =>
    column === undefined || column === at ? value * LOWERED : value,
  ) as typeof row;
  return { ...constants, [table]: { ...constants[table], [generation]: lowered } };
}

const GRAPH_WORDS: Readonly<Record<keyof ModelGraphs, string>> = {
  ring: 'ring',
  tree: 'tree',
  nvls: 'NVLS',
  collnetChain: 'CollNet chain',
  collnetDirect: 'CollNet direct',
};

export const graphWord = (graph: keyof ModelGraphs): string => GRAPH_WORDS[graph];

const CAP_WORDS: Readonly<Record<CapTable, string>> = {
  llMaxBws: 'LL',
  perChMaxRingLL128Bws: 'LL128 rings',
  perChMaxTreeLL128Bws: 'LL128 trees',
  perChMaxTreeBws: 'trees',
  perChMaxNVLSTreeBws: 'NVLS trees',
};

/** Shares nearer to 1 than this are all of it. */
const ALL = 0.005;

/** `, of which 85 % count`; nothing if all do. */
const shareText = ({ share }: BandwidthBound): string =>
  Math.abs(share - 1) < ALL ? '' : `, of which ${percentText(share)} count`;

/** `8 ring channels of 48 GB/s to the NICs`, `8 channels at NCCL's cap of 29 GB/s for LL128 trees, of which 85 % count` */
export function boundText(bound: BandwidthBound): string {
  const noun = bound.channels === 1 ? 'channel' : 'channels';
  if (bound.kind === 'cap') {
    const { table, channels, value } = bound;
    const all = table === 'llMaxBws' ? '' : `${channels} ${noun} at `;
    return `${all}NCCL's cap of ${numberText(value)} GB/s for ${CAP_WORDS[table]}${shareText(bound)}`;
  }
  const { graph, side, channels, each } = bound;
  const where = side === 'inside' ? 'between GPUs' : 'to the NICs';
  return `${channels} ${graphWord(graph)} ${noun} of ${numberText(each)} GB/s ${where}${shareText(bound)}`;
}

/** Text for all bounds of a candidate. */
export function boundsText(bounds: readonly BandwidthBound[]): string {
  const texts = bounds.map(boundText);
  return texts.length === 0 ? 'nothing that can be named' : listText(texts);
}

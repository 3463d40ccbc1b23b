/**
 * Where the latency of a candidate comes from: a start, and steps inside the nodes and between them.
 *
 * The same sum as the model's, as a list; a test holds both against each other.
 */
import { CpuArch, CpuVendor } from '../../topology/system/node.js';
import { PathType } from '../../topology/system/path-type.js';
import { graphOf, isScattered, ringSteps } from '../algorithms.js';
import { log2Floor } from '../arithmetic.js';
import type { ModelCell } from '../bandwidth.js';
import type { Link } from '../constants.js';
import { ranksPerNode, wholeRanksPerNode } from '../input.js';
import type { TuningTables } from '../model.js';
import { type NcclAlgorithm, ProtocolId } from '../names.js';
import { numberText } from './quantities.js';

/** `count` times `each` microseconds. */
export interface LatencyPart {
  readonly kind: 'start' | 'inside' | 'between' | 'peer' | 'rank';
  /** Of a step: the kind of link; undefined where posting a network operation takes longer than the step. */
  readonly link?: Link | undefined;
  readonly count: number;
  readonly each: number;
}

/** Microseconds that PAT pays per rank and CollNet direct per further GPU, and the overlap of PAT's network steps. */
const PAT_RANK = 2.8;
const COLLNET_PEER = 0.4;
const PAT_OVERLAP = 3.5;

/** Parts that are not 0, in the order of a call. */
export function latencyParts(tables: TuningTables, { fn, algorithm, protocol }: ModelCell): LatencyPart[] {
  const { input, constants } = tables;
  const { nRanks, nNodes } = input;
  const p = ProtocolId[protocol];
  const graph = graphOf(input.graphs, algorithm);
  const local: Link = graph.typeIntra === PathType.NVL ? 'NVLINK' : 'PCI';
  const hw = (link: Link, of: NcclAlgorithm) => constants.hwLatencies[link][of][p]!;
  const peers = wholeRanksPerNode(input) - 1;
  const hops = log2Floor(nNodes);
  const network = graph.latencyInter * (protocol === 'Simple' ? 2 : 1);
  const acrossOf = (of: NcclAlgorithm) => hw('NET', of) + network;
  const across = acrossOf(ranksPerNode(input) === 1 ? 'Tree' : algorithm);
  const start: LatencyPart = { kind: 'start', count: 1, each: constants.baseLatencies[algorithm][p]! };
  const inside = (count: number): LatencyPart => ({
    kind: 'inside',
    link: local,
    count,
    each: hw(local, algorithm),
  });
  const between = (count: number, each = across): LatencyPart => ({
    kind: 'between',
    link: 'NET',
    count,
    each,
  });
  const parts = (): LatencyPart[] => {
    switch (algorithm) {
      case 'Ring':
        return [start, ...ringParts()];
      case 'Tree':
        return [start, inside(2 * peers), between(2 * hops)];
      case 'CollNetDirect':
        return [
          start,
          inside(2 * Math.min(1, peers)),
          { kind: 'peer', count: 2 * peers, each: COLLNET_PEER },
          between(1),
        ];
      case 'CollNetChain':
        return [start, inside(2 * peers), between(1)];
      case 'NVLS':
        return [inside(1), between(nNodes > 1 ? 1 : 0)];
      case 'NVLSTree':
        return [start, inside(1), between(2 * hops)];
      case 'PAT':
        return [start, between(hops, across / PAT_OVERLAP), { kind: 'rank', count: nRanks, each: PAT_RANK }];
    }
  };
  const ringParts = (): LatencyPart[] => {
    const steps = ringSteps(fn, nRanks);
    if (fn !== 'AllReduce' && !isScattered(fn)) {
      const level: Link = nNodes === 1 ? local : 'NET';
      const kind = nNodes === 1 ? 'inside' : 'between';
      if (graph.sameChannels) return [{ kind, link: level, count: 1, each: hw(level, 'Ring') }];
      const of = protocol === 'Simple' ? 'Tree' : 'Ring';
      return [{ kind, link: level, count: steps, each: hw(level, of) }];
    }
    const posting = nNodes > 1 ? postingTime(tables) * (protocol === 'Simple' ? 3 : 1) : 0;
    const netSteps = nNodes === 1 ? 0 : fn === 'AllReduce' ? 2 * (nNodes - 1) : nNodes - 1;
    const step = inside(steps - netSteps);
    const own: LatencyPart = posting > step.each ? { ...step, link: undefined, each: posting } : step;
    return [own, between(netSteps)];
  };
  return parts().filter(({ count, each }) => count * each > 0);
}

/** Microseconds to post a network operation. */
function postingTime({ input: { settings, cpuArch, cpuVendor } }: TuningTables): number {
  if (settings.netOverhead !== undefined) return settings.netOverhead * 0.001;
  return cpuArch === CpuArch.X86 && cpuVendor === CpuVendor.AMD ? 2 : 1;
}

const LINK_WORDS: Readonly<Record<Link, string>> = { NVLINK: ' over NVLink', PCI: ' over PCIe', NET: '' };

/** `6.6 us to start, 7 steps over NVLink of 0.6 us, 2 steps between nodes of 5 us` */
export const latencyText = (parts: readonly LatencyPart[]): string =>
  parts.length === 0 ? 'nothing' : parts.map(partText).join(', ');

function partText({ kind, link, count, each }: LatencyPart): string {
  const us = `${numberText(each)} us`;
  const steps = `${count} ${count === 1 ? 'step' : 'steps'}`;
  switch (kind) {
    case 'start':
      return `${us} to start`;
    case 'inside':
      return link === undefined
        ? `${steps} inside nodes of ${us} (posting a network operation takes that long)`
        : `${steps}${LINK_WORDS[link]} of ${us}`;
    case 'between':
      return `${steps} between nodes of ${us}`;
    case 'peer':
      return `${us} for each of ${count} exchanges with GPUs of the node`;
    case 'rank':
      return `${us} for each of ${count} ranks`;
  }
}

/** `14 + 14 x 1.25 + 4 x 8.5`: the sum in numbers alone. */
export const latencySum = (parts: readonly LatencyPart[]): string =>
  parts.map(({ count, each }) => `${count === 1 ? '' : `${count} x `}${numberText(each)}`).join(' + ');

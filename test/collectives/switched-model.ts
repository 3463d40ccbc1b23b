/**
 * Reductions over switches on one element at a time: the oracle of their tests. Where contributions meet in a switch
 * they are combined at once, narrow floats in float32; elsewhere one after the other, and every step rounds.
 */
import type { SwitchedName } from '#src/collectives/switched.js';
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '#src/kernel/element-types.js';
import { averageArgument, divideBits, reduceBits } from '#src/kernel/numeric.js';
import type { ConnectedSetting } from '#src/planning/connected-plan.js';
import { channelShares } from '#src/planning/ring-plan.js';
import { switchedAlgorithm } from '#src/planning/switched-plan.js';
import { nodeCount, ranksOfNode } from '#src/planning/virtual-nodes.js';
import { doubleTree } from '#src/topology/connect/double-tree.js';
import { type Bits, directReduce } from './reference.js';

interface ModelCall {
  readonly collective: 'allReduce' | 'allGather' | 'reduceScatter';
  readonly type: ElementType;
  readonly op: ReduceOp;
  readonly count: number;
}

export function switchedExpected(
  name: SwitchedName,
  setting: ConnectedSetting,
  call: ModelCall,
  inputs: readonly Bits[],
): Bits[] {
  const { collective, type, op, count } = call;
  if (collective === 'allGather') {
    const all = inputs.flatMap((input) => input.slice(0, count));
    return inputs.map(() => all);
  }
  const { ranks, channels } = setting;
  const { size, kind } = ELEMENT_TYPES[type];
  const perNode = Math.min(setting.perNode, ranks);
  const nodes = Array.from({ length: nodeCount({ ranks, perNode }) }, (_, node) =>
    ranksOfNode({ ranks, perNode }, node),
  );
  const step = op === 'avg' ? 'sum' : op;
  const scale = op === 'avg' && kind === 'float' ? averageArgument(type, ranks) : undefined;
  const add = (a: bigint, b: bigint) => reduceBits(type, step, a, b);
  const meet = (values: Bits) => directReduce(type, step, values);

  /** Sum of an element of the inputs, which a head works on in a channel. */
  const total = (at: number, head: number, channel: number): bigint => {
    const own = (rank: number) => {
      const bits = inputs[rank]![at]!;
      return scale === undefined ? bits : reduceBits(type, 'prod', bits, scale);
    };
    const ofNode = (all: readonly number[]): bigint => {
      switch (name) {
        case 'NVLS':
        case 'NVLSTree':
          return meet(all.map(own));
        case 'CollNetDirect':
          return [all[head]!, ...all.filter((_, i) => i !== head)].map(own).reduce(add);
        case 'CollNetChain':
          return all
            .map((_, i) => own(all[(channel + i) % all.length]!))
            .reduceRight((received, mine) => add(mine, received));
      }
    };
    const ofTree = (node: number): bigint => {
      const { child0, child1 } = doubleTree(nodes.length, node)[channel % 2 === 0 ? 0 : 1];
      const children = [child0, child1].filter((child) => child !== -1).map(ofTree);
      return [ofNode(nodes[node]!), ...children].reduce(add);
    };
    const root = () =>
      nodes.findIndex((_, node) => doubleTree(nodes.length, node)[channel % 2 === 0 ? 0 : 1].parent === -1);
    const sum =
      name === 'NVLSTree'
        ? ofTree(root())
        : name === 'NVLS' && nodes.length === 1
          ? ofNode(nodes[0]!)
          : meet(nodes.map(ofNode));
    return op === 'avg' && kind !== 'float' ? divideBits(type, sum, ranks) : sum;
  };

  const shares = channelShares(count, size, channels, 'Simple');
  const channelOf = (i: number) => shares.findIndex(({ offset, count: own }) => i < offset + own);
  if (collective === 'reduceScatter') {
    return inputs.map((_, rank) =>
      Array.from({ length: count }, (__, i) => total(rank * count + i, rank % perNode, channelOf(i))),
    );
  }
  const plan = switchedAlgorithm(name).plan(setting, { collective, elementBytes: size, count }, 0);
  const result = Array.from({ length: count }, (_, i) => {
    const channel = channelOf(i);
    const { offset, count: own } = shares[channel]!;
    const { chunk, table } = plan[channel]!;
    const [heads, grain] = [table![0]!, table![6]!];
    const at = (i - offset) % (chunk * heads);
    const left = own - (i - offset - at);
    const even = Math.ceil(Math.ceil(left / heads) / Math.max(1, grain)) * Math.max(1, grain);
    const piece = grain > 0 && left < chunk * heads ? Math.min(chunk, even) : chunk;
    return total(i, Math.floor(at / piece), channel);
  });
  return inputs.map(() => result);
}

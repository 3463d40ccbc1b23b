/**
 * Hierarchical all-reduce over nodes of equal size: a reduce-scatter inside each node, an all-reduce between the ranks
 * of the same place in all nodes, an all-gather inside the node, each on a ring of its own. Between nodes a rank moves
 * 1/m of what a flat ring would, m being the ranks of a node.
 *
 * A loop takes m x k chunks (k nodes): chunk p k + t belongs to place p inside a node and to node t between them.
 * Source: the scheme of hierarchical all-reduce in Horovod and in NCCL's multi-node schedules; ring orders as NCCL's.
 */

import { type KernelBuilder, kernel, type Value } from '../kernel/builder.js';
import { ELEMENT_TYPES } from '../kernel/element-types.js';
import type { Program, Traits } from '../kernel/ir.js';
import { struct } from '../kernel/layout.js';
import { type Reduction, type StepArithmetic, stepArithmetic } from './arithmetic.js';
import { BlockWork, ConnectedBlock, ConnectedWork } from './connected-work.js';
import type { Ends } from './ends.js';
import { Primitives } from './primitives.js';
import { type LowLatencyOptions, LowLatencyProtocol } from './protocol-ll.js';
import { SimpleProtocol } from './protocol-simple.js';

/**
 * What a rank's links lead to. `both`: links 0 inside the node, 1 between nodes; else there is one link, since there
 * is one node or one rank in each.
 */
export const HIERARCHICAL_ROLES = ['both', 'inside', 'between'] as const;
export type HierarchicalRole = (typeof HIERARCHICAL_ROLES)[number];

/** The table of a block. */
export const NodePlace = struct('NodePlace', {
  /** Ranks of a node, and this rank's place among them. */
  ranks: 'u32',
  place: 'u32',
  /** Nodes, and this rank's node. */
  nodes: 'u32',
  node: 'u32',
});

export interface HierarchicalParameters {
  readonly protocol: 'LL' | 'Simple';
  readonly reduction: Reduction;
  readonly roles: readonly string[];
  readonly lowLatency?: LowLatencyOptions;
}

export function hierarchical(
  traits: Traits,
  { protocol, reduction, roles, lowLatency }: HierarchicalParameters,
): Program {
  return kernel(`hierarchical_${protocol}_allReduce`, traits, (k, work) => {
    const connected = new ConnectedBlock(k, work);
    const arithmetic = stepArithmetic(k, reduction, () => k.field(work, ConnectedWork, 'argument'));
    const primitives = (ends: Ends, how: StepArithmetic) =>
      new Primitives(
        protocol === 'LL'
          ? new LowLatencyProtocol(k, ends, reduction.type, how, lowLatency)
          : new SimpleProtocol(k, ends, reduction.type, how, { stepsPerChunk: 1, stepsPerSlice: 1 }),
      );
    connected.dispatch(roles as readonly HierarchicalRole[], (role) => {
      const hasInside = role !== 'between';
      const hasBetween = role !== 'inside';
      const between = hasInside ? 1 : 0;
      // Between the nodes go sums of nodes, which have had their opening operation.
      const sums: StepArithmetic = hasInside ? { ...arithmetic, before: (own) => own } : arithmetic;
      const inner = hasInside ? primitives(connected.ends([0], [0]), arithmetic) : undefined;
      const outer = hasBetween ? primitives(connected.ends([between], [between]), sums) : undefined;
      forLoops(k, connected, ELEMENT_TYPES[reduction.type].size, (loop) => {
        if (inner !== undefined) {
          k.for(k.u32(0), loop.nodes, 1, (t) => {
            ringReduceScatter(k, inner, loop.inside(t), outer === undefined);
          });
        }
        if (outer !== undefined)
          ringAllReduce(k, outer, loop.between(inner === undefined ? 'input' : 'output'));
        if (inner !== undefined) {
          k.for(k.u32(0), loop.nodes, 1, (t) => {
            ringAllGather(k, inner, loop.inside(t));
          });
        }
      });
      inner?.close();
      outer?.close();
    });
  });
}

/** One ring of chunks: what is `back` places before the own position. */
interface RingOfChunks {
  readonly size: Value<'u32'>;
  piece(back: Value<'u32'> | number): Piece;
}

interface Piece {
  readonly input: Value<'ptr'>;
  readonly output: Value<'ptr'>;
  readonly elements: Value<'u64'>;
}

interface Loop {
  readonly nodes: Value<'u32'>;
  /** Chunks t of every place inside the node. */
  inside(t: Value<'u32'>): RingOfChunks;
  /** The chunks of the own place, one of each node; read from the user's input or from what is in the output. */
  between(source: 'input' | 'output'): RingOfChunks;
}

function forLoops(
  k: KernelBuilder,
  { block, send, recv }: ConnectedBlock,
  size: number,
  body: (loop: Loop) => void,
): void {
  const table = k.field(block, BlockWork, 'table');
  const ranks = k.field(table, NodePlace, 'ranks');
  const place = k.field(table, NodePlace, 'place');
  const nodes = k.field(table, NodePlace, 'nodes');
  const node = k.field(table, NodePlace, 'node');
  const chunks = ranks.mul(nodes).cast('u64');
  const first = k.field(block, BlockWork, 'offset');
  const count = k.field(block, BlockWork, 'count');
  const most = k.field(block, BlockWork, 'chunk');
  const grain = 16 / size;
  k.for(k.u64(0), count, most.mul(chunks), (base) => {
    const remaining = count.sub(base);
    const even = remaining
      .add(chunks)
      .sub(1)
      .div(chunks)
      .add(grain - 1)
      .div(grain)
      .mul(grain);
    // The last loop spreads what is left evenly, in whole packets.
    const chunk = k.select(remaining.lt(most.mul(chunks)), even, most);
    const piece = (p: Value<'u32'>, t: Value<'u32'>): Piece => {
      const start = p.mul(nodes).add(t).cast('u64').mul(chunk).min(remaining);
      const at = first.add(base).add(start).mul(size);
      return { input: send.offset(at), output: recv.offset(at), elements: chunk.min(remaining.sub(start)) };
    };
    body({
      nodes,
      inside: (t) => ({
        size: ranks,
        piece: (back) => piece(place.add(ranks).sub(back).rem(ranks), t),
      }),
      between: (source) => ({
        size: nodes,
        piece: (back) => {
          const { input, output, elements } = piece(place, node.add(nodes).sub(back).rem(nodes));
          return { input: source === 'input' ? input : output, output, elements };
        },
      }),
    });
  });
}

/** The own chunk of the ring ends, summed over its ranks, in the output. */
function ringReduceScatter(
  k: KernelBuilder,
  primitives: Primitives,
  { size, piece }: RingOfChunks,
  after: boolean,
): void {
  const head = piece(1);
  primitives.send(head.input, head.elements);
  k.for(k.u32(2), size, 1, (j) => {
    const { input, elements } = piece(j);
    primitives.recvReduceSend(input, elements);
  });
  const own = piece(0);
  primitives.recvReduceCopy(own.input, own.output, own.elements, after);
}

function ringAllGather(k: KernelBuilder, primitives: Primitives, { size, piece }: RingOfChunks): void {
  const own = piece(0);
  primitives.sendResult(own.output, own.elements);
  k.for(k.u32(1), size.sub(1), 1, (j) => {
    const { output, elements } = piece(j);
    primitives.recvCopySend(output, elements);
  });
  const last = piece(size.sub(1));
  primitives.recv(last.output, last.elements);
}

function ringAllReduce(k: KernelBuilder, primitives: Primitives, { size, piece }: RingOfChunks): void {
  const head = piece(1);
  primitives.send(head.input, head.elements);
  k.for(k.u32(2), size, 1, (j) => {
    const { input, elements } = piece(j);
    primitives.recvReduceSend(input, elements);
  });
  const own = piece(0);
  primitives.recvReduceCopySend(own.input, own.output, own.elements, true);
  k.for(k.u32(1), size.sub(1), 1, (j) => {
    const { output, elements } = piece(j);
    primitives.recvCopySend(output, elements);
  });
  const last = piece(size.sub(1));
  primitives.recv(last.output, last.elements);
}

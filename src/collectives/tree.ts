/**
 * Tree all-reduce: sums travel from the leaves to the root, the result travels back. About 2 log2(n) hops instead of
 * the ring's 2(n - 1).
 *
 * - *Unsplit*: one block does a window of chunks upwards, then the same window downwards. Needs no second block, and
 *   every link is idle half of the time.
 * - *Split*: two blocks that run at the same time, one upwards and one downwards; the root does both in one call. The
 *   target must let a block go on while another waits. With LL the host takes the unsplit form: in place, one block
 *   writes what the other has read, and only the data that went round order the two.
 *
 * Two trees over the same ranks (planning/tree-plan.ts), each with half of the data, use both directions of all links.
 * Source: NCCL 2.30, tree all-reduce (both variants); Sanders, Speck, Träff: Two-Tree Algorithms for Full Bandwidth
 * Broadcast, Reduction and Scan.
 */

import { TuttiError } from '../errors/tutti-error.js';
import { type KernelBuilder, kernel, type Value } from '../kernel/builder.js';
import { ELEMENT_TYPES } from '../kernel/element-types.js';
import type { Program, Traits } from '../kernel/ir.js';
import { type Reduction, type StepArithmetic, stepArithmetic } from './arithmetic.js';
import { ConnectedBlock, type ConnectedPlace } from './connected-work.js';
import { type ConnectionProtocol, connectionProtocol } from './connection-protocol.js';
import type { Ends } from './ends.js';
import { Primitives } from './primitives.js';
import type { LowLatencyOptions } from './protocol-ll.js';

/** Children of a rank in a tree at most: the next of its node's chain and two nodes. */
export const TREE_ARITY = 3;

/**
 * What a block of a tree does. Links of a role with a parent: receives are the children, then the parent; sends are
 * the parent, then the children. `both` is the unsplit form.
 */
export interface TreeRole {
  readonly part: 'both' | 'up' | 'down' | 'root';
  /** False for the root. */
  readonly parent: boolean;
  readonly children: number;
}

/** Name of a role, for program keys. */
export function treeRoleName({ part, parent, children }: TreeRole): string {
  return `${part}${parent ? '+' : '-'}${children}`;
}

/** The inverse of `treeRoleName`. */
export function parseTreeRole(name: string): TreeRole {
  const [, part, parent, children] = /^(both|up|down|root)([+-])(\d)$/.exec(name) ?? [];
  const isRoot = parent === '-';
  const fits = part === 'both' || (part === 'root') === isRoot;
  if (part === undefined || Number(children) > TREE_ARITY || !fits) {
    throw new TuttiError('invalidArgument', `there is no tree role ${name}`);
  }
  return { part: part as TreeRole['part'], parent: !isRoot, children: Number(children) };
}

/** Copies what comes from the parent: it is finished. */
const COPY: StepArithmetic = {
  before: (own) => own,
  combine: () => {
    throw new TuttiError('internalError', 'nothing is combined on the way down a tree');
  },
  after: (total) => total,
};

export interface TreeParameters {
  readonly protocol: ConnectionProtocol;
  readonly reduction: Reduction;
  /** The roles of the rank's blocks, each once. */
  readonly roles: readonly string[];
  readonly lowLatency?: LowLatencyOptions;
}

const indices = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);

export function tree(traits: Traits, parameters: TreeParameters): Program {
  return kernel(`tree_${parameters.protocol}_allReduce`, traits, (k, work) => {
    goUpAndDown(new ConnectedBlock(k, work), parameters);
  });
}

/** What one block of a rank does. */
export function goUpAndDown(
  block: ConnectedPlace,
  { protocol, reduction, roles, lowLatency }: TreeParameters,
): void {
  const { k } = block;
  const size = ELEMENT_TYPES[reduction.type].size;
  const arithmetic = stepArithmetic(k, reduction, () => block.argument());
  const primitives = (ends: Ends, how: StepArithmetic) =>
    new Primitives(
      connectionProtocol(k, protocol, ends, reduction.type, how, {
        shape: { stepsPerChunk: 1, stepsPerSlice: 1 },
        lowLatency,
      }),
    );
  block.dispatch(roles.map(parseTreeRole), (role) => {
    const { children } = role;
    const first = block.offset();
    const end = first.add(block.count());
    const ways: Ways = {
      k,
      block,
      input: (element) => block.send.offset(element.mul(size)),
      output: (element) => block.recv.offset(element.mul(size)),
    };
    switch (role.part) {
      case 'root': {
        const both = primitives(block.ends(indices(0, children), indices(0, children)), arithmetic);
        block.chunks(first, end, (at, elements) => {
          if (children > 0) both.recvReduceCopySend(ways.input(at), ways.output(at), elements, true);
          else both.copy(ways.input(at), ways.output(at), elements, true);
        });
        both.close();
        return;
      }
      case 'up': {
        const up = primitives(block.ends(indices(0, children), [0]), arithmetic);
        block.chunks(first, end, reduceUp(ways, up, role));
        up.close();
        return;
      }
      case 'down': {
        const down = primitives(block.ends([0], indices(0, children)), COPY);
        block.chunks(first, end, copyDown(ways, down, role));
        down.close();
        return;
      }
      case 'both': {
        const parents = role.parent ? 1 : 0;
        const up = primitives(block.ends(indices(0, children), indices(0, parents)), arithmetic);
        const down = primitives(block.ends(indices(children, parents), indices(parents, children)), COPY);
        const window = block.window();
        k.for(first, end, window, (from) => {
          const to = from.add(window).min(end);
          block.chunks(from, to, reduceUp(ways, up, role));
          block.chunks(from, to, copyDown(ways, down, role));
        });
        up.close();
        down.close();
      }
    }
  });
}

interface Ways {
  readonly k: KernelBuilder;
  readonly block: ConnectedPlace;
  readonly input: (element: Value<'u64'>) => Value<'ptr'>;
  readonly output: (element: Value<'u64'>) => Value<'ptr'>;
}

type ChunkBody = (at: Value<'u64'>, elements: Value<'u64'>) => void;

function reduceUp({ input, output }: Ways, up: Primitives, { parent, children }: TreeRole): ChunkBody {
  return (at, elements) => {
    if (!parent && children > 0) up.recvReduceCopy(input(at), output(at), elements, true);
    else if (!parent) up.copy(input(at), output(at), elements, true);
    else if (children > 0) up.recvReduceSend(input(at), elements);
    else up.send(input(at), elements);
  };
}

function copyDown({ output }: Ways, down: Primitives, { parent, children }: TreeRole): ChunkBody {
  return (at, elements) => {
    if (parent && children > 0) down.recvCopySend(output(at), elements);
    else if (parent) down.recv(output(at), elements);
    else if (children > 0) down.sendResult(output(at), elements);
  };
}

/**
 * How a program over a switch goes through its share: in units, each of which takes one step of every connection.
 *
 * Nodes have the same number of heads, and a head works on its piece of every unit. A unit of an all-reduce is a chunk
 * for each head, one behind the other. A unit of an all-gather or a reduce-scatter belongs to one node: a chunk of the
 * block of each of its ranks, all of which are heads.
 * Source: NCCL 2.30, NVLS and CollNet loops.
 */

import type { KernelBuilder, Value } from '../kernel/builder.js';
import { struct } from '../kernel/layout.js';
import { BlockWork, type ConnectedBlock, ConnectedWork } from './connected-work.js';

/** The table of a block. */
export const SwitchPlace = struct('SwitchPlace', {
  /** Heads of every node, and the number of the own piece among them. */
  heads: 'u32',
  head: 'u32',
  /** Head at the other end of the first link to heads; the others follow in order, around. */
  firstHead: 'u32',
  nodes: 'u32',
  node: 'u32',
  /** Ranks of a node before the next one begins. */
  perNode: 'u32',
  /** Elements to which pieces of the last unit of an all-reduce are rounded up; 0: they are whole chunks. */
  grain: 'u32',
});

export type SwitchedCollective = 'allReduce' | 'allGather' | 'reduceScatter';

export interface SwitchPiece {
  readonly input: Value<'ptr'>;
  readonly output: Value<'ptr'>;
  readonly elements: Value<'u64'>;
}

export interface SwitchUnit {
  /** The node whose blocks these are; all-reduces have none. */
  readonly node: Value<'u32'>;
  piece(head: Value<'u32'>): SwitchPiece;
}

export class SwitchUnits {
  readonly count: Value<'u64'>;
  readonly heads: Value<'u32'>;
  readonly head: Value<'u32'>;
  readonly firstHead: Value<'u32'>;
  readonly node: Value<'u32'>;
  readonly #k: KernelBuilder;
  readonly #connected: ConnectedBlock;
  readonly #collective: SwitchedCollective;
  readonly #size: number;
  readonly #nodes: Value<'u32'>;
  readonly #perNode: Value<'u32'>;
  readonly #grain: Value<'u64'>;
  readonly #first: Value<'u64'>;
  readonly #elements: Value<'u64'>;
  readonly #chunk: Value<'u64'>;

  constructor(connected: ConnectedBlock, collective: SwitchedCollective, elementBytes: number) {
    const { k, block } = connected;
    this.#k = k;
    this.#connected = connected;
    this.#collective = collective;
    this.#size = elementBytes;
    const table = k.field(block, BlockWork, 'table');
    const word = (name: keyof typeof SwitchPlace.fields) => k.field(table, SwitchPlace, name);
    this.heads = word('heads');
    this.head = word('head');
    this.firstHead = word('firstHead');
    this.node = word('node');
    this.#nodes = word('nodes');
    this.#perNode = word('perNode');
    this.#grain = word('grain').cast('u64');
    this.#first = k.field(block, BlockWork, 'offset');
    this.#elements = k.field(block, BlockWork, 'count');
    this.#chunk = k.field(block, BlockWork, 'chunk');
    const inUnit = collective === 'allReduce' ? this.#chunk.mul(this.heads.cast('u64')) : this.#chunk;
    const units = this.#elements.add(inUnit).sub(1).div(inUnit);
    this.count = collective === 'allReduce' ? units : units.mul(this.#nodes.cast('u64'));
  }

  at(unit: Value<'u64'>): SwitchUnit {
    return this.#collective === 'allReduce' ? this.#whole(unit) : this.#blocks(unit);
  }

  #whole(unit: Value<'u64'>): SwitchUnit {
    const k = this.#k;
    const { send, recv } = this.#connected;
    const heads = this.heads.cast('u64');
    const inUnit = this.#chunk.mul(heads);
    const base = unit.mul(inUnit);
    const remaining = this.#elements.sub(base);
    const grain = this.#grain.max(1);
    const even = remaining.add(heads).sub(1).div(heads).add(grain).sub(1).div(grain).mul(grain);
    const isShort = remaining.lt(inUnit).and(this.#grain.ne(0));
    const chunk = k.select(isShort, even.min(this.#chunk), this.#chunk);
    return {
      node: this.node,
      piece: (head) => {
        const start = head.cast('u64').mul(chunk).min(remaining);
        const at = this.#first.add(base).add(start).mul(this.#size);
        return {
          input: send.offset(at),
          output: recv.offset(at),
          elements: chunk.min(remaining.sub(start)),
        };
      },
    };
  }

  #blocks(unit: Value<'u64'>): SwitchUnit {
    const k = this.#k;
    const { send, recv, work } = this.#connected;
    const nodes = this.#nodes.cast('u64');
    const node = unit.rem(nodes).cast('u32');
    const start = unit.div(nodes).mul(this.#chunk);
    const elements = this.#chunk.min(this.#elements.sub(start));
    const at = this.#first.add(start).mul(this.#size);
    const gathers = this.#collective === 'allGather';
    const block = (buffer: Value<'ptr'>, stride: 'sendStride' | 'recvStride', head: Value<'u32'>) => {
      const rank = node.mul(this.#perNode).add(head).cast('u64');
      return buffer.offset(rank.mul(k.field(work, ConnectedWork, stride)));
    };
    return {
      node,
      piece: (head) => ({
        input: (gathers ? send : block(send, 'sendStride', head)).offset(at),
        output: (gathers ? block(recv, 'recvStride', head) : recv).offset(at),
        elements,
      }),
    };
  }
}

/**
 * All ranks of a PAT collective as a plain program over values of any kind: what each slot and each output holds. Sets
 * of contributions prove the schedule, element bits give the expected result.
 */
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '#src/kernel/element-types.js';
import { reduceBits } from '#src/kernel/numeric.js';
import type { ConnectedSetting } from '#src/planning/connected-plan.js';
import { type PatEntry, patReduceScatter, patShape } from '#src/planning/pat-schedule.js';
import { channelShares } from '#src/planning/ring-plan.js';
import type { Bits } from './reference.js';

/** Slots of a connection. */
const SLOTS = 8;

interface Lane<T> {
  /** Slots by absolute number; blocks within a slot by index. */
  readonly slots: Map<number, (T | undefined)[]>;
  published: number;
  released: number;
}

export interface PatRun<T> {
  /** By rank: its result (reduce-scatter), or all blocks by rank (all-gather). */
  readonly outputs: (T | undefined)[][];
  /** Blocks sent, by rank and dimension. */
  readonly sent: number[][];
}

export interface PatValues<T> {
  /** Contribution of a rank to the block of another (reduce-scatter), or its own block (all-gather). */
  own(rank: number, block: number): T;
  combine?(received: T, other: T): T;
}

/** Runs the schedule on `n` ranks in turn; throws when nobody can go on or a slot is used wrongly. */
export function runPat<T>(
  n: number,
  entries: readonly PatEntry[],
  collective: 'allGather' | 'reduceScatter',
  { own, combine }: PatValues<T>,
): PatRun<T> {
  const gathers = collective === 'allGather';
  const dimensions = Math.ceil(Math.log2(n));
  /** Lanes by receiving rank and dimension. */
  const lanes = Array.from({ length: n }, () =>
    Array.from({ length: dimensions }, (): Lane<T> => ({ slots: new Map(), published: 0, released: 0 })),
  );
  const outputs = Array.from({ length: n }, () => new Array<T | undefined>(gathers ? n : 1).fill(undefined));
  const sent = Array.from({ length: n }, () => new Array<number>(dimensions).fill(0));
  const at = new Array<number>(n).fill(0);
  const place = (rank: number, dimension: number, direction: 1 | -1) =>
    (((rank + direction * 2 ** dimension) % n) + n) % n;
  const cell = (lane: Lane<T>, slot: number): (T | undefined)[] => {
    let blocks = lane.slots.get(slot);
    if (blocks === undefined) {
      blocks = [];
      lane.slots.set(slot, blocks);
    }
    return blocks;
  };

  /** Does the next entry of a rank; false when it has to wait. */
  const step = (rank: number): boolean => {
    const e = entries[at[rank]!]!;
    const block = (rank + e.distance) % n;
    const source = e.from < 0 ? undefined : lanes[rank]![e.from]!;
    const target = e.to < 0 ? undefined : lanes[place(rank, e.to, gathers ? -1 : 1)]![e.to]!;
    const from = (source?.released ?? 0) + (gathers ? e.ahead : 0);
    const to = (target?.published ?? 0) + (gathers ? 0 : e.ahead);
    if (source !== undefined && source.published <= from) return false;
    if (target !== undefined && target.released + SLOTS <= to) return false;
    const received = source === undefined ? undefined : cell(source, from)[e.fromIndex];
    if (source !== undefined && received === undefined) throw new Error(`rank ${rank} reads an empty place`);
    let value: T;
    if (gathers) {
      value = received ?? own(rank, rank);
      if (!e.again) {
        if (outputs[rank]![block] !== undefined)
          throw new Error(`block ${block} comes twice to rank ${rank}`);
        outputs[rank]![block] = value;
      }
    } else {
      const held = target === undefined ? outputs[rank]![0] : cell(target, to)[e.toIndex];
      if ((held !== undefined) !== e.again) throw new Error(`rank ${rank}: wrong mark of a place in use`);
      const second = held ?? own(rank, block);
      value = received === undefined ? second : combine!(received, second);
      if (target === undefined) outputs[rank]![0] = value;
    }
    if (target !== undefined) {
      if (gathers && cell(target, to)[e.toIndex] !== undefined) throw new Error('a place is filled twice');
      cell(target, to)[e.toIndex] = value;
      sent[rank]![e.to]! += 1;
    }
    if (e.publish) target!.published += 1;
    if (e.release) {
      source!.slots.delete(source!.released);
      source!.released += 1;
    }
    at[rank]! += 1;
    return true;
  };

  for (let moved = true; moved; ) {
    moved = false;
    for (let rank = 0; rank < n; rank++) {
      while (at[rank]! < entries.length && step(rank)) moved = true;
    }
  }
  if (at.some((count) => count < entries.length)) throw new Error('nobody can go on');
  for (const lane of lanes.flat()) {
    if (lane.published !== lane.released || lane.slots.size > 0) throw new Error('a slot is left over');
  }
  return { outputs, sent };
}

/** What every rank receives, with the operands in the order of the schedule; every step rounds. */
export function patExpected(
  setting: ConnectedSetting,
  call: {
    readonly collective: string;
    readonly type: ElementType;
    readonly op: ReduceOp;
    readonly count: number;
  },
  inputs: readonly Bits[],
): Bits[] {
  const { ranks, channels, slotBytes } = setting;
  const { collective, type, op, count } = call;
  if (collective === 'allGather') {
    const all = inputs.flatMap((input) => input.slice(0, count));
    return inputs.map(() => all);
  }
  if (op === 'avg') throw new Error('PAT does no averages');
  const { size } = ELEMENT_TYPES[type];
  const result = inputs.map(() => new Array<bigint>(count).fill(0n));
  for (const { offset, count: part } of channelShares(count, size, channels, 'Simple')) {
    const entries = patReduceScatter(patShape(ranks, slotBytes, part * size));
    const { outputs } = runPat<Bits>(ranks, entries, 'reduceScatter', {
      own: (rank, block) => inputs[rank]!.slice(block * count + offset, block * count + offset + part),
      combine: (a, b) => a.map((bits, i) => reduceBits(type, op, bits, b[i]!)),
    });
    outputs.forEach(([bits], rank) => {
      result[rank]!.splice(offset, part, ...bits!);
    });
  }
  return result;
}

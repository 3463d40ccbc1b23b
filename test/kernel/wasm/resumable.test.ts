/** Resumable programs: one thread runs blocks and ranks whose waits depend on each other. */
import { describe, expect, it } from 'vitest';
import { kernel } from '#src/kernel/builder.js';
import { type Program, STATUS, WASM_TRAITS } from '#src/kernel/ir.js';
import { struct } from '#src/kernel/layout.js';
import { frameBytes } from '#src/kernel/wasm/compile.js';
import { type Instance, instance } from './instance.js';

const Rank = struct('Rank', {
  rank: 'u32',
  ranks: 'u32',
  inbox: 'ptr',
  outbox: 'ptr',
  data: 'ptr',
  rounds: 'u32',
});
const Box = struct('Box', { full: 'u64', value: 'packet' });
const FRAMES = 32768;
const DATA = 16384;
const BOXES = 8192;
const RANK = 256;

/** Runs ranks in turn until all are done; gives how often one was blocked. */
function roundRobin(run: Instance, program: Program, descriptors: readonly number[]): number {
  const bytes = frameBytes(program);
  const open = new Set(descriptors.keys());
  let blocked = 0;
  while (open.size > 0) {
    const before = blocked;
    for (const rank of open) {
      const status = run.entries[program.name]!(
        descriptors[rank]!,
        rank,
        descriptors.length,
        FRAMES + rank * bytes,
      );
      if (status === STATUS.blocked) blocked++;
      else {
        expect(status).toBe(STATUS.done);
        open.delete(rank);
      }
    }
    if (blocked - before > 1000) throw new Error('no progress');
  }
  return blocked;
}

describe('ranks in a ring, one mailbox between neighbours', () => {
  /** Every rank adds what it gets to its sum and passes it on; a mailbox holds one packet. */
  const ring = kernel('ring', WASM_TRAITS, (k, work) => {
    const inbox = k.field(work, Rank, 'inbox');
    const outbox = k.field(work, Rank, 'outbox');
    const data = k.field(work, Rank, 'data');
    const ranks = k.field(work, Rank, 'ranks');
    const sum = k.variable('packet', k.load('packet', data));
    const passing = k.variable('packet', sum.value);
    const waited = k.variable('f64', 0.5);
    k.for(k.u32(0), k.field(work, Rank, 'rounds'), 1, (round) => {
      k.for(k.u32(1), ranks, 1, (step) => {
        const here = round.mul(ranks).add(step);
        k.wait(() => k.field(outbox, Box, 'full', 0, { order: 'acquire' }).eq(0));
        k.setField(outbox, Box, 'value', passing.value);
        k.setField(outbox, Box, 'full', 1, { order: 'release' });
        k.if(
          here.and(1).eq(0),
          () => {
            k.wait(() => k.field(inbox, Box, 'full', 0, { order: 'acquire' }).eq(1));
            waited.set(waited.value.add(1));
          },
          () => k.wait(() => k.field(inbox, Box, 'full', 0, { order: 'acquire' }).ne(0)),
        );
        const got = k.field(inbox, Box, 'value');
        k.setField(inbox, Box, 'full', 0, { order: 'release' });
        passing.set(got);
        sum.set(k.reduce('int32', 'sum', sum.value, got));
      });
      passing.set(sum.value);
    });
    k.store('packet', data, sum.value);
    k.store('f64', data, waited.value, { offset: 16 });
  });

  it.each([2, 3, 5])('%d ranks finish on one thread with the right sums', (ranks) => {
    const run = instance(ring, { resumable: true, spins: 3 });
    const rounds = 4;
    const descriptors = Array.from({ length: ranks }, (_, rank) => {
      Rank.at(run.view, RANK + rank * Rank.size)
        .set('rank', rank)
        .set('ranks', ranks)
        .set('inbox', BOXES + rank * Box.size)
        .set('outbox', BOXES + ((rank + 1) % ranks) * Box.size)
        .set('data', DATA + 64 * rank)
        .set('rounds', rounds);
      new Int32Array(run.memory.buffer, DATA + 64 * rank, 4).set([1, rank, 10 * rank, 1 << rank]);
      return RANK + rank * Rank.size;
    });
    let values = descriptors.map((_, rank) => [1, rank, 10 * rank, 1 << rank]);
    const total = (all: number[][]) => all.reduce((a, b) => a.map((x, i) => (x + b[i]!) | 0));
    for (let round = 0; round < rounds; round++) values = values.map(() => total(values));

    const blocked = roundRobin(run, ring, descriptors);
    expect(blocked).toBeGreaterThan(ranks);
    for (let rank = 0; rank < ranks; rank++) {
      expect([...new Int32Array(run.memory.buffer, DATA + 64 * rank, 4)]).toEqual(values[rank]);
      const even = Array.from({ length: rounds * ranks }, (_, i) => i).filter(
        (i) => i % ranks !== 0 && i % 2 === 0,
      );
      expect(run.view.getFloat64(DATA + 64 * rank + 16, true)).toBe(even.length + 0.5);
    }
  });
});

describe('state across a wait', () => {
  /** One value of every type is computed before a wait deep in loops and ifs, and written after it. */
  const deep = kernel('deep', WASM_TRAITS, (k, base) => {
    const i = k.load('i32', base);
    const values = {
      i32: i.mul(3),
      u32: i.cast('u32').add(7),
      i64: i.cast('i64').mul(0x1_0000_0001n),
      u64: i.cast('u64').shl(40),
      f32: i.cast('f32').mul(0.5),
      f64: i.cast('f64').div(3),
      pred: i.gt(0),
      ptr: base.offset(i),
      packet: k.packet(i.cast('u64'), 99),
    };
    const rounds = k.variable('u32', 0);
    k.for(k.u32(0), 3, 1, (a) => {
      k.if(a.ne(1), () => {
        k.for(k.u32(0), 2, 1, (b, loop) => {
          k.if(
            a.eq(2).and(b.eq(1)),
            () => loop.break(),
            () => {
              k.wait(() => k.load('u32', base, { offset: 8, order: 'acquire' }).gt(rounds.value));
              rounds.set(rounds.value.add(1));
            },
          );
        });
      });
    });
    Object.values(values).forEach((value, index) => {
      const at = { offset: 64 + 16 * index };
      if (value.type === 'pred') k.store('u32', base, value.cast('u32'), at);
      else k.store(value.type as 'u32', base, value as never, at);
    });
    k.store('u32', base, rounds.value, { offset: 16 });
  });

  it('is kept for values of every type, however deep the wait', () => {
    const run = instance(deep, { resumable: true, spins: 2 });
    const BASE = 1024;
    run.view.setInt32(BASE, 5, true);
    const statuses: number[] = [];
    for (let step = 0; step < 4; step++) {
      run.view.setUint32(BASE + 8, step, true);
      statuses.push(run.entries.deep!(BASE, 0, 1, FRAMES));
      // Another activity of the same program must not disturb this one.
      run.view.setInt32(2048, 100 + step, true);
      run.view.setUint32(2048 + 8, 0, true);
      expect(run.entries.deep!(2048, 0, 1, FRAMES + frameBytes(deep))).toBe(STATUS.blocked);
      run.view.setUint32(FRAMES + frameBytes(deep), 0, true);
    }
    expect(statuses).toEqual([STATUS.blocked, STATUS.blocked, STATUS.blocked, STATUS.done]);
    expect(run.view.getUint32(BASE + 16, true)).toBe(3);
    const v = run.view;
    const at = (index: number) => BASE + 64 + 16 * index;
    expect(v.getInt32(at(0), true)).toBe(15);
    expect(v.getUint32(at(1), true)).toBe(12);
    expect(v.getBigInt64(at(2), true)).toBe(5n * 0x1_0000_0001n);
    expect(v.getBigUint64(at(3), true)).toBe(5n << 40n);
    expect(v.getFloat32(at(4), true)).toBe(2.5);
    expect(v.getFloat64(at(5), true)).toBe(5 / 3);
    expect(v.getUint32(at(6), true)).toBe(1);
    expect(v.getUint32(at(7), true)).toBe(BASE + 5);
    expect([v.getBigUint64(at(8), true), v.getBigUint64(at(8) + 8, true)]).toEqual([5n, 99n]);
  });

  it('starts from the beginning after the program is done', () => {
    const run = instance(deep, { resumable: true });
    const BASE = 1024;
    run.view.setUint32(BASE + 8, 10, true);
    for (const i of [1, 2]) {
      run.view.setInt32(BASE, i, true);
      expect(run.entries.deep!(BASE, 0, 1, FRAMES)).toBe(STATUS.done);
      expect(run.view.getInt32(BASE + 64, true)).toBe(3 * i);
      expect(run.view.getUint32(FRAMES, true)).toBe(0);
    }
  });

  it('does nothing twice: what stands before the wait runs once', () => {
    const program = kernel('once', WASM_TRAITS, (k, base) => {
      k.atomic('add', 'u32', base, 1);
      const got = k.load('u32', base, { offset: 4 });
      k.wait(() => k.load('u32', base, { offset: 8, order: 'acquire' }).ne(0));
      k.atomic('add', 'u32', base, got);
      k.wait(() => k.load('u32', base, { offset: 12, order: 'acquire' }).ne(0));
      k.atomic('add', 'u32', base, got.mul(100));
    });
    const run = instance(program, { resumable: true, spins: 1 });
    const BASE = 1024;
    const call = () => run.entries.once!(BASE, 0, 1, FRAMES);
    run.view.setUint32(BASE + 4, 10, true);
    expect([call(), call()]).toEqual([STATUS.blocked, STATUS.blocked]);
    run.view.setUint32(BASE + 4, 555, true); // a value that was read already
    run.view.setUint32(BASE + 8, 1, true);
    expect([call(), call()]).toEqual([STATUS.blocked, STATUS.blocked]);
    expect(run.view.getUint32(BASE, true)).toBe(11);
    run.view.setUint32(BASE + 12, 1, true);
    expect(call()).toBe(STATUS.done);
    expect(run.view.getUint32(BASE, true)).toBe(1011);
  });

  it('takes no room for what nobody needs afterwards', () => {
    const program = kernel('small', WASM_TRAITS, (k, base) => {
      for (let i = 0; i < 20; i++) {
        const x = k.load('packet', base, { offset: 16 * i });
        k.store('packet', base, k.reduce('float16', 'sum', x, x), { offset: 16 * i });
        k.wait(() => k.load('u32', base, { offset: 4 * i, order: 'acquire' }).ne(0));
      }
    });
    expect(frameBytes(program)).toBe(16);
  });
});

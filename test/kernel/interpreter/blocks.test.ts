import { describe, expect, it } from 'vitest';
import { type KernelBuilder, kernel, type Value, withPlaces } from '#src/kernel/builder.js';
import { explore, findFailure } from '#src/kernel/interpreter/explore.js';
import type { MachineFault } from '#src/kernel/interpreter/fault.js';
import { type Launch, Machine, type MachineOptions } from '#src/kernel/interpreter/machine.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import type { Program } from '#src/kernel/ir.js';
import { struct } from '#src/kernel/layout.js';

const Work = struct('Work', { shared: 'ptr', out: 'ptr' });
const MANY = interpreterTraits({ threads: 'many' });

function program(body: (k: KernelBuilder, shared: Value<'ptr'>, out: Value<'ptr'>) => void): Program {
  return withPlaces(() =>
    kernel('block', MANY, (k, work) => body(k, k.field(work, Work, 'shared'), k.field(work, Work, 'out'))),
  );
}

interface Shape {
  threads?: number;
  blocks?: number;
  warpSize?: number;
}

function run(p: Program, shape: Shape, options: MachineOptions): { out: number[]; launch: Launch } {
  const { threads = 8, blocks = 1, warpSize = 4 } = shape;
  const machine = new Machine({ ...options, warpSize });
  const total = threads * blocks;
  const shared = machine.region('shared', total * 4, 0);
  const out = machine.region('out', total * 4, 0, { zeroed: true });
  const descriptor = machine.struct(Work, 0, { shared, out });
  const launch = machine.launch(p, { rank: 0, descriptor, blocks, threads });
  machine.run();
  return { out: [...machine.readArray(out, Uint32Array, total)], launch };
}

function faultOf(p: Program, shape: Shape = {}, seeds = 30): MachineFault {
  const failure = findFailure((options) => void run(p, shape, options), { seeds });
  expect(failure).toBeDefined();
  return failure!.error as MachineFault;
}

/** Every thread hands a value to its neighbour through memory. */
const rotation = (synchronise: (k: KernelBuilder) => void) =>
  program((k, shared, out) => {
    const me = k.threadIndex;
    k.store('u32', shared.offset(me.mul(4)), me.mul(10));
    synchronise(k);
    const neighbour = me.add(1).rem(k.threadCount);
    k.store('u32', out.offset(me.mul(4)), k.load('u32', shared.offset(neighbour.mul(4))));
  });

describe('barriers', () => {
  it('order what the threads of a block do before and after', () => {
    const p = rotation((k) => k.barrier());
    explore((options) => expect(run(p, {}, options).out).toEqual([10, 20, 30, 40, 50, 60, 70, 0]), {
      seeds: 200,
    });
  });

  it('that are missing are found', () => {
    expect(faultOf(rotation(() => {})).kind).toMatch(/^(unpublishedRead|uninitialized)$/);
  });

  it('of half the block do not order the other half', () => {
    const halves = rotation((k) => {
      k.if(
        k.threadIndex.lt(4),
        () => k.barrier(1, 4),
        () => k.barrier(2, 4),
      );
    });
    expect(faultOf(halves).kind).toMatch(/^(unpublishedRead|uninitialized)$/);
  });

  it('of parts of a block with their own numbers go on independently', () => {
    const p = program((k, shared, out) => {
      const me = k.threadIndex;
      const half = me.div(4);
      k.for(k.u32(0), 3, 1, (round) => {
        k.store('u32', shared.offset(me.mul(4)), me.add(round.mul(100)));
        k.if(
          half.eq(0),
          () => k.barrier(1, 4),
          () => k.barrier(2, 4),
        );
        const other = half.mul(4).add(me.add(1).rem(4));
        k.store('u32', out.offset(me.mul(4)), k.load('u32', shared.offset(other.mul(4))));
        k.if(
          half.eq(0),
          () => k.barrier(1, 4),
          () => k.barrier(2, 4),
        );
      });
    });
    explore((options) => expect(run(p, {}, options).out).toEqual([201, 202, 203, 200, 205, 206, 207, 204]), {
      seeds: 100,
    });
  });

  it('with a missing thread deadlock, and the report counts who is there', () => {
    const p = program((k) => {
      k.if(k.threadIndex.eq(3), () => k.return(0));
      k.barrier(5);
    });
    const fault = faultOf(p);
    expect(fault.kind).toBe('deadlock');
    expect(fault.message).toMatch(
      /rank 0 block 0 thread 7 is held at interpreter\/blocks\.test\.ts:\d+:\d+ of block by barrier 5 \(7 of 8 threads are there\)/,
    );
    expect(fault.message).not.toContain('thread 3 is held');
  });

  it('with an odd count, or different counts, are traps', () => {
    expect(faultOf(program((k) => k.barrier(1, 3))).message).toMatch(
      /barrier 1 over 3 threads: must be a multiple/,
    );
    const differ = program((k) => {
      k.barrier(1, k.select(k.threadIndex.lt(4), k.u32(4), 8));
    });
    expect(faultOf(differ).message).toMatch(/but others came to it for [48]/);
  });

  it('do not reach over blocks', () => {
    const p = program((k, shared, out) => {
      const me = k.blockIndex.mul(k.threadCount).add(k.threadIndex);
      k.store('u32', shared.offset(me.mul(4)), me);
      k.barrier();
      const other = me.add(k.threadCount).rem(k.threadCount.mul(k.blockCount));
      k.store('u32', out.offset(me.mul(4)), k.load('u32', shared.offset(other.mul(4))));
    });
    expect(faultOf(p, { threads: 4, blocks: 2 }).kind).toMatch(/^(unpublishedRead|uninitialized)$/);
  });
});

describe('identity', () => {
  it('numbers blocks and threads', () => {
    const p = program((k, _, out) => {
      const flat = k.blockIndex.mul(k.threadCount).add(k.threadIndex);
      const value = k.blockIndex
        .mul(1000)
        .add(k.threadIndex.mul(100))
        .add(k.blockCount.mul(10))
        .add(k.threadCount);
      k.store('u32', out.offset(flat.mul(4)), value);
    });
    const { out } = run(p, { threads: 4, blocks: 2 }, { seed: 1, memory: 'strong' });
    expect(out).toEqual([24, 124, 224, 324, 1024, 1124, 1224, 1324]);
  });
});

describe('warps', () => {
  it('shuffle any type among their lanes, again and again', () => {
    const p = program((k, _, out) => {
      const me = k.threadIndex;
      const lane = me.rem(4);
      const sum = k.variable('u32', 0);
      k.for(k.u32(0), 4, 1, (i) => {
        const a = k.shuffle(me.mul(3), lane.add(i).rem(4));
        const b = k.shuffle(me.cast('u64'), i);
        const c = k.shuffle(k.packet(me.cast('u64'), 0n), lane.xor(1));
        sum.set(sum.value.add(a).add(b.cast('u32').mul(100)).add(c.half(0).cast('u32').mul(10000)));
      });
      k.store('u32', out.offset(me.mul(4)), sum.value);
    });
    const expected = Array.from({ length: 8 }, (_, me) => {
      const first = me - (me % 4);
      const all = [0, 1, 2, 3].reduce((s, i) => s + first + i, 0);
      return all * 3 + all * 100 + (first + ((me % 4) ^ 1)) * 40000;
    });
    explore((options) => expect(run(p, {}, options).out).toEqual(expected), { seeds: 100 });
  });

  it('vote per warp, also with a last warp that is not full', () => {
    const p = program((k, _, out) => {
      const me = k.threadIndex;
      const any = k.vote('any', me.eq(1));
      const all = k.vote('all', me.ge(4));
      const bit = (v: Value<'pred'>, weight: number) => k.select(v, k.u32(weight), 0);
      k.store('u32', out.offset(me.mul(4)), bit(any, 1).add(bit(all, 2)));
    });
    explore((options) => expect(run(p, { threads: 6 }, options).out).toEqual([1, 1, 1, 1, 2, 2]), {
      seeds: 50,
    });
  });

  it('that diverge are traps or deadlocks', () => {
    const diverge = program((k, _, out) => {
      const v = k.variable('u32', 0);
      k.if(
        k.threadIndex.rem(2).eq(0),
        () => v.set(k.shuffle(k.threadIndex, 0)),
        () => v.set(k.shuffle(k.threadIndex, 1)),
      );
      k.store('u32', out.offset(k.threadIndex.mul(4)), v.value);
    });
    expect(faultOf(diverge).message).toMatch(/trap.*lanes of one warp come to different warp operations/);
    const absent = program((k, _, out) => {
      k.if(k.threadIndex.eq(2), () => k.return(0));
      k.store('u32', out.offset(k.threadIndex.mul(4)), k.shuffle(k.threadIndex, 0));
    });
    expect(faultOf(absent).message).toMatch(/held .* by a warp operation \(3 of 4 lanes are there\)/);
    const outside = program((k, _, out) => k.store('u32', out, k.shuffle(k.threadIndex, 4)));
    expect(faultOf(outside).message).toMatch(/shuffle from lane 4, which does not exist/);
  });

  it('give no memory order', () => {
    const p = rotation((k) => {
      k.vote('any', k.bool(true));
    });
    expect(faultOf(p, { threads: 4 }).kind).toMatch(/^(unpublishedRead|uninitialized)$/);
  });

  it('see after a barrier of theirs what their lanes have done before', () => {
    const p = rotation((k) => k.warpBarrier());
    explore((options) => expect(run(p, { threads: 4 }, options).out).toEqual([10, 20, 30, 0]), { seeds: 50 });
  });
});

describe('lines that a warp stores', () => {
  /** 16 lanes write two lines; 16 others wait for the last 8 bytes of one and take the rest. */
  const Lines = struct('Lines', { line: 'ptr', out: 'ptr' });
  const lines = (store: (k: KernelBuilder, at: Value<'ptr'>, packet: Value<'packet'>) => void) =>
    kernel('lines', MANY, (k, work) => {
      const base = k.field(work, Lines, 'line');
      const lane = k.threadIndex.rem(16);
      const at = base.offset(lane.mul(16));
      k.if(
        k.blockIndex.eq(0),
        () => {
          k.for(k.u32(1), 4, 1, (round) => {
            const value = round.mul(100).add(lane).cast('u64');
            store(k, at, k.packet(value, k.select(lane.rem(8).eq(7), round.cast('u64'), value)));
          });
        },
        () => {
          const flag = base.offset(lane.div(8).mul(128));
          k.wait(() => k.load('u64', flag, { order: 'volatile', offset: 120 }).ge(3));
          const found = k.load('packet', at, { order: 'volatile' }).half(0).cast('u32');
          k.store('u32', k.field(work, Lines, 'out').offset(lane.mul(4)), found);
        },
      );
    });
  const runLines = (p: Program, options: MachineOptions, at = 0): number[] => {
    const machine = new Machine({ ...options, warpSize: 16 });
    const line = machine.region('line', 512, 0, { zeroed: true }) + at;
    const out = machine.region('out', 64, 0, { zeroed: true });
    const descriptor = machine.struct(Lines, 0, { line, out });
    machine.launch(p, { rank: 0, descriptor, blocks: 2, threads: 16 });
    machine.run();
    return [...machine.readArray(out, Uint32Array, 16)];
  };
  const expected = Array.from({ length: 16 }, (_, lane) => 300 + lane);
  const whole = lines((k, at, packet) => k.storeLine(at, packet, k.bool(true)));

  it('arrive whole, where packets of single lanes do not', () => {
    explore((options) => expect(runLines(whole, options)).toEqual(expected), { seeds: 50 });
    const apart = lines((k, at, packet) => k.store('packet', at, packet, { order: 'volatile' }));
    const failure = findFailure((options) => expect(runLines(apart, options)).toEqual(expected), {
      seeds: 50,
    });
    expect(failure).toBeDefined();
  });

  it('begin at multiples of 128, and are stored by all of their lanes or none', () => {
    expect(() => runLines(whole, { seed: 1, memory: 'strong' }, 64)).toThrow('is not a multiple of 128');
    const some = lines((k, at, packet) => k.storeLine(at, packet, k.threadIndex.lt(4)));
    expect(() => runLines(some, { seed: 1, memory: 'strong' })).toThrow('only some of its lanes store');
    const apart = lines((k, at, packet) =>
      k.storeLine(at.offset(k.threadIndex.mul(16)), packet, k.bool(true)),
    );
    expect(() => runLines(apart, { seed: 1, memory: 'strong' })).toThrow('lanes that store apart');
  });

  it('are refused where a block is one thread', () => {
    const build = () =>
      kernel('line', interpreterTraits({ threads: 'one' }), (k, work) =>
        k.storeLine(work, k.packet(0n, 0n), k.bool(true)),
      );
    expect(build).toThrow('lines of 128 bytes are stored by warps');
  });
});

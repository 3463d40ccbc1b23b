/** Programs for GPUs in the interpreter: several ranks, blocks and threads, all schedules of a seed, weak memory. */
import { describe, expect, it } from 'vitest';
import { areaLayout } from '#src/collectives/gpu/area.js';
import {
  type Copies,
  GPU_COLLECTIVES,
  type GpuCollective,
  type GpuShape,
} from '#src/collectives/gpu/call.js';
import { ELEMENT_TYPE_NAMES, ELEMENT_TYPES, REDUCE_OP_NAMES } from '#src/kernel/element-types.js';
import { explore } from '#src/kernel/interpreter/explore.js';
import type { MachineOptions } from '#src/kernel/interpreter/machine.js';
import { encode } from '#src/kernel/numeric.js';
import { pick, random } from '../random-call.js';
import { gpuBufferElements, type SimulatedGpuCall, SimulatedGpuTeam, SMALL_AREA } from './gpu-team.js';

/** Multiplies the numbers of seeds, for long runs by hand. */
const EFFORT = Number(process.env.TUTTI_TEST_EFFORT ?? 1);

const COPIES: readonly Copies[] = ['push', 'pull', 'split'];

function inputsOf(call: SimulatedGpuCall, ranks: number, next: () => number): bigint[][] {
  const { send } = gpuBufferElements(call.collective, call.count, ranks);
  const { kind } = ELEMENT_TYPES[call.type];
  return Array.from({ length: ranks }, () =>
    Array.from({ length: send }, () => {
      const value = Math.floor(next() * 17) - (kind === 'unsigned' ? 0 : 8);
      return encode(call.type, kind === 'float' ? value / 4 : value);
    }),
  );
}

/** Runs calls one behind the other on every rank and compares all results. */
function run(
  machine: MachineOptions,
  ranks: number,
  calls: readonly SimulatedGpuCall[],
  next: () => number,
): void {
  const addressing = next() < 0.5 ? 'plain' : 'mapped';
  const team = new SimulatedGpuTeam(machine, { ranks, addressing });
  const streams = team.streams();
  const checks = calls.map((call) => team.launch(call, inputsOf(call, ranks, next), streams));
  team.machine.run();
  for (const check of checks) check();
}

const LL = (blocks: number, threads: number, lines?: number): GpuShape => ({
  program: 'LL',
  blocks,
  threads,
  ...(lines === undefined ? {} : { lines }),
});
/** An area of these tests has room for two or four warps. */
const LL128 = (blocks: number, warps: number): GpuShape => ({
  program: 'LL128',
  blocks,
  threads: 32 * warps,
});
const lamport = (blocks: number, threads: number, packets = 1): GpuShape => ({
  program: 'Lamport',
  blocks,
  threads,
  packets,
});
const FLOATS = ELEMENT_TYPE_NAMES.filter((type) => ELEMENT_TYPES[type].kind === 'float');
const direct = (blocks: number, threads: number, copies: Copies = 'push'): GpuShape => ({
  program: 'Direct',
  blocks,
  threads,
  unroll: 2,
  residency: 1,
  copies,
});

/** Of two ranks. */
const exchange = (next: () => number): GpuShape => ({
  program: 'Exchange',
  blocks: pick([1, 2], next),
  threads: 160,
  pairs: pick([1, 2], next),
  unroll: pick([1, 2], next),
});

const REDUCTIONS = new Set<GpuCollective>(['allReduce', 'reduceScatter', 'reduce']);

function randomShape(collective: GpuCollective, next: () => number): GpuShape {
  const blocks = pick([1, 2, 3], next);
  if (next() < 0.2) return LL128(blocks, 1);
  if (REDUCTIONS.has(collective) && next() < 0.4)
    return lamport(blocks, pick([4, 8], next), pick([1, 2], next));
  return next() < 0.5
    ? pick([LL(blocks, 4), LL(blocks, 8), LL(blocks, 4, 1), LL(blocks, 4, 2), LL(blocks, 8, 1)], next)
    : direct(blocks, 4, pick(COPIES, next));
}

/** Bytes that a shape takes, or enough for several rounds or pieces. */
function mostBytes(shape: GpuShape): number {
  if (shape.program === 'LL128') return (shape.blocks * shape.threads * 960) / 32;
  if (shape.program === 'Lamport') return shape.blocks * shape.threads * shape.packets * 16;
  if (shape.program === 'LL' && shape.lines !== undefined)
    return shape.blocks * shape.threads * shape.lines * 8;
  if (shape.program === 'Exchange') return shape.blocks * shape.threads * shape.unroll * 40;
  return 160;
}

function randomCall(
  ranks: number,
  next: () => number,
  collective: GpuCollective,
  shape: GpuShape,
): SimulatedGpuCall {
  const type = pick(shape.program === 'Lamport' ? FLOATS : ELEMENT_TYPE_NAMES, next);
  const { size } = ELEMENT_TYPES[type];
  const most = Math.floor(mostBytes(shape) / size);
  const staged = shape.program === 'Direct' && next() < 0.3 ? [pick([0, 1], next)] : [];
  return {
    collective,
    shape,
    type,
    op: pick(REDUCE_OP_NAMES, next),
    root: Math.floor(next() * ranks),
    count: 1 + Math.floor(next() * most),
    inPlace: collective !== 'allToAll' && next() < 0.3,
    unalign: Array.from({ length: ranks }, () => (next() < 0.3 ? Math.floor((next() * 16) / size) : 0)),
    staged,
  };
}

describe('LL programs on GPUs', () => {
  it.each(GPU_COLLECTIVES)('move %s of any type and size between 2 and 3 ranks', (collective) => {
    const runs = explore(
      (machine) => {
        const next = random(machine.seed + 1);
        const ranks = pick([2, 3], next);
        run(machine, ranks, [randomCall(ranks, next, collective, LL(pick([1, 2, 3], next), 4))], next);
      },
      { seeds: 4 * EFFORT },
    );
    expect(runs).toBe(8 * EFFORT);
  });
});

describe('LL programs of one round on GPUs', () => {
  const collectives = GPU_COLLECTIVES.filter((c) => c !== 'barrier');
  it.each(collectives)('move %s of any type and size between 2 and 3 ranks', (collective) => {
    const runs = explore(
      (machine) => {
        const next = random(machine.seed + 1);
        const ranks = pick([2, 3], next);
        const shape = LL(pick([1, 2, 3], next), 4, pick([1, 2], next));
        run(machine, ranks, [randomCall(ranks, next, collective, shape)], next);
      },
      { seeds: 4 * EFFORT },
    );
    expect(runs).toBe(8 * EFFORT);
  });
});

describe('LL128 programs on GPUs', () => {
  const collectives = GPU_COLLECTIVES.filter((c) => c !== 'barrier');
  it.each(collectives)('move %s of any type and size between 2 and 3 ranks', (collective) => {
    const runs = explore(
      (machine) => {
        const next = random(machine.seed + 1);
        const ranks = pick([2, 3], next);
        const shape = LL128(pick([1, 2], next), pick([1, 2], next));
        run({ ...machine, warpSize: 32 }, ranks, [randomCall(ranks, next, collective, shape)], next);
      },
      { seeds: 2 * EFFORT },
    );
    expect(runs).toBe(4 * EFFORT);
  });
});

describe('Lamport programs on GPUs', () => {
  it.each(['allReduce', 'reduceScatter', 'reduce'] as const)(
    'move %s of floats of any size between 2 and 3 ranks, again and again',
    (collective) => {
      const runs = explore(
        (machine) => {
          const next = random(machine.seed + 1);
          const ranks = pick([2, 3], next);
          // The third call finds what the first one has left.
          const calls = [1, 2, 3].map(() => {
            const shape = lamport(pick([1, 2], next), pick([4, 8], next), pick([1, 2], next));
            return randomCall(ranks, next, collective, shape);
          });
          run(machine, ranks, calls, next);
        },
        { seeds: 3 * EFFORT },
      );
      expect(runs).toBe(6 * EFFORT);
    },
  );

  it('carry every bit pattern, those that would look empty too', () => {
    for (const type of FLOATS) {
      const { size } = ELEMENT_TYPES[type];
      const ones = (1n << BigInt(8 * size)) - 1n;
      const count = 64 / size;
      // All ones at one rank or the other, or at both; and what they are replaced by.
      const patterns = [ones, ones >> 1n, 0n, encode(type, 1.5)];
      const inputs = [0, 1].map((rank) =>
        Array.from({ length: count }, (_, i) => patterns[((rank === 0 ? i * size : i * size * 4) >> 3) & 3]!),
      );
      for (const op of ['sum', 'prod', 'min', 'max', 'avg'] as const) {
        const team = new SimulatedGpuTeam({ seed: size, memory: 'weak' }, { ranks: 2 });
        const shape = lamport(1, 4);
        const call = { collective: 'allReduce', type, op, root: 0, count, shape } as const;
        const streams = team.streams();
        const checks = [1, 2, 3].map(() => team.launch(call, inputs, streams));
        team.machine.run();
        for (const check of checks) check();
      }
    }
  });
});

describe('LL128 lines', () => {
  const bytes = 960;
  const call = (changes: Partial<SimulatedGpuCall> = {}): SimulatedGpuCall => ({
    ...{ collective: 'allGather', type: 'uint8', op: 'sum', root: 0, count: bytes, shape: LL128(1, 1) },
    ...changes,
  });

  it('hold fifteen words of data and the number of their round in 128 bytes [C09-11]', () => {
    const machine = { seed: 1, memory: 'strong', warpSize: 32 } as const;
    const team = new SimulatedGpuTeam(machine, { ranks: 2 });
    const inputs = [0, 1].map((rank) =>
      Array.from({ length: bytes }, (_, i) => BigInt((7 * i + rank) % 256)),
    );
    const check = team.launch(call(), inputs, team.streams());
    team.machine.run();
    check();
    // Round 1 goes into the second bank of the other rank's area; there is one peer.
    const { lines128, slot128Bytes } = areaLayout(2, SMALL_AREA);
    const words = team.machine.readArray(team.areas[1]! + lines128 + slot128Bytes, BigUint64Array, 8 * 16);
    const lines = Array.from({ length: 8 }, (_, i) => [...words.subarray(16 * i, 16 * i + 16)]);
    expect(lines.map((line) => line[15])).toEqual(new Array(8).fill(1n));
    const sent = new BigUint64Array(Uint8Array.from(inputs[0]!, Number).buffer);
    const payload = lines.flatMap((line) => line.slice(0, 15));
    expect([...payload].sort()).toEqual([...sent].sort());
    // The lines of the first half hold data in their order.
    expect(lines.slice(0, 4).map((line) => line[14])).toEqual([14, 30, 46, 62].map((i) => sent[i]));
  });

  it('carry the same data whatever the alignment of buffers', () => {
    for (const unalign of [
      [0, 0],
      [1, 0],
      [8, 3],
      [15, 16],
    ]) {
      const next = random(unalign[0]!);
      const one = call({ collective: 'allReduce', count: 1 + Math.floor(next() * bytes), unalign });
      run({ seed: 5, memory: 'weak', warpSize: 32 }, 2, [one], next);
    }
  });
});

describe('the all-reduce of two ranks by an exchange', () => {
  it('combines any type and size, again and again, in place on any ranks and off alignment', () => {
    const runs = explore(
      (machine) => {
        const next = random(machine.seed + 1);
        const calls = Array.from({ length: 3 }, () => {
          const call = randomCall(2, next, 'allReduce', exchange(next));
          const { size } = ELEMENT_TYPES[call.type];
          const odd = Math.floor((next() * 16) / size);
          return {
            ...call,
            inPlace: pick([false, false, true, [0], [1]], next),
            unalign: pick([[0, 0], [odd, odd], call.unalign!], next),
            staged: pick([[], [], [0], [1]], next),
          };
        });
        run({ ...machine, warpSize: 32 }, 2, calls, next);
      },
      { seeds: 2 * EFFORT },
    );
    expect(runs).toBe(4 * EFFORT);
  });

  it('carries every bit pattern, those that would look empty too', () => {
    for (const type of ['float32', 'float8e5m2'] as const) {
      const { size } = ELEMENT_TYPES[type];
      const ones = (1n << BigInt(8 * size)) - 1n;
      const patterns = [ones, ones >> 1n, 0n, encode(type, 1.5)];
      const inputs = [3, 5].map((odd) =>
        Array.from({ length: 1500 / size }, (_, i) => patterns[((i * size * odd) >> 3) & 3]!),
      );
      const team = new SimulatedGpuTeam({ seed: size, memory: 'weak', warpSize: 32 }, { ranks: 2 });
      const shape = { program: 'Exchange', blocks: 1, threads: 96, pairs: 1, unroll: 1 } as const;
      const call = { collective: 'allReduce', type, op: 'sum', root: 0, count: 1500 / size, shape } as const;
      const streams = team.streams();
      const checks = [1, 2].map(() => team.launch(call, inputs, streams));
      team.machine.run();
      for (const check of checks) check();
    }
  });
});

describe('direct programs on GPUs', () => {
  const collectives = GPU_COLLECTIVES.filter((c) => c !== 'barrier');
  it.each(collectives)('move %s of any type and size between 2 and 3 ranks', (collective) => {
    const runs = explore(
      (machine) => {
        const next = random(machine.seed + 1);
        const ranks = pick([2, 3], next);
        const shape = direct(pick([1, 2, 3], next), 4, pick(COPIES, next));
        run(machine, ranks, [randomCall(ranks, next, collective, shape)], next);
      },
      { seeds: 4 * EFFORT },
    );
    expect(runs).toBe(8 * EFFORT);
  });
});

describe('calls that follow each other', () => {
  it('mix collectives, programs, blocks and threads over one area', () => {
    const runs = explore(
      (machine) => {
        const next = random(machine.seed + 99);
        const ranks = pick([2, 3], next);
        const calls = Array.from({ length: 4 }, () => {
          const collective = pick(GPU_COLLECTIVES, next);
          const isPair = collective === 'allReduce' && ranks === 2;
          const other = isPair && next() < 0.6 ? exchange(next) : randomShape(collective, next);
          const shape = collective === 'barrier' ? LL(1, 4) : other;
          return randomCall(ranks, next, collective, shape);
        });
        run({ ...machine, warpSize: 32 }, ranks, calls, next);
      },
      { seeds: 16 * EFFORT },
    );
    expect(runs).toBe(32 * EFFORT);
  });

  it('let nobody who only sends or only receives run ahead of the others', () => {
    const runs = explore(
      (machine) => {
        const next = random(machine.seed + 7);
        const ranks = pick([2, 3], next);
        const shape = pick([LL(2, 4), LL(2, 4, 1)], next);
        const calls = Array.from({ length: 5 }, () => ({
          ...randomCall(
            ranks,
            next,
            pick(['broadcast', 'scatter', 'reduce', 'gather'] as const, next),
            shape,
          ),
          root: 0,
        }));
        run(machine, ranks, calls, next);
      },
      { seeds: 12 * EFFORT },
    );
    expect(runs).toBe(24 * EFFORT);
  });

  it('give the peers what earlier launches have computed', () => {
    const runs = explore(
      (machine) => {
        const next = random(machine.seed + 3);
        const base = { ...randomCall(2, next, 'allReduce', direct(2, 4)), unalign: [0, 0], staged: [] };
        // What an LL program leaves in a buffer, no meeting has told anybody of.
        const shapes = [LL(2, 4), direct(2, 4), LL(2, 4), direct(2, 4, 'pull')];
        const calls = shapes.map((shape, i) => ({
          ...base,
          collective: i === 3 ? ('broadcast' as const) : ('allReduce' as const),
          shape,
          inPlace: false,
          chained: i > 0,
        }));
        run(machine, 2, calls, next);
      },
      { seeds: 8 * EFFORT },
    );
    expect(runs).toBe(16 * EFFORT);
  });

  it('go on when the numbers of rounds come again', () => {
    const runs = explore(
      (machine) => {
        const next = random(machine.seed + 11);
        const team = new SimulatedGpuTeam(machine, { ranks: 2 });
        const call = (count: number) =>
          ({ ...randomCall(2, next, 'allReduce', LL(1, 4)), type: 'uint8', count }) as const;
        const queue = (counts: readonly number[]) => {
          const streams = team.streams();
          const checks = counts.map((count) => {
            const each = { ...call(count), inPlace: false, unalign: [0, 0] };
            return team.launch(each, inputsOf(each, 2, next), streams);
          });
          team.machine.run();
          for (const check of checks) check();
        };
        // Rounds 2 and 3 fill their banks; the last ones before the wrap do not; then rounds 2 and 3 come again.
        team.setRound(1);
        queue([120, 120]);
        team.setRound(0xfffffffc);
        queue([4, 4, 4, 120, 120]);
      },
      { seeds: 8 * EFFORT },
    );
    expect(runs).toBe(16 * EFFORT);
  });
});

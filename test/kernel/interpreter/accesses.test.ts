import { describe, expect, it } from 'vitest';
import { type KernelBuilder, kernel, type Value, withPlaces } from '#src/kernel/builder.js';
import { findFailure } from '#src/kernel/interpreter/explore.js';
import { MachineFault } from '#src/kernel/interpreter/fault.js';
import { Machine, type MachineOptions } from '#src/kernel/interpreter/machine.js';
import type { RegionOptions } from '#src/kernel/interpreter/region.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import { type Program, PTX_TRAITS, type Scope, type Traits } from '#src/kernel/ir.js';
import { struct } from '#src/kernel/layout.js';

const Work = struct('Work', { a: 'ptr', b: 'ptr' });
const ONE = interpreterTraits({ threads: 'one' });
const STRONG: MachineOptions = { seed: 1, memory: 'strong' };

type Body = (k: KernelBuilder, a: Value<'ptr'>, b: Value<'ptr'>) => void;

function program(body: Body, traits: Traits = ONE): Program {
  return withPlaces(() =>
    kernel('access', traits, (k, work) => body(k, k.field(work, Work, 'a'), k.field(work, Work, 'b'))),
  );
}

/** Runs one thread over two regions of 64 bytes, `a` with the bytes 0, 1, 2, .. and `b` unwritten. */
function single(
  body: Body,
  regions: { a?: RegionOptions; b?: RegionOptions; owner?: number } = {},
  traits = ONE,
) {
  const machine = new Machine(STRONG);
  const a = machine.region('a', 64, regions.owner ?? 0, regions.a);
  machine.writeArray(
    a,
    Uint8Array.from({ length: 64 }, (_, i) => i),
  );
  const b = machine.region('b', 64, 0, regions.b);
  const descriptor = machine.struct(Work, 0, { a, b });
  machine.launch(program(body, traits), { rank: 0, descriptor });
  machine.run();
  return (from: number, to: number) => [...machine.readArray(b, Uint8Array, 64)].slice(from, to);
}

function faultOf(...args: Parameters<typeof single>): MachineFault {
  try {
    single(...args);
  } catch (error) {
    if (error instanceof MachineFault) return error;
    throw error;
  }
  throw new Error('no fault');
}

describe('bounds', () => {
  it('the last byte is inside, the next one is not', () => {
    single((k, a) => k.load('u32', a, { offset: 60 }));
    const fault = faultOf((k, a) => k.load('u32', a, { offset: 64 }));
    expect(fault.kind).toBe('outOfBounds');
    expect(fault.message).toMatch(/4 bytes at a\+0x40; a has 64 bytes/);
    expect(fault.place).toMatch(/^interpreter\/accesses\.test\.ts:\d+:\d+$/);
    expect(faultOf((k, a) => k.load('packet', a, { offset: 56, align: 8 })).kind).toBe('outOfBounds');
  });

  it('one element too many in a loop is found', () => {
    const fill =
      (count: number): Body =>
      (k, _, b) => {
        k.for(k.u32(0), count, 1, (i) => k.store('u32', b.offset(i.mul(4)), i));
      };
    single(fill(16));
    expect(faultOf(fill(17)).message).toMatch(/outOfBounds .*4 bytes at b\+0x40/);
  });

  it('addresses before a region or in none are outside', () => {
    expect(faultOf((k, a) => k.load('u32', a.offset(-4))).kind).toBe('outOfBounds');
    expect(faultOf((k) => k.load('u32', k.input('ptr', 16))).message).toMatch(/0x10, which is in no region/);
    expect(faultOf((k, a) => k.load('u32', a.offset(1n << 60n))).kind).toBe('outOfBounds');
  });
});

describe('permission', () => {
  it('read-only regions refuse every kind of store', () => {
    const readOnly = { a: { readOnly: true } };
    single((k, a) => k.load('u32', a), readOnly);
    const stores: Body[] = [
      (k, a) => k.store('u32', a, 1),
      (k, a) => k.store('u32', a, 1, { order: 'release' }),
      (k, a) => k.atomic('add', 'u32', a, 1),
      (k, a, b) => k.copy(a, b, k.u64(4)),
      (k, a) => k.storePart(a, k.packet(0n, 0n), 3, 1),
    ];
    for (const body of stores)
      expect(faultOf(body, { ...readOnly, b: { zeroed: true } }).kind).toBe('forbidden');
  });

  it('private regions are for their owner only', () => {
    single((k, a) => k.load('u32', a), { a: { private: true } });
    const fault = faultOf((k, a) => k.load('u32', a), { a: { private: true }, owner: 3 });
    expect(fault.message).toMatch(/forbidden .*a\+0x0 is private to rank 3/);
  });
});

describe('alignment', () => {
  it('must be what the program promised', () => {
    expect(faultOf((k, a) => k.load('u32', a.offset(2))).kind).toBe('misaligned');
    single((k, a) => k.load('u32', a.offset(2), { align: 2 }));
    expect(faultOf((k, a) => k.load('u32', a.offset(1), { align: 2 })).kind).toBe('misaligned');
    expect(faultOf((k, a) => k.loadPart(a.offset(2), 4, 4)).kind).toBe('misaligned');
  });

  it('packets may lie anywhere only where the traits say so', () => {
    const body: Body = (k, a, b) =>
      k.store('packet', b.offset(3), k.load('packet', a.offset(1), { align: 1 }), { align: 1 });
    expect(single(body)(3, 6)).toEqual([1, 2, 3]);
    expect(faultOf(body, {}, PTX_TRAITS).kind).toBe('misaligned');
    expect(faultOf(body, {}, interpreterTraits({ threads: 'one', unalignedPackets: false })).kind).toBe(
      'misaligned',
    );
  });

  it('synchronising accesses are aligned to their width, always', () => {
    const relaxed = { order: 'relaxed', align: 1 } as const;
    expect(faultOf((k, a) => k.load('u64', a.offset(4), relaxed)).kind).toBe('misaligned');
    expect(faultOf((k, a) => k.store('packet', a.offset(8), k.packet(1n, 2n), relaxed)).kind).toBe(
      'misaligned',
    );
    expect(faultOf((k, a) => k.atomic('add', 'u32', a.offset(2), 1)).kind).toBe('misaligned');
  });
});

describe('bytes', () => {
  it('that nobody stored are not to be loaded', () => {
    const fault = faultOf((k, _, b) => {
      k.store('u16', b, 7);
      k.load('u32', b);
    });
    expect(fault.message).toMatch(/uninitialized .*load of b\+0x2, which was never stored to/);
    expect(faultOf((k, _, b) => k.load('u32', b, { order: 'acquire' })).kind).toBe('uninitialized');
    expect(faultOf((k, a, b) => k.copy(a, b, k.u64(8))).kind).toBe('uninitialized');
    single((k, _, b) => k.load('u32', b), { b: { zeroed: true } });
  });

  it('narrow loads extend by their sign, narrow stores cut', () => {
    const bytes = single((k, a, b) => {
      k.store('i32', b, k.i32(-2));
      k.store('u8', b, k.u32(0x1ff), { offset: 4 });
      k.store('i16', b, k.i32(-3), { offset: 6 });
      k.store('i32', b, k.load('i8', b), { offset: 8 });
      k.store('u32', b, k.load('u8', b), { offset: 12 });
      k.store('i32', b, k.load('i16', b, { offset: 6 }), { offset: 16 });
      k.store('u32', b, k.load('u16', b, { offset: 6 }), { offset: 20 });
      k.store('u64', b, k.load('ptr', a.offset(8)).cast('u64'), { offset: 24 });
    });
    expect(bytes(0, 5)).toEqual([254, 255, 255, 255, 255]);
    expect(bytes(6, 8)).toEqual([253, 255]);
    expect(bytes(8, 16)).toEqual([254, 255, 255, 255, 254, 0, 0, 0]);
    expect(bytes(16, 24)).toEqual([253, 255, 255, 255, 253, 255, 0, 0]);
  });

  it('parts of packets touch only their bytes', () => {
    const bytes = single((k, a, b) => {
      for (let i = 0; i < 16; i++) k.store('u8', b, k.u32(200), { offset: i });
      k.storePart(b, k.loadPart(a.offset(1), 5, 1), 7, 1);
      k.storePart(b.offset(100), k.loadPart(a.offset(1000), 0, 1), 0, 1);
    });
    expect(bytes(0, 9)).toEqual([1, 2, 3, 4, 5, 0, 0, 200, 200]);
    expect(faultOf((k, a) => k.loadPart(a, 17, 1)).message).toMatch(/part of 17 bytes/);
    expect(faultOf((k, a) => k.loadPart(a.offset(60), 5, 1)).kind).toBe('outOfBounds');
  });

  it('copies move exactly their bytes, and overlapping ones are traps', () => {
    for (const count of [0, 1, 15, 16, 17, 40]) {
      const bytes = single((k, a, b) => k.copy(b.offset(3), a.offset(5), k.u64(count)), {
        b: { zeroed: true },
      });
      const expected = Array.from({ length: 64 }, (_, i) => (i >= 3 && i < 3 + count ? i + 2 : 0));
      expect(bytes(0, 64)).toEqual(expected);
    }
    expect(faultOf((k, a) => k.copy(a, a.offset(8), k.u64(9))).message).toMatch(/trap .*overlapping/);
    single((k, a) => k.copy(a, a.offset(8), k.u64(8)));
    single((k, a) => k.copy(a, a, k.u64(32)));
  });
});

describe('atomics', () => {
  it('give the old value and store the new one', () => {
    const bytes = single((k, a, b) => {
      const cell = a.offset(32);
      const wide = a.offset(40);
      k.store('u32', cell, 12);
      k.store('u64', wide, 12n);
      let at = 0;
      const keep = (old: Value<'u32'> | Value<'u64'>) => {
        const low = old.type === 'u64' ? (old as Value<'u64'>).cast('u32') : (old as Value<'u32'>);
        k.store('u8', b, low, { offset: at++ });
      };
      const cases = [
        ['add', 5],
        ['and', 0xff],
        ['or', 64],
        ['xor', 1],
        ['max', 200],
        ['min', 7],
        ['exchange', 9],
      ] as const;
      for (const [op, value] of cases) keep(k.atomic(op, 'u32', cell, value));
      for (const [op, value] of cases) keep(k.atomic(op, 'u64', wide, value));
      keep(k.compareExchange('u32', cell, 8, 1));
      keep(k.compareExchange('u32', cell, 9, 2));
      keep(k.load('u32', cell));
      keep(k.compareExchange('u64', wide, 9, 3));
      keep(k.compareExchange('u64', wide, 9, 4));
    });
    const olds = [12, 17, 17, 81, 80, 200, 7];
    expect(bytes(0, 19)).toEqual([...olds, ...olds, 9, 9, 2, 9, 3]);
  });

  it('wrap at their width', () => {
    const bytes = single((k, a, b) => {
      k.store('u32', a, 0xffffffff);
      k.atomic('add', 'u32', a, 2);
      k.store('u32', b, k.load('u32', a));
      k.store('u64', a, (1n << 64n) - 1n);
      k.atomic('add', 'u64', a, 3);
      k.store('u64', b, k.load('u64', a), { offset: 8 });
    });
    expect([bytes(0, 4), bytes(8, 16)]).toEqual([
      [1, 0, 0, 0],
      [2, 0, 0, 0, 0, 0, 0, 0],
    ]);
  });
});

describe('traps', () => {
  it('division by zero and shifts beyond the width', () => {
    expect(faultOf((k, a) => k.u32(5).div(k.load('u32', a).and(0xff))).message).toMatch(
      /trap .*division by zero/,
    );
    expect(faultOf((k, a) => k.u64(5).rem(k.load('u64', a).and(0xffn))).kind).toBe('trap');
    expect(faultOf((k, a) => k.load('u32', a).shl(k.load('u8', a, { offset: 32 }))).message).toMatch(
      /shift by 32 of 32/,
    );
  });
});

/** Two ranks over one shared region; which faults there are under any schedule. */
function pair(first: Body, second: Body, seeds = 40): string | undefined {
  const programs = [program(first), program(second)];
  const failure = findFailure(
    (options) => {
      const machine = new Machine(options);
      const a = machine.region('a', 64, 0, { zeroed: true });
      const b = machine.region('b', 64, 0, { zeroed: true });
      const descriptor = machine.struct(Work, 0, { a, b });
      for (const [rank, p] of programs.entries()) machine.launch(p, { rank, descriptor });
      machine.run();
    },
    { seeds },
  );
  if (failure === undefined) return undefined;
  return failure.error instanceof MachineFault ? failure.error.kind : String(failure.error);
}

describe('races', () => {
  const store: Body = (k, a) => k.store('u32', a, 1);
  const load: Body = (k, a) => void k.load('u32', a);
  const storeRelaxed: Body = (k, a) => k.store('u32', a, 1, { order: 'relaxed' });
  const loadRelaxed: Body = (k, a) => void k.load('u32', a, { order: 'relaxed' });
  const add: Body = (k, a) => void k.atomic('add', 'u32', a, 1);

  it('two plain accesses with a store among them conflict', () => {
    expect(pair(store, store)).toBe('race');
    expect(pair(store, load)).toMatch(/^(race|unpublishedRead)$/);
    expect(pair(load, load)).toBeUndefined();
  });

  it('a plain access conflicts with a synchronising store, and a plain store with a synchronising load', () => {
    expect(pair(load, storeRelaxed)).toMatch(/^(race|unpublishedRead)$/);
    expect(pair(store, storeRelaxed)).toBe('race');
    expect(pair(store, loadRelaxed)).toMatch(/^(race|unpublishedRead)$/);
    expect(pair(store, add)).toMatch(/^(race|unpublishedRead)$/);
    expect(pair(load, loadRelaxed)).toBeUndefined();
  });

  it('synchronising accesses never conflict', () => {
    for (const one of [storeRelaxed, loadRelaxed, add]) {
      for (const two of [storeRelaxed, loadRelaxed, add]) expect(pair(one, two)).toBeUndefined();
    }
  });

  it('a store that comes later in time conflicts with the load all the same', () => {
    /** The second body runs after the first, as a relaxed flag shows, but without order after it. */
    const later = (first: Body, second: Body) =>
      pair(
        (k, a, b) => {
          first(k, a, b);
          k.store('u32', b, 1, { order: 'relaxed' });
        },
        (k, a, b) => {
          k.wait(() => k.load('u32', b, { order: 'relaxed' }).eq(1));
          second(k, a, b);
        },
      );
    expect(later(load, store)).toBe('race');
    expect(later(load, storeRelaxed)).toBe('race');
    expect(later(loadRelaxed, store)).toBe('race');
    expect(later(loadRelaxed, storeRelaxed)).toBeUndefined();
    expect(later(store, storeRelaxed)).toBe('race');
    expect(later(storeRelaxed, store)).toBe('race');
    expect(later(store, load)).toBe('unpublishedRead');
    expect(later(storeRelaxed, load)).toBe('unpublishedRead');
    expect(later(store, loadRelaxed)).toBe('unpublishedRead');
    expect(later(store, add)).toBe('unpublishedRead');
  });

  it('neighbouring bytes are different places', () => {
    const byte =
      (at: number): Body =>
      (k, a) => {
        k.store('u8', a, 1, { offset: at });
        k.load('u8', a, { offset: at });
      };
    expect(pair(byte(0), byte(1))).toBeUndefined();
    expect(pair(byte(1), byte(1))).toMatch(/^(race|unpublishedRead)$/);
    const part =
      (at: number, bytes: number): Body =>
      (k, a) =>
        k.storePart(a.offset(at), k.packet(0n, 0n), bytes, 1);
    expect(pair(part(0, 5), part(5, 11))).toBeUndefined();
    expect(pair(part(0, 6), part(5, 11))).toBe('race');
  });

  /** Programs of ranks 0, 1, .. over one region; the fault of the first failing seed. */
  function faultOfRanks(...bodies: Body[]): MachineFault | undefined {
    const programs = bodies.map((body) => program(body));
    const failure = findFailure(
      (options) => {
        const machine = new Machine(options);
        const a = machine.region('a', 64, 0, { zeroed: true });
        const b = machine.region('b', 64, 0, { zeroed: true });
        const descriptor = machine.struct(Work, 0, { a, b });
        for (const [rank, p] of programs.entries()) machine.launch(p, { rank, descriptor });
        machine.run();
      },
      { seeds: 40 },
    );
    if (failure !== undefined && !(failure.error instanceof MachineFault)) throw failure.error;
    return failure?.error as MachineFault | undefined;
  }
  const signal = (k: KernelBuilder, flag: Value<'ptr'>, number: number, order: 'relaxed' | 'release') =>
    k.store('u32', flag, 1, { order, offset: 4 * number });
  const awaits = (k: KernelBuilder, flag: Value<'ptr'>, number: number, order: 'relaxed' | 'acquire') =>
    k.wait(() => k.load('u32', flag, { order, offset: 4 * number }).eq(1));

  it('a store must come after every reader, not only the last', () => {
    // Rank 0 reads first, but only rank 1 says so in a way that orders.
    const first = (order: 'relaxed' | 'release'): Body[] => [
      (k, a, b) => {
        k.load('u32', a);
        signal(k, b, 0, order);
      },
      (k, a, b) => {
        awaits(k, b, 0, order === 'release' ? 'acquire' : 'relaxed');
        k.load('u32', a);
        signal(k, b, 1, 'release');
      },
      (k, a, b) => {
        awaits(k, b, 1, 'acquire');
        k.store('u32', a, 5);
      },
    ];
    expect(faultOfRanks(...first('release'))).toBeUndefined();
    expect(faultOfRanks(...first('relaxed'))?.message).toMatch(
      /^race in rank 2 .* store to a\+0x0 without order after the load there by rank 0/,
    );
  });

  it('readers that a later reader comes after are left out, and only those', () => {
    const fault = faultOfRanks(
      (k, a, b) => {
        k.load('u32', a);
        signal(k, b, 0, 'relaxed');
      },
      (k, a, b) => {
        awaits(k, b, 0, 'relaxed');
        k.load('u32', a);
        signal(k, b, 1, 'release');
      },
      (k, a, b) => {
        awaits(k, b, 1, 'acquire');
        k.load('u32', a);
        signal(k, b, 2, 'release');
      },
      (k, a, b) => {
        awaits(k, b, 2, 'acquire');
        k.store('u32', a, 5);
      },
    );
    expect(fault?.message).toMatch(/^race in rank 3 .* after the load there by rank 0/);
  });

  it('a plain load still counts after a synchronising load that it happens before', () => {
    const fault = faultOfRanks(
      (k, a, b) => {
        k.load('u32', a);
        signal(k, b, 0, 'release');
      },
      (k, a, b) => {
        awaits(k, b, 0, 'acquire');
        k.load('u32', a, { order: 'relaxed' });
        signal(k, b, 1, 'relaxed');
      },
      (k, a, b) => {
        awaits(k, b, 1, 'relaxed');
        k.store('u32', a, 5, { order: 'relaxed' });
      },
    );
    expect(fault?.message).toMatch(/^race in rank 2 .* after the load there by rank 0/);
  });

  it('a load after the release that gives the place back conflicts', () => {
    const reader =
      (loadsAgain: boolean): Body =>
      (k, a, b) => {
        k.load('u32', a);
        signal(k, b, 0, 'release');
        if (loadsAgain) k.load('u32', a);
        signal(k, b, 1, 'relaxed');
      };
    const storer: Body = (k, a, b) => {
      awaits(k, b, 1, 'relaxed');
      awaits(k, b, 0, 'acquire');
      k.store('u32', a, 5);
    };
    expect(faultOfRanks(reader(false), storer)).toBeUndefined();
    expect(faultOfRanks(reader(true), storer)?.kind).toBe('race');
  });

  it('hundreds of readers in any order are all remembered', () => {
    const READERS = 300;
    const read = program((k, a, b) => {
      k.load('u64', a.offset(8));
      k.load('u32', a.offset(8));
      k.atomic('add', 'u32', b, 1);
    });
    const scenario = (awaited: number) => {
      const store = program((k, a, b) => {
        k.wait(() => k.load('u32', b, { order: 'acquire' }).ge(awaited));
        k.store('u64', a, 1, { offset: 8 });
      });
      return (options: MachineOptions) => {
        const machine = new Machine(options);
        const a = machine.region('a', 64, 0, { zeroed: true });
        const b = machine.region('b', 64, 0, { zeroed: true });
        const descriptor = machine.struct(Work, 0, { a, b });
        machine.launch(read, { rank: 0, descriptor, blocks: READERS });
        machine.launch(store, { rank: 1, descriptor });
        machine.run();
      };
    };
    expect(findFailure(scenario(READERS), { seeds: 5 })).toBeUndefined();
    const failure = findFailure(scenario(READERS - 20), { seeds: 20 });
    expect(String(failure?.error)).toMatch(/race in rank 1|unpublishedRead in rank 0/);
  });
});

describe('scopes', () => {
  type Publish = (k: KernelBuilder, flag: Value<'ptr'>) => void;
  const release =
    (scope: Scope): Publish =>
    (k, flag) =>
      k.store('u32', flag, 1, { order: 'release', scope });
  const fences =
    (...scopes: Scope[]): Publish =>
    (k, flag) => {
      for (const scope of scopes) k.fence('release', scope);
      k.store('u32', flag, 1, { order: 'relaxed' });
    };
  const acquire =
    (scope: Scope): Publish =>
    (k, flag) =>
      k.wait(() => k.load('u32', flag, { order: 'acquire', scope }).eq(1));
  const acquireFences =
    (...scopes: Scope[]): Publish =>
    (k, flag) => {
      k.wait(() => k.load('u32', flag, { order: 'relaxed' }).eq(1));
      for (const scope of scopes) k.fence('acquire', scope);
    };

  function handOver(publish: Publish, consume: Publish, sameDevice: boolean): string {
    const send = program((k, a, b) => {
      k.store('u32', a, 5);
      publish(k, b);
    });
    const receive = program((k, a, b) => {
      consume(k, b);
      k.load('u32', a);
    });
    const failure = findFailure(
      (options) => {
        const machine = new Machine({ ...options, deviceOf: (rank) => (sameDevice ? 0 : rank) });
        const regions = { a: machine.region('a', 4, 0), b: machine.region('b', 4, 0, { zeroed: true }) };
        const descriptor = machine.struct(Work, 0, regions);
        machine.launch(send, { rank: 0, descriptor });
        machine.launch(receive, { rank: 1, descriptor });
        machine.run();
      },
      { seeds: 10 },
    );
    return failure === undefined ? 'passes' : (failure.error as MachineFault).kind;
  }

  it('must reach the other thread on both sides: the system, or the device of two ranks on one GPU', () => {
    const scopes: Scope[] = ['block', 'device', 'system'];
    for (const sameDevice of [false, true]) {
      const least = sameDevice ? 1 : 2;
      for (const [i, ours] of scopes.entries()) {
        for (const [j, theirs] of scopes.entries()) {
          const due = Math.min(i, j) >= least ? 'passes' : 'unpublishedRead';
          expect(handOver(release(ours), acquire(theirs), sameDevice)).toBe(due);
          expect(handOver(fences(ours), acquire(theirs), sameDevice)).toBe(due);
          expect(handOver(release(ours), acquireFences(theirs), sameDevice)).toBe(due);
        }
      }
    }
  });

  it('of the widest of several fences count', () => {
    expect(handOver(fences('system', 'device'), acquire('system'), false)).toBe('passes');
    expect(handOver(fences('block', 'device'), acquire('system'), false)).toBe('unpublishedRead');
    expect(handOver(release('system'), acquireFences('block', 'device', 'system'), false)).toBe('passes');
    expect(handOver(release('system'), acquireFences('block', 'device'), false)).toBe('unpublishedRead');
  });

  it('of a block reach its own threads only', () => {
    const p = withPlaces(() =>
      kernel('block', interpreterTraits({ threads: 'many' }), (k, work) => {
        const flag = k.field(work, Work, 'b').offset(k.blockIndex.mul(4));
        const other = k.blockCount.sub(1).sub(k.blockIndex);
        const data = k.field(work, Work, 'a');
        k.if(
          k.threadIndex.eq(0),
          () => {
            k.store('u32', data.offset(k.blockIndex.mul(4)), 7);
            k.store('u32', flag, 1, { order: 'release', scope: 'block' });
          },
          () => {
            const theirs = k.field(work, Work, 'b').offset(other.mul(4));
            k.wait(() => k.load('u32', theirs, { order: 'acquire', scope: 'block' }).eq(1));
            k.load('u32', data.offset(other.mul(4)));
          },
        );
      }),
    );
    const launch = (blocks: number) => (options: MachineOptions) => {
      const machine = new Machine(options);
      const a = machine.region('a', 64, 0);
      const descriptor = machine.struct(Work, 0, { a, b: machine.region('b', 64, 0, { zeroed: true }) });
      machine.launch(p, { rank: 0, descriptor, blocks, threads: 2 });
      machine.run();
    };
    expect(findFailure(launch(1), { seeds: 20 })).toBeUndefined();
    expect(String(findFailure(launch(2), { seeds: 20 })?.error)).toMatch(/unpublishedRead/);
  });
});

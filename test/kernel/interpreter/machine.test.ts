import { describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import { type KernelBuilder, kernel, type Value, withPlaces } from '#src/kernel/builder.js';
import { compileProgram } from '#src/kernel/interpreter/compile.js';
import { explore, findFailure } from '#src/kernel/interpreter/explore.js';
import { MachineFault } from '#src/kernel/interpreter/fault.js';
import { Machine, type MachineOptions } from '#src/kernel/interpreter/machine.js';
import { STRATEGIES } from '#src/kernel/interpreter/scheduler.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import { STATUS, type Traits } from '#src/kernel/ir.js';
import { array, struct } from '#src/kernel/layout.js';
import { channelScenario } from './channel.js';

const Work = struct('Work', { a: 'ptr', b: 'ptr' });
const ONE = interpreterTraits({ threads: 'one' });
const MANY = interpreterTraits({ threads: 'many' });

function program(body: (k: KernelBuilder, a: Value<'ptr'>, b: Value<'ptr'>) => void, traits: Traits = ONE) {
  return withPlaces(() =>
    kernel('test', traits, (k, work) => body(k, k.field(work, Work, 'a'), k.field(work, Work, 'b'))),
  );
}

function regions(machine: Machine): { a: number; b: number; descriptor: number } {
  const a = machine.region('a', 64, 0, { zeroed: true });
  const b = machine.region('b', 64, 0, { zeroed: true });
  return { a, b, descriptor: machine.struct(Work, 0, { a, b }) };
}

describe('a seed', () => {
  const arriving = program((k, a, b) => {
    k.for(k.u32(0), 3, 1, () => {
      const at = k.atomic('add', 'u32', a, 1);
      k.store('u8', b.offset(at), k.load('u32', a, { order: 'relaxed' }));
    });
  });
  /** What four ranks that come to a counter see of it. */
  const arrival = (options: MachineOptions): { order: string; steps: number } => {
    const machine = new Machine(options);
    const { b, descriptor } = regions(machine);
    for (let rank = 0; rank < 4; rank++) machine.launch(arriving, { rank, descriptor });
    const { steps } = machine.run();
    return { order: machine.readArray(b, Uint8Array, 12).join(), steps };
  };

  it('gives the same run again, and other seeds give others', () => {
    for (const memory of ['strong', 'weak'] as const) {
      const runs = Array.from({ length: 40 }, (_, seed) => arrival({ seed, memory }));
      expect(Array.from({ length: 40 }, (_, seed) => arrival({ seed, memory }))).toEqual(runs);
      expect(new Set(runs.map((r) => r.order)).size).toBeGreaterThan(10);
    }
  });

  it('chooses among all strategies, and each can be asked for', () => {
    const chosen = new Set<string>();
    for (let seed = 0; seed < 60; seed++) chosen.add(new Machine({ seed, memory: 'strong' }).strategy);
    expect([...chosen].sort()).toEqual([...STRATEGIES].sort());
    for (const strategy of STRATEGIES) {
      const scenario = channelScenario({});
      explore((options) => scenario({ ...options, strategy }), { seeds: 30 });
      const broken = channelScenario({ giveBack: 'relaxed' });
      expect(findFailure((options) => broken({ ...options, strategy }), { seeds: 30 })).toBeDefined();
    }
  });

  it('keeps its meaning when a trace is kept', () => {
    for (let seed = 0; seed < 20; seed++) {
      expect(arrival({ seed, memory: 'weak', traceLength: 20 })).toEqual(arrival({ seed, memory: 'weak' }));
    }
  });
});

describe('waiting for each other', () => {
  it('is a deadlock whose report names both, their places and what they wait on', () => {
    const p = program((k, a, b) => {
      const me = k.blockIndex;
      const mine = k.select(me.eq(0), a, b);
      const other = k.select(me.eq(0), b, a);
      k.wait(() => k.load('u32', other, { order: 'acquire', offset: 4 }).ne(0));
      k.store('u32', mine, 1, { order: 'release', offset: 4 });
    });
    const failure = findFailure(
      (options) => {
        const machine = new Machine(options);
        machine.launch(p, { rank: 0, descriptor: regions(machine).descriptor, blocks: 2 });
        machine.run();
      },
      { seeds: 5 },
    );
    const fault = failure?.error as MachineFault;
    expect(fault).toBeInstanceOf(MachineFault);
    expect(fault).toBeInstanceOf(TuttiError);
    expect(fault.kind).toBe('deadlock');
    expect(fault.message).toMatch(
      /block 0 thread 0 waits at interpreter\/machine\.test\.ts:\d+:\d+ of test on b\+0x4 = 0/,
    );
    expect(fault.message).toMatch(/block 1 thread 0 waits at .* on a\+0x4 = 0/);
  });

  it('is none as long as somebody can still satisfy the wait', () => {
    const waiter = program((k, a) => {
      k.wait(() => {
        const x = k.load('u32', a, { order: 'acquire' });
        const y = k.load('u32', a, { order: 'acquire', offset: 8 });
        return x.add(y).eq(5);
      });
    });
    const storer = program((k, a) => {
      k.store('u32', a, 1, { order: 'release' });
      k.store('u32', a, 4, { order: 'release', offset: 8 });
    });
    explore(
      (options) => {
        const machine = new Machine(options);
        const { descriptor } = regions(machine);
        machine.launch(waiter, { rank: 0, descriptor });
        machine.launch(waiter, { rank: 1, descriptor });
        machine.launch(storer, { rank: 2, descriptor });
        expect(machine.run().status).toBe('done');
      },
      { seeds: 300 },
    );
  });
});

describe('abort', () => {
  const waiting = program((k, a, b) => {
    k.barrier();
    k.if(k.threadIndex.eq(0), () => k.wait(() => k.load('u32', a, { order: 'acquire' }).eq(1)));
    k.barrier();
    k.store('u32', b.offset(k.threadIndex.mul(4)), 1);
  }, MANY);

  it('ends the waits of its rank, and the threads of the block that wait for those', () => {
    for (const atStep of [0, 3, 1000]) {
      explore(
        (options) => {
          const machine = new Machine(options);
          const { b, descriptor } = regions(machine);
          const launch = machine.launch(waiting, { rank: 2, descriptor, threads: 4 });
          machine.abort(2, { atStep });
          expect(machine.run().status).toBe('aborted');
          expect(launch.statuses).toEqual(Array(4).fill(STATUS.aborted));
          expect(machine.read('u32', b)).toBe(0);
        },
        { seeds: 30 },
      );
    }
  });

  it('of another rank ends nothing here', () => {
    const machine = new Machine({ seed: 1, memory: 'strong' });
    machine.launch(waiting, { rank: 2, descriptor: regions(machine).descriptor, threads: 4 });
    machine.abort(1);
    expect(() => machine.run()).toThrow(/deadlock/);
  });

  it('does not end waits whose condition holds', () => {
    const machine = new Machine({ seed: 1, memory: 'strong' });
    const { a, b, descriptor } = regions(machine);
    machine.write('u32', a, 1);
    machine.launch(waiting, { rank: 2, descriptor, threads: 4 });
    machine.abort(2);
    expect(machine.run().status).toBe('done');
    expect(machine.read('u32', b)).toBe(1);
  });
});

describe('launches', () => {
  const increment = program((k, a) => k.store('u32', a, k.load('u32', a).add(1)));

  it('of one stream run in order and see what the one before stored', () => {
    explore(
      (options) => {
        const machine = new Machine(options);
        const { a, descriptor } = regions(machine);
        const stream = machine.stream(0);
        for (let i = 0; i < 5; i++) stream.launch(increment, { descriptor });
        expect(machine.run().launches).toHaveLength(5);
        expect(machine.read('u32', a)).toBe(5);
      },
      { seeds: 50 },
    );
  });

  it('of different streams, also of one rank, are not ordered', () => {
    const failure = findFailure(
      (options) => {
        const machine = new Machine(options);
        const { descriptor } = regions(machine);
        machine.stream(0).launch(increment, { descriptor });
        machine.stream(0).launch(increment, { descriptor });
        machine.run();
      },
      { seeds: 5 },
    );
    expect((failure!.error as MachineFault).kind).toMatch(/^(race|unpublishedRead)$/);
  });

  it('of a second run see all of the first, and the host may store in between', () => {
    const machine = new Machine({ seed: 3, memory: 'weak' });
    const { a, descriptor } = regions(machine);
    machine.launch(increment, { rank: 0, descriptor });
    machine.run();
    machine.launch(increment, { rank: 1, descriptor });
    machine.run();
    expect(machine.read('u32', a)).toBe(2);
    machine.write('u32', a, 40);
    const flag = program((k, x) =>
      k.store('u32', x, k.load('u32', x, { order: 'acquire' }).add(2), { order: 'release' }),
    );
    machine.launch(flag, { rank: 1, descriptor });
    machine.run();
    expect(machine.read('u32', a)).toBe(42);
  });

  it('end with the statuses that their threads return', () => {
    const p = program((k) => {
      k.if(k.threadIndex.eq(2), () => k.return(17));
      k.if(k.threadIndex.eq(1), () => k.return(k.threadIndex.add(20)));
    }, MANY);
    const machine = new Machine({ seed: 1, memory: 'strong' });
    const launch = machine.launch(p, {
      rank: 0,
      descriptor: regions(machine).descriptor,
      threads: 3,
      blocks: 2,
    });
    expect(machine.run().status).toBe('done');
    expect(launch.statuses).toEqual([0, 21, 17, 0, 21, 17]);
  });

  it('of single-thread programs have one thread', () => {
    const machine = new Machine({ seed: 1, memory: 'strong' });
    expect(() => machine.launch(increment, { rank: 0, descriptor: 0, threads: 2 })).toThrow(/use threads: 1/);
  });
});

describe('control', () => {
  it('endless loops are faults, with and without accesses, under every strategy', () => {
    const spin = program((k, a) => k.loop(() => void k.load('u32', a, { order: 'relaxed' })));
    const think = program((k) => {
      const v = k.variable('u32', 0);
      k.loop(() => v.set(v.value.add(1)));
    });
    for (const strategy of STRATEGIES) {
      for (const p of [spin, think]) {
        const machine = new Machine({ seed: 1, memory: 'strong', maxSteps: 2000, strategy });
        const other = program((k, _, b) => k.store('u32', b, 9));
        const { b, descriptor } = regions(machine);
        machine.launch(p, { rank: 0, descriptor });
        machine.launch(other, { rank: 1, descriptor });
        expect(() => machine.run()).toThrow(/limit .*still running after 2000 steps/);
        expect(() => machine.run()).toThrow(/had a fault/);
        if (strategy !== 'priorities') expect(machine.read('u32', b)).toBe(9);
      }
    }
  });

  it('a lock made of compare and exchange is fair enough under every strategy', () => {
    const p = program((k, a) => {
      k.loop((loop) => k.if(k.compareExchange('u32', a, 0, 1).eq(0), () => loop.break()));
      k.store('u32', a, k.load('u32', a, { offset: 4 }).add(1), { offset: 4 });
      k.store('u32', a, 0, { order: 'release' });
    });
    for (const strategy of STRATEGIES) {
      explore(
        (options) => {
          const machine = new Machine({ ...options, strategy });
          const { a, descriptor } = regions(machine);
          for (let rank = 0; rank < 4; rank++) machine.launch(p, { rank, descriptor });
          machine.run();
          expect(machine.read('u32', a + 4)).toBe(4);
        },
        { seeds: 10 },
      );
    }
  });

  it('break and continue leave the right loop, and step runs on continue', () => {
    const p = program((k, a) => {
      const sum = k.variable('u32', 0);
      k.for(k.u32(0), 10, 1, (i, outer) => {
        k.if(i.eq(7), () => outer.break());
        k.for(k.u32(0), 10, 1, (j, inner) => {
          k.if(j.rem(2).eq(1), () => inner.continue());
          k.if(j.eq(i), () => outer.continue());
          k.if(j.gt(6), () => inner.break());
          sum.set(sum.value.add(j.add(i.mul(100))));
        });
        sum.set(sum.value.add(10000));
      });
      k.store('u32', a, sum.value);
    });
    let expected = 0;
    outer: for (let i = 0; i < 10; i++) {
      if (i === 7) break;
      for (let j = 0; j < 10; j++) {
        if (j % 2 === 1) continue;
        if (j === i) continue outer;
        if (j > 6) break;
        expected += j + i * 100;
      }
      expected += 10000;
    }
    const machine = new Machine({ seed: 1, memory: 'strong' });
    const { a, descriptor } = regions(machine);
    machine.launch(p, { rank: 0, descriptor });
    machine.run();
    expect(machine.read('u32', a)).toBe(expected);
  });

  it('values that live across a loop or leave a branch keep their content', () => {
    const p = program((k, a) => {
      const before = k.load('u32', a).add(5);
      let inside: Value<'u32'> | undefined;
      const total = k.variable('u32', 0);
      k.for(k.u32(0), 4, 1, (i) => {
        const shifted = i.add(before);
        inside = shifted.mul(2);
        total.set(total.value.add(inside).add(shifted));
      });
      const after = before.add(total.value);
      k.store('u32', a, after.add(inside!));
    });
    const machine = new Machine({ seed: 1, memory: 'strong' });
    const { a, descriptor } = regions(machine);
    machine.launch(p, { rank: 0, descriptor });
    machine.run();
    const total = [5, 6, 7, 8].reduce((s, v) => s + 3 * v, 0);
    expect(machine.read('u32', a)).toBe(5 + total + 16);
  });

  it('registers share few locals', () => {
    const p = program((k, a) => {
      let v = k.load('u32', a);
      for (let i = 0; i < 500; i++) v = v.mul(3).add(i);
      k.store('u32', a, v);
    });
    const locals = new Set(compileProgram(p).text.match(/\bn\d+\b/g));
    expect(p.registers).toBeGreaterThan(1000);
    expect(locals.size).toBeLessThan(6);
  });
});

describe('the host side', () => {
  it('writes and reads every memory type', () => {
    const machine = new Machine({ seed: 0, memory: 'strong' });
    const at = machine.region('r', 16, 0);
    const cases = [
      ['i8', -5],
      ['u8', 250],
      ['i16', -300],
      ['u16', 60000],
      ['i32', -7],
      ['u32', 4e9],
      ['f32', 1.5],
      ['f64', Math.PI],
      ['i64', -(1n << 60n)],
      ['u64', (1n << 64n) - 2n],
      ['ptr', 3 * 2 ** 32 + 8],
      ['packet', (1n << 127n) + 3n],
    ] as const;
    for (const [type, value] of cases) {
      machine.write(type, at, value);
      expect(machine.read(type, at)).toBe(value);
    }
    expect(() => machine.write('u32', at + 14, 0)).toThrow(/4 bytes at r\+0xe out of bounds/);
  });

  it('fills structs, arrays included', () => {
    const Many = struct('Many', { flags: array('u32', 3), peer: 'ptr', count: 'u64' });
    const machine = new Machine({ seed: 0, memory: 'strong' });
    const at = machine.struct(Many, 0, { flags: [1, 2, 3], peer: 5 * 2 ** 32, count: 1n << 40n });
    expect([...machine.readArray(at, Uint32Array, 3)]).toEqual([1, 2, 3]);
    expect(machine.read('ptr', at + 16)).toBe(5 * 2 ** 32);
    expect(machine.read('u64', at + 24)).toBe(1n << 40n);
    const fixed = machine.struct(Many, 0, {}, 'fixed', { readOnly: true });
    expect(machine.describe(fixed + 8)).toBe('fixed+0x8');
    const p = kernel('store', ONE, (k, work) => k.store('u32', work, 1));
    machine.launch(p, { rank: 0, descriptor: fixed });
    expect(() => machine.run()).toThrow(/forbidden .*store to fixed\+0x0, which is read-only/);
  });
});

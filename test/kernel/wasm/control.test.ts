/** Control flow, waits and wake-ups of compiled programs. */
import { describe, expect, it } from 'vitest';
import { kernel, type Value, type Variable } from '#src/kernel/builder.js';
import { STATUS, WASM_TRAITS } from '#src/kernel/ir.js';
import { compileWasm, wasmText } from '#src/kernel/wasm/compile.js';
import { instance, sharedMemory } from './instance.js';

const BASE = 1024;

describe('control flow', () => {
  it('takes the side of an if that the condition says', () => {
    const run = instance(
      kernel('p', WASM_TRAITS, (k, base) => {
        const x = k.load('u32', base);
        const result = k.variable('u32', 0);
        k.if(
          x.gt(10),
          () => result.set(1),
          () => k.if(x.gt(5), () => result.set(2)),
        );
        k.store('u32', base, result.value, { offset: 4 });
      }),
    );
    const results = [3, 7, 12].map((x) => {
      run.view.setUint32(BASE, x, true);
      run.entries.p!(BASE, 0, 1);
      return run.view.getUint32(BASE + 4, true);
    });
    expect(results).toEqual([0, 2, 1]);
  });

  it('leaves and continues outer loops from inner ones', () => {
    const run = instance(
      kernel('p', WASM_TRAITS, (k, base) => {
        const seen = k.variable('u32', 0);
        k.for(k.u32(0), 10, 1, (i, outer) => {
          k.for(k.u32(0), 10, 1, (j, inner) => {
            k.if(j.eq(3), () => inner.break());
            k.if(j.eq(1), () => inner.continue());
            k.if(i.eq(2), () => outer.continue());
            k.if(i.eq(5), () => outer.break());
            seen.set(seen.value.mul(3).add(i.mul(10)).add(j));
          });
        });
        k.store('u32', base, seen.value);
      }),
    );
    run.entries.p!(BASE, 0, 1);
    let seen = 0;
    for (const i of [0, 1, 3, 4]) for (const j of [0, 2]) seen = (Math.imul(seen, 3) + 10 * i + j) >>> 0;
    expect(run.view.getUint32(BASE, true)).toBe(seen);
  });

  it('counts addresses and 64-bit numbers', () => {
    const run = instance(
      kernel('p', WASM_TRAITS, (k, base) => {
        const end = base.offset(64);
        k.for(base, end, 16, (at) => k.store('u64', at, at.cast('u64')));
        k.for(k.u64(0xffff_ffff_fffen), 0x1_0000_0000_0002n, 1, (i) =>
          k.atomic('add', 'u64', base, i, { offset: 8 }),
        );
      }),
    );
    run.entries.p!(BASE, 0, 1);
    const word = (at: number) => run.view.getBigUint64(BASE + at, true);
    expect([0, 16, 32, 48].map(word)).toEqual([0n, 16n, 32n, 48n].map((n) => n + BigInt(BASE)));
    const [from, to] = [0xffff_ffff_fffen, 0x1_0000_0000_0002n];
    let sum = 0n;
    for (let i = from; i < to; i++) sum += i;
    expect(word(8)).toBe(BigInt.asUintN(64, sum));
  });

  it('gives the status of the program, 0 at its end', () => {
    const run = instance(
      kernel('p', WASM_TRAITS, (k, base) => {
        const x = k.load('u32', base);
        k.loop(() =>
          k.if(
            x.ge(100),
            () => k.return(x),
            () => k.return(),
          ),
        );
      }),
    );
    run.view.setUint32(BASE, 99, true);
    expect(run.entries.p!(BASE, 0, 1)).toBe(STATUS.done);
    run.view.setUint32(BASE, 123, true);
    expect(run.entries.p!(BASE, 0, 1)).toBe(123);
    expect(instance(kernel('empty', WASM_TRAITS, () => {})).entries.empty!(BASE, 0, 1)).toBe(STATUS.done);
  });

  it('keeps copies of a variable apart from what it becomes', () => {
    const run = instance(
      kernel('p', WASM_TRAITS, (k, base) => {
        const v = k.variable('u32', k.load('u32', base));
        const before = v.value;
        const once = v.value;
        v.set(before.add(1));
        const after = v.value;
        v.set(100);
        k.store('u32', base, once, { offset: 4 });
        k.store('u32', base, before.mul(before), { offset: 8 });
        k.store('u32', base, after.mul(after), { offset: 12 });
        k.store('u32', base, v.value, { offset: 16 });
      }),
    );
    run.view.setUint32(BASE, 6, true);
    run.entries.p!(BASE, 0, 1);
    expect([...new Uint32Array(run.memory.buffer, BASE, 5)]).toEqual([6, 6, 36, 49, 100]);
  });

  it('keeps what was made inside of a loop or an if for what follows it', () => {
    const run = instance(
      kernel('p', WASM_TRAITS, (k, base) => {
        const sum = k.variable('u32', 0);
        k.for(k.u32(0), 4, 1, (i) => {
          let first: Variable<'u32'> | undefined;
          k.if(i.eq(0), () => {
            first = k.variable('u32', i.add(100));
          });
          let found: Value<'u32'> | undefined;
          const at = k.variable('u32', i);
          k.loop((loop) => {
            found = k.load('u32', base.offset(at.value.mul(4)));
            k.if(found.gt(5), () => loop.break());
            at.set(at.value.add(1));
          });
          // Of the first round in every round, and of the last round of the inner loop.
          sum.set(sum.value.add(first!.value).add(found!.mul(found!)));
          // Values that would take the place of those above if these were thought to be dead.
          const square = k.load('u32', base, { offset: 4 });
          k.if(square.gt(0), () => k.store('u32', base, square.mul(square), { offset: 64 }));
        });
        k.store('u32', base, sum.value, { offset: 68 });
      }),
    );
    new Uint32Array(run.memory.buffer, BASE, 8).set([1, 2, 7, 3, 4, 11, 0, 0]);
    run.entries.p!(BASE, 0, 1);
    expect(run.view.getUint32(BASE + 68, true)).toBe(4 * 100 + 3 * 49 + 121);
  });

  it('keeps values of an earlier round for a later one', () => {
    const run = instance(
      kernel('p', WASM_TRAITS, (k, base) => {
        // Two variables that swap roles in every round, and others that live inside a round only.
        const a = k.variable('u64', 1);
        const b = k.variable('u64', 1);
        k.for(k.u32(0), 30, 1, (i) => {
          const local = k.variable('u64', i.cast('u64'));
          const next = a.value.add(b.value);
          local.set(local.value.mul(3));
          a.set(b.value);
          b.set(next);
          k.store('u64', base, local.value, { offset: 8 });
        });
        k.store('u64', base, b.value);
      }),
    );
    run.entries.p!(BASE, 0, 1);
    expect(run.view.getBigUint64(BASE, true)).toBe(2178309n);
    expect(run.view.getBigUint64(BASE + 8, true)).toBe(87n);
  });
});

describe('a wait', () => {
  const waiting = kernel('waiting', WASM_TRAITS, (k, base) => {
    k.sleepOn(k.load('ptr', base, { offset: 8 }));
    const limit = k.load('u32', base);
    k.wait(() => k.load('u32', base, { offset: 4, order: 'acquire' }).ge(limit));
    k.store('u32', base, 77, { offset: 16 });
  });

  it('calls relax after every `spins` polls with the round and the doorbell, and goes on when it holds', () => {
    const calls: [number, number][] = [];
    const run = instance(waiting, {
      spins: 5,
      relax: (round, doorbell) => {
        calls.push([round, doorbell]);
        run.view.setUint32(BASE + 4, round + 1, true);
        return 0;
      },
    });
    run.view.setUint32(BASE, 3, true);
    run.view.setUint32(BASE + 8, 4096, true);
    expect(run.entries.waiting!(BASE, 0, 1)).toBe(STATUS.done);
    expect(calls).toEqual([0, 1, 2].map((round) => [round, 4096]));
    expect(run.view.getUint32(BASE + 16, true)).toBe(77);
  });

  it('that holds at once calls nothing', () => {
    const run = instance(waiting, {
      spins: 1,
      relax: () => {
        throw new Error('not to be called');
      },
    });
    expect(run.entries.waiting!(BASE, 0, 1)).toBe(STATUS.done);
  });

  it('polls `spins` times between two calls', () => {
    const polling = kernel('polling', WASM_TRAITS, (k, base) => {
      // Not a poll that a program may have (it writes), but one that counts.
      k.wait(() => k.atomic('add', 'u32', base, 1).gt(1000));
    });
    const seen: number[] = [];
    const run = instance(polling, {
      spins: 7,
      relax: () => {
        seen.push(run.view.getUint32(BASE, true));
        return seen.length === 3 ? 1 : 0;
      },
    });
    expect(run.entries.polling!(BASE, 0, 1)).toBe(STATUS.aborted);
    expect(seen).toEqual([7, 14, 21]);
  });

  it('ends the program as aborted when relax gives up', () => {
    const run = instance(waiting, { relax: () => 1 });
    run.view.setUint32(BASE, 3, true);
    expect(run.entries.waiting!(BASE, 0, 1)).toBe(STATUS.aborted);
    expect(run.view.getUint32(BASE + 16, true)).toBe(0);
  });

  it('starts again from round 0 each time', () => {
    const rounds: number[] = [];
    const twice = kernel('twice', WASM_TRAITS, (k, base) => {
      k.for(k.u32(0), 2, 1, (i) => {
        k.wait(() => k.load('u32', base, { order: 'relaxed' }).ge(i.add(1).mul(2)));
      });
    });
    const run = instance(twice, {
      spins: 3,
      relax: (round) => {
        rounds.push(round);
        run.view.setUint32(BASE, run.view.getUint32(BASE, true) + 1, true);
        return 0;
      },
    });
    run.entries.twice!(BASE, 0, 1);
    expect(rounds).toEqual([0, 1, 0, 1]);
  });
});

describe('wake', () => {
  const waking = kernel('p', WASM_TRAITS, (k, base) => {
    k.store('u32', base, 1, { order: 'release' });
    k.wake(base.offset(64));
  });

  it('calls the host only when someone sleeps', () => {
    const woken: number[] = [];
    const run = instance(waking, { wake: (doorbell) => woken.push(doorbell) });
    run.entries.p!(BASE, 0, 1);
    expect(woken).toEqual([]);
    run.view.setUint32(BASE + 64, 2, true);
    run.entries.p!(BASE, 0, 1);
    expect(woken).toEqual([BASE + 64]);
  });

  it('looks for sleepers only after a full barrier', () => {
    const order = (text: string) =>
      text
        .split('\n')
        .map((line) => line.trim().split(' ')[0]!)
        .filter((name) => name.includes('atomic'));
    expect(order(wasmText(waking))).toEqual(['i32.atomic.store', 'i32.atomic.load']);
    const plain = kernel('p', WASM_TRAITS, (k, base) => {
      k.store('u64', base, 1, { order: 'relaxed' });
      k.wake(base.offset(64));
    });
    expect(order(wasmText(plain))).toEqual(['atomic.fence', 'i32.atomic.load']);
    const several = kernel('p', WASM_TRAITS, (k, base) => {
      const bells = [64, 128].map((at) => k.load('ptr', base, { offset: at }));
      k.store('u64', base, 1, { order: 'relaxed' });
      for (const bell of bells) k.wake(bell);
      k.store('u64', base, 2, { order: 'relaxed' });
      k.wake(bells[0]!);
    });
    const one = ['atomic.fence', 'i32.atomic.load'];
    expect(order(wasmText(several))).toEqual([...one, 'i32.atomic.load', ...one]);
  });
});

describe('a module', () => {
  const empty = (name: string) => kernel(name, WASM_TRAITS, () => {});

  it('exports one function per program', () => {
    const module = new WebAssembly.Module(compileWasm([empty('one'), empty('two')]));
    expect(WebAssembly.Module.exports(module)).toEqual([
      { name: 'one', kind: 'function' },
      { name: 'two', kind: 'function' },
    ]);
    expect(
      WebAssembly.Module.imports(module).map(({ module: from, name, kind }) => `${from}.${name} ${kind}`),
    ).toEqual(['env.memory memory', 'env.spins global', 'env.relax function', 'env.wake function']);
  });

  it('refuses two programs of one name', () => {
    expect(() => compileWasm([empty('one'), empty('one')])).toThrow(
      'two programs of one module are called one',
    );
  });

  it('accepts the largest memory there is', () => {
    const memory = sharedMemory(1);
    expect(instance(empty('p'), { memory }).entries.p!(0, 0, 1)).toBe(STATUS.done);
  });

  it('encodes constants of every length', () => {
    const values = [0, 1, 63, 64, 127, 128, 8191, 8192, 2 ** 20, 2 ** 27, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];
    const longs = [
      0n,
      63n,
      64n,
      -1n,
      -64n,
      -65n,
      (1n << 34n) - 1n,
      1n << 55n,
      (1n << 63n) - 1n,
      -(1n << 63n),
    ];
    const run = instance(
      kernel('p', WASM_TRAITS, (k, base) => {
        values.forEach((value, i) => {
          k.store('u32', base, value, { offset: 8 * i });
        });
        longs.forEach((value, i) => {
          k.store('i64', base, value, { offset: 256 + 8 * i });
        });
        k.store('f32', base, 0.1, { offset: 512 });
        k.store('f64', base, -0.1, { offset: 520 });
      }),
    );
    run.entries.p!(BASE, 0, 1);
    expect(values.map((_, i) => run.view.getUint32(BASE + 8 * i, true))).toEqual(values);
    expect(longs.map((_, i) => run.view.getBigInt64(BASE + 256 + 8 * i, true))).toEqual(longs);
    expect(run.view.getFloat32(BASE + 512, true)).toBe(Math.fround(0.1));
    expect(run.view.getFloat64(BASE + 520, true)).toBe(-0.1);
  });
});

describe('code quality', () => {
  it('needs no more locals than values live at a time', () => {
    const program = kernel('p', WASM_TRAITS, (k, base) => {
      for (let i = 0; i < 500; i++) {
        const x = k.load('u32', base, { offset: 8 * i });
        const y = x.mul(x);
        k.if(y.gt(7), () => k.store('u32', base, y.add(x), { offset: 8 * i + 4 }));
      }
    });
    const locals = /\(local ([^)]*)\)/.exec(wasmText(program))![1]!.split(' ');
    expect(locals.length).toBeLessThan(6);
  });

  it('makes an accumulation of packets one instruction per operand', () => {
    const program = kernel('p', WASM_TRAITS, (k, base) => {
      const sum = k.reduce('float32', 'sum', k.load('packet', base), k.load('packet', base, { offset: 16 }));
      k.store('packet', base, sum, { offset: 32 });
    });
    const text = wasmText(program);
    const body = text.slice(text.indexOf('(func $p'), text.lastIndexOf('i32.const')).split('\n').slice(1, -1);
    expect(body.map((line) => line.trim())).toEqual([
      'local.get 0',
      'local.get 0',
      'v128.load align=16',
      'local.get 0',
      'v128.load offset=16 align=16',
      'f32x4.add',
      'v128.store offset=32 align=16',
    ]);
  });
});

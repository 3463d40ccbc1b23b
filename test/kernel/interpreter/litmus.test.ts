/** The classic small programs of memory models: which outcomes are possible, and which never happen. */
import { describe, expect, it } from 'vitest';
import { type KernelBuilder, kernel, type Value } from '#src/kernel/builder.js';
import { Machine } from '#src/kernel/interpreter/machine.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import type { Order, Program } from '#src/kernel/ir.js';
import { struct } from '#src/kernel/layout.js';

const Work = struct('Work', { cells: 'ptr', out: 'ptr' });
const TRAITS = interpreterTraits({ threads: 'one' });

interface Litmus {
  store(cell: number, value: number, order: Order): void;
  /** Loads a cell into an output. */
  load(cell: number, out: number, order: Order): void;
  add(cell: number): void;
  k: KernelBuilder;
}

/** Cells lie 64 bytes apart, unless they are given as neighbours. */
function litmus(body: (l: Litmus) => void): Program {
  return kernel('litmus', TRAITS, (k, work) => {
    const cells = k.field(work, Work, 'cells');
    const out = k.field(work, Work, 'out');
    const at = (base: Value<'ptr'>, offset: number) => base.offset(offset);
    body({
      k,
      store: (cell, value, order) => k.store('u32', at(cells, cell * 64), value, { order }),
      load: (cell, to, order) => {
        k.store('u32', at(out, to * 4), k.load('u32', at(cells, cell * 64), { order }));
      },
      add: (cell) => {
        k.atomic('add', 'u32', at(cells, cell * 64), 1);
      },
    });
  });
}

/** All outcomes (outputs joined by commas) over many seeds. */
function outcomes(programs: Program[], outputs: number, memory: 'strong' | 'weak', seeds = 600): Set<string> {
  const found = new Set<string>();
  for (let seed = 0; seed < seeds; seed++) {
    const machine = new Machine({ seed, memory });
    const cells = machine.region('cells', 64 * 4, 0, { zeroed: true });
    const out = machine.region('out', outputs * 4, 0, { zeroed: true });
    const descriptor = machine.struct(Work, 0, { cells, out });
    for (const [rank, program] of programs.entries()) machine.launch(program, { rank, descriptor });
    machine.run();
    found.add(machine.readArray(out, Uint32Array, outputs).join());
  }
  return found;
}

describe('message passing', () => {
  const programs = (store: Order, load: Order) => [
    litmus(({ store: put }) => {
      put(0, 1, 'relaxed');
      put(1, 1, store);
    }),
    litmus(({ load: get }) => {
      get(1, 0, load);
      get(0, 1, 'relaxed');
    }),
  ];

  it('the data is never older than an acquired flag', () => {
    for (const memory of ['strong', 'weak'] as const) {
      const found = outcomes(programs('release', 'acquire'), 2, memory);
      expect([...found].sort()).toEqual(['0,0', '0,1', '1,1']);
    }
  });

  it('without release or without acquire it can be, in weak memory only', () => {
    for (const [store, load] of [
      ['relaxed', 'acquire'],
      ['release', 'relaxed'],
      ['relaxed', 'relaxed'],
    ] as const) {
      expect(outcomes(programs(store, load), 2, 'weak').has('1,0')).toBe(true);
      expect(outcomes(programs(store, load), 2, 'strong').has('1,0')).toBe(false);
    }
  });
});

it('store buffering: both loads may miss the stores, even with fences of both orders, in weak memory', () => {
  const side = (own: number, other: number, out: number) =>
    litmus(({ k, store, load }) => {
      store(own, 1, 'relaxed');
      k.fence('both');
      load(other, out, 'relaxed');
    });
  const programs = [side(0, 1, 0), side(1, 0, 1)];
  expect(outcomes(programs, 2, 'weak').has('0,0')).toBe(true);
  const strong = outcomes(programs, 2, 'strong');
  expect([...strong].sort()).toEqual(['0,1', '1,0', '1,1']);
});

it('coherence: one cell is never seen going back', () => {
  const programs = [
    litmus(({ store }) => {
      store(0, 1, 'relaxed');
      store(0, 2, 'relaxed');
    }),
    litmus(({ load }) => {
      load(0, 0, 'relaxed');
      load(0, 1, 'relaxed');
      load(0, 2, 'relaxed');
    }),
  ];
  const found = outcomes(programs, 3, 'weak');
  for (const outcome of found) {
    const values = outcome.split(',').map(Number);
    expect(values).toEqual([...values].sort());
  }
  expect(found.size).toBeGreaterThan(6);
});

it('a thread always sees its own stores', () => {
  const programs = [
    litmus(({ store, load }) => {
      store(0, 5, 'relaxed');
      load(0, 0, 'relaxed');
      store(0, 6, 'relaxed');
      load(0, 1, 'relaxed');
    }),
  ];
  expect([...outcomes(programs, 2, 'weak', 100)]).toEqual(['5,6']);
});

it('publication is transitive over three ranks', () => {
  const programs = [
    litmus(({ store }) => {
      store(0, 1, 'weak');
      store(1, 1, 'release');
    }),
    litmus(({ k, load, store }) => {
      load(1, 0, 'acquire');
      k.fence('both');
      store(2, 1, 'release');
    }),
    litmus(({ load }) => {
      load(2, 1, 'acquire');
      load(1, 2, 'relaxed');
    }),
  ];
  const found = outcomes(programs, 3, 'weak', 1500);
  expect(found.has('1,1,1')).toBe(true);
  expect(found.has('1,1,0')).toBe(false);
});

it('two readers may see two writers in different orders, in weak memory only', () => {
  const writer = (cell: number) => litmus(({ store }) => store(cell, 1, 'release'));
  const reader = (first: number, second: number, out: number) =>
    litmus(({ load }) => {
      load(first, out, 'acquire');
      load(second, out + 1, 'acquire');
    });
  const programs = [writer(0), writer(1), reader(0, 1, 0), reader(1, 0, 2)];
  expect(outcomes(programs, 4, 'weak', 1500).has('1,0,1,0')).toBe(true);
  expect(outcomes(programs, 4, 'strong', 1500).has('1,0,1,0')).toBe(false);
});

it('atomics lose nothing, and pass on what earlier ones published', () => {
  const adder = litmus(({ add }) => {
    add(0);
    add(0);
  });
  const programs = [
    litmus(({ store, add }) => {
      store(1, 1, 'relaxed');
      add(0);
    }),
    adder,
    litmus(({ k, load }) => {
      load(0, 0, 'acquire');
      load(1, 1, 'relaxed');
      k.fence('acquire');
    }),
    litmus(({ k, add, load }) => {
      add(2);
      k.fence('both');
      load(2, 2, 'relaxed');
    }),
  ];
  const found = outcomes(programs, 3, 'weak', 1500);
  // All three additions were seen: whichever was last, the store before one of them is visible.
  expect(found.has('3,0,1')).toBe(false);
  expect(found.has('3,1,1')).toBe(true);
});

it('a plain store ends what synchronising loads can see of the cell', () => {
  const storing = litmus(({ store }) => {
    store(0, 1, 'relaxed');
    store(0, 2, 'weak');
    store(1, 1, 'release');
    store(0, 3, 'relaxed');
  });
  const waiting = kernel('waiting', TRAITS, (k, work) => {
    const cells = k.field(work, Work, 'cells');
    const out = k.field(work, Work, 'out');
    k.wait(() => k.load('u32', cells, { order: 'acquire', offset: 64 }).eq(1));
    k.store('u32', out, k.load('u32', cells, { order: 'relaxed' }));
  });
  const found = outcomes([storing, waiting], 1, 'weak');
  expect([...found].sort()).toEqual(['2', '3']);
});

/**
 * Faults put into the shipped programs, one kind at a time: the exploration finds each within a few seeds, and the
 * seed shows it again. So a schedule test that passes says something.
 */
import { describe, expect, it } from 'vitest';
import { DirectWork } from '#src/collectives/direct.js';
import { RingChannel } from '#src/collectives/ring-connection.js';
import { kernel } from '#src/kernel/builder.js';
import { explore, findFailure, type Scenario } from '#src/kernel/interpreter/explore.js';
import type { MachineOptions } from '#src/kernel/interpreter/machine.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import type { Program } from '#src/kernel/ir.js';
import { struct } from '#src/kernel/layout.js';
import {
  type Edit,
  factor,
  mutated,
  oneFlag,
  oneMore,
  placesOf,
  plainLines,
  weakerLoad,
  weakerStore,
  withoutBarrier,
  withoutCredit,
  withoutDivision,
  withoutStore,
  withoutWait,
  withoutWaitFor,
  withoutWarpBarrier,
} from './mutate.js';
import { inputsFor, random } from './random-call.js';
import { bufferElements } from './reference.js';
import { type SimulatedCall, simulatedTeam } from './simulated-team.js';

/** Seeds within which every fault must show, each with strong and with weak memory; most show within a few. */
const SEEDS = 40;
const FEW_SEEDS = 6;

const Touch = struct('Touch', { send: 'ptr', recv: 'ptr', sendBytes: 'u64', recvBytes: 'u64' });

/**
 * The user of the buffers: reads and writes all of them as soon as a call is over, as is his right. He leaves every
 * byte as it is, so only the order of accesses can be wrong.
 */
const touch = [1, 4].map((threads) =>
  kernel('user', interpreterTraits({ threads: threads > 1 ? 'many' : 'one' }), (k, work) => {
    for (const [buffer, bytes] of [
      ['send', 'sendBytes'],
      ['recv', 'recvBytes'],
    ] as const) {
      const base = k.field(work, Touch, buffer);
      k.for(k.threadIndex.cast('u64'), k.field(work, Touch, bytes), k.threadCount.cast('u64'), (i) =>
        k.store('u8', base.offset(i), k.load('u8', base.offset(i))),
      );
    }
  }),
);

type Shape = Pick<SimulatedCall, 'algorithm' | 'protocol' | 'collective'>;

const base = { root: 0, op: 'sum' } as const;
/** Odd bytes, so that packets, lines and their ends all occur; several rounds of the slots. */
const CALLS: readonly Pick<SimulatedCall, 'type' | 'op' | 'root' | 'count'>[] = [
  { ...base, type: 'int8', count: 389 },
  { ...base, type: 'int32', count: 101 },
];

const RANKS = 3;

interface Setting {
  readonly shape: Shape;
  readonly threads: number;
  readonly calls?: typeof CALLS;
}

/** Calls of a shape one after the other, each followed by the user; `change` replaces their programs. */
function scenario(
  { shape, threads, calls = CALLS }: Setting,
  change: (program: Program) => Program,
): Scenario {
  const changed = new Map<Program, Program>();
  return (options: MachineOptions) => {
    const team = simulatedTeam(options, {
      ranks: RANKS,
      threads,
      direct: shape.algorithm !== 'Ring',
      mutate: (program) => {
        if (!changed.has(program)) changed.set(program, change(program));
        return changed.get(program)!;
      },
    });
    const streams = Array.from({ length: RANKS }, (_, rank) => team.machine.stream(rank));
    const checks = calls.map((what, i) => {
      const call = { ...shape, ...what };
      const check = team.launch(call, inputsFor(call, RANKS, random(options.seed + 17 * i + 1)), streams);
      const { send, recv } = bufferElements(call.collective, call.count, RANKS);
      const size = call.type === 'int8' ? 1 : 4;
      streams.forEach((stream, rank) => {
        const bytes = { sendBytes: send * size, recvBytes: recv * size };
        const descriptor = team.machine.struct(Touch, rank, { ...team.places[rank]!, ...bytes });
        stream.launch(touch[threads > 1 ? 1 : 0]!, { descriptor, threads });
      });
      return check;
    });
    team.machine.run();
    for (const check of checks) check();
  };
}

/** The program that a setting's first call runs. */
function programOf(setting: Setting): Program {
  let program: Program | undefined;
  const keep = (found: Program) => {
    program ??= found;
    return found;
  };
  scenario(setting, keep)({ seed: 0, memory: 'strong' });
  return program!;
}

/** Whether a fault is found; if so, it must be found again from its seed. */
function isFound(faulty: Scenario, seeds = SEEDS): boolean {
  const failure = findFailure(faulty, { seeds });
  if (failure === undefined) return false;
  const { seed, memory, error } = failure;
  expect(findFailure(faulty, { seeds: 1, from: seed, memory })?.error).toEqual(error);
  return true;
}

function expectFound(faulty: Scenario): void {
  expect(isFound(faulty), `not found in ${SEEDS} seeds`).toBe(true);
}

/** `each`: every single place must be found, but for the given number of them that change nothing. */
type Kind = readonly [name: string, edit: Edit, where: 'each' | 'all', harmless?: number];

function findsAll(setting: Setting, kinds: readonly Kind[]): void {
  it('pass as they are', () => {
    const asItIs = scenario(setting, (program) => program);
    expect(explore(asItIs, { seeds: 5 })).toBe(10);
  });
  for (const [name, edit, where, harmless = 0] of kinds) {
    it(name, () => {
      const places = placesOf(programOf(setting), edit);
      expect(places).toBeGreaterThan(harmless);
      // The few threads are one warp, so that its barriers, which keep lanes of GPUs going, would do for all.
      const alone = (program: Program) =>
        edit === withoutBarrier ? mutated(program, withoutWarpBarrier, 'all') : program;
      const faulty = (place: number | 'all') =>
        scenario(setting, (program) => mutated(alone(program), edit, place));
      if (where === 'all') {
        expectFound(faulty('all'));
        return;
      }
      let missed = Array.from({ length: places }, (_, place) => place);
      for (const seeds of [FEW_SEEDS, SEEDS]) {
        if (missed.length > harmless) missed = missed.filter((place) => !isFound(faulty(place), seeds));
      }
      expect(missed.length, `places ${missed.join()} were not found`).toBeLessThanOrEqual(harmless);
    });
  }
}

const FLAGS: readonly Kind[] = [
  ['a flag stored plainly', weakerStore('weak'), 'each'],
  ['a flag stored without release', weakerStore('relaxed'), 'each'],
  ['a flag that is never stored', withoutStore, 'each'],
  ['a flag loaded plainly', weakerLoad('weak'), 'each'],
  ['a flag loaded without acquire', weakerLoad('relaxed'), 'each'],
  ['a wait left out', withoutWait, 'each'],
];

describe('one-shot programs', () => {
  findsAll({ shape: { algorithm: 'OneShot', collective: 'allReduce' }, threads: 1 }, [
    ...FLAGS,
    ['a limit one element too far', oneMore(DirectWork.fields.limit), 'each'],
  ]);
});

describe('one-shot programs of several threads', () => {
  findsAll({ shape: { algorithm: 'OneShot', collective: 'allReduce' }, threads: 4 }, [
    // The one that ends a round: the next meeting begins with another.
    ['a barrier left out', withoutBarrier, 'each', 1],
  ]);
});

/** Enough that every rank has a share. */
const SHARED: typeof CALLS = [{ ...base, type: 'int8', count: 701 }];

describe('two-shot programs', () => {
  const shape = { algorithm: 'TwoShot', collective: 'allReduce' } as const;
  findsAll({ shape, threads: 1, calls: SHARED }, [
    ...FLAGS,
    ['a count one too large', oneMore(DirectWork.fields.count), 'each'],
    ['shares a packet too short', factor(128n, 112n), 'each'],
  ]);
});

describe('two-shot programs of several threads', () => {
  const shape = { algorithm: 'TwoShot', collective: 'allReduce' } as const;
  findsAll({ shape, threads: 4, calls: SHARED }, [
    // The last: thread 0 alone waits for the others, and the next round or program waits for it.
    ['a barrier left out', withoutBarrier, 'each', 1],
  ]);
});

/** Counters of LL guard lines, which are read whole and in order, so release and acquire add nothing to them. */
const LL_KINDS: readonly Kind[] = [
  ['a counter stored plainly', weakerStore('weak'), 'all'],
  ['a counter loaded plainly', weakerLoad('weak'), 'all'],
  ['lines stored and loaded plainly', plainLines, 'all'],
  ['lines taken by their first flag', oneFlag, 'all'],
  ['no wait for lines', withoutWaitFor('packet'), 'all'],
  ['credit that is never returned', withoutCredit, 'all'],
  ['a count one too large', oneMore(RingChannel.fields.count), 'all'],
];

describe('LL rings that go round', () => {
  findsAll({ shape: { algorithm: 'Ring', protocol: 'LL', collective: 'allReduce' }, threads: 1 }, LL_KINDS);
});

describe('LL pipelines', () => {
  findsAll({ shape: { algorithm: 'Ring', protocol: 'LL', collective: 'broadcast' }, threads: 1 }, [
    ...LL_KINDS,
    // Only a pipeline's root runs far ahead.
    ['no wait for credit', withoutWaitFor('u64'), 'all'],
  ]);
});

describe('LL rings of several threads', () => {
  findsAll({ shape: { algorithm: 'Ring', protocol: 'LL', collective: 'broadcast' }, threads: 4 }, [
    ['all barriers left out', withoutBarrier, 'all'],
  ]);
});

const SIMPLE_KINDS: readonly Kind[] = [
  ['a counter stored plainly', weakerStore('weak'), 'all'],
  ['a counter stored without release', weakerStore('relaxed'), 'all'],
  ['counters that are never stored', withoutStore, 'all'],
  ['a counter loaded plainly', weakerLoad('weak'), 'all'],
  ['a counter loaded without acquire', weakerLoad('relaxed'), 'all'],
  ['a wait left out', withoutWait, 'each'],
  ['credit that is never returned', withoutCredit, 'all'],
  ['a count one too large', oneMore(RingChannel.fields.count), 'all'],
];

describe('Simple rings that go round', () => {
  findsAll(
    { shape: { algorithm: 'Ring', protocol: 'Simple', collective: 'allReduce' }, threads: 1 },
    SIMPLE_KINDS,
  );
});

describe('Simple pipelines', () => {
  findsAll(
    { shape: { algorithm: 'Ring', protocol: 'Simple', collective: 'reduce' }, threads: 1 },
    SIMPLE_KINDS,
  );
});

describe('Simple rings of several threads', () => {
  findsAll({ shape: { algorithm: 'Ring', protocol: 'Simple', collective: 'allReduce' }, threads: 4 }, [
    // The one before the counters are saved, which thread 0 alone has read.
    ['a barrier left out', withoutBarrier, 'each', 1],
  ]);
});

describe('the average of integers', () => {
  it.each(['LL', 'Simple'] as const)(
    'with %s is the sum divided by the ranks, and a division left out is found [C10-07]',
    (protocol) => {
      const calls = [{ type: 'int32', op: 'avg', root: 0, count: 50 } as const];
      for (const collective of ['allReduce', 'reduceScatter', 'reduce'] as const) {
        const setting = { shape: { algorithm: 'Ring', protocol, collective }, threads: 1, calls } as const;
        explore(
          scenario(setting, (program) => program),
          { seeds: 5 },
        );
        const places = placesOf(programOf(setting), withoutDivision);
        expect(places).toBeGreaterThan(0);
        expectFound(scenario(setting, (program) => mutated(program, withoutDivision, 'all')));
      }
    },
  );
});

describe('the credits that Simple skips when it rounds its steps up', () => {
  /** One step of LL on a ring of two, then calls of four steps. */
  const both =
    (change: (program: Program) => Program): Scenario =>
    (options) => {
      const changed = new Map<Program, Program>();
      const team = simulatedTeam(options, {
        ranks: 2,
        mutate: (program, { protocol }) => {
          if (protocol !== 'Simple') return program;
          if (!changed.has(program)) changed.set(program, change(program));
          return changed.get(program)!;
        },
      });
      const streams = [0, 1].map((rank) => team.machine.stream(rank));
      const call = { ...base, type: 'int32', algorithm: 'Ring' } as const;
      const calls: SimulatedCall[] = [
        { ...call, protocol: 'LL', collective: 'allGather', count: 3 },
        { ...call, protocol: 'Simple', collective: 'allReduce', count: 300 },
      ];
      const checks = calls.map((what) =>
        team.launch(what, inputsFor(what, 2, random(options.seed)), streams),
      );
      team.machine.run();
      for (const check of checks) check();
    };

  it('are returned by the receiver, or the ring stands still [C09-27]', () => {
    explore(
      both((program) => program),
      { seeds: 10 },
    );
    // The first credit of the program is that of the rounding.
    const faulty = both((program) => mutated(program, withoutCredit, 0));
    expect(findFailure(faulty, { seeds: SEEDS })?.error).toMatchObject({ kind: 'deadlock' });
    expectFound(faulty);
  });
});

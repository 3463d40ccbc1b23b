/**
 * The low-latency protocols: data and flag travel in one word, no fence. What they need is only that a word
 * (a half of a packet) is seen whole; what they must not assume is that two words are.
 */
import { describe, expect, it } from 'vitest';
import { kernel, withPlaces } from '#src/kernel/builder.js';
import { explore, findFailure } from '#src/kernel/interpreter/explore.js';
import { MachineFault } from '#src/kernel/interpreter/fault.js';
import { Machine, type MachineOptions } from '#src/kernel/interpreter/machine.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import type { Order } from '#src/kernel/ir.js';
import { struct } from '#src/kernel/layout.js';

const Work = struct('Work', { lines: 'ptr', out: 'ptr' });
const TRAITS = interpreterTraits({ threads: 'one' });
const LINES = 3;

/** Lines of 16 bytes: data low, flag, data high, flag; sent twice with flags 1 and 2. */
function lineScenario(checked: 'both' | 'first' | 'second', order: Order): (options: MachineOptions) => void {
  const ROUNDS = 2;
  const [send, receive] = withPlaces(() => [
    kernel('send', TRAITS, (k, work) => {
      const lines = k.field(work, Work, 'lines');
      for (let round = 1; round <= ROUNDS; round++) {
        for (let i = 0; i < LINES; i++) {
          const half = (data: number) => k.u64((BigInt(round) << 32n) + BigInt(data));
          const line = k.packet(half(round * 100 + i), half(round * 100 + i + 50));
          k.store('packet', lines, line, { offset: (round - 1) * LINES * 16 + i * 16, order });
        }
      }
    }),
    kernel('receive', TRAITS, (k, work) => {
      const lines = k.field(work, Work, 'lines');
      const out = k.field(work, Work, 'out');
      for (let round = 1; round <= ROUNDS; round++) {
        for (let i = 0; i < LINES; i++) {
          const offset = (round - 1) * LINES * 16 + i * 16;
          const low = k.variable('u64', 0);
          const high = k.variable('u64', 0);
          k.wait(() => {
            const line = k.load('packet', lines, { offset, order });
            low.set(line.half(0));
            high.set(line.half(1));
            const first = low.value.shr(32).eq(BigInt(round));
            const second = high.value.shr(32).eq(BigInt(round));
            return checked === 'both' ? first.and(second) : checked === 'first' ? first : second;
          });
          const at = ((round - 1) * LINES + i) * 8;
          k.store('u32', out, low.value.cast('u32'), { offset: at });
          k.store('u32', out, high.value.cast('u32'), { offset: at + 4 });
        }
      }
    }),
  ]) as [ReturnType<typeof kernel>, ReturnType<typeof kernel>];
  const expected: number[] = [];
  for (let round = 1; round <= ROUNDS; round++) {
    for (let i = 0; i < LINES; i++) expected.push(round * 100 + i, round * 100 + i + 50);
  }
  return (options) => {
    const machine = new Machine(options);
    const lines = machine.region('lines', LINES * 16 * ROUNDS, 1, { zeroed: true });
    const out = machine.region('out', LINES * 8 * ROUNDS, 1);
    const descriptor = machine.struct(Work, 0, { lines, out });
    machine.launch(send, { rank: 0, descriptor });
    machine.launch(receive, { rank: 1, descriptor });
    machine.run();
    expect([...machine.readArray(out, Uint32Array, expected.length)]).toEqual(expected);
  };
}

describe('lines of data and flags', () => {
  it.each(['volatile', 'relaxed'] as const)('with both flags checked pass, %s', (order) => {
    explore(lineScenario('both', order), { seeds: 500 });
  });

  it.each(['first', 'second'] as const)('with only the %s flag checked are seen torn', (checked) => {
    for (const memory of ['strong', 'weak'] as const) {
      const failure = findFailure(lineScenario(checked, 'volatile'), { seeds: 200, memory });
      expect(failure?.error).toBeInstanceOf(Error);
      expect(failure!.error).not.toBeInstanceOf(MachineFault);
      const again = findFailure(lineScenario(checked, 'volatile'), { seeds: 1, from: failure!.seed, memory });
      expect((again!.error as Error).message).toBe((failure!.error as Error).message);
    }
  });

  it('as plain packets are reported, however many flags are checked', () => {
    const failure = findFailure(lineScenario('both', 'weak'), { seeds: 50 });
    expect(failure).toBeDefined();
    expect((failure!.error as MachineFault).kind).toMatch(/^(unpublishedRead|race)$/);
  });
});

describe('a word of 8 bytes', () => {
  it('is never torn, also when it is polled half by half', () => {
    const send = kernel('send', TRAITS, (k, work) => {
      const lines = k.field(work, Work, 'lines');
      k.for(k.u64(1), 9n, 1n, (i) => {
        k.store('u64', lines, i.shl(32).or(i.mul(3n)), { order: 'relaxed' });
      });
    });
    const receive = kernel('receive', TRAITS, (k, work) => {
      const lines = k.field(work, Work, 'lines');
      const out = k.field(work, Work, 'out');
      const seen = k.variable('u32', 0);
      k.loop((loop) => {
        const word = k.load('u64', lines, { order: 'relaxed' });
        // The high half alone, later, must not be older than the word.
        const high = k.load('u32', lines, { order: 'relaxed', offset: 4 });
        const index = word.shr(32);
        k.if(index.mul(3n).ne(word.and(0xffffffffn)), () => k.return(100));
        k.if(high.cast('u64').lt(index), () => k.return(101));
        k.if(index.cast('u32').lt(seen.value), () => k.return(102));
        seen.set(index.cast('u32'));
        k.if(seen.value.eq(8), () => loop.break());
      });
      k.store('u32', out, seen.value);
    });
    explore(
      (options) => {
        const machine = new Machine(options);
        const lines = machine.region('lines', 8, 0, { zeroed: true });
        const descriptor = machine.struct(Work, 0, { lines, out: machine.region('out', 4, 1) });
        machine.launch(send, { rank: 0, descriptor });
        const launch = machine.launch(receive, { rank: 1, descriptor });
        machine.run();
        expect(launch.statuses).toEqual([0]);
      },
      { seeds: 300 },
    );
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { followRing } from '#src/topology/connect/ring-check.js';
import { upTo } from './machines.js';

/** The next ranks of a ring in this order. */
function nextOf(order: readonly number[]): Int32Array {
  const next = new Int32Array(order.length);
  for (const [i, rank] of order.entries()) next[rank] = order[(i + 1) % order.length]!;
  return next;
}

describe('following a ring', () => {
  it('lists 0..7 from rank 0 if everybody sends to the next number', () => {
    expect([...followRing(nextOf(upTo(8)), 0, 0)]).toEqual(upTo(8));
  });

  it('lists any order, from any start, also of more than 64 ranks [C04-22]', () => {
    const orders = fc
      .integer({ min: 1, max: 300 })
      .chain((count) => fc.shuffledSubarray(upTo(count), { minLength: count }));
    fc.assert(
      fc.property(orders, fc.nat(), (order, start) => {
        const at = start % order.length;
        const expected = [...order.slice(at), ...order.slice(0, at)];
        expect([...followRing(nextOf(order), order[at]!, 3)]).toEqual(expected);
      }),
    );
  });

  it('refuses a ring that does not come back to its start [C04-22]', () => {
    const next = nextOf(upTo(100));
    next[99] = 5;
    const refused = expect.objectContaining({
      code: 'internalError',
      message: 'Error : ring 7 does not loop back to start (5 != 0)',
    });
    expect(() => followRing(next, 0, 7)).toThrow(refused);
  });

  it('refuses a ring that ends, as one that does not come back', () => {
    const next = nextOf(upTo(8));
    next[3] = -1;
    expect(() => followRing(next, 0, 1)).toThrow('ring 1 does not loop back to start (-1 != 0)');
  });

  it('refuses a cycle that is back in time but leaves out ranks: 2 of 8, 35 of 70 [C04-22]', () => {
    for (const count of [8, 70]) {
      const half = upTo(count / 2);
      const next = nextOf(upTo(count));
      next.set(nextOf(half));
      const missing = expect.objectContaining({
        code: 'internalError',
        message: `Error : ring 2 does not contain rank ${count / 2}`,
        rank: count / 2,
      });
      expect(() => followRing(next, 0, 2)).toThrow(missing);
    }
  });
});

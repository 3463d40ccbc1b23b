/** How far a rank may be ahead of others of its thread, against a plain count. */
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LaunchesAhead, MOST_AHEAD } from '#src/communicator/cuda/launches-ahead.js';

/** A launch that finds out that a rank is too far ahead comes at most so many later. */
const LATE = 16;

describe('launches ahead', () => {
  it('are refused when so many wait for another rank, and not before', () => {
    const turn = fc.record({
      own: fc.integer({ min: 1, max: 700 }),
      calls: fc.constantFrom(0, 1, 3),
      other: fc.nat(900),
    });
    let refused = 0;
    fc.assert(
      fc.property(fc.array(turn, { minLength: 1, maxLength: 12 }), fc.integer(), (turns, start) => {
        const ahead = new LaunchesAhead();
        /** Operations that had begun after each launch; numbers of operations wrap. */
        const after: number[] = [];
        let begun = 0;
        let peer = 0;
        /** Launches that the peer has come to. */
        let done = 0;
        for (const { own, calls, other } of turns) {
          for (let k = 0; k < own; k++) {
            while (done < after.length && after[done]! <= peer) done += 1;
            const waiting = after.length - done;
            const behind = ahead.next((start + begun) | 0, () => [undefined, (start + peer) | 0, undefined]);
            const isRight = behind.length === 0 ? waiting < MOST_AHEAD + LATE : waiting >= MOST_AHEAD;
            if (!isRight) expect({ waiting, behind }).toBe('refused in time, and not before');
            if (behind.length > 0) {
              refused += 1;
              break;
            }
            begun += calls;
            after.push(begun);
          }
          peer = Math.min(begun, peer + other);
        }
      }),
      { numRuns: 60 },
    );
    expect(refused).toBeGreaterThan(5);
  });
});

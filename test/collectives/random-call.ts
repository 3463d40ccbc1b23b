/** Random calls of collectives, from numbers of their own: they must not depend on the schedule's. */

import { ELEMENT_TYPES } from '#src/kernel/element-types.js';
import { encode } from '#src/kernel/numeric.js';
import { bufferElements } from './reference.js';
import type { SimulatedCall } from './simulated-team.js';

/** A small generator (xorshift) of numbers from 0 up to 1. */
export function random(seed: number): () => number {
  let state = (seed * 2654435761 + 12345) >>> 0;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 4294967296;
  };
}

export function pick<T>(list: readonly T[], next: () => number): T {
  return list[Math.floor(next() * list.length)]!;
}

/** Values that a type holds exactly and whose sums mean something, for every rank. */
export function inputsFor(
  call: Pick<SimulatedCall, 'collective' | 'count' | 'type'>,
  ranks: number,
  next: () => number,
): bigint[][] {
  const { send } = bufferElements(call.collective, call.count, ranks);
  const { kind } = ELEMENT_TYPES[call.type];
  return Array.from({ length: ranks }, () =>
    Array.from({ length: send }, () => {
      const value = Math.floor(next() * 17) - (kind === 'unsigned' ? 0 : 8);
      return encode(call.type, kind === 'float' ? value / 4 : Math.floor(value));
    }),
  );
}

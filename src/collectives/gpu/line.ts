/**
 * LL lines: 8 bytes of data in 16, each half with the number of its round, so that data and "data is here" travel
 * together and no fence is needed. A reader takes a line when both numbers are right, since the two halves may arrive
 * separately.
 * Source: NCCL 2.30, LL protocol.
 */

import type { KernelBuilder, Value } from '../../kernel/builder.js';

/** The number of a round where it stands in the halves of a line. */
export function flagOf(round: Value<'u32'>): Value<'u64'> {
  return round.cast('u64').shl(32);
}

export function storeLine(
  k: KernelBuilder,
  address: Value<'ptr'>,
  data: Value<'u64'>,
  flag: Value<'u64'>,
  offset = 0,
): void {
  const line = k.packet(data.and(0xffffffffn).or(flag), data.shr(32).or(flag));
  k.store('packet', address, line, { order: 'volatile', offset });
}

/** Where a line is awaited: an address and constant bytes to add. */
export interface LinePlace {
  readonly address: Value<'ptr'>;
  readonly offset?: number;
}

/** Waits until all the lines are those of the round, and returns their data. */
export function awaitLines(
  k: KernelBuilder,
  places: readonly LinePlace[],
  round: Value<'u32'>,
  order: 'volatile' | 'acquire' = 'volatile',
): Value<'u64'>[] {
  if (places.length === 0) return [];
  let lines: Value<'packet'>[] = [];
  k.wait(() => {
    lines = places.map(({ address, offset = 0 }) => k.load('packet', address, { order, offset }));
    return lines
      .flatMap((line) => [line.half(0), line.half(1)].map((half) => half.shr(32).cast('u32').eq(round)))
      .reduce((all, here) => all.and(here));
  });
  return lines.map((line) => line.half(0).and(0xffffffffn).or(line.half(1).shl(32)));
}

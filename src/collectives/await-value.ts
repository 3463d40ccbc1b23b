/** Waiting for a word in memory, and its value. */

import type { KernelBuilder, Value } from '../kernel/builder.js';
import type { ValueType } from '../kernel/ir.js';

/**
 * Reads until the value is as it should be, and returns it. Where blocks take turns at their waits (single-threaded
 * targets), what a poll has read is not kept, so it is read once more: only for words that stay so.
 */
export function awaitValue<T extends ValueType>(
  k: KernelBuilder,
  read: () => Value<T>,
  holds: (value: Value<T>) => Value<'pred'>,
): Value<T> {
  let seen: Value<T> | undefined;
  k.wait(() => {
    seen = read();
    return holds(seen);
  });
  return k.traits.singleThread ? read() : seen!;
}

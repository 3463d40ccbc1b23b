/** Where the threads of a block find their units of its data: unit t + u x threads is the u-th of thread t. */

import type { KernelBuilder, Value } from '../../kernel/builder.js';

export interface ThreadPlace {
  readonly index: Value<'u32'>;
  /** Bytes before it. */
  readonly at: Value<'u32'>;
  /** Its data, a whole unit but at the end; where it has none it is not `active`. */
  readonly bytes: Value<'u32'>;
  readonly active: Value<'pred'>;
  /** All its data can be accessed at once. */
  readonly whole: Value<'pred'>;
}

/** `count` units of `unit` bytes for each thread, of `bytes` bytes of the block; `aligned`: they can be accessed whole. */
export function threadPlaces(
  k: KernelBuilder,
  count: number,
  unit: number,
  bytes: Value<'u32'>,
  aligned: Value<'pred'>,
): ThreadPlace[] {
  return Array.from({ length: count }, (_, u) => {
    const index = u === 0 ? k.threadIndex : k.threadIndex.add(k.threadCount.mul(u));
    const at = index.mul(unit);
    const active = at.lt(bytes);
    const part = bytes.sub(at).min(unit);
    return { index, at, bytes: part, active, whole: active.and(part.eq(unit)).and(aligned) };
  });
}

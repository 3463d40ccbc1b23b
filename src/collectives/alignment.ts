/** Whether memory can be accessed by packets or lines, at run time. */

import type { KernelBuilder, Value } from '../kernel/builder.js';

/** Whether all addresses, of which the low 32 bits are enough, are multiples of `bytes`, a power of two. */
export function areAligned(
  k: KernelBuilder,
  addresses: readonly Value<'u32'>[],
  bytes: number,
): Value<'pred'> {
  const bits = addresses.reduce((all, address) => all.or(address), k.u32(0));
  return bits.and(bytes - 1).eq(0);
}

/**
 * Names of buffers: what a rank tells its peers so that they find its buffer in their own address space.
 *
 * - *plain*: all ranks are in one process and the name is the address itself;
 * - *mapped*: the name is the number of an allocation of the rank and an offset in it. Each rank keeps a table, in its
 *   device memory, of where it has mapped the allocations of all ranks.
 *
 * A buffer that peers cannot reach at all has the name `STAGED`: then all ranks move their data through the stages of
 * their areas.
 */

import type { KernelBuilder, Value } from '../../kernel/builder.js';

/** How ranks name their buffers to each other. */
export type Addressing = 'plain' | 'mapped';

/** The name of a buffer that peers cannot reach. */
export const STAGED = 0xffff_ffff_ffff_ffffn;

/** Allocations of one rank that its peers have mapped at a time. */
export const MAP_SLOTS = 4096;

/** Bits of the offset in a mapped name: 1 TB. */
export const OFFSET_BITS = 40;

/** Bytes of the table of mapped allocations: `address of allocation a of rank r` at 8 x (r x MAP_SLOTS + a). */
export function mapTableBytes(ranks: number): number {
  return ranks * MAP_SLOTS * 8;
}

/** The name of a place in a mapped allocation. */
export function mappedName(allocation: number, offset: number | bigint): bigint {
  return (BigInt(allocation) << BigInt(OFFSET_BITS)) | BigInt(offset);
}

/** Where the named place of a peer lies in the own address space; `maps` loads the address of the table. */
export function resolveName(
  k: KernelBuilder,
  addressing: Addressing,
  name: Value<'u64'>,
  peer: Value<'u32'>,
  maps: () => Value<'ptr'>,
): Value<'ptr'> {
  if (addressing === 'plain') return name.cast('ptr');
  const slot = peer.mul(MAP_SLOTS).cast('u64').add(name.shr(OFFSET_BITS));
  const base = k.load('ptr', maps().offset(slot.mul(8)));
  return base.offset(name.and((1n << BigInt(OFFSET_BITS)) - 1n));
}

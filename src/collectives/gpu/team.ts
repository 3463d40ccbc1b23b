/**
 * The team as a block of a program sees it: who the others are and where their areas lie.
 */

import type { KernelBuilder, Value } from '../../kernel/builder.js';
import { type AreaLayout, type AreaSizes, areaLayout } from './area.js';
import { type GpuWork, gpuWork } from './work.js';

/** Another rank, known at run time. */
export interface Peer {
  readonly rank: Value<'u32'>;
  readonly area: Value<'ptr'>;
  /** How many places it is behind this rank, where that is known when the program is made. */
  readonly distance?: number;
}

export class Team {
  readonly layout: AreaLayout;
  readonly self: Value<'u32'>;
  readonly own: Value<'ptr'>;
  readonly block: Value<'u32'>;
  /** All others, the next rank first, so that ranks do not all talk to the same one at a time. */
  readonly peers: readonly Peer[];

  constructor(
    readonly k: KernelBuilder,
    readonly work: Value<'ptr'>,
    readonly ranks: number,
    /** A struct with the fields `self` and `areas` of GpuWork. */
    readonly fields: { readonly fields: Pick<GpuWork['fields'], 'self' | 'areas'> } = gpuWork(ranks),
    sizes?: AreaSizes,
  ) {
    const layout = fields as unknown as GpuWork;
    this.layout = areaLayout(ranks, sizes);
    this.self = k.field(work, layout, 'self');
    this.own = k.field(work, layout, 'areas', 0);
    this.block = k.blockIndex;
    this.peers = Array.from({ length: ranks - 1 }, (_, i) => {
      const rank = this.after(i + 1);
      return { rank, area: k.field(work, layout, 'areas', i + 1), distance: i + 1 };
    });
  }

  /** The rank so many places behind this one. */
  after(distance: Value<'u32'> | number): Value<'u32'> {
    const { k, ranks } = this;
    if (ranks === 2) return k.u32(1).sub(this.self);
    const sum = this.self.add(distance);
    return k.select(sum.ge(ranks), sum.sub(ranks), sum);
  }

  /** The area of a rank known at run time. */
  areaOf(rank: Value<'u32'>): Value<'ptr'> {
    const { k, ranks, self } = this;
    const distance = k.select(rank.ge(self), rank.sub(self), rank.add(ranks).sub(self));
    return k.field(this.work, this.fields as unknown as GpuWork, 'areas', distance);
  }
}

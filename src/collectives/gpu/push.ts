/**
 * All-reduce of much data where each rank needs all data of few others: warps push hunks of them into the peers' stages,
 * say so, and combine what the same warps of the peers have pushed. Nobody reads over a link, and no block waits for
 * another: on two GPUs a link takes 5 % more in writes alone than in reads and writes at a time.
 *
 * A warp and its counterparts count their steps in the area, for ever. The first step of a launch says that it has begun;
 * each other step moves a hunk through the slot of its parity. Two slots are enough: a peer's step says that it has taken
 * out the step before its own, so whoever has seen step e of all peers may write step e + 1 over step e - 1.
 *
 * Memory that peers cannot reach makes no difference, and every element is combined in rank order, by each rank alone.
 * Source: NCCL 2.30, Simple protocol (slots, steps); warps for themselves, and steps as credits, are our own.
 */

import { type KernelBuilder, kernel, type Value, type Variable } from '../../kernel/builder.js';
import { ELEMENT_TYPES } from '../../kernel/element-types.js';
import type { Program, Traits } from '../../kernel/ir.js';
import { directArithmetic, type Reduction } from '../arithmetic.js';
import { type AreaSizes, PUSH_WARPS, PushState } from './area.js';
import { Team } from './team.js';
import { gpuWork } from './work.js';

export interface PushParameters {
  readonly reduction: Reduction;
  readonly ranks: number;
  /** Threads of a block, whole warps. */
  readonly threads: number;
  /** Packets of a thread in a hunk. */
  readonly unroll: number;
  /** Sizes of the areas; those of GPUs by default. */
  readonly sizes?: AreaSizes;
}

const PACKET = 16;
const WARP = 32;
const ROW = WARP * PACKET;
const SLOTS = 2;

/** Bytes of the stage that a launch needs. */
export function pushStageBytes(ranks: number, blocks: number, threads: number, unroll: number): number {
  return blocks * (threads / WARP) * (ranks - 1) * SLOTS * unroll * ROW;
}

/** Loads and stores a thread's packets of hunks. */
class Hunks {
  constructor(
    readonly k: KernelBuilder,
    readonly unroll: number,
    readonly elementBytes: number,
    readonly bytes: Value<'u64'>,
    readonly aligned: Value<'pred'>,
  ) {}

  variables(): Variable<'packet'>[] {
    const { k } = this;
    return Array.from({ length: this.unroll }, () => k.variable('packet', k.packet(0n, 0n)));
  }

  /** Runs the first where all packets of the hunk at `start` are there, else the second for each that has bytes. */
  #each(
    start: Value<'u64'>,
    at: Value<'u64'>,
    whole: (u: number) => void,
    part: (u: number, bytes: Value<'u32'>) => void,
  ): void {
    const { k, bytes, unroll } = this;
    k.if(
      start
        .add(unroll * ROW)
        .le(bytes)
        .and(this.aligned),
      () => {
        for (let u = 0; u < unroll; u++) whole(u);
      },
      () => {
        for (let u = 0; u < unroll; u++) {
          const here = at.add(u * ROW);
          k.if(here.lt(bytes), () => part(u, bytes.sub(here).min(PACKET).cast('u32')));
        }
      },
    );
  }

  load(from: Value<'ptr'>, start: Value<'u64'>, at: Value<'u64'>, to: readonly Variable<'packet'>[]): void {
    const { k, elementBytes } = this;
    const address = from.offset(at);
    this.#each(
      start,
      at,
      (u) => to[u]!.set(k.load('packet', address, { offset: u * ROW })),
      (u, bytes) => to[u]!.set(k.loadPart(address.offset(u * ROW), bytes, elementBytes)),
    );
  }

  store(to: Value<'ptr'>, start: Value<'u64'>, at: Value<'u64'>, packets: readonly Value<'packet'>[]): void {
    const { k, elementBytes } = this;
    const address = to.offset(at);
    this.#each(
      start,
      at,
      (u) => k.store('packet', address, packets[u]!, { offset: u * ROW }),
      (u, bytes) => k.storePart(address.offset(u * ROW), packets[u]!, bytes, elementBytes),
    );
  }
}

/** The all-reduce by pushes; its descriptor is GpuWork. */
export function pushAllReduce(traits: Traits, parameters: PushParameters): Program {
  const { reduction, ranks, threads, unroll, sizes } = parameters;
  const hunk = unroll * ROW;
  return kernel('push_allReduce', traits, (k, work) => {
    k.awaitLaunch();
    k.releaseLaunch();
    const fields = gpuWork(ranks);
    const team = new Team(k, work, ranks, fields, sizes);
    const { own, self, peers, layout, block } = team;
    const send = k.field(work, fields, 'send');
    const recv = k.field(work, fields, 'recv');
    const bytes = k.field(work, fields, 'bytes');
    const lane = k.threadIndex.and(WARP - 1);
    const warp = k.threadIndex.shr(5);
    const isFirst = lane.eq(0);
    const warps = threads / WARP;
    const distances = peers.map((_, i) => i + 1);
    /** What a warp of `sender`, so many places behind `area`'s owner, has to do with this warp there. */
    const stateOf = (area: Value<'ptr'>, distance: number) =>
      area
        .offset(
          block
            .mul(PUSH_WARPS)
            .add(warp)
            .mul(ranks - 1)
            .add(distance - 1)
            .mul(PushState.size),
        )
        .offset(layout.pushes);
    const mine = block.mul(warps).add(warp);
    const slotsOf = (area: Value<'ptr'>, distance: number) =>
      area
        .offset(
          mine
            .mul(ranks - 1)
            .add(distance - 1)
            .mul(SLOTS * hunk)
            .add(lane.mul(PACKET)),
        )
        .offset(layout.stage);
    const here = distances.map((distance) => ({
      state: stateOf(own, distance),
      slots: slotsOf(own, distance),
    }));
    const there = peers.map(({ area }, i) => ({
      state: stateOf(area, ranks - distances[i]!),
      slots: slotsOf(area, ranks - distances[i]!),
    }));
    const combine = directArithmetic(k, reduction, () => k.field(work, fields, 'argument'));
    const pointers = send.cast('u64').or(recv.cast('u64'));
    const aligned = pointers.and(BigInt(PACKET - 1)).eq(0n);
    const hunks = new Hunks(k, unroll, ELEMENT_TYPES[reduction.type].size, bytes, aligned);

    const step = k.variable('u32', k.field(here[0]!.state, PushState, 'done'));
    /** Tells the peers of one more step. */
    const advance = () => {
      const next = step.value.add(1);
      step.set(next);
      k.warpBarrier();
      k.if(isFirst, () => {
        for (const { state } of there) k.setField(state, PushState, 'arrived', next, { order: 'release' });
      });
    };
    /** Waits for the present step of all peers. */
    const awaitPeers = () => {
      const now = step.value;
      k.wait(() =>
        here
          .map(({ state }) => k.field(state, PushState, 'arrived', 0, { order: 'acquire' }))
          .map((arrived) => arrived.sub(now).bitcast('i32').ge(0))
          .reduce((all, one) => all.and(one)),
      );
    };

    advance();
    const stride = k.blockCount.mul(warps).cast('u64').mul(hunk);
    const start = k.variable('u64', mine.cast('u64').mul(hunk));
    const within = lane.mul(PACKET).cast('u64');
    const ahead = hunks.variables();
    hunks.load(send, start.value, start.value.add(within), ahead);
    awaitPeers();
    // Each warp does as many steps as the first, so that all have the same number in the end.
    k.for(k.u64(0), bytes, stride, () => {
      const now = start.value;
      const packets = ahead.map(({ value }) => value);
      const parity = step.value.add(1).and(1).mul(hunk);
      for (const { slots } of there) {
        const slot = slots.offset(parity);
        packets.forEach((packet, u) => {
          k.store('packet', slot, packet, { offset: u * ROW });
        });
      }
      // The next loads are under way while the stores are waited for.
      const next = now.add(stride);
      start.set(next);
      hunks.load(send, next, next.add(within), ahead);
      advance();
      awaitPeers();
      const rows = here.map(({ slots }) => {
        const slot = slots.offset(parity);
        return packets.map((_, u) => k.load('packet', slot, { offset: u * ROW }));
      });
      const results = packets.map((packet, u) => {
        const contributions = Array.from({ length: ranks }, (_, rank) => {
          // The contribution of a rank is in the slot of its distance, if it is not this one.
          let found = packet;
          distances.forEach((distance, i) => {
            found = k.select(self.eq((rank - distance + ranks) % ranks), rows[i]![u]!, found);
          });
          return found;
        });
        return combine(contributions);
      });
      hunks.store(recv, now, now.add(within), results);
    });
    k.if(isFirst, () => k.setField(here[0]!.state, PushState, 'done', step.value));
  });
}

/**
 * All-reduce of two ranks through their stages: warps push hunks of the data there, say so, and combine what the same
 * warps of the peer have pushed. It takes any buffers: in place, off alignment, out of the peer's reach.
 *
 * A warp and its counterpart count their steps in the area, for ever. Each moves a hunk through the slot of its parity.
 * Two slots are enough: the peer's step says that it has taken out the step before its own, so whoever has seen step e
 * of the peer may write step e + 1 over step e - 1. Ranks must have met before.
 *
 * Source: NCCL 2.30, Simple protocol (slots, steps); warps for themselves, and steps as credits, are our own.
 */

import type { KernelBuilder, Value, Variable } from '../../kernel/builder.js';
import type { DirectArithmetic } from '../arithmetic.js';
import { PUSH_WARPS, PushState } from './area.js';
import type { Team } from './team.js';

export interface StagedPush {
  readonly team: Team;
  readonly send: Value<'ptr'>;
  readonly recv: Value<'ptr'>;
  readonly bytes: Value<'u64'>;
  readonly combine: DirectArithmetic;
  /** Warps of a block, the first ones. */
  readonly warps: number;
  /** Packets of a thread in a hunk. */
  readonly unroll: number;
  readonly elementBytes: number;
}

const PACKET = 16;
const WARP = 32;
const ROW = WARP * PACKET;
const SLOTS = 2;

/** Bytes of the stage that a launch needs. */
export function pushStageBytes(blocks: number, warps: number, unroll: number): number {
  return blocks * warps * SLOTS * unroll * ROW;
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

/** The part of the first `warps` warps of a block. */
export function pushThroughStage(k: KernelBuilder, push: StagedPush): void {
  const { team, send, recv, bytes, combine, unroll, elementBytes, warps } = push;
  const { own, self, layout, block } = team;
  const hunk = unroll * ROW;
  const lane = k.threadIndex.and(WARP - 1);
  const warp = k.threadIndex.shr(5);
  const isFirst = lane.eq(0);
  const mine = block.mul(warps).add(warp);
  const stateIn = (area: Value<'ptr'>) =>
    area.offset(block.mul(PUSH_WARPS).add(warp).mul(PushState.size)).offset(layout.pushes);
  const slotsIn = (area: Value<'ptr'>) =>
    area.offset(mine.mul(SLOTS * hunk).add(lane.mul(PACKET))).offset(layout.stage);
  const [here, there] = [stateIn(own), stateIn(team.peers[0]!.area)];
  const [inbox, outbox] = [slotsIn(own), slotsIn(team.peers[0]!.area)];
  const aligned = send
    .cast('u64')
    .or(recv.cast('u64'))
    .and(BigInt(PACKET - 1))
    .eq(0n);
  const hunks = new Hunks(k, unroll, elementBytes, bytes, aligned);
  const isZero = self.eq(0);

  const step = k.variable('u32', k.field(here, PushState, 'done'));
  const stride = k.blockCount.mul(warps).cast('u64').mul(hunk);
  const start = k.variable('u64', mine.cast('u64').mul(hunk));
  const within = lane.mul(PACKET).cast('u64');
  const ahead = hunks.variables();
  hunks.load(send, start.value, start.value.add(within), ahead);
  // Each warp does as many steps as the first, so that no rank is through before the peer has begun.
  k.for(k.u64(0), bytes, stride, () => {
    const now = start.value;
    const packets = ahead.map(({ value }) => value);
    const count = step.value.add(1);
    const parity = count.and(1).mul(hunk);
    const to = outbox.offset(parity);
    packets.forEach((packet, u) => {
      k.store('packet', to, packet, { offset: u * ROW });
    });
    // The next loads are under way while the stores are waited for.
    const next = now.add(stride);
    start.set(next);
    hunks.load(send, next, next.add(within), ahead);
    step.set(count);
    k.warpBarrier();
    k.if(isFirst, () => k.setField(there, PushState, 'arrived', count, { order: 'release' }));
    k.wait(() =>
      k.field(here, PushState, 'arrived', 0, { order: 'acquire' }).sub(count).bitcast('i32').ge(0),
    );
    const from = inbox.offset(parity);
    const theirs = packets.map((_, u) => k.load('packet', from, { offset: u * ROW }));
    const results = packets.map((packet, u) =>
      combine([k.select(isZero, packet, theirs[u]!), k.select(isZero, theirs[u]!, packet)]),
    );
    hunks.store(recv, now, now.add(within), results);
  });
  k.if(isFirst, () => k.setField(here, PushState, 'done', step.value));
}

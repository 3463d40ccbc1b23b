/**
 * All-reduce of much data between two ranks: each pushes all its data straight into the peer's receive buffer, which is
 * as large, and combines there what has arrived with its own. Nobody reads over the link, which takes 5 % more in
 * writes alone than in reads and writes at a time, and nobody waits for credit.
 *
 * Warps of a block have different work. Half of them push and half combine, each pair a slice of the data: units of a few
 * packets of a thread, dealt out in turns. One more warp tells the peer how far those that push have come: a fence takes
 * as long as what is on its way over the link, and so one warp waits for it on behalf of all, while the others go on.
 * Units are counted in the area, for ever.
 *
 * Blocks of the same number tell each other the names of their receive buffers first, after which these may be written;
 * each rank has all that is pushed to it before it ends, so that they need not meet again. The first units do not wait
 * for that: they go into places of the area for one meeting of two. (Who is in meeting m has seen the peer in m - 1,
 * which has therefore done with what it took in m - 2.) The last units of floats go as Lamport lines, which need neither
 * a fence nor a word to the peer: they fill the link while those before are told of, and who has pushed them combines
 * what the peer has. They take the bank that no round of Lamport programs takes next.
 *
 * Where some rank works in place, or its buffers cannot be reached or are off alignment differently, it says so in place
 * of the name, and all data go through the stages (push.ts).
 *
 * Every element is combined in rank order, by each rank alone. Two ranks only: a receive buffer holds one contribution.
 * Source: NCCL 2.30, Simple protocol (steps, warps with different work); the rest is our own.
 */

import { type KernelBuilder, kernel, type Value, type Variable } from '../../kernel/builder.js';
import { ELEMENT_TYPES } from '../../kernel/element-types.js';
import type { Program, Traits } from '../../kernel/ir.js';
import { directArithmetic, type Reduction } from '../arithmetic.js';
import { type AreaSizes, BlockState, Cell, EXCHANGE_PAIRS, ExchangeState } from './area.js';
import { emptyOf, lineOf, sendableOf } from './lamport-lines.js';
import { awaitLines, flagOf, storeLine } from './line.js';
import { type Addressing, resolveName, STAGED } from './names.js';
import { pushStageBytes, pushThroughStage } from './push.js';
import { Team } from './team.js';
import { gpuWork } from './work.js';

export interface ExchangeParameters {
  readonly reduction: Reduction;
  readonly addressing: Addressing;
  /** Threads of a block: whole warps. */
  readonly threads: number;
  /** Warps of a block that push, and as many that combine; one more tells. The rest is for data through the stage. */
  readonly pairs: number;
  /** Packets of a thread in a unit. */
  readonly unroll: number;
  /** Sizes of the areas; those of GPUs by default. */
  readonly sizes?: AreaSizes;
}

const RANKS = 2;
const PACKET = 16;
const WARP = 32;
const ROW = WARP * PACKET;

/** Warps that the pairs need. */
export function exchangeWarps(pairs: number): number {
  return 2 * pairs + 1;
}

/**
 * Bytes that a launch needs: of the stage, where it cannot do without; of a block, its first units, for two meetings,
 * and its last ones.
 */
export function exchangeBytes(
  blocks: number,
  threads: number,
  pairs: number,
  unroll: number,
): { readonly stage: number; readonly first: number; readonly last: number } {
  const unit = unroll * ROW;
  return {
    stage: pushStageBytes(blocks, threads / WARP - 1, unroll),
    first: 2 * pairs * unit,
    last: pairs * unit,
  };
}

/** Units of a warp: whole ones in packets, those at the ends of the data in parts of them. */
class Units {
  readonly bytes: number;
  readonly #lane: Value<'u64'>;

  constructor(
    readonly k: KernelBuilder,
    readonly unroll: number,
    readonly elementBytes: number,
    /** Where the data begin and end, from the multiple of a packet at or before them. */
    readonly begin: Value<'u64'>,
    readonly end: Value<'u64'>,
  ) {
    this.bytes = unroll * ROW;
    this.#lane = k.threadIndex
      .and(WARP - 1)
      .mul(PACKET)
      .cast('u64');
  }

  variables(): Variable<'packet'>[] {
    const { k } = this;
    return Array.from({ length: this.unroll }, () => k.variable('packet', k.packet(0n, 0n)));
  }

  /** Where the first packet of this lane is in a unit that starts there. */
  laneAt(start: Value<'u64'>): Value<'u64'> {
    return start.add(this.#lane);
  }

  /**
   * Runs the first where all packets of the unit of this warp at `start` are there, else the second for each that has
   * bytes, with the place of the first of them.
   */
  each(
    start: Value<'u64'>,
    whole: () => void,
    part: (u: number, from: Value<'u64'>, bytes: Value<'u32'>) => void,
  ): void {
    const { k, begin, end, unroll } = this;
    const at = this.laneAt(start);
    const isWhole = start.ge(begin).and(start.add(this.bytes).le(end));
    k.if(isWhole, whole, () => {
      for (let u = 0; u < unroll; u++) {
        const packet = at.add(u * ROW);
        k.if(packet.lt(end), () => {
          const from = packet.max(begin);
          part(u, from, end.min(packet.add(PACKET)).sub(from).cast('u32'));
        });
      }
    });
  }

  load(from: Value<'ptr'>, start: Value<'u64'>, to: readonly Variable<'packet'>[]): void {
    const { k, elementBytes } = this;
    const address = from.offset(this.laneAt(start));
    this.each(
      start,
      () => {
        to.forEach((packet, u) => {
          packet.set(k.load('packet', address, { offset: u * ROW }));
        });
      },
      (u, at, bytes) => to[u]!.set(k.loadPart(from.offset(at), bytes, elementBytes)),
    );
  }

  store(to: Value<'ptr'>, start: Value<'u64'>, packets: readonly Value<'packet'>[]): void {
    const { elementBytes, k } = this;
    this.each(
      start,
      () => this.storeWhole(to.offset(start), packets),
      (u, at, bytes) => k.storePart(to.offset(at), packets[u]!, bytes, elementBytes),
    );
  }

  /** Stores all packets of a unit at the place of the unit. */
  storeWhole(to: Value<'ptr'>, packets: readonly Value<'packet'>[]): void {
    const address = to.offset(this.#lane);
    packets.forEach((packet, u) => {
      this.k.store('packet', address, packet, { offset: u * ROW });
    });
  }

  loadWhole(address: Value<'ptr'>): Value<'packet'>[] {
    return Array.from({ length: this.unroll }, (_, u) => this.k.load('packet', address, { offset: u * ROW }));
  }
}

/** The all-reduce of two ranks by an exchange; its descriptor is GpuWork. */
export function exchangeAllReduce(traits: Traits, parameters: ExchangeParameters): Program {
  const { reduction, addressing, threads, pairs, unroll, sizes } = parameters;
  const elementBytes = ELEMENT_TYPES[reduction.type].size;
  const lines = ELEMENT_TYPES[reduction.type].kind === 'float';
  const unit = unroll * ROW;
  /** The last warp tells. */
  const teller = threads / WARP - 1;
  return kernel('exchange_allReduce', traits, (k, work) => {
    k.awaitLaunch();
    k.releaseLaunch();
    const fields = gpuWork(RANKS);
    const team = new Team(k, work, RANKS, fields, sizes);
    const { own, self, layout, block } = team;
    const peer = team.peers[0]!;
    const send = k.field(work, fields, 'send');
    const recv = k.field(work, fields, 'recv');
    const bytes = k.field(work, fields, 'bytes');
    const lane = k.threadIndex.and(WARP - 1);
    const warp = k.threadIndex.shr(5);
    const isFirst = lane.eq(0);
    const pushes = warp.lt(pairs);
    const tells = warp.eq(teller);
    const combine = directArithmetic(k, reduction, () => k.field(work, fields, 'argument'));

    // Lanes of the warp that tells have a pair each.
    const pair = k.select(tells, lane, k.select(pushes, warp, warp.sub(pairs))).min(pairs - 1);
    /** The slice of this warp or lane, out of so many. */
    const mine = block.mul(pairs).add(pair);
    const slices = k.blockCount.mul(pairs);
    const blockState = own.offset(layout.states).offset(block.mul(BlockState.size));
    const base = k.field(blockState, BlockState, 'pushed', pair);
    const stateIn = (area: Value<'ptr'>) =>
      area.offset(block.mul(EXCHANGE_PAIRS).add(pair).mul(ExchangeState.size)).offset(layout.exchanges);
    const here = stateIn(own);
    const there = stateIn(peer.area);

    // Blocks of the same number tell each other where they may push to.
    const cellOf = (area: Value<'ptr'>, writer: Value<'u32'>) =>
      area.offset(block.mul(RANKS).add(writer).mul(Cell.size)).offset(layout.cells);
    const meeting = k.field(blockState, BlockState, 'meeting').add(1);
    const low = (pointer: Value<'ptr'>) => pointer.cast('u64').and(BigInt(PACKET - 1));
    const floor = (pointer: Value<'ptr'>) =>
      pointer
        .cast('u64')
        .and(~BigInt(PACKET - 1))
        .cast('ptr');
    const fits = send.ne(recv).and(low(send).eq(low(recv)));
    const name = k.select(fits, k.field(work, fields, 'recvName'), STAGED);
    const isReady = name.ne(STAGED);
    k.if(tells.and(isFirst), () => {
      // What earlier launches left in the buffer is not to be seen after what the peer pushes.
      k.fence('release');
      storeLine(k, cellOf(peer.area, self), name, flagOf(meeting), Cell.fields.recv.offset);
    });

    const start = mine.cast('u64').mul(unit);
    const stride = slices.cast('u64').mul(unit);
    const units = new Units(k, unroll, elementBytes, low(send), low(send).add(bytes));
    const loaded = units.variables();
    /** Halves of the place of a block are for meetings in turns, whatever their units and pairs. */
    const half = layout.sizes.firstBytes / 2;
    const firstIn = (area: Value<'ptr'>) =>
      area
        .offset(block.mul(2 * half).add(meeting.and(1).mul(half)))
        .offset(pair.mul(unit))
        .offset(layout.first);
    k.if(pushes.and(isReady), () => units.load(floor(send), start, loaded));
    /** What the warps of the block have noted; words of pairs that do not exist now stay as they are. */
    const sumOfPushed = () => {
      const address = k.fieldAddress(blockState, BlockState, 'pushed');
      const words = k.load('packet', address, { order: 'acquire', scope: 'block' });
      return [words.half(0), words.half(1)]
        .map((half) => half.and(0xffffffffn).add(half.shr(32)))
        .reduce((sum, two) => sum.add(two));
    };
    const told = k.variable('u64', 0);
    k.if(tells, () => told.set(sumOfPushed()));
    // Not before the fence ahead of the name, which would wait for it.
    k.barrier();
    k.if(pushes.and(isReady), () => {
      units.storeWhole(
        firstIn(peer.area),
        loaded.map(({ value }) => value),
      );
      units.load(floor(send), start.add(stride), loaded);
    });
    const [toldName] = awaitLines(
      k,
      [{ address: cellOf(own, peer.rank), offset: Cell.fields.recv.offset }],
      meeting,
      'acquire',
    );
    // Names may be told anew only when all threads have read these: the peer's next launch waits for what we push.
    k.barrier();
    k.if(k.threadIndex.eq(0), () => k.setField(blockState, BlockState, 'meeting', meeting));

    const target = k.variable('ptr', recv);
    const isDirect = k.variable('pred', k.bool(false));
    k.if(isReady.and(toldName!.ne(STAGED)), () => {
      const address = resolveName(k, addressing, toldName!, peer.rank, () => k.field(work, fields, 'maps'));
      // The peer's data are as far off alignment as its buffer is: it sees the same of this rank.
      isDirect.set(low(address).eq(low(recv)));
      target.set(floor(address));
    });
    const source = floor(send);
    const result = floor(recv);
    // At least one, though it may be empty: a rank without any might be through before the peer has read its name.
    const all = units.end
      .add(unit - 1)
      .div(unit)
      .cast('u32');
    const count = k.select(all.gt(mine), all.add(slices).sub(mine).sub(1).div(slices), 1);
    /** Units of the slice that are told of. */
    const counted = lines ? count.sub(k.select(count.ge(2), k.u32(1), 0)) : count;
    const last = base.add(counted);
    const isZero = self.eq(0);
    const inOrder = <T extends 'ptr' | 'packet'>(ours: Value<T>, theirs: Value<T>) => [
      k.select(isZero, ours, theirs),
      k.select(isZero, theirs, ours),
    ];

    const pushLines = (at: Value<'u64'>) => {
      const round = k.field(blockState, BlockState, 'round');
      const slotIn = (area: Value<'ptr'>) =>
        area
          .offset(block.mul(2).add(round.and(1)).mul(layout.slotLamportBytes))
          .offset(pair.mul(unit).add(lane.mul(PACKET)))
          .offset(layout.lamport);
      const ours = loaded.map(({ value }) => sendableOf(k, value, elementBytes));
      const volatile = (u: number) => ({ order: 'volatile', offset: u * ROW }) as const;
      const outbox = slotIn(peer.area);
      ours.forEach((packet, u) => {
        k.store('packet', outbox, lineOf(k, packet), volatile(u));
      });
      const inbox = slotIn(own);
      let rows: Value<'packet'>[] = [];
      k.wait(() => {
        rows = ours.map((_, u) => k.load('packet', inbox, volatile(u)));
        return rows
          .flatMap((line) => [line.half(0).ne(0n), line.half(1).ne(0n)])
          .reduce((one, other) => one.and(other));
      });
      for (let u = 0; u < unroll; u++) k.store('packet', inbox, emptyOf(k), volatile(u));
      const results = ours.map((packet, u) => combine(inOrder(packet, lineOf(k, rows[u]!))));
      k.warpBarrier();
      units.store(result, at, results);
    };

    const push = () => {
      const at = k.variable('u64', start.add(stride));
      const note = (number: Value<'u32'>) => {
        k.warpBarrier();
        k.if(isFirst, () => {
          const address = k.fieldAddress(blockState, BlockState, 'pushed', pair);
          k.store('u32', address, number, { order: 'release', scope: 'block' });
        });
      };
      // The first unit is on its way.
      note(base.add(1));
      k.for(k.u32(1), counted, 1, (i) => {
        const now = at.value;
        const next = now.add(stride);
        units.store(
          target.value,
          now,
          loaded.map(({ value }) => value),
        );
        note(base.add(i).add(1));
        units.load(source, next, loaded);
        at.set(next);
      });
      if (lines) k.if(count.ge(2), () => pushLines(at.value));
    };

    const combineArrived = () => {
      const at = k.variable('u64', start);
      const i = k.variable('u32', 0);
      const firstInbox = firstIn(own).offset(lane.mul(PACKET));
      k.while(
        () => i.value.lt(counted),
        () => {
          const before = base.add(i.value);
          let arrived = before;
          k.wait(() => {
            arrived = k.field(here, ExchangeState, 'arrived', 0, { order: 'acquire' });
            return arrived.sub(before).bitcast('i32').gt(0);
          });
          k.warpBarrier();
          const limit = k.shuffle(arrived, 0).sub(base);
          k.while(
            () => i.value.lt(limit),
            () => {
              const now = at.value;
              const index = i.value;
              const offset = units.laneAt(now);
              const isApart = index.eq(0);
              units.each(
                now,
                () => {
                  const theirs = k.select(isApart, firstInbox, result.offset(offset));
                  const rows = inOrder(source.offset(offset), theirs).map((address) =>
                    units.loadWhole(address),
                  );
                  const results = rows[0]!.map((_, u) => combine(rows.map((row) => row[u]!)));
                  units.storeWhole(result.offset(now), results);
                },
                (u, from, size) => {
                  const ours = k.loadPart(source.offset(from), size, elementBytes);
                  const theirs = k.variable('packet', ours);
                  k.if(
                    isApart,
                    () => theirs.set(k.load('packet', firstInbox, { offset: u * ROW })),
                    () => theirs.set(k.loadPart(result.offset(from), size, elementBytes)),
                  );
                  k.storePart(result.offset(from), combine(inOrder(ours, theirs.value)), size, elementBytes);
                },
              );
              at.set(now.add(stride));
              i.set(index.add(1));
            },
          );
        },
      );
    };

    const tell = () => {
      const isPair = lane.lt(pairs);
      k.loop((loop) => {
        const before = told.value;
        let sum = before;
        k.wait(() => {
          sum = sumOfPushed();
          return sum.ne(before);
        });
        k.warpBarrier();
        told.set(k.shuffle(sum, 0));
        const address = k.fieldAddress(blockState, BlockState, 'pushed', pair);
        const pushed = k.load('u32', address, { order: 'acquire', scope: 'block' });
        k.warpBarrier();
        k.fence('release');
        k.if(isPair, () => k.setField(there, ExchangeState, 'arrived', pushed, { order: 'relaxed' }));
        k.if(k.vote('all', pushed.eq(last)), () => loop.break());
      });
    };

    k.if(
      isDirect.value,
      () => k.if(pushes, push, () => k.if(tells, tell, () => k.if(warp.lt(2 * pairs), combineArrived))),
      () => {
        k.if(tells.not(), () =>
          pushThroughStage(k, { team, send, recv, bytes, combine, unroll, elementBytes, warps: teller }),
        );
      },
    );
  });
}

/**
 * Large data: ranks read and write each other's buffers.
 *
 * Blocks of the same number meet, tell each other the names of their buffers (names.ts), move their part, and meet
 * again, so that nobody goes on while a peer still works on its buffers. Every element is combined by one rank, in rank
 * order, and written to all who want it: results are the same bits everywhere, and each link carries every element
 * once in each direction (all-reduce: two-shot).
 *
 * Where some rank's buffer cannot be reached by the others (`STAGED`), all ranks see so when they meet, and move their
 * data piece by piece through the stages of their areas: in, across, out. Each block has its share of the stage.
 *
 * Source: NCCL 2.30's symmetric kernels (RSxLD_AGxST, ST, LD); addresses met on the device are our own.
 */

import { type KernelBuilder, kernel, type Value } from '../../kernel/builder.js';
import { ELEMENT_TYPES } from '../../kernel/element-types.js';
import type { Program, Traits } from '../../kernel/ir.js';
import { directArithmetic, type Reduction } from '../arithmetic.js';
import { type AreaSizes, BlockState, Cell } from './area.js';
import type { Copies, GpuCollective } from './call.js';
import { awaitLines, flagOf, storeLine } from './line.js';
import { type Move, type Movers, moveBytes } from './move.js';
import { type Addressing, resolveName, STAGED } from './names.js';
import { Team } from './team.js';
import { gpuWork } from './work.js';

export interface DirectGpuParameters {
  readonly collective: GpuCollective;
  readonly reduction: Reduction;
  readonly ranks: number;
  readonly addressing: Addressing;
  /** Threads of a block. */
  readonly threads: number;
  /** Packets of each source that a thread has under way. */
  readonly unroll: number;
  /** Who moves copies; see Copies. Default: push. */
  readonly copies?: Copies;
  /** Sizes of the areas; those of GPUs by default. */
  readonly sizes?: AreaSizes;
}

/** Parts of staged pieces are cut at multiples of this: a line of the second-level cache. */
const GRAIN = 128;

/** Which buffers of others a rank accesses. */
interface Uses {
  readonly send: boolean;
  readonly recv: boolean;
}

function usesOf(collective: GpuCollective, copies: Copies): Uses {
  switch (collective) {
    case 'allReduce':
      return { send: true, recv: true };
    case 'reduce':
      return { send: true, recv: copies !== 'pull' };
    case 'broadcast':
      return { send: copies !== 'push', recv: copies !== 'pull' };
    case 'reduceScatter':
    case 'scatter':
      return { send: true, recv: false };
    case 'gather':
      return { send: false, recv: true };
    default:
      return { send: copies === 'pull', recv: copies !== 'pull' };
  }
}

/** Buffers that hold a block per rank. */
function blocksIn(collective: GpuCollective, ranks: number): { send: number; recv: number } {
  const send = collective === 'reduceScatter' || collective === 'allToAll' || collective === 'scatter';
  const recv = collective === 'allGather' || collective === 'allToAll' || collective === 'gather';
  return { send: send ? ranks : 1, recv: recv ? ranks : 1 };
}

/** Where a rank's buffers are in the address space of this rank. */
interface Member {
  readonly send: Value<'ptr'>;
  readonly recv: Value<'ptr'>;
}

/** One movement of the collective: all of it, or a piece. */
interface Piece {
  readonly memberOf: (rank: Value<'u32'>) => Member;
  readonly bytes: Value<'u64'>;
  /** Bytes of the part that each rank computes, of those that are split between ranks. */
  readonly part: Value<'u64'>;
  readonly sendStride: Value<'u64'>;
  readonly recvStride: Value<'u64'>;
}

class DirectBlock {
  readonly team: Team;
  readonly #k: KernelBuilder;
  readonly work: Value<'ptr'>;
  readonly #parameters: DirectGpuParameters;
  readonly #state: Value<'ptr'>;
  readonly #uses: Uses;
  readonly #names = new Map<Value<'u32'>, { send: Value<'u64'>; recv: Value<'u64'> }>();
  /** Number of the meeting that is next to end. */
  readonly meeting;

  constructor(k: KernelBuilder, work: Value<'ptr'>, parameters: DirectGpuParameters) {
    const { ranks, collective, copies = 'push' } = parameters;
    this.#k = k;
    this.work = work;
    this.#parameters = parameters;
    this.#uses = usesOf(collective, copies);
    this.team = new Team(k, work, ranks, gpuWork(ranks), parameters.sizes);
    const { own, layout, block } = this.team;
    this.#state = own.offset(layout.states).offset(block.mul(BlockState.size));
    this.meeting = k.variable('u32', k.field(this.#state, BlockState, 'meeting').add(1));
  }

  field(name: 'send' | 'recv' | 'maps'): Value<'ptr'> {
    return this.#k.field(this.work, gpuWork(this.#parameters.ranks), name);
  }

  number(
    name: 'bytes' | 'share' | 'sendStride' | 'recvStride' | 'argument' | 'sendName' | 'recvName',
  ): Value<'u64'> {
    return this.#k.field(this.work, gpuWork(this.#parameters.ranks), name);
  }

  /** What `writer` tells this block of `reader`, in the reader's area. */
  #cell(area: Value<'ptr'>, writer: Value<'u32'>): Value<'ptr'> {
    const { layout, block, ranks } = this.team;
    return area.offset(block.mul(ranks).add(writer).mul(Cell.size)).offset(layout.cells);
  }

  /** Runs `body` for each peer, in one thread each. */
  #forPeers(body: (rank: Value<'u32'>) => void): void {
    const k = this.#k;
    const { ranks, self } = this.team;
    k.for(k.threadIndex, ranks - 1, k.threadCount, (i) => {
      const sum = self.add(i).add(1);
      body(k.select(sum.ge(ranks), sum.sub(ranks), sum));
    });
  }

  /** Tells the peers the names of this rank's buffers. */
  tellNames(): void {
    const k = this.#k;
    const flag = flagOf(this.meeting.value);
    this.#forPeers((rank) => {
      const cell = this.#cell(this.team.areaOf(rank), this.team.self);
      // What earlier launches left in the buffers is for the peer to see.
      k.fence('release');
      if (this.#uses.send) storeLine(k, cell, this.number('sendName'), flag, Cell.fields.send.offset);
      if (this.#uses.recv) storeLine(k, cell, this.number('recvName'), flag, Cell.fields.recv.offset);
    });
  }

  /** Waits for the names of all ranks; each thread looks for itself, which costs less than a barrier. */
  awaitNames(ranks: readonly Value<'u32'>[]): void {
    const k = this.#k;
    const { own, self } = this.team;
    const fields = [
      ...(this.#uses.send ? [Cell.fields.send.offset] : []),
      ...(this.#uses.recv ? [Cell.fields.recv.offset] : []),
    ];
    const isSelf = ranks.map((rank) => rank.eq(self));
    // Nobody writes a rank's own cell: it looks at another one in its place.
    const cells = ranks.map((rank, i) => this.#cell(own, k.select(isSelf[i]!, this.team.after(1), rank)));
    const places = cells.flatMap((address) => fields.map((offset) => ({ address, offset })));
    const found = this.team.ranks === 1 ? [] : awaitLines(k, places, this.meeting.value, 'acquire');
    const none = k.u64(0);
    ranks.forEach((rank, i) => {
      const mine = found.slice(i * fields.length, (i + 1) * fields.length);
      const pick = (used: boolean, own: () => Value<'u64'>) => {
        if (!used) return none;
        const name = mine.shift();
        return name === undefined ? own() : k.select(isSelf[i]!, own(), name);
      };
      const send = pick(this.#uses.send, () => this.number('sendName'));
      const recv = pick(this.#uses.recv, () => this.number('recvName'));
      this.#names.set(rank, { send, recv });
    });
  }

  anyStaged(): Value<'pred'> {
    const k = this.#k;
    let any = k.bool(false);
    for (const { send, recv } of this.#names.values()) {
      if (this.#uses.send) any = any.or(send.eq(STAGED));
      if (this.#uses.recv) any = any.or(recv.eq(STAGED));
    }
    return any;
  }

  /** The buffers of a rank whose names were awaited. */
  member(rank: Value<'u32'>): Member {
    const k = this.#k;
    const names = this.#names.get(rank)!;
    const isSelf = rank.eq(this.team.self);
    const resolve = (name: Value<'u64'>, own: Value<'ptr'>): Value<'ptr'> => {
      if (this.#parameters.addressing === 'plain') return k.select(isSelf, own, name.cast('ptr'));
      const at = k.variable('ptr', own);
      k.if(isSelf.not(), () => at.set(resolveName(k, 'mapped', name, rank, () => this.field('maps'))));
      return at.value;
    };
    return {
      send: this.#uses.send ? resolve(names.send, this.field('send')) : this.field('send'),
      recv: this.#uses.recv ? resolve(names.recv, this.field('recv')) : this.field('recv'),
    };
  }

  /** All ranks' blocks of this number have come here, and everything before is done for all of them. */
  meet(): void {
    const k = this.#k;
    const { own, self } = this.team;
    k.barrier();
    const now = this.meeting.value;
    const { done } = Cell.fields;
    this.#forPeers((rank) => {
      const there = this.#cell(this.team.areaOf(rank), self);
      k.store('u32', there, now, { offset: done.offset, order: 'release' });
      const here = this.#cell(own, rank);
      k.wait(() =>
        k.load('u32', here, { offset: done.offset, order: 'acquire' }).sub(now).bitcast('i32').ge(0),
      );
    });
  }

  /** Remembers the number of the last meeting. */
  finish(): void {
    const k = this.#k;
    k.if(k.threadIndex.eq(0), () => k.setField(this.#state, BlockState, 'meeting', this.meeting.value));
  }
}

/** The ranks in whose order a collective looks at buffers. */
function ranksInOrder(k: KernelBuilder, team: Team, collective: GpuCollective, root: Value<'u32'>) {
  const turned = (from: Value<'u32'>) =>
    Array.from({ length: team.ranks }, (_, i) => {
      const sum = from.add(i);
      return i === 0 ? from : k.select(sum.ge(team.ranks), sum.sub(team.ranks), sum);
    });
  switch (collective) {
    case 'allReduce':
    case 'reduceScatter':
    case 'reduce':
      return Array.from({ length: team.ranks }, (_, rank) => k.u32(rank));
    case 'broadcast':
      return turned(root);
    default:
      return turned(team.self);
  }
}

/** Blocks out of this many, one copies at the root of a broadcast. */
const COPIERS = 4;

/**
 * Shares the blocks out to several movements, so that all of them go on at a time; where there are too few blocks, all
 * of them do one movement after the other.
 */
function inGroups(
  k: KernelBuilder,
  movers: Movers,
  count: number,
  body: (index: number, group: Movers) => void,
): void {
  const { block, blocks } = movers;
  const apart = blocks.ge(count);
  for (let i = 0; i < count; i++) {
    k.if(apart.not().or(block.rem(count).eq(i)), () => {
      body(i, {
        ...movers,
        block: k.select(apart, block.div(count), block),
        blocks: k.select(apart, blocks.add(count - 1 - i).div(count), blocks),
      });
    });
  }
}

/** The direct program of a collective; its descriptor is GpuWork. */
export function directGpu(traits: Traits, parameters: DirectGpuParameters): Program {
  const { collective, reduction, ranks, threads, unroll, copies = 'push' } = parameters;
  const elementBytes = ELEMENT_TYPES[reduction.type].size;
  return kernel(`direct_${collective}`, traits, (k, work) => {
    k.awaitLaunch();
    const block = new DirectBlock(k, work, parameters);
    const { team } = block;
    const { self } = team;
    const root = k.field(work, gpuWork(ranks), 'root');
    const order = ranksInOrder(k, team, collective, root);
    const reduces = collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
    const combine = reduces ? directArithmetic(k, reduction, () => block.number('argument')) : undefined;
    const selfWide = self.cast('u64');

    const move = (movers: Movers, job: Pick<Move, 'sources' | 'targets' | 'bytes'>) => {
      const one: Move['combine'] = ([packet]) => packet!;
      moveBytes(k, movers, { ...job, elementBytes, combine: combine ?? one });
    };

    /** `source` is the root's input, `recvs` the results, the root's first. */
    const broadcast = (
      movers: Movers,
      { bytes, part }: Piece,
      source: Value<'ptr'>,
      recvs: readonly Value<'ptr'>[],
      mine: Member,
    ) => {
      const isRoot = self.eq(root);
      if (copies === 'push') {
        k.if(isRoot, () => move(movers, { sources: [mine.send], targets: recvs, bytes }));
        return;
      }
      const isApart = isRoot.and(mine.send.ne(mine.recv));
      const keep = (copiers: Movers) => move(copiers, { sources: [mine.send], targets: [mine.recv], bytes });
      if (copies === 'pull' || ranks === 1) {
        k.if(isApart, () => keep(movers));
        k.if(isRoot.not(), () => move(movers, { sources: [source], targets: [mine.recv], bytes }));
        return;
      }
      // Some of the root's blocks copy its own result meanwhile.
      const low = part.mul(selfWide).min(bytes);
      const own = isApart.and(movers.blocks.ge(COPIERS));
      const quarter = (blocks: Value<'u32'>) => blocks.div(COPIERS);
      const isCopier = own.and(movers.block.rem(COPIERS).eq(COPIERS - 1));
      k.if(
        isCopier,
        () => keep({ ...movers, block: quarter(movers.block), blocks: quarter(movers.blocks) }),
        () => {
          const block = k.select(own, movers.block.sub(quarter(movers.block)), movers.block);
          const blocks = k.select(own, movers.blocks.sub(quarter(movers.blocks)), movers.blocks);
          const others = recvs.slice(1).map((recv) => recv.offset(low));
          move(
            { ...movers, block, blocks },
            { sources: [source.offset(low)], targets: others, bytes: part.min(bytes.sub(low)) },
          );
        },
      );
      k.if(isApart.and(own.not()), () => keep(movers));
    };

    const perform = (movers: Movers, piece: Piece) => {
      const { memberOf, bytes, part, sendStride, recvStride } = piece;
      const members = order.map(memberOf);
      const sends = members.map(({ send }) => send);
      const recvs = members.map(({ recv }) => recv);
      const mine = memberOf(self);
      const low = part.mul(selfWide).min(bytes);
      const size = part.min(bytes.sub(low));
      const at = (pointers: readonly Value<'ptr'>[], offset: Value<'u64'>) =>
        pointers.map((pointer) => pointer.offset(offset));
      switch (collective) {
        case 'allReduce':
          move(movers, { sources: at(sends, low), targets: at(recvs, low), bytes: size });
          break;
        case 'reduce': {
          if (copies === 'pull') {
            k.if(self.eq(root), () => move(movers, { sources: sends, targets: [mine.recv], bytes }));
            break;
          }
          let target = recvs[0]!;
          recvs.forEach((recv, rank) => {
            target = k.select(root.eq(rank), recv, target);
          });
          move(movers, { sources: at(sends, low), targets: [target.offset(low)], bytes: size });
          break;
        }
        case 'reduceScatter':
          move(movers, { sources: at(sends, sendStride.mul(selfWide)), targets: [mine.recv], bytes });
          break;
        case 'broadcast':
          broadcast(movers, piece, sends[0]!, recvs, mine);
          break;
        case 'allGather':
          if (copies !== 'pull') {
            move(movers, { sources: [mine.send], targets: at(recvs, recvStride.mul(selfWide)), bytes });
          } else {
            order.forEach((rank, i) => {
              const target = mine.recv.offset(recvStride.mul(rank.cast('u64')));
              const fetch = () => move(movers, { sources: [sends[i]!], targets: [target], bytes });
              // In place, the others are reading this rank's own block.
              if (i > 0) fetch();
              else k.if(sends[0]!.ne(target), fetch);
            });
          }
          break;
        case 'allToAll':
          inGroups(k, movers, ranks, (i, group) => {
            const theirs = order[i]!.cast('u64');
            const [source, target] =
              copies === 'pull'
                ? [sends[i]!.offset(sendStride.mul(selfWide)), mine.recv.offset(recvStride.mul(theirs))]
                : [mine.send.offset(sendStride.mul(theirs)), recvs[i]!.offset(recvStride.mul(selfWide))];
            move(group, { sources: [source], targets: [target], bytes });
          });
          break;
        case 'gather': {
          let target = recvs[0]!;
          order.forEach((rank, i) => {
            target = k.select(rank.eq(root), recvs[i]!, target);
          });
          move(movers, {
            sources: [mine.send],
            targets: [target.offset(recvStride.mul(selfWide))],
            bytes,
          });
          break;
        }
        case 'scatter': {
          let source = sends[0]!;
          order.forEach((rank, i) => {
            source = k.select(rank.eq(root), sends[i]!, source);
          });
          move(movers, {
            sources: [source.offset(sendStride.mul(selfWide))],
            targets: [mine.recv],
            bytes,
          });
          break;
        }
        case 'barrier':
          break;
      }
    };

    block.tellNames();
    block.awaitNames(order);
    k.if(
      block.anyStaged(),
      () => staged(k, block, parameters, perform),
      () => {
        const own: Member = { send: block.field('send'), recv: block.field('recv') };
        const movers = { threads, unroll, block: team.block, blocks: k.blockCount };
        perform(movers, {
          memberOf: (rank) => (rank === self ? own : block.member(rank)),
          bytes: block.number('bytes'),
          part: block.number('share'),
          sendStride: block.number('sendStride'),
          recvStride: block.number('recvStride'),
        });
        k.releaseLaunch();
        block.meet();
      },
    );
    block.finish();
  });
}

/** Moves the data of this block piece by piece through the stages. */
function staged(
  k: KernelBuilder,
  block: DirectBlock,
  { collective, reduction, ranks, threads }: DirectGpuParameters,
  perform: (movers: Movers, piece: Piece) => void,
): void {
  const { team } = block;
  const elementBytes = ELEMENT_TYPES[reduction.type].size;
  const { send: sendBlocks, recv: recvBlocks } = blocksIn(collective, ranks);
  const { layout, self } = team;
  const grains = k.u32(layout.sizes.stageBytes / GRAIN).div(k.blockCount.mul(sendBlocks + recvBlocks));
  const piece = grains.mul(GRAIN).cast('u64');
  const stageOf = (area: Value<'ptr'>): Member => {
    const start = piece.mul(sendBlocks + recvBlocks).mul(team.block.cast('u64'));
    const send = area.offset(start).offset(layout.stage);
    return { send, recv: send.offset(piece.mul(sendBlocks)) };
  };
  const own = stageOf(team.own);
  const bytes = block.number('bytes');
  const blocks = k.blockCount.cast('u64');
  const share = bytes.add(blocks.mul(GRAIN).sub(1)).div(blocks.mul(GRAIN)).mul(GRAIN);
  const low = share.mul(team.block.cast('u64')).min(bytes);
  const high = low.add(share).min(bytes);
  const movers = { threads, unroll: 1, block: k.u32(0), blocks: k.u32(1) };
  const copy = (to: Value<'ptr'>, from: Value<'ptr'>, size: Value<'u64'>) => {
    moveBytes(k, movers, {
      sources: [from],
      targets: [to],
      bytes: size,
      elementBytes,
      combine: ([packet]) => packet!,
    });
  };
  const next = () => block.meeting.set(block.meeting.value.add(1));
  // What a rank has that nobody asked for is moved as well, or not read at all where it may not exist.
  const root = k.field(block.work, gpuWork(ranks), 'root');
  const isRoot = self.eq(root);
  const hasInput = collective === 'broadcast' || collective === 'scatter' ? isRoot : k.bool(true);
  const hasResult = collective === 'reduce' || collective === 'gather' ? isRoot : k.bool(true);
  k.for(low, high, piece, (at) => {
    const size = piece.min(high.sub(at));
    k.if(hasInput, () => {
      for (let i = 0; i < sendBlocks; i++) {
        const from = block.field('send').offset(block.number('sendStride').mul(i)).offset(at);
        copy(own.send.offset(piece.mul(i)), from, size);
      }
    });
    block.meet();
    k.barrier();
    next();
    perform(movers, {
      memberOf: (rank) => (rank === self ? own : stageOf(team.areaOf(rank))),
      bytes: size,
      part: size
        .add(ranks * GRAIN - 1)
        .div(ranks * GRAIN)
        .mul(GRAIN),
      sendStride: piece,
      recvStride: piece,
    });
    block.meet();
    k.barrier();
    next();
    k.if(hasResult, () => {
      for (let i = 0; i < recvBlocks; i++) {
        const to = block.field('recv').offset(block.number('recvStride').mul(i)).offset(at);
        copy(to, own.recv.offset(piece.mul(i)), size);
      }
    });
  });
  // Names may be told anew only when all have read these.
  k.if(low.ge(high), () => block.meet());
}

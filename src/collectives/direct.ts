/**
 * Direct collectives: ranks of one host read each other's memory.
 *
 * - *One-shot*: every rank publishes its contribution inside its post; everybody reads all posts and
 *   computes alone. One meeting, no second barrier, the user's buffer is free at once. Best for small data.
 * - *Two-shot*: ranks publish where their buffers are; each rank computes its share of the result from all
 *   contributions and writes it where it belongs (all-reduce: to everybody), then a closing barrier. Every
 *   element is read and written once per rank: bandwidth-optimal on shared memory.
 *
 * All contributions of an element meet in one place and are combined in rank order, so every rank ends with
 * the same bits whatever the timing. Meetings are described in control-block.ts.
 *
 * Buffers that peers cannot reach (ordinary arrays of a process) are moved through staging in pieces of an
 * agreed size: a rank that stages says so in its first post, and then all ranks go piece by piece. Only the last
 * piece has a closing barrier; a rank that stages alternates between two staging buffers, and takes a piece's
 * result out when the meeting of the next piece has shown that everybody is done with it.
 *
 * Source: NCCL 2.30's symmetric kernels (AGxLL, RSxLD_AGxST, ST, LD), recast for memory that is coherent.
 */

import { type KernelBuilder, kernel, type Value } from '../kernel/builder.js';
import { ELEMENT_TYPES } from '../kernel/element-types.js';
import type { Program, Traits } from '../kernel/ir.js';
import { struct } from '../kernel/layout.js';
import { directArithmetic, type Reduction } from './arithmetic.js';
import { BANK_STRIDE, type Collective, ControlBlock, PeerTable, POST_DATA, Post } from './control-block.js';
import { blockCopy, reduceCopy } from './reduce-copy.js';

/** Status of a program that met a peer whose post disagrees; `faultRank` of the control block names it. */
export const STATUS_MISMATCH = 16;

/** Shares of a two-shot are cut at multiples of this, bytes: a pair of cache lines, so that no line is shared. */
const SHARE_GRAIN = 128;

export const DirectWork = struct('DirectWork', {
  /** PeerTable of the communicator and this rank's own control block. */
  peers: 'ptr',
  control: 'ptr',
  self: 'u32',
  root: 'u32',
  signature: 'u32',
  staged: 'u32',
  /** Elements as the API counts them: per rank for all-gather and reduce-scatter, in all otherwise. */
  count: 'u64',
  /** This call does the elements from `start` up to `limit`, in pieces of `piece`. */
  start: 'u64',
  limit: 'u64',
  piece: 'u64',
  /** The element that the buffer addresses stand for: 0, or `start` for staging buffers. */
  origin: 'u64',
  send: 'ptr',
  recv: 'ptr',
  /** Bytes from one rank's block to the next in buffers that hold a block per rank. */
  sendStride: 'u64',
  recvStride: 'u64',
  /** Scalar of an average, see ArgumentRule. */
  argument: 'u64',
});

export interface DirectParameters {
  readonly collective: Collective;
  readonly reduction: Reduction;
  readonly ranks: number;
}

/** What all direct programs do: meet, agree, part. */
class Meeting {
  readonly control: Value<'ptr'>;
  readonly #peers: Value<'ptr'>;
  readonly #controls: Value<'ptr'>[];
  #epoch: Value<'u32'>;
  #bank: Value<'u64'>;

  constructor(
    readonly k: KernelBuilder,
    readonly work: Value<'ptr'>,
    readonly ranks: number,
  ) {
    this.#peers = k.field(work, DirectWork, 'peers');
    this.control = k.field(work, DirectWork, 'control');
    this.#controls = Array.from({ length: ranks }, (_, rank) =>
      k.field(this.#peers, PeerTable, 'control', rank),
    );
    this.#epoch = k.u32(0);
    this.#bank = k.u64(0);
    k.sleepOn(this.control);
  }

  /** Starts a round: takes the next epoch and gives the address of this rank's post. */
  open(): Value<'ptr'> {
    const { k } = this;
    this.#epoch = k.field(this.control, ControlBlock, 'epoch').add(1);
    this.#bank = this.#epoch.and(1).mul(BANK_STRIDE).cast('u64').add(ControlBlock.fields.bank0.offset);
    return this.control.offset(this.#bank);
  }

  /** Publishes the post and waits for those of all ranks; ends the program when one disagrees. */
  meet(post: Value<'ptr'>, signature: Value<'u32'>, count: Value<'u64'>): void {
    const { k } = this;
    const first = k.threadIndex.eq(0);
    k.barrier();
    k.if(first, () => {
      k.setField(post, Post, 'signature', signature);
      k.setField(post, Post, 'count', count);
      k.setField(this.control, ControlBlock, 'epoch', this.#epoch);
      k.setField(post, Post, 'epoch', this.#epoch, { order: 'release' });
      for (const control of this.#controls) k.wake(control);
    });
    for (let rank = 0; rank < this.ranks; rank++) {
      const peer = this.post(rank);
      k.if(first, () => {
        k.wait(() => k.field(peer, Post, 'epoch', 0, { order: 'acquire' }).eq(this.#epoch));
      });
      k.barrier();
      const agrees = k
        .field(peer, Post, 'signature')
        .eq(signature)
        .and(k.field(peer, Post, 'count').eq(count));
      k.if(agrees.not(), () => {
        k.if(first, () => k.setField(this.control, ControlBlock, 'faultRank', rank));
        k.return(STATUS_MISMATCH);
      });
    }
  }

  /** Closing barrier: nobody reads or writes foreign buffers of this round any more. */
  part(): void {
    const { k } = this;
    k.barrier();
    k.if(k.threadIndex.eq(0), () => {
      k.setField(this.control, ControlBlock, 'done', this.#epoch, { order: 'release' });
      for (const control of this.#controls) k.wake(control);
      for (const control of this.#controls) {
        k.wait(() =>
          k
            .field(control, ControlBlock, 'done', 0, { order: 'acquire' })
            .sub(this.#epoch)
            .bitcast('i32')
            .ge(0),
        );
      }
    });
    k.barrier();
  }

  /** The post of a rank in the present round. */
  post(rank: number): Value<'ptr'> {
    return this.#controls[rank]!.offset(this.#bank);
  }

  /** The post of a rank known at run time. */
  postOf(rank: Value<'u32'>): Value<'ptr'> {
    return this.k.field(this.#peers, PeerTable, 'control', rank).offset(this.#bank);
  }

  segmentOf(rank: Value<'u32'> | number): Value<'ptr'> {
    return this.k.field(this.#peers, PeerTable, 'segment', rank);
  }
}

/** Part `index` of `parts` of a range, cut at multiples of a grain: [low, high). */
function share(
  bytes: Value<'u64'>,
  index: Value<'u64'>,
  parts: number,
): { low: Value<'u64'>; size: Value<'u64'> } {
  const grains = bytes.add(BigInt(parts * SHARE_GRAIN - 1)).div(BigInt(parts * SHARE_GRAIN));
  const per = grains.mul(SHARE_GRAIN);
  const low = index.mul(per).min(bytes);
  return { low, size: per.min(bytes.sub(low)) };
}

/** Small data, inside the posts. */
export function oneShot(traits: Traits, { collective, reduction, ranks }: DirectParameters): Program {
  const size = ELEMENT_TYPES[reduction.type].size;
  return kernel(`one_shot_${collective}`, traits, (k, work) => {
    // One block does it all: the data are too small to share.
    k.if(k.blockIndex.ne(0), () => k.return());
    const meeting = new Meeting(k, work, ranks);
    const signature = k.field(work, DirectWork, 'signature');
    const count = k.field(work, DirectWork, 'count');
    if (collective === 'barrier') {
      meeting.meet(meeting.open(), signature, count);
      return;
    }
    const self = k.field(work, DirectWork, 'self');
    const root = k.field(work, DirectWork, 'root');
    const origin = k.field(work, DirectWork, 'origin');
    const piece = k.field(work, DirectWork, 'piece');
    const limit = k.field(work, DirectWork, 'limit');
    const send = k.field(work, DirectWork, 'send');
    const recv = k.field(work, DirectWork, 'recv');
    const argument = () => k.field(work, DirectWork, 'argument');
    const reduces = collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
    const combine = reduces ? directArithmetic(k, reduction, argument) : undefined;
    const start = k.variable('u64', k.field(work, DirectWork, 'start'));

    // At least one round even for nothing at all, so that every call meets the others' calls.
    k.loop((loop) => {
      const from = start.value;
      const bytes = piece.min(limit.sub(from)).mul(size);
      const at = from.sub(origin).mul(size);
      const post = meeting.open();
      const own = post.offset(POST_DATA);
      if (collective === 'reduceScatter' || collective === 'allToAll') {
        const stride = k.field(work, DirectWork, 'sendStride');
        for (let rank = 0; rank < ranks; rank++) {
          const block = send.offset(at).offset(stride.mul(rank));
          blockCopyInto(k, own.offset(bytes.mul(rank)), block, bytes, size);
        }
      } else if (collective === 'broadcast') {
        k.if(self.eq(root), () => blockCopyInto(k, own, send.offset(at), bytes, size));
      } else {
        blockCopyInto(k, own, send.offset(at), bytes, size);
      }
      meeting.meet(post, signature, count);

      const data = (rank: number) => meeting.post(rank).offset(POST_DATA);
      const target = recv.offset(at);
      const all = Array.from({ length: ranks }, (_, rank) => rank);
      switch (collective) {
        case 'allReduce':
          reduceCopy(k, {
            sources: all.map(data),
            targets: [target],
            bytes,
            elementBytes: size,
            combine: combine!,
          });
          break;
        case 'reduce':
          k.if(self.eq(root), () =>
            reduceCopy(k, {
              sources: all.map(data),
              targets: [target],
              bytes,
              elementBytes: size,
              combine: combine!,
            }),
          );
          break;
        case 'reduceScatter': {
          const mine = bytes.mul(self.cast('u64'));
          reduceCopy(k, {
            sources: all.map((rank) => data(rank).offset(mine)),
            targets: [target],
            bytes,
            elementBytes: size,
            combine: combine!,
          });
          break;
        }
        case 'allToAll': {
          const mine = bytes.mul(self.cast('u64'));
          const stride = k.field(work, DirectWork, 'recvStride');
          for (const rank of all) {
            blockCopyInto(k, target.offset(stride.mul(rank)), data(rank).offset(mine), bytes, size);
          }
          break;
        }
        case 'broadcast': {
          const source = meeting.postOf(root).offset(POST_DATA);
          blockCopyInto(k, target, source, bytes, size);
          break;
        }
        case 'allGather': {
          const stride = k.field(work, DirectWork, 'recvStride');
          for (const rank of all) blockCopyInto(k, target.offset(stride.mul(rank)), data(rank), bytes, size);
          break;
        }
      }
      k.barrier();
      start.set(from.add(piece));
      k.if(start.value.ge(limit), () => loop.break());
    });
  });
}

/** Small copies inside one-shot programs: packets of our own, since a call out costs more than the copy. */
function blockCopyInto(
  k: KernelBuilder,
  to: Value<'ptr'>,
  from: Value<'ptr'>,
  bytes: Value<'u64'>,
  elementBytes: number,
): void {
  reduceCopy(k, { sources: [from], targets: [to], bytes, elementBytes, combine: ([packet]) => packet! });
}

/** Large data, straight between the ranks' buffers. */
export function twoShot(traits: Traits, { collective, reduction, ranks }: DirectParameters): Program {
  const size = ELEMENT_TYPES[reduction.type].size;
  return kernel(`two_shot_${collective}`, traits, (k, work) => {
    const meeting = new Meeting(k, work, ranks);
    const signature = k.field(work, DirectWork, 'signature');
    const count = k.field(work, DirectWork, 'count');
    const self = k.field(work, DirectWork, 'self');
    const root = k.field(work, DirectWork, 'root');
    const staged = k.field(work, DirectWork, 'staged');
    const origin = k.field(work, DirectWork, 'origin');
    const limit = k.field(work, DirectWork, 'limit');
    const send = k.field(work, DirectWork, 'send');
    const recv = k.field(work, DirectWork, 'recv');
    const sendStride = k.field(work, DirectWork, 'sendStride');
    const recvStride = k.field(work, DirectWork, 'recvStride');
    const segment = meeting.segmentOf(self).cast('u64');
    const argument = () => k.field(work, DirectWork, 'argument');
    const reduces = collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
    const combine = reduces ? directArithmetic(k, reduction, argument) : undefined;
    const all = Array.from({ length: ranks }, (_, rank) => rank);
    const selfWide = self.cast('u64');

    const start = k.variable('u64', k.field(work, DirectWork, 'start'));
    k.loop((loop) => {
      const from = start.value;
      const at = from.sub(origin).mul(size);
      const ownSend = send.offset(at);
      const ownRecv = recv.offset(at);
      const post = meeting.open();
      k.if(k.threadIndex.eq(0), () => {
        k.setField(post, Post, 'send', ownSend.cast('u64').sub(segment));
        k.setField(post, Post, 'recv', ownRecv.cast('u64').sub(segment));
        k.setField(post, Post, 'sendStride', sendStride);
        k.setField(post, Post, 'recvStride', recvStride);
        k.setField(post, Post, 'staged', staged);
      });
      meeting.meet(post, signature, count);

      // When anybody stages, everybody goes by pieces; otherwise one piece is all.
      let anyStaged = k.u32(0);
      for (const rank of all) anyStaged = anyStaged.or(k.field(meeting.post(rank), Post, 'staged'));
      const whole = count.sub(from);
      const piece = k.select(anyStaged.ne(0), k.field(work, DirectWork, 'piece').min(whole), whole);
      const bytes = piece.mul(size);
      const sendOf = (rank: number) =>
        meeting.segmentOf(rank).offset(k.field(meeting.post(rank), Post, 'send'));
      const recvOf = (rank: number) =>
        meeting.segmentOf(rank).offset(k.field(meeting.post(rank), Post, 'recv'));

      switch (collective) {
        case 'allReduce': {
          const { low, size: part } = share(bytes, selfWide, ranks);
          reduceCopy(k, {
            sources: all.map((rank) => sendOf(rank).offset(low)),
            targets: all.map((rank) => recvOf(rank).offset(low)),
            bytes: part,
            elementBytes: size,
            combine: combine!,
          });
          break;
        }
        case 'reduce': {
          const { low, size: part } = share(bytes, selfWide, ranks);
          const rootRecv = k.field(meeting.postOf(root), Post, 'recv');
          reduceCopy(k, {
            sources: all.map((rank) => sendOf(rank).offset(low)),
            targets: [meeting.segmentOf(root).offset(rootRecv).offset(low)],
            bytes: part,
            elementBytes: size,
            combine: combine!,
          });
          break;
        }
        case 'reduceScatter':
          reduceCopy(k, {
            sources: all.map((rank) => {
              const stride = k.field(meeting.post(rank), Post, 'sendStride');
              return sendOf(rank).offset(stride.mul(selfWide));
            }),
            targets: [ownRecv],
            bytes,
            elementBytes: size,
            combine: combine!,
          });
          break;
        case 'broadcast': {
          const source = meeting.segmentOf(root).offset(k.field(meeting.postOf(root), Post, 'send'));
          k.if(source.ne(ownRecv), () => blockCopy(k, ownRecv, source, bytes, size));
          break;
        }
        case 'allGather':
          // Start with the own block, so that the ranks read from different places at a time.
          k.for(k.u32(0), ranks, 1, (j) => {
            const rank = self.add(j).rem(ranks);
            const source = meeting.segmentOf(rank).offset(k.field(meeting.postOf(rank), Post, 'send'));
            const target = ownRecv.offset(recvStride.mul(rank.cast('u64')));
            k.if(source.ne(target), () => blockCopy(k, target, source, bytes, size));
          });
          break;
        case 'allToAll':
          // Start with the own block, as above.
          k.for(k.u32(0), ranks, 1, (j) => {
            const rank = self.add(j).rem(ranks);
            const post = meeting.postOf(rank);
            const source = meeting
              .segmentOf(rank)
              .offset(k.field(post, Post, 'send'))
              .offset(k.field(post, Post, 'sendStride').mul(selfWide));
            blockCopy(k, ownRecv.offset(recvStride.mul(rank.cast('u64'))), source, bytes, size);
          });
          break;
        case 'barrier':
          break;
      }
      // Between pieces the next meeting parts the ranks: whoever posts piece k + 1 has done piece k.
      k.if(from.add(piece).ge(count), () => meeting.part());
      start.set(from.add(piece));
      k.if(start.value.ge(limit).or(piece.eq(0)), () => loop.break());
    });
  });
}

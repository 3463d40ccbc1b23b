/**
 * Ring algorithms: every rank talks only to its successor and predecessor, and all links carry the same.
 *
 * All-reduce moves each of n chunks twice around: 2n - 1 primitive calls per loop. In the first n - 1 a chunk
 * collects the contributions of all ranks, in the last n - 1 the finished sums travel on. A finished chunk is
 * copied, never recomputed, so all ranks end with the same bits.
 *
 * Channels (blocks) are independent rings over parts of the data.
 * Source: NCCL 2.30, ring schedules, chunk and tail arithmetic.
 */

import { type KernelBuilder, kernel, type Value } from '../kernel/builder.js';
import { ELEMENT_TYPES } from '../kernel/element-types.js';
import type { Program, Traits } from '../kernel/ir.js';
import { type Reduction, stepArithmetic } from './arithmetic.js';
import type { Collective } from './control-block.js';
import { Primitives } from './primitives.js';
import { type LowLatencyOptions, LowLatencyProtocol } from './protocol-ll.js';
import { SimpleProtocol, type SimpleShape } from './protocol-simple.js';
import { RingChannel, RingWork, ringEnds } from './ring-connection.js';

export type RingCollective = Exclude<Collective, 'barrier'>;
export type RingProtocol = 'LL' | 'Simple';

export interface RingParameters {
  readonly collective: RingCollective;
  readonly protocol: RingProtocol;
  readonly reduction: Reduction;
  readonly lowLatency?: LowLatencyOptions;
}

/** Steps per call: four in two slices where a chunk goes round the ring in parts, one for the pipelines. */
export function simpleShape(collective: RingCollective): SimpleShape {
  return collective === 'broadcast' || collective === 'reduce'
    ? { stepsPerChunk: 1, stepsPerSlice: 1 }
    : { stepsPerChunk: 4, stepsPerSlice: 2 };
}

interface Ring {
  readonly k: KernelBuilder;
  readonly primitives: Primitives;
  readonly work: Value<'ptr'>;
  readonly channel: Value<'ptr'>;
  readonly self: Value<'u32'>;
  readonly ranks: Value<'u32'>;
  readonly size: number;
  readonly send: Value<'ptr'>;
  readonly recv: Value<'ptr'>;
}

export function ring(traits: Traits, parameters: RingParameters): Program {
  const { collective, protocol, reduction } = parameters;
  return kernel(`ring_${protocol}_${collective}`, traits, (k, work) => {
    k.sleepOn(k.field(work, RingWork, 'control'));
    const channel = k.field(work, RingWork, 'channels').offset(k.blockIndex.mul(RingChannel.size));
    const reduces = collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
    const arithmetic = stepArithmetic(k, reduces ? reduction : { type: reduction.type, op: 'sum' }, () =>
      k.field(work, RingWork, 'argument'),
    );
    const ends = ringEnds(k, work, channel, protocol);
    const mover =
      protocol === 'LL'
        ? new LowLatencyProtocol(k, ends, reduction.type, arithmetic, parameters.lowLatency)
        : new SimpleProtocol(k, ends, reduction.type, arithmetic, simpleShape(collective));
    const r: Ring = {
      k,
      primitives: new Primitives(mover),
      work,
      channel,
      self: k.field(work, RingWork, 'self'),
      ranks: k.field(work, RingWork, 'ranks'),
      size: ELEMENT_TYPES[reduction.type].size,
      send: k.field(work, RingWork, 'send'),
      recv: k.field(work, RingWork, 'recv'),
    };
    switch (collective) {
      case 'allReduce':
        allReduce(r);
        break;
      case 'allGather':
        forChunks(r, (offset, elements) => allGatherChunk(r, offset, elements));
        break;
      case 'reduceScatter':
        forChunks(r, (offset, elements) => reduceScatterChunk(r, offset, elements));
        break;
      case 'allToAll':
        forChunks(r, (offset, elements) => allToAllChunk(r, offset, elements));
        break;
      case 'broadcast':
        forChunks(r, (offset, elements) => broadcastChunk(r, offset, elements));
        break;
      case 'reduce':
        forChunks(r, (offset, elements) => reduceChunk(r, offset, elements));
        break;
    }
    r.primitives.close();
  });
}

function allReduce({ k, primitives, channel, ranks, size, send, recv }: Ring): void {
  const first = k.field(channel, RingChannel, 'offset');
  const count = k.field(channel, RingChannel, 'count');
  const chunk = k.variable('u64', k.field(channel, RingChannel, 'chunk'));
  const position = k.field(channel, RingChannel, 'position');
  const n = ranks.cast('u64');
  const done = k.variable('u64', 0);
  k.while(
    () => done.value.lt(count),
    () => {
      const base = done.value;
      const remaining = count.sub(base);
      const loopElements = chunk.value.mul(n);
      k.if(remaining.lt(loopElements), () => {
        // The last loop spreads what is left evenly over the ranks, in whole packets.
        const grain = 16 / size;
        const even = remaining.add(n).sub(1).div(n);
        chunk.set(
          even
            .add(grain - 1)
            .div(grain)
            .mul(grain),
        );
      });
      const c = chunk.value;
      /** Chunk (position - back) mod n: its byte offset and its elements, 0 when it lies behind the end. */
      const piece = (back: Value<'u32'> | number): { at: Value<'u64'>; elements: Value<'u64'> } => {
        const index = position.add(ranks).sub(back).rem(ranks).cast('u64');
        const start = index.mul(c).min(remaining);
        return { at: first.add(base).add(start).mul(size), elements: c.min(remaining.sub(start)) };
      };
      const head = piece(1);
      primitives.send(send.offset(head.at), head.elements);
      k.for(k.u32(2), ranks, 1, (j) => {
        const { at, elements } = piece(j);
        primitives.recvReduceSend(send.offset(at), elements);
      });
      const own = piece(0);
      primitives.recvReduceCopySend(send.offset(own.at), recv.offset(own.at), own.elements, true);
      k.for(k.u32(1), ranks.sub(1), 1, (j) => {
        const { at, elements } = piece(j);
        primitives.recvCopySend(recv.offset(at), elements);
      });
      const last = piece(ranks.sub(1));
      primitives.recv(recv.offset(last.at), last.elements);
      done.set(base.add(loopElements));
    },
  );
}

/** Walks the channel's part in chunks; a chunk is at most `chunk` elements. */
function forChunks(
  { k, channel, size }: Ring,
  body: (byteOffset: Value<'u64'>, elements: Value<'u64'>) => void,
): void {
  const first = k.field(channel, RingChannel, 'offset');
  const end = first.add(k.field(channel, RingChannel, 'count'));
  const chunk = k.field(channel, RingChannel, 'chunk');
  k.for(first, end, chunk, (at) => body(at.mul(size), chunk.min(end.sub(at))));
}

/** The rank at a ring distance after this one. */
function rankAfter({ k, channel }: Ring, distance: Value<'u32'>): Value<'u64'> {
  const order = k.field(channel, RingChannel, 'order');
  return k.load('u32', order.offset(distance.mul(4))).cast('u64');
}

function allGatherChunk(r: Ring, offset: Value<'u64'>, elements: Value<'u64'>): void {
  const { k, primitives, work, ranks, send, recv, self } = r;
  const stride = k.field(work, RingWork, 'recvStride');
  const block = (rank: Value<'u64'>) => recv.offset(rank.mul(stride)).offset(offset);
  const input = send.offset(offset);
  const own = block(self.cast('u64'));
  k.if(
    input.eq(own),
    () => primitives.send(input, elements),
    () => primitives.copySend(input, own, elements),
  );
  k.for(k.u32(1), ranks.sub(1), 1, (j) => {
    primitives.recvCopySend(block(rankAfter(r, ranks.sub(j))), elements);
  });
  primitives.recv(block(rankAfter(r, k.u32(1))), elements);
}

function reduceScatterChunk(r: Ring, offset: Value<'u64'>, elements: Value<'u64'>): void {
  const { k, primitives, work, ranks, send, recv, self } = r;
  const stride = k.field(work, RingWork, 'sendStride');
  const block = (rank: Value<'u64'>) => send.offset(rank.mul(stride)).offset(offset);
  primitives.send(block(rankAfter(r, ranks.sub(1))), elements);
  k.for(k.u32(2), ranks, 1, (j) => {
    primitives.recvReduceSend(block(rankAfter(r, ranks.sub(j))), elements);
  });
  primitives.recvReduceCopy(block(self.cast('u64')), recv.offset(offset), elements, true);
}

/**
 * Blocks for the rank d places on travel d hops: n (n - 1) / 2 blocks over every link. For ranks that can reach nobody
 * but their neighbours.
 */
function allToAllChunk(r: Ring, offset: Value<'u64'>, elements: Value<'u64'>): void {
  const { k, primitives, work, ranks, send, recv, self } = r;
  const sendStride = k.field(work, RingWork, 'sendStride');
  const recvStride = k.field(work, RingWork, 'recvStride');
  const input = (rank: Value<'u64'>) => send.offset(rank.mul(sendStride)).offset(offset);
  const output = (rank: Value<'u64'>) => recv.offset(rank.mul(recvStride)).offset(offset);
  const own = self.cast('u64');
  primitives.copy(input(own), output(own), elements, false);
  k.for(k.u32(1), ranks, 1, (distance) => {
    primitives.send(input(rankAfter(r, distance)), elements);
    k.for(k.u32(1), distance, 1, () => primitives.recvSend(elements));
    primitives.recv(output(rankAfter(r, ranks.sub(distance))), elements);
  });
}

function broadcastChunk(
  { k, primitives, work, channel, self, send, recv }: Ring,
  offset: Value<'u64'>,
  elements: Value<'u64'>,
): void {
  const root = k.field(work, RingWork, 'root');
  const input = send.offset(offset);
  const output = recv.offset(offset);
  k.if(
    self.eq(root),
    () =>
      k.if(
        input.eq(output),
        () => primitives.send(input, elements),
        () => primitives.copySend(input, output, elements),
      ),
    () =>
      k.if(
        k.field(channel, RingChannel, 'next').eq(root),
        () => primitives.recv(output, elements),
        () => primitives.recvCopySend(output, elements),
      ),
  );
}

function reduceChunk(
  { k, primitives, work, channel, self, send, recv }: Ring,
  offset: Value<'u64'>,
  elements: Value<'u64'>,
): void {
  const root = k.field(work, RingWork, 'root');
  const input = send.offset(offset);
  k.if(
    k.field(channel, RingChannel, 'prev').eq(root),
    () => primitives.send(input, elements),
    () =>
      k.if(
        self.eq(root),
        () => primitives.recvReduceCopy(input, recv.offset(offset), elements, true),
        () => primitives.recvReduceSend(input, elements),
      ),
  );
}

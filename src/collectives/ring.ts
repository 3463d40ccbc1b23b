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
import { type ConnectionProtocol, connectionProtocol, type RingProtocol } from './connection-protocol.js';
import type { Collective } from './control-block.js';
import type { Ends } from './ends.js';
import { Primitives } from './primitives.js';
import type { LowLatencyOptions } from './protocol-ll.js';
import type { SimpleShape } from './protocol-simple.js';
import { RingChannel, RingWork, ringEnds } from './ring-connection.js';

export type RingCollective = Exclude<Collective, 'barrier'>;
export type { RingProtocol } from './connection-protocol.js';

export interface RingParameters {
  readonly collective: RingCollective;
  readonly protocol: RingProtocol;
  readonly reduction: Reduction;
  readonly lowLatency?: LowLatencyOptions;
}

/** A ring on any target. */
export type RoundParameters = Omit<RingParameters, 'protocol'> & { readonly protocol: ConnectionProtocol };

/** Steps per call: four in two slices where a chunk goes round the ring in parts, one for the pipelines. */
export function simpleShape(collective: RingCollective): SimpleShape {
  return collective === 'broadcast' || collective === 'reduce'
    ? { stepsPerChunk: 1, stepsPerSlice: 1 }
    : { stepsPerChunk: 4, stepsPerSlice: 2 };
}

/**
 * What a ring program knows of its rank and its channel: on the host from descriptors in memory, on GPUs from what comes
 * with the launch (gpu/ring.ts). Functions make code where they are called.
 */
export interface RingPlace {
  /** The two ends, with the buffers of the program's protocol. */
  ends(): Ends;
  readonly self: Value<'u32'>;
  readonly ranks: Value<'u32'>;
  root(): Value<'u32'>;
  readonly send: Value<'ptr'>;
  readonly recv: Value<'ptr'>;
  sendStride(): Value<'u64'>;
  recvStride(): Value<'u64'>;
  argument(): Value<'u64'>;
  /** First element and number of elements of this channel, and elements per chunk. */
  offset(): Value<'u64'>;
  count(): Value<'u64'>;
  chunk(): Value<'u64'>;
  /** Position of this rank in the channel's ring, and its neighbours. */
  position(): Value<'u32'>;
  prev(): Value<'u32'>;
  next(): Value<'u32'>;
  /** The rank at a ring distance after this one. */
  rankAfter(distance: Value<'u32'>): Value<'u32'>;
}

interface Ring {
  readonly k: KernelBuilder;
  readonly primitives: Primitives;
  readonly place: RingPlace;
  readonly size: number;
}

/** A ring on host memory: its descriptor is RingWork. */
function hostPlace(k: KernelBuilder, work: Value<'ptr'>, protocol: RingProtocol): RingPlace {
  const channel = k.field(work, RingWork, 'channels').offset(k.blockIndex.mul(RingChannel.size));
  return {
    ends: () => ringEnds(k, work, channel, protocol),
    self: k.field(work, RingWork, 'self'),
    ranks: k.field(work, RingWork, 'ranks'),
    root: () => k.field(work, RingWork, 'root'),
    send: k.field(work, RingWork, 'send'),
    recv: k.field(work, RingWork, 'recv'),
    sendStride: () => k.field(work, RingWork, 'sendStride'),
    recvStride: () => k.field(work, RingWork, 'recvStride'),
    argument: () => k.field(work, RingWork, 'argument'),
    offset: () => k.field(channel, RingChannel, 'offset'),
    count: () => k.field(channel, RingChannel, 'count'),
    chunk: () => k.field(channel, RingChannel, 'chunk'),
    position: () => k.field(channel, RingChannel, 'position'),
    prev: () => k.field(channel, RingChannel, 'prev'),
    next: () => k.field(channel, RingChannel, 'next'),
    rankAfter: (distance) => k.load('u32', k.field(channel, RingChannel, 'order').offset(distance.mul(4))),
  };
}

export function ring(traits: Traits, parameters: RingParameters): Program {
  const { collective, protocol } = parameters;
  return kernel(`ring_${protocol}_${collective}`, traits, (k, work) => {
    k.sleepOn(k.field(work, RingWork, 'control'));
    goRound(k, hostPlace(k, work, protocol), parameters);
  });
}

/** What one channel of a rank does. */
export function goRound(k: KernelBuilder, place: RingPlace, parameters: RoundParameters): void {
  const { collective, protocol, reduction } = parameters;
  const reduces = collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
  const arithmetic = stepArithmetic(k, reduces ? reduction : { type: reduction.type, op: 'sum' }, () =>
    place.argument(),
  );
  const mover = connectionProtocol(k, protocol, place.ends(), reduction.type, arithmetic, {
    shape: simpleShape(collective),
    lowLatency: parameters.lowLatency,
  });
  const r: Ring = {
    k,
    primitives: new Primitives(mover),
    place,
    size: ELEMENT_TYPES[reduction.type].size,
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
}

function allReduce({ k, primitives, place, size }: Ring): void {
  const { ranks, send, recv } = place;
  const first = place.offset();
  const count = place.count();
  const chunk = k.variable('u64', place.chunk());
  const position = place.position();
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
  { k, place, size }: Ring,
  body: (byteOffset: Value<'u64'>, elements: Value<'u64'>) => void,
): void {
  const first = place.offset();
  const end = first.add(place.count());
  const chunk = place.chunk();
  k.for(first, end, chunk, (at) => body(at.mul(size), chunk.min(end.sub(at))));
}

/** The rank at a ring distance after this one, for addresses. */
function rankAfter({ place }: Ring, distance: Value<'u32'>): Value<'u64'> {
  return place.rankAfter(distance).cast('u64');
}

function allGatherChunk(r: Ring, offset: Value<'u64'>, elements: Value<'u64'>): void {
  const { k, primitives, place } = r;
  const { ranks, send, recv, self } = place;
  const stride = place.recvStride();
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
  const { k, primitives, place } = r;
  const { ranks, send, recv, self } = place;
  const stride = place.sendStride();
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
  const { k, primitives, place } = r;
  const { ranks, send, recv, self } = place;
  const sendStride = place.sendStride();
  const recvStride = place.recvStride();
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

function broadcastChunk({ k, primitives, place }: Ring, offset: Value<'u64'>, elements: Value<'u64'>): void {
  const { self, send, recv } = place;
  const root = place.root();
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
        place.next().eq(root),
        () => primitives.recv(output, elements),
        () => primitives.recvCopySend(output, elements),
      ),
  );
}

function reduceChunk({ k, primitives, place }: Ring, offset: Value<'u64'>, elements: Value<'u64'>): void {
  const { self, send, recv } = place;
  const root = place.root();
  const input = send.offset(offset);
  k.if(
    place.prev().eq(root),
    () => primitives.send(input, elements),
    () =>
      k.if(
        self.eq(root),
        () => primitives.recvReduceCopy(input, recv.offset(offset), elements, true),
        () => primitives.recvReduceSend(input, elements),
      ),
  );
}

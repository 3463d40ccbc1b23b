/**
 * Moves bytes with many blocks: reads packets of several sources, combines them, writes the result to several targets.
 *
 * Blocks take turns, a hunk at a time, so that all of them work close to each other in memory; a thread has several
 * independent 16-byte loads of every source under way before it uses the first. What is left over is shared out packet
 * by packet. Pointers that are equally far from a multiple of 16 are brought to one first; others move element by
 * element.
 */

import type { KernelBuilder, Value } from '../../kernel/builder.js';

const PACKET = 16;

export interface Move {
  readonly sources: readonly Value<'ptr'>[];
  readonly targets: readonly Value<'ptr'>[];
  /** A multiple of the element size. */
  readonly bytes: Value<'u64'>;
  readonly elementBytes: number;
  /** The packet to store, from one packet of each source. Garbage lanes must do no harm. */
  readonly combine: (packets: readonly Value<'packet'>[]) => Value<'packet'>;
}

/** Who moves: so many threads of each block, this block of so many. */
export interface Movers {
  readonly threads: number;
  readonly block: Value<'u32'>;
  readonly blocks: Value<'u32'>;
  /** Packets of each source that a thread has under way. */
  readonly unroll: number;
}

export function moveBytes(k: KernelBuilder, movers: Movers, job: Move): void {
  const pointers = [...job.sources, ...job.targets].map((pointer) => pointer.cast('u64'));
  const first = pointers[0]!;
  let difference = k.u64(0);
  for (const pointer of pointers.slice(1)) difference = difference.or(pointer.xor(first));
  const low = BigInt(PACKET - 1);
  k.if(
    difference.and(low).eq(0n),
    () => {
      const head = k.u64(PACKET).sub(first.and(low)).and(low).min(job.bytes);
      k.if(head.ne(0n), () => moveElements(k, movers, { ...job, bytes: head }));
      movePackets(k, movers, {
        ...job,
        sources: job.sources.map((pointer) => pointer.offset(head)),
        targets: job.targets.map((pointer) => pointer.offset(head)),
        bytes: job.bytes.sub(head),
      });
    },
    () => moveElements(k, movers, job),
  );
}

function movePackets(k: KernelBuilder, movers: Movers, job: Move): void {
  const { sources, targets, bytes, combine, elementBytes } = job;
  const { threads, unroll, block, blocks } = movers;
  const stride = threads * PACKET;
  const hunk = stride * unroll;
  const own = k.threadIndex.mul(PACKET).cast('u64');

  const round = (at: Value<'u64'>, packets: number) => {
    const rows = sources.map((source) => {
      const from = source.offset(at);
      return Array.from({ length: packets }, (_, u) => k.load('packet', from, { offset: u * stride }));
    });
    const results = Array.from({ length: packets }, (_, u) => combine(rows.map((row) => row[u]!)));
    for (const target of targets) {
      const to = target.offset(at);
      results.forEach((packet, u) => {
        k.store('packet', to, packet, { offset: u * stride });
      });
    }
  };

  const isPower = (hunk & (hunk - 1)) === 0;
  const whole = isPower ? bytes.and(~BigInt(hunk - 1)) : bytes.sub(bytes.rem(hunk));
  const first = block.cast('u64').mul(hunk);
  k.for(first, whole, blocks.cast('u64').mul(hunk), (base) => round(base.add(own), unroll));
  const end = bytes.and(~BigInt(PACKET - 1));
  const thread = block.cast('u64').mul(stride).add(own);
  k.for(whole.add(thread), end, blocks.cast('u64').mul(stride), (at) => round(at, 1));
  const rest = bytes.and(BigInt(PACKET - 1)).cast('u32');
  k.if(rest.ne(0).and(block.eq(0)).and(k.threadIndex.eq(0)), () => {
    const result = combine(sources.map((source) => k.loadPart(source.offset(end), rest, elementBytes)));
    for (const target of targets) k.storePart(target.offset(end), result, rest, elementBytes);
  });
}

function moveElements(k: KernelBuilder, { threads, block, blocks }: Movers, job: Move): void {
  const size = job.elementBytes;
  const start = block.cast('u64').mul(threads).add(k.threadIndex.cast('u64')).mul(size);
  k.for(start, job.bytes, blocks.cast('u64').mul(threads * size), (at) => {
    const result = job.combine(job.sources.map((source) => k.loadPart(source.offset(at), size, size)));
    for (const target of job.targets) k.storePart(target.offset(at), result, size, size);
  });
}

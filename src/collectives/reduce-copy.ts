/**
 * The data mover of all programs: reads packets of several sources, combines them, writes the result to
 * several targets, shared by the threads of the block.
 *
 * Shape of the work, as in NCCL's reduce-copy: 16-byte packets, several independent ones in flight, then
 * single packets, then the bytes that are left. Where a target cannot access packets at any address
 * (GPUs) and some pointer is not 16-byte aligned, elements move one by one.
 */

import type { KernelBuilder, Value } from '../kernel/builder.js';

const PACKET = 16;

export interface ReduceCopy {
  readonly sources: readonly Value<'ptr'>[];
  readonly targets: readonly Value<'ptr'>[];
  /** Bytes to move, a multiple of the element size. */
  readonly bytes: Value<'u64'>;
  readonly elementBytes: number;
  /** The packet to store, from one packet of each source. Garbage lanes must do no harm. */
  readonly combine: (packets: readonly Value<'packet'>[]) => Value<'packet'>;
}

/** Packets in flight per thread: fewer when many streams already run side by side. */
function unrollFor(k: KernelBuilder, streams: number): number {
  if (streams > 8) return 1;
  return streams > 4 ? Math.min(2, k.traits.unroll) : k.traits.unroll;
}

export function reduceCopy(k: KernelBuilder, job: ReduceCopy): void {
  if (job.targets.length === 0) return;
  if (k.traits.unalignedPackets) {
    movePackets(k, job, job.elementBytes);
    return;
  }
  let bits = job.sources[0]!.cast('u64');
  for (const pointer of [...job.sources.slice(1), ...job.targets]) bits = bits.or(pointer.cast('u64'));
  k.if(
    bits.and(BigInt(PACKET - 1)).eq(0n),
    () => movePackets(k, job, PACKET),
    () => moveElements(k, job),
  );
}

function movePackets(k: KernelBuilder, job: ReduceCopy, align: number): void {
  const { sources, targets, bytes, combine } = job;
  const unroll = unrollFor(k, sources.length + targets.length);
  const thread = k.threadIndex.cast('u64');
  const threads = k.threadCount.cast('u64');
  /** Distance between the packets that one thread has in flight. */
  const stride = threads.mul(PACKET);
  const done = k.variable('u64', 0);

  const round = (at: Value<'u64'>, packets: number) => {
    // On a single thread the stride is a constant and goes into the instruction's offset.
    const fixed = stride.operand.kind === 'constant' ? Number(stride.operand.value) : undefined;
    const place = (pointer: Value<'ptr'>, u: number): [Value<'ptr'>, number] =>
      fixed === undefined ? [pointer.offset(stride.mul(u)), 0] : [pointer, u * fixed];
    const from = sources.map((source) => source.offset(at));
    const loaded = from.map((pointer) =>
      Array.from({ length: packets }, (_, u) => {
        const [address, offset] = place(pointer, u);
        return k.load('packet', address, { offset, align });
      }),
    );
    const results = Array.from({ length: packets }, (_, u) => combine(loaded.map((row) => row[u]!)));
    for (const target of targets) {
      const to = target.offset(at);
      results.forEach((packet, u) => {
        const [address, offset] = place(to, u);
        k.store('packet', address, packet, { offset, align });
      });
    }
  };

  if (unroll > 1) {
    const hunk = stride.mul(unroll);
    const whole = bytes.sub(bytes.rem(hunk));
    k.for(k.u64(0), whole, hunk, (base) => round(base.add(thread.mul(PACKET)), unroll));
    done.set(whole);
  }
  // Single packets: thread t takes packets t, t + threads, ...
  const end = bytes.and(~BigInt(PACKET - 1));
  k.for(done.value.add(thread.mul(PACKET)), end, stride, (at) => round(at, 1));
  const rest = bytes.and(BigInt(PACKET - 1)).cast('u32');
  k.if(rest.ne(0).and(k.threadIndex.eq(0)), () => {
    const packets = sources.map((source) => k.loadPart(source.offset(end), rest, job.elementBytes));
    const result = combine(packets);
    for (const target of targets) k.storePart(target.offset(end), result, rest, job.elementBytes);
  });
}

function moveElements(k: KernelBuilder, job: ReduceCopy): void {
  const size = job.elementBytes;
  const stride = k.threadCount.cast('u64').mul(size);
  k.for(k.threadIndex.cast('u64').mul(size), job.bytes, stride, (at) => {
    const result = job.combine(job.sources.map((source) => k.loadPart(source.offset(at), size, size)));
    for (const target of job.targets) k.storePart(target.offset(at), result, size, size);
  });
}

/** Copies bytes with all threads of the block. */
export function blockCopy(
  k: KernelBuilder,
  to: Value<'ptr'>,
  from: Value<'ptr'>,
  bytes: Value<'u64'>,
  elementBytes: number,
): void {
  if (k.traits.singleThread) {
    k.copy(to, from, bytes);
    return;
  }
  reduceCopy(k, { sources: [from], targets: [to], bytes, elementBytes, combine: ([packet]) => packet! });
}

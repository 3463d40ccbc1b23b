/**
 * What the types of the collectives allow and forbid; compiled by test/communicator/types.test.ts and never run. A
 * line below `@ts-expect-error` that compiles is an error.
 */
import type { Communicator, PreparedOperation } from '#src/index.js';

export async function allowed(comm: Communicator): Promise<PreparedOperation> {
  const ordinary = new Float32Array(4);
  const heap = comm.alloc(Float32Array, 4);
  await comm.allReduce(ordinary, heap);
  await comm.allReduce(heap, ordinary, { op: 'max' });
  await comm.allReduce(heap.subarray(0, 2), new Float32Array(new SharedArrayBuffer(8)));
  await comm.reduce(ordinary, null, { root: 1 });
  await comm.reduce(new BigInt64Array(2), new BigInt64Array(2));
  await comm.broadcast(ordinary);
  await comm.broadcast(ordinary, { root: 1 });
  await comm.broadcast(null, heap, { root: 1 });
  await comm.allGather(Buffer.alloc(2), new Uint8Array(8));
  await comm.reduceScatter(new Uint16Array(8), new Uint16Array(2), { type: 'bfloat16' });
  comm.allReduceSync(ordinary, heap);
  return comm.prepare.allReduce(ordinary, heap);
}

/** Code that does not know the class, as long as both arrays have the same. */
export function anyClass<B extends Float32Array | Int32Array>(comm: Communicator, either: B): void {
  const known: Float32Array | Int32Array = either;
  comm.allReduceSync(known, known);
}

export async function forbidden(comm: Communicator): Promise<void> {
  const f32 = new Float32Array(4);
  const f64 = comm.alloc(Float64Array, 4);
  // @ts-expect-error two classes
  await comm.allReduce(f32, f64);
  // @ts-expect-error two classes
  await comm.reduce(f32, f64, { root: 0 });
  // @ts-expect-error two classes
  await comm.broadcast(f32, f64, { root: 0 });
  // @ts-expect-error two classes
  await comm.allGather(new Int8Array(1), new Uint8Array(4));
  // @ts-expect-error two classes
  await comm.reduceScatter(new Int32Array(4), new Uint32Array(1));
  // @ts-expect-error two classes
  comm.allReduceSync(f32, f64);
  // @ts-expect-error two classes
  comm.broadcastSync(f32, f64);
  // @ts-expect-error two classes
  comm.reduceSync(f32, f64);
  // @ts-expect-error two classes
  comm.allGatherSync(f32, f64);
  // @ts-expect-error two classes
  comm.reduceScatterSync(f32, f64);
  // @ts-expect-error two classes
  comm.prepare.allReduce(f32, f64).run();
  // @ts-expect-error no typed array that holds elements
  await comm.allReduce(new DataView(new ArrayBuffer(8)), f32);
  // @ts-expect-error an option of another collective
  await comm.allGather(f32, f32, { op: 'sum' });
}

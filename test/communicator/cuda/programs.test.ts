/**
 * Random programs of ranks on GPUs: calls, prepared runs, graphs, copies and frees, awaited or not, in the own stream and
 * in those of others, against the same steps done one after the other.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PreparedCudaOperation } from '#src/communicator/cuda/cuda-prepared.js';
import type { DeviceBuffer } from '#src/communicator/cuda/device-buffer.js';
import { group } from '#src/index.js';
import { effort } from '../../effort.js';
import { fakeGpus, fakeProcesses } from './fake-gpus.js';

/** Elements of every buffer, buffers of every rank, streams of others. */
const LENGTHS = [3, 40] as const;
const BUFFERS = 4;
const STREAMS = 2;

/** Where a step may put its work: streams of others, or where calls go that name none. */
const where = fc.integer({ min: 0, max: STREAMS });
const buffer = fc.integer({ min: 0, max: BUFFERS - 1 });
const step = fc.record({
  kind: fc.constantFrom(
    'call',
    'call',
    'run',
    'graph',
    'captured',
    'messages',
    'copyIn',
    'copyOut',
    'renew',
    'mistake',
    'wait',
  ),
  collective: fc.constantFrom('allReduce', 'broadcast'),
  a: buffer,
  b: buffer,
  where,
  awaited: fc.boolean(),
});
/** What a rank of two receives into: not what it sends. */
const inbox = ({ a, b }: { a: number; b: number }) => (a === b ? (a + 1) % BUFFERS : b);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** What the steps are to leave in all ranks' buffers, and what is read on the way. */
function expected(steps: readonly Step[], ranks: number, length: number) {
  const memory = Array.from({ length: ranks }, () =>
    Array.from({ length: BUFFERS }, () => new Int32Array(length)),
  );
  const reads: Int32Array[][] = memory.map(() => []);
  const call = ({ collective, a, b }: Step) => {
    const sends = memory.map((own) => own[a]!.slice());
    for (const own of memory) {
      for (let i = 0; i < length; i++) {
        own[b]![i] =
          collective === 'broadcast' ? sends[0]![i]! : sends.reduce((sum, send) => (sum + send[i]!) | 0, 0);
      }
    }
  };
  steps.forEach((one, k) => {
    if (one.kind === 'messages') {
      const sends = memory.map((own) => own[one.a]!.slice());
      for (const [rank, own] of memory.entries()) own[inbox(one)]!.set(sends[1 - rank]!);
    } else if (one.kind === 'copyIn')
      for (const [rank, own] of memory.entries()) own[one.a]!.fill(k + 10 * rank + 1);
    else if (one.kind === 'copyOut')
      for (const [rank, own] of memory.entries()) reads[rank]!.push(own[one.a]!.slice());
    else if (one.kind === 'renew') for (const own of memory) own[one.a]!.fill(0);
    else if (one.kind === 'captured') for (let i = 0; i < 2; i++) call(one);
    else if (one.kind === 'graph') for (let i = 0; i < 3; i++) call(one);
    else if (one.kind !== 'wait' && one.kind !== 'mistake') call(one);
  });
  return { memory, reads };
}

describe.each([
  ['ranks of one process', fakeGpus],
  ['processes', fakeProcesses],
] as const)('%s', (_, open) => {
  it(
    'do random programs as one after the other',
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(step, { maxLength: 14 }),
          fc.constantFrom(...LENGTHS),
          fc.integer({ min: 0, max: 2 }),
          async (steps, length, delay) => {
            const { comms, driver } = await open([0, 0], { delay });
            const streams = comms.map(() =>
              Array.from({ length: STREAMS }, () => {
                const out: [number] = [0];
                driver.cuStreamCreate(out);
                return out[0];
              }),
            );
            const buffers = comms.map((comm) =>
              Array.from(
                { length: BUFFERS },
                () => comm.alloc(Int32Array, length) as DeviceBuffer<Int32Array>,
              ),
            );
            const reads = comms.map(() => [] as Promise<Int32Array>[]);
            /** Rank `rank` takes a step; what it waits for is in the list. */
            const take = async (
              rank: number,
              { kind, collective, a, b, where, awaited }: Step,
              k: number,
            ) => {
              const comm = comms[rank]!;
              const own = buffers[rank]!;
              const stream = streams[rank]![where];
              const done: Promise<unknown>[] = [];
              const prepare = () => comm.prepare[collective](own[a]!, own[b]!);
              const runTwice = (made: PreparedCudaOperation) => {
                made.run(stream);
                made.run();
              };
              if (kind === 'call')
                done.push(comm[collective](own[a]!, own[b]!, stream === undefined ? {} : { stream }));
              else if (kind === 'run') {
                const made = prepare();
                await made.ready;
                await comm.synchronize();
                made.run(stream);
                if (awaited) made.release();
              } else if (kind === 'graph') {
                await prepare().ready;
                await comm.synchronize();
                const made = comm.capture(() => void comm[collective](own[a]!, own[b]!));
                runTwice(made);
                done.push(made.start());
              } else if (kind === 'captured') {
                const made = prepare();
                await made.ready;
                await comm.synchronize();
                // Somebody else records the stream, and launches the graph when he knows that it may run.
                const target = streams[rank]![0]!;
                driver.cuStreamBeginCapture(target);
                made.run(target);
                const graph: [number] = [0];
                driver.cuStreamEndCapture(target, graph);
                const executable: [number] = [0];
                driver.cuGraphInstantiate(executable, graph[0]);
                driver.cuGraphLaunch(executable[0], target);
                driver.cuGraphLaunch(executable[0], target);
                const query = async () => {
                  while (driver.cuStreamQuery(target) !== 0)
                    await new Promise((resolve) => setImmediate(resolve));
                };
                await query();
                driver.cuGraphExecDestroy(executable[0]);
                driver.cuGraphDestroy(graph[0]);
              } else if (kind === 'copyIn')
                done.push(own[a]!.copyFrom(new Int32Array(length).fill(k + 10 * rank + 1)));
              else if (kind === 'copyOut') {
                reads[rank]!.push(own[a]!.read());
                done.push(reads[rank]!.at(-1)!);
              } else if (kind === 'renew') {
                own[a]!.free();
                own[a] = comm.alloc(Int32Array, length) as DeviceBuffer<Int32Array>;
              } else if (kind === 'messages') {
                const options = stream === undefined ? {} : { stream };
                done.push(
                  group(() => {
                    void comm.send(own[a]!, 1 - rank, options);
                    void comm.recv(own[inbox({ a, b })]!, 1 - rank, options);
                  }),
                );
              } else if (kind === 'mistake') {
                // Refused at this rank, and nothing is counted.
                await expect(comm.allReduce(own[a]!, own[b]!, { op: 'mean' as 'avg' })).rejects.toThrow(
                  'mean',
                );
              } else await comm.synchronize();
              if (awaited) await Promise.all(done);
              return Promise.all(done);
            };
            const ranks = comms.map(async (_comm, rank) => {
              const all: Promise<unknown>[] = [];
              for (const [k, one] of steps.entries()) {
                const done = take(rank, one, k);
                all.push(done);
                if (one.awaited || one.kind !== 'call') await done;
              }
              await Promise.all(all);
            });
            await Promise.all(ranks);
            await Promise.all(comms.map((comm) => comm.synchronize()));
            const right = expected(steps, comms.length, length);
            for (const [rank, own] of buffers.entries()) {
              for (const [i, one] of own.entries()) expect(await one.read()).toEqual(right.memory[rank]![i]);
              expect(await Promise.all(reads[rank]!)).toEqual(right.reads[rank]);
            }
            await Promise.all(comms.map((comm) => comm.close()));
            for (const stream of streams.flat()) driver.cuStreamDestroy(stream);
            expect([driver.leaks, driver.blocked]).toEqual([[], []]);
          },
        ),
        { numRuns: effort(12, 300) },
      );
    },
    effort(30_000, 300_000),
  );
});

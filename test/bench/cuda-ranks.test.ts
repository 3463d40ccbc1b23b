/**
 * The ranks of the comparison with NCCL, on GPUs of a fake driver: what the loops do with the public API, so that a
 * change of it is found before a machine with GPUs is.
 */
import { describe, expect, it } from 'vitest';
import type { CudaCommunicator } from '#src/communicator/cuda/cuda-communicator.js';
import type { CudaDevice } from '#src/device/cuda/cuda-device.js';
import { fakeGpus } from '../communicator/cuda/fake-gpus.js';

interface Prepared {
  run(): void;
  record(): unknown;
  release(): void;
}

interface LoopRank {
  readonly rank: number;
  allocate(bytes: number): void;
  writeSend(array: Float32Array): Promise<void>;
  poisonReceive(bytes: number): void;
  readReceive(from: number, to: number): Promise<Float32Array>;
  prepare(operation: string, bytes: number): Promise<Prepared>;
  capture(record: () => unknown): Prepared;
}

const load = async <T>(file: string) =>
  (await import(new URL(`../../bench/cuda/${file}`, import.meta.url).href)) as T;
const { LoopRank } = await load<{
  LoopRank: new (comm: CudaCommunicator, device: CudaDevice, free: number) => LoopRank;
}>('ranks.js');
const { OPERATIONS } = await load<{ OPERATIONS: readonly string[] }>('plan.js');
interface Place {
  readonly rank: number;
  readonly size: number;
  readonly elements: number;
}
const { sentElement, expectedElement, outputElements } = await load<{
  sentElement(rank: number, i: number): number;
  expectedElement(operation: string, place: Place, i: number): number;
  outputElements(operation: string, place: Place): number;
}>('data.js');

const ELEMENTS = 16;

describe('ranks of the benchmark on GPUs', () => {
  for (const operation of OPERATIONS) {
    it(`run ${operation} call by call and from a graph of calls`, async () => {
      const { comms, cudaDriver } = await fakeGpus([0, 1]);
      const ranks = comms.map((comm, gpu) => new LoopRank(comm, cudaDriver.device(gpu), 0));
      for (const own of ranks) {
        own.allocate(4 * ELEMENTS);
        await own.writeSend(Float32Array.from({ length: ELEMENTS }, (_, i) => sentElement(own.rank, i)));
      }
      const prepared = await Promise.all(ranks.map((own) => own.prepare(operation, 4 * ELEMENTS)));
      const graphs = ranks.map((own, k) =>
        own.capture(() => {
          for (let call = 0; call < 2; call++) prepared[k]!.record();
        }),
      );
      for (const steps of [prepared, graphs]) {
        for (const own of ranks) own.poisonReceive(4 * ELEMENTS);
        for (const step of steps) step.run();
        await Promise.all(comms.map((comm) => comm.synchronize()));
        for (const own of ranks) {
          const place = { rank: own.rank, size: 2, elements: ELEMENTS };
          const written = outputElements(operation, place);
          const expected = Array.from({ length: ELEMENTS }, (_, i) =>
            i < written ? expectedElement(operation, place, i) : Number.NaN,
          );
          expect([...(await own.readReceive(0, ELEMENTS))]).toEqual(expected);
        }
        for (const step of steps) step.release();
      }
    });
  }
});

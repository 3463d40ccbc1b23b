/** The measuring loop on GPUs of a fake driver, whose kernels run in the interpreter. */
import { describe, expect, it } from 'vitest';
import { combinations } from '#src/cli/perf/combinations.js';
import { CudaRanks, type GpuTestData } from '#src/cli/perf/cuda-ranks.js';
import type { DataSegment } from '#src/cli/perf/data-plan.js';
import { Measurement } from '#src/cli/perf/measure.js';
import { parsePerfOptions } from '#src/cli/perf/options.js';
import type { ResultRow } from '#src/cli/perf/report.js';
import { COLLECTIVE_NAMES, hasInPlace } from '#src/cli/perf/sizes.js';
import { TestData } from '#src/cli/perf/test-data.js';
import { elementBytes } from '#src/cli/perf/type-names.js';
import type { Stream } from '#src/device/cuda/stream.js';
import { HostDevice } from '#src/device/host/host-device.js';
import type { ElementType } from '#src/kernel/element-types.js';
import { fakeGpus } from '../../communicator/cuda/fake-gpus.js';

/** Test data by way of the host. `spoil` changes what has been received before it is compared. */
function hostData(stream: Stream, spoil: (bytes: Uint8Array) => void): GpuTestData {
  const data = new TestData(HostDevice.shared());
  const room = (segments: readonly DataSegment[], type: ElementType) =>
    new Uint8Array(Math.max(0, ...segments.map(({ start, count }) => start + count)) * elementBytes(type));
  return {
    fill: (address, segments, type, op) => {
      const bytes = room(segments, type);
      if (bytes.length === 0) return;
      data.fill(bytes, segments, type, op);
      stream.copyIn(address, bytes);
    },
    verify: (address, segments, type, op) => {
      const bytes = room(segments, type);
      if (bytes.length === 0) return 0;
      stream.copyOut(bytes, address);
      stream.synchronize();
      spoil(bytes);
      return data.verify(bytes, segments, type, op);
    },
    close: () => data.close(),
  };
}

/** Measures what a command line asks for on fake GPUs. */
async function measure(
  line: string,
  gpus: readonly number[],
  { types, spoil = () => {} }: { types?: ElementType[]; spoil?: (bytes: Uint8Array) => void } = {},
) {
  const parsed = parsePerfOptions(line.split(' '));
  const options = { ...parsed, types: types ?? parsed.types };
  const { cudaDriver, comms, driver } = await fakeGpus(gpus);
  const ranks = await CudaRanks.open(
    { ...options, testData: (stream) => hostData(stream, spoil) },
    cudaDriver,
    comms,
  );
  const rows: ResultRow[] = [];
  const measurement = new Measurement(options, ranks, options.sweep.maxBytes);
  const events = { row: (row: ResultRow) => rows.push(row), progress: () => {} };
  for (const combination of combinations(options, gpus.length))
    await measurement.measure(combination, events);
  ranks.close();
  await Promise.all(comms.map((comm) => comm.close()));
  return { rows, ranks, failedChecks: measurement.failedChecks, leaks: driver.leaks };
}

describe('perf on GPUs', () => {
  it.each(COLLECTIVE_NAMES)('verifies %s out of place and in place', async (collective) => {
    const [gpus, least] = collective === 'hypercube' ? [[0, 1, 1, 0], 64] : [[0, 1, 1], 96];
    const { rows, failedChecks, leaks } = await measure(
      `${collective} -b ${least} -e ${8 * least} -f 8 --iters 1 -w 0`,
      gpus,
    );
    expect(rows.map(({ bytes }) => bytes)).toEqual([least, 8 * least]);
    for (const { outOfPlace, inPlace } of rows) {
      expect(outOfPlace.wrong).toBe(0);
      expect(outOfPlace.timeUs).toBeGreaterThan(0);
      expect(inPlace?.wrong).toBe(hasInPlace(collective) ? 0 : undefined);
    }
    expect({ failedChecks, leaks }).toEqual({ failedChecks: 0, leaks: [] });
  });

  it('replays graphs, and changes types between rows', async () => {
    const types: ElementType[] = ['float16', 'int64'];
    const { rows, leaks } = await measure('all_reduce -b 64 -e 64 -G 3 --iters 2 -w 0', [0, 0], { types });
    expect(rows.map(({ count }) => count)).toEqual([32, 8]);
    for (const { outOfPlace, inPlace } of rows) expect([outOfPlace.wrong, inPlace!.wrong]).toEqual([0, 0]);
    expect(leaks).toEqual([]);
    for (const name of ['sendrecv', 'hypercube']) {
      const messages = await measure(`${name} -b 64 -e 64 -G 2 --iters 2 -w 0`, [0, 1]);
      expect(messages.rows[0]!.outOfPlace.wrong).toBe(0);
      expect(messages.leaks).toEqual([]);
    }
  });

  it('times single iterations, waits after every operation, uses unaligned buffers', async () => {
    const { rows } = await measure('all_gather -b 64 -e 64 -I 1 --iters 3 -m 2 -u 1', [0, 1]);
    // The fake driver's events are a millisecond apart.
    expect(rows[0]!.outOfPlace.iterations!.samples).toEqual([500, 500, 500]);
    const waiting = await measure('reduce -b 64 -e 64 -z 1 --iters 2 -r all', [0, 1]);
    expect(waiting.rows.map(({ root, outOfPlace }) => [root, outOfPlace.wrong])).toEqual([
      [0, 0],
      [1, 0],
    ]);
  });

  it('counts wrong elements', async () => {
    const spoil = (bytes: Uint8Array) => {
      bytes[8]! ^= 1;
    };
    const { rows, failedChecks } = await measure('broadcast -b 64 -e 64 --iters 1', [0, 1], { spoil });
    expect(rows[0]!.outOfPlace.wrong).toBe(2);
    expect(failedChecks).toBe(4);
  });

  it('says which GPU every rank is on', async () => {
    const { ranks } = await measure('all_reduce -b 64 -e 64 --iters 1 -c 0', [1, 0, 1]);
    expect(ranks.places.map(({ device, address, model }) => [device, address, model])).toEqual([
      [1, '0000:01:00', 'Fake GPU'],
      [0, '0000:00:00', 'Fake GPU'],
      [1, '0000:01:00', 'Fake GPU'],
    ]);
    expect(ranks.connections).toContain('GPU 1 is shared by ranks 0 and 2');
  });
});

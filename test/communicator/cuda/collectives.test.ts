/** Calls on GPUs of a fake driver, whose kernels run in the interpreter, against the reference. */
import { describe, expect, it } from 'vitest';
import { CUDA } from '#src/device/cuda/cuda-error.js';
import { effort } from '../../effort.js';
import { randomCase, runCase, ways } from '../../gpu/cases.mjs';
import { randomFrom } from '../../gpu/random.mjs';
import { apartProcesses, fakeGpus, fakeProcesses } from './fake-gpus.js';

/** GPUs that do not reach each other. */
const apart: typeof fakeGpus = (gpus, options) => fakeGpus(gpus, { ...options, access: (a, b) => a === b });

/** Processes that find out only by trying that their GPUs do not reach each other. */
const unaware: typeof fakeProcesses = (gpus, options) =>
  fakeProcesses(gpus, {
    ...options,
    fail: new Map([['cuIpcOpenMemHandle', { code: CUDA.peerAccessUnsupported, after: 1 }]]),
  });

/** Ranks that compare what they call. */
const compared: typeof fakeGpus = (gpus, options) => fakeGpus(gpus, { ...options, check: true });

/** Calls of each team in each way. */
const CASES = effort(5, 40);

const TEAMS = [
  ['one rank', fakeGpus, [0]],
  ['two ranks on a GPU', fakeGpus, [0, 0]],
  ['three ranks on two GPUs', fakeGpus, [0, 1, 1]],
  ['two ranks with check', compared, [0, 1]],
  ['two ranks that meet in memory of the host', apart, [0, 1]],
  ['three processes on two GPUs', fakeProcesses, [0, 1, 1]],
  ['three processes that meet in memory of the host', apartProcesses, [0, 1, 1]],
  ['two processes whose GPUs turn out to be apart', unaware, [0, 1]],
] as const;

describe.each(TEAMS)('%s', (_, open, gpus) => {
  it.each(Object.entries(ways))('compute what the reference does, %s', async (way, how) => {
    const seed = Number(process.env.SEED ?? 7) + way.length;
    const random = randomFrom(seed);
    const { comms, driver } = await open(gpus, { seed });
    for (let k = 0; k < CASES; k++) {
      const one = randomCase(random, gpus.length, 60);
      expect(await runCase(comms, one, how), `case ${k} of seed ${seed}`).toEqual([]);
    }
    await Promise.all(comms.map((comm) => comm.close()));
    expect(driver.leaks).toEqual([]);
  });
});

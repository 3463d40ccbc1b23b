/** Calls on GPUs of a fake driver, whose kernels run in the interpreter, against the reference. */
import { describe, expect, it } from 'vitest';
import { graphed, prepared, randomCase, runCase } from '../../gpu/cases.mjs';
import { randomFrom } from '../../gpu/random.mjs';
import { fakeGpus } from './fake-gpus.js';

const TEAMS = [[0], [0, 0], [0, 1, 1]];

describe.each(TEAMS.map((gpus) => [gpus.join(', '), gpus] as const))('ranks on GPUs %s', (_, gpus) => {
  it.each([
    ['awaited', undefined],
    ['prepared', prepared],
    ['from a graph', graphed],
  ] as const)('compute what the reference does, %s', async (way, how) => {
    const seed = Number(process.env.SEED ?? 7) + way.length;
    const random = randomFrom(seed);
    const { comms, driver } = await fakeGpus(gpus, { seed });
    for (let k = 0; k < 12; k++) {
      const one = randomCase(random, gpus.length, 60);
      expect(await runCase(comms, one, how), `case ${k} of seed ${seed}`).toEqual([]);
    }
    await Promise.all(comms.map((comm) => comm.close()));
    expect(driver.leaks).toEqual([]);
  });
});

/** Ranks of one process on GPUs: random calls against the reference. `node --test test/gpu/*.test.mjs`. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CudaDriver } from '#src/device/cuda/driver.js';
import { createLocalCommunicators, cuda } from '#src/index.js';
import { describe as inWords, randomCase, runCase, ways } from './cases.mjs';
import { randomFrom, SEED } from './random.mjs';

const CASES = Number(process.env.TUTTI_GPU_CASES ?? 150);
const { deviceCount } = new CudaDriver();

/** Lists of GPUs for the ranks: several on one, and one on each of all. */
const TEAMS = [[0], [0, 0], [0, 0, 0], [0, 0, 0, 0, 0]];
if (deviceCount > 1) TEAMS.push([0, 1], [0, 1, 1, 0]);
/** Once more as if they did not reach each other's memory. */
const APART = TEAMS.at(-1).slice(0, 2);

for (const [number, team] of [...TEAMS, APART].entries()) {
  const apart = team === APART;
  describe(`ranks on GPUs ${team.join(', ')}${apart ? ' without peer access' : ''}`, () => {
    for (const [way, how] of Object.entries(ways)) {
      it(`compute what the reference does, ${way} (seed ${SEED})`, { timeout: 120_000 }, async () => {
        const random = randomFrom(SEED + 1000 * number + way.length);
        process.env.NCCL_P2P_DISABLE = apart ? '1' : '0';
        const comms = await createLocalCommunicators(
          team.map((gpu) => cuda(gpu)),
          { timeoutMs: 10_000 },
        );
        try {
          for (let k = 0; k < CASES; k++) {
            // Most are small; some are large enough for every way to cut.
            const one = randomCase(random, team.length, k % 25 === 0 ? 300_000 : 3000);
            const wrong = await runCase(comms, one, how);
            assert.deepEqual(wrong, [], `case ${k} of seed ${SEED}: ${inWords(one)}`);
          }
        } finally {
          await Promise.all(comms.map((comm) => comm.close()));
        }
      });
    }
  });
}

/** Rings, trees and PAT where they are asked for: random calls against the reference, small and large. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CudaDriver } from '#src/device/cuda/driver.js';
import { createLocalCommunicators, cuda } from '#src/index.js';
import { exactCase, describe as inWords, runCase, ways } from './cases.mjs';
import { randomFrom, SEED } from './random.mjs';

const CASES = Number(process.env.TUTTI_GPU_CASES ?? 25);
const { deviceCount } = new CudaDriver();

const TEAMS = [
  [0, 0],
  [0, 0, 0, 0, 0],
];
if (deviceCount > 1) TEAMS.push([0, 1], [0, 1, 1, 0, 0]);

const EVERYTHING = ['allReduce', 'allGather', 'reduceScatter', 'broadcast', 'reduce'];
const ALGORITHMS = [
  { algorithm: 'Ring;AllToAll:Ring', protocol: 'LL', collectives: [...EVERYTHING, 'allToAll'] },
  { algorithm: 'Ring;AllToAll:Ring', protocol: 'LL128', collectives: [...EVERYTHING, 'allToAll'] },
  { algorithm: 'Ring;AllToAll:Ring', protocol: 'Simple', collectives: [...EVERYTHING, 'allToAll'] },
  { algorithm: 'Tree', protocol: 'LL', collectives: ['allReduce'] },
  { algorithm: 'Tree', protocol: 'LL128', collectives: ['allReduce'] },
  { algorithm: 'Tree', protocol: 'Simple', collectives: ['allReduce'] },
  // Few channels: much goes through each, in many rounds and windows.
  { algorithm: 'Ring', protocol: 'LL128', collectives: EVERYTHING, channels: 2 },
  { algorithm: 'Tree', protocol: 'LL', collectives: ['allReduce'], channels: 2 },
  { algorithm: 'Tree', protocol: 'LL128', collectives: ['allReduce'], channels: 2 },
  { algorithm: 'Tree', protocol: 'Simple', collectives: ['allReduce'], channels: 2 },
  { algorithm: 'PAT', collectives: ['allGather', 'reduceScatter'], averages: false },
  { algorithm: 'OneShot', collectives: EVERYTHING },
  { algorithm: 'TwoShot', collectives: EVERYTHING },
];

for (const [number, team] of TEAMS.entries()) {
  describe(`ranks on GPUs ${team.join(', ')}`, () => {
    for (const { algorithm, protocol, channels, ...which } of ALGORITHMS) {
      const few = channels === undefined ? '' : ` over ${channels} channels`;
      const name = (protocol === undefined ? algorithm : `${algorithm} and ${protocol}`) + few;
      it(`are right with ${name} (seed ${SEED})`, { timeout: 60_000 }, async () => {
        const random = randomFrom(SEED + 1000 * number + name.length);
        const options = { timeoutMs: 10_000, algorithm, protocol, channels };
        const comms = await createLocalCommunicators(
          team.map((gpu) => cuda(gpu)),
          options,
        );
        try {
          for (let k = 0; k < CASES; k++) {
            const most = k % 12 === 3 ? 400_000 : k % 5 === 0 ? 30_000 : 3000;
            const one = exactCase(random, team.length, most, which);
            const how = ways[random.pick(['awaited', 'prepared', 'graphed'])];
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

/** Joins what the launcher describes, twice, and prints what it found; run under mpirun and by hand. */
import { Bootstrap } from '../../../dist/bootstrap/bootstrap.js';

for (let round = 0; round < 2; round++) {
  try {
    const bootstrap = await Bootstrap.fromLaunchEnvironment({ timeoutMs: 15_000 });
    const parts = await bootstrap.allGather(Buffer.from(`r${bootstrap.rank}`), 'launched');
    const { launcher, localRank, localSize } = bootstrap.launch;
    console.log(`${launcher} ${bootstrap.rank} local ${localRank}/${localSize}: ${Buffer.concat(parts)}`);
    await bootstrap.close();
  } catch (error) {
    console.log(`${error.code}: ${error.message}`);
    process.exitCode = 1;
    break;
  }
}

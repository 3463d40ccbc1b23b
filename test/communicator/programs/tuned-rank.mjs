/**
 * A rank with a file of constants of its own (arguments: one per rank) tells what it chooses, or how it failed.
 */
import { Communicator } from 'tutti';

process.env.TUTTI_TUNING_FILE = process.argv[2 + Number(process.env.RANK)];
try {
  const comm = await Communicator.fromEnv();
  const all = comm.alloc(Float32Array, 256);
  const step = comm.prepare.allReduce(all, all);
  step.run();
  console.log(step.explanation);
  await comm.close();
} catch (error) {
  console.log(`${error.code}: ${error.message}`);
}

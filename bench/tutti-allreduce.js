/**
 * All-reduce loop on tutti, one rank per process: float sum, out of place. The same measuring rules as
 * bench/peers/openmpi-allreduce.c.
 *
 * usage: npx tutti run -n RANKS bench/tutti-allreduce.js windows|arrays BYTES:WARMUP:ITERATIONS,...
 *   windows   arrays of comm.alloc, prepared once, `run()` in the loop
 *   arrays    ordinary typed arrays, `allReduceSync` in the loop
 * Rank 0 prints one JSON line per size: {"size":8,"iterations":1000,"us":0.5}
 */
import { Communicator } from 'tutti';

/** Calls of one portion of the warm-up. */
const PORTION = 500;

/** Value of element i on a rank: whole numbers up to 13 * ranks, exact in float. */
const element = (rank, i) => (rank + 1) * ((i % 13) + 1);

function check(recv, ranks, when) {
  const factor = (ranks * (ranks + 1)) / 2;
  for (let i = 0; i < recv.length; i++) {
    const right = factor * ((i % 13) + 1);
    if (recv[i] !== right) {
      throw new Error(`tutti: ${when}, element ${i} of ${recv.length} is ${recv[i]}, not ${right}`);
    }
  }
}

/** A typed array on the heap or an ordinary one. */
function allocate(comm, section, count) {
  return section === 'windows' ? comm.alloc(Float32Array, count) : new Float32Array(count);
}

/** One function per section and size, so that the loop calls what a user's loop would call. */
function timeWindows(step, count) {
  const start = performance.now();
  for (let k = 0; k < count; k++) step.run();
  return performance.now() - start;
}

function timeArrays(comm, send, recv, count) {
  const start = performance.now();
  for (let k = 0; k < count; k++) comm.allReduceSync(send, recv);
  return performance.now() - start;
}

async function measure(comm, section, { size, warmup, iterations }) {
  const send = allocate(comm, section, size / 4);
  const recv = allocate(comm, section, size / 4);
  for (let i = 0; i < send.length; i++) send[i] = element(comm.rank, i);
  recv.fill(-1);
  const step = section === 'windows' ? comm.prepare.allReduce(send, recv) : undefined;
  const loop = (count) => (step ? timeWindows(step, count) : timeArrays(comm, send, recv, count));
  loop(1);
  check(recv, comm.size, 'before the timed loop');
  // In portions: an engine optimises a function that is called again, not only the loop that it is in.
  for (let done = 0; done < warmup; done += PORTION) loop(Math.min(PORTION, warmup - done));
  comm.barrierSync();
  const mean = (loop(iterations) / iterations) * 1e3;
  check(recv, comm.size, 'after the timed loop');
  const slowest = Float64Array.of(mean);
  comm.allReduceSync(slowest, slowest, { op: 'max' });
  if (comm.rank === 0) {
    process.stdout.write(`{"size":${size},"iterations":${iterations},"us":${slowest[0].toFixed(4)}}\n`);
  }
}

const [section, text] = process.argv.slice(2);
if ((section !== 'windows' && section !== 'arrays') || !/^\d+:\d+:\d+(,\d+:\d+:\d+)*$/.test(text ?? '')) {
  throw new Error('usage: tutti-allreduce.js windows|arrays BYTES:WARMUP:ITERATIONS,...');
}
const comm = await Communicator.fromEnv();
try {
  for (const part of text.split(',')) {
    const [size, warmup, iterations] = part.split(':').map(Number);
    await measure(comm, section, { size, warmup, iterations });
  }
} finally {
  await comm.close();
}

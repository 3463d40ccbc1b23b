/**
 * Data-parallel training, as small as it gets: a linear model, stochastic gradient descent, one shard of the data
 * per rank, gradients averaged after every step.
 *
 *     npx tutti run -n 4 examples/data-parallel.js
 *
 * Rank 0 then trains on all the data alone and compares: the parameters must be the same but for rounding. The
 * exit status is 1 when they are not, or when the model is not learned.
 */
import { Communicator } from 'tutti';

const FEATURES = 6;
const PARAMETERS = FEATURES + 1; // the last is the bias
const SAMPLES_PER_RANK = 64;
const STEPS = 30;
const LEARNING_RATE = 0.3;

/** What is to be learned. */
const TRUTH = Float32Array.from({ length: PARAMETERS }, (_, i) => i - 2.5);

/** Numbers between -1 and 1 that depend on the sample only, so that every rank can make any shard. */
function sample(index) {
  const x = Float32Array.from({ length: FEATURES }, (_, i) => Math.sin(1.7 * (i + 1) * index + i));
  const y = x.reduce((sum, value, i) => sum + value * TRUTH[i], TRUTH[FEATURES]);
  return { x, y };
}

function shard(rank) {
  return Array.from({ length: SAMPLES_PER_RANK }, (_, i) => sample(rank * SAMPLES_PER_RANK + i));
}

/** Mean squared error of the samples, and its gradient. */
function gradientOf(samples, parameters, gradient) {
  gradient.fill(0);
  let loss = 0;
  for (const { x, y } of samples) {
    const error = x.reduce((sum, value, i) => sum + value * parameters[i], parameters[FEATURES]) - y;
    loss += (error * error) / samples.length;
    for (let i = 0; i < FEATURES; i++) gradient[i] += (2 * error * x[i]) / samples.length;
    gradient[FEATURES] += (2 * error) / samples.length;
  }
  return loss;
}

function descend(parameters, gradient) {
  for (let i = 0; i < PARAMETERS; i++) parameters[i] -= LEARNING_RATE * gradient[i];
}

const comm = await Communicator.fromEnv();
const parameters = comm.alloc(Float32Array, PARAMETERS);
const gradient = comm.alloc(Float32Array, PARAMETERS);

// All begin with the parameters of rank 0, whatever they had before.
for (let i = 0; i < PARAMETERS; i++) parameters[i] = Math.cos(comm.rank + i);
await comm.broadcast(parameters, { root: 0 });

const average = comm.prepare.allReduce(gradient, gradient, { op: 'avg' });
const samples = shard(comm.rank);
let loss = 0;
for (let step = 0; step < STEPS; step++) {
  loss = gradientOf(samples, parameters, gradient);
  average.run();
  descend(parameters, gradient);
}

if (comm.rank === 0) {
  const alone = Float32Array.from({ length: PARAMETERS }, (_, i) => Math.cos(i));
  const all = Array.from({ length: comm.size }, (_, rank) => shard(rank)).flat();
  const whole = new Float32Array(PARAMETERS);
  for (let step = 0; step < STEPS; step++) {
    gradientOf(all, alone, whole);
    descend(alone, whole);
  }
  const distance = (a, b) => Math.max(...a.map((value, i) => Math.abs(value - b[i])));
  console.log(`${comm.size} ranks, ${STEPS} steps: loss of the shard of rank 0 is ${loss.toExponential(2)}`);
  console.log(`parameters: ${[...parameters].map((value) => value.toFixed(3)).join(' ')}`);
  console.log(`largest difference from one process: ${distance(parameters, alone).toExponential(2)}`);
  if (distance(parameters, alone) > 1e-4 || distance(parameters, TRUTH) > 1e-2) process.exitCode = 1;
}
average.release();
await comm.close();

/**
 * Makes and closes communicators many times and prints by how much the process has grown since the first ones.
 *
 * usage: tutti run -n N many-communicators.mjs TIMES [threads]
 */
import { readdirSync, readFileSync } from 'node:fs';
import { Communicator, createLocalCommunicators } from '../../../dist/index.js';

const times = Number(process.argv[2]);
const threads = process.argv[3] === 'threads';

async function use(comm) {
  const heap = comm.alloc(Float32Array, 100_000);
  const array = new Float32Array(1000).fill(1);
  await comm.allReduce(heap, heap);
  await comm.allReduce(array, array);
  if (comm.size > 1 && array[0] !== comm.size) throw new Error(`the sum is ${array[0]}`);
  if (!threads) {
    comm.allReduceSync(array, array);
    // Not released: closing does it.
    comm.prepare.allReduce(heap, heap).run();
  }
}

async function once() {
  const comms = threads ? await createLocalCommunicators(3) : [await Communicator.fromEnv()];
  await Promise.all(comms.map(use));
  await Promise.all(comms.map((comm) => comm.close()));
}

function measure() {
  globalThis.gc?.();
  const status = readFileSync('/proc/self/status', 'latin1');
  const field = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)[1]);
  return {
    descriptors: readdirSync('/proc/self/fd').length,
    threads: field('Threads'),
    megabytes: (field('RssAnon') + field('RssShmem')) / 1000,
  };
}

/** The first ones also grow what stays: code, pools, the heap of JavaScript. */
const settle = Math.ceil(times / 3);
for (let i = 0; i < settle; i++) await once();
const before = measure();
for (let i = settle; i < times; i++) await once();
const after = measure();
console.log(
  JSON.stringify(
    Object.fromEntries(Object.keys(after).map((key) => [key, Math.round(after[key] - before[key])])),
  ),
);

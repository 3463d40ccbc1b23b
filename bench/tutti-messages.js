/**
 * Loops of messages on tutti, one rank per process, by the same measuring rules as bench/peers/openmpi-messages.c.
 *
 * usage: npx tutti run -n RANKS bench/tutti-messages.js sendrecv|gather|scatter windows|arrays BYTES:WARMUP:ITERATIONS,...
 *   windows   arrays of comm.alloc, prepared once, `run()` in the loop
 *   arrays    ordinary typed arrays, the synchronous calls in the loop (sendrecv: prepared)
 * Rank 0 prints one JSON line per size: {"size":8,"iterations":1000,"us":0.5}
 */
import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { Communicator } from 'tutti';

/** Calls of one portion of the warm-up. */
const PORTION = 500;

const value = (owner, i) => (owner * 37 + (i % 251)) & 255;

function check(data, owner) {
  const wrong = data.findIndex((byte, i) => byte !== value(owner, i));
  if (wrong >= 0) throw new Error(`tutti: byte ${wrong} of ${data.length} from ${owner} is wrong`);
}

function time(step, count) {
  const start = performance.now();
  for (let k = 0; k < count; k++) step();
  return performance.now() - start;
}

function stepOf(comm, call, isWindow, own, other, all) {
  const { rank, size } = comm;
  if (call === 'sendrecv') {
    const prepared = comm.prepare.group(() => {
      comm.send(own, (rank + 1) % size);
      comm.recv(other, (rank + size - 1) % size);
    });
    return () => prepared.run();
  }
  const [send, recv] = call === 'gather' ? [own, rank === 0 ? all : null] : [rank === 0 ? all : null, other];
  if (!isWindow) return () => comm[`${call}Sync`](send, recv);
  const prepared = comm.prepare[call](send, recv);
  return () => prepared.run();
}

async function measure(comm, call, isWindow, { size: bytes, warmup, iterations }) {
  const { rank, size } = comm;
  const make = (n) => (isWindow ? comm.alloc(Uint8Array, n) : new Uint8Array(n));
  const [own, other, all] = [make(bytes), make(bytes), make(bytes * size)];
  for (let i = 0; i < bytes; i++) own[i] = value(rank, i);
  if (call === 'scatter')
    for (let i = 0; i < all.length; i++) all[i] = value(Math.floor(i / bytes), i % bytes);
  const step = stepOf(comm, call, isWindow, own, other, all);
  step();
  for (let done = 0; done < warmup; done += PORTION) time(step, Math.min(PORTION, warmup - done));
  comm.barrierSync();
  const mean = (time(step, iterations) / iterations) * 1e3;
  if (call === 'sendrecv') check(other, (rank + size - 1) % size);
  if (call === 'scatter') check(other, rank);
  if (call === 'gather' && rank === 0) {
    for (let r = 0; r < size; r++) check(all.subarray(r * bytes, (r + 1) * bytes), r);
  }
  const slowest = Float64Array.of(mean);
  comm.allReduceSync(slowest, slowest, { op: 'max' });
  if (rank === 0) {
    process.stdout.write(`{"size":${bytes},"iterations":${iterations},"us":${slowest[0].toFixed(4)}}\n`);
  }
  await comm.barrier();
  if (isWindow) for (const array of [own, other, all]) comm.free(array);
}

const [call, section, text] = process.argv.slice(2);
const isKnown = ['sendrecv', 'gather', 'scatter'].includes(call) && ['windows', 'arrays'].includes(section);
if (!isKnown || !/^\d+:\d+:\d+(,\d+:\d+:\d+)*$/.test(text ?? '')) {
  throw new Error(
    'usage: tutti-messages.js sendrecv|gather|scatter windows|arrays BYTES:WARMUP:ITERATIONS,...',
  );
}
const comm = await Communicator.fromEnv();
// A core for each rank where there are enough, as mpirun does.
if (comm.size <= availableParallelism()) {
  spawnSync('taskset', ['-a', '-c', '-p', String(comm.rank), String(process.pid)]);
}
try {
  for (const part of text.split(',')) {
    const [size, warmup, iterations] = part.split(':').map(Number);
    await measure(comm, call, section === 'windows', { size, warmup, iterations });
  }
} finally {
  await comm.close();
}

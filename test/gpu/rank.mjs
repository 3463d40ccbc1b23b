/**
 * One rank as a process, for the tests of several processes: joins, does what its first argument says, reports in one
 * line of JSON. Environment: what the launcher sets (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) and GPU.
 */
import { cudaDriver } from '#src/device/cuda/driver.js';
import { Communicator, cuda, group } from '#src/index.js';
import { unsigned } from '../reference/direct-arithmetic.mjs';
import { checkRank, describe, exactCase, prepareRank, randomCase, ways } from './cases.mjs';
import { randomFrom } from './random.mjs';
import { makeVirtualMemory } from './virtual-memory.mjs';

const [task, seed = '1', cases = '20'] = process.argv.slice(2);
const report = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

/** Random calls in one way; what all ranks send is made again here. */
function compute(comm) {
  return computeCases(comm, (random, k) => randomCase(random, comm.size, k % 20 === 0 ? 200_000 : 2000));
}

/** The same for what NCCL_ALGO names: calls whose results do not depend on the order of the ranks. */
function computeInAnyOrder(comm) {
  const algorithm = process.env.NCCL_ALGO;
  const all = ['allReduce', 'allGather', 'reduceScatter', 'broadcast', 'reduce', 'allToAll'];
  const collectives = { Tree: ['allReduce'], PAT: ['allGather', 'reduceScatter'] }[algorithm] ?? all;
  const which = { collectives, averages: algorithm !== 'PAT' };
  return computeCases(comm, (random, k) =>
    exactCase(random, comm.size, k % 10 === 3 ? 400_000 : 3000, which),
  );
}

async function computeCases(comm, makeCase) {
  const random = randomFrom(Number(seed));
  const wrong = [];
  for (let k = 0; k < Number(cases); k++) {
    const one = makeCase(random, k);
    const how = random.pick(Object.values(ways));
    const states = [];
    for (let rank = 0; rank < comm.size; rank++)
      states.push(await prepareRank(comm, one, rank, comm.size, rank !== comm.rank));
    const own = states[comm.rank];
    await how([comm], [own], one);
    const sends = states.map((state) => unsigned(state.sends));
    const found = await checkRank(comm, one, comm.rank, own, sends);
    wrong.push(...found.map((line) => `case ${k} (${describe(one)}): ${line}`));
    for (const memory of own.memories.keys()) memory.free();
  }
  return wrong;
}

/** Calls until something goes wrong. */
async function callForEver(comm) {
  const a = comm.alloc(Float32Array, 1000);
  const b = comm.alloc(Float32Array, 1000);
  report({ ready: process.pid });
  const begin = Date.now();
  try {
    for (;;) await comm.allReduce(a, b);
  } catch (error) {
    return { code: error.code, rank: error.rank, message: error.message, ms: Date.now() - begin };
  }
}

/** Virtual memory of another library, in pieces, made for peers to map or not; they are told of it while they wait for it. */
async function virtual(comm) {
  const apart = process.env.NCCL_P2P_DISABLE === '1';
  const own = comm.alloc(Float32Array, 1000);
  const wrong = [];
  for (const shared of [false, true]) {
    cudaDriver().device(comm.device).makeCurrent();
    const memory = makeVirtualMemory(comm.device, 4, [comm.device], shared);
    const isLast = comm.rank === comm.size - 1;
    for (const length of [1000, 1_500_000]) {
      if (isLast) await new Promise((resolve) => setTimeout(resolve, 100));
      const early = isLast ? comm.wrap(memory.address, Float32Array, length) : undefined;
      await comm.allReduce(own, own);
      const buffer = early ?? comm.wrap(memory.address, Float32Array, length);
      await buffer.copyFrom(new Float32Array(length).fill(comm.rank + 1));
      const call = comm.prepare.allReduce(buffer, buffer);
      await call.ready;
      await call.start();
      const found = await buffer.read();
      const sum = (comm.size * (comm.size + 1)) / 2;
      const at = found.findIndex((value) => value !== sum);
      if (at >= 0) wrong.push(`length ${length}, shared ${shared}: element ${at} is ${found[at]}`);
      const copied = / is copied on the way: /.test(call.explanation);
      if (!apart && copied === shared) wrong.push(`shared ${shared}: ${call.explanation}`);
      buffer.free();
    }
    await comm.barrier();
    memory.free();
  }
  return wrong;
}

/** The same as blockForEver in a stream of another library. */
async function blockElsewhere(comm) {
  const { functions } = cudaDriver().calls;
  cudaDriver().device(comm.device).makeCurrent();
  const stream = [0];
  functions.cuStreamCreate(stream, 1);
  return blockForEver(comm, stream[0]);
}

/** Waits for the last rank, which does not come, in a call of the driver that blocks the thread. */
async function blockForEver(comm, stream = comm.stream) {
  const a = comm.alloc(Float32Array, 1000);
  const step = comm.prepare.allReduce(a, a);
  await step.ready;
  await comm.barrier();
  if (comm.rank === comm.size - 1) {
    report({ ready: process.pid });
    await new Promise((resolve) => setTimeout(resolve, 60_000));
  }
  step.run(stream);
  const begin = Date.now();
  cudaDriver().calls.functions.cuStreamSynchronize(stream);
  const ms = Date.now() - begin;
  try {
    await comm.synchronize();
    return { code: 'none' };
  } catch (error) {
    return { code: error.code, rank: error.rank, message: error.message, ms };
  }
}

/** One rank calls something that the others do not. */
async function leaveAlone(comm) {
  const a = comm.alloc(Float32Array, 1000);
  if (comm.rank !== 0) return { waited: false };
  report({ ready: process.pid });
  try {
    await comm.allReduce(a, a);
    return { code: 'none' };
  } catch (error) {
    return { code: error.code, message: error.message };
  }
}

/** The last rank does not call for longer than the time limit. */
async function stayAway(comm) {
  const a = comm.alloc(Float32Array, 1000);
  await comm.allReduce(a, a);
  const begin = Date.now();
  if (comm.rank === comm.size - 1) {
    await new Promise((resolve) => setTimeout(resolve, 3000));
    return { waited: true };
  }
  try {
    await comm.allReduce(a, a);
    return { code: 'none' };
  } catch (error) {
    return { code: error.code, rank: error.rank, message: error.message, ms: Date.now() - begin };
  }
}

/** The last rank reduces one element more than the others. */
async function differ(comm) {
  const same = comm.alloc(Float32Array, 10);
  await comm.allReduce(same, same);
  const a = comm.alloc(Float32Array, comm.rank === comm.size - 1 ? 1001 : 1000);
  const begin = Date.now();
  try {
    await comm.allReduce(a, a);
    return { code: 'none' };
  } catch (error) {
    return { code: error.code, rank: error.rank, message: error.message, ms: Date.now() - begin };
  }
}

/** A ring of messages, with buffers of `alloc` and of a wrapped pointer. */
async function ring(comm) {
  const next = (comm.rank + 1) % comm.size;
  const previous = (comm.rank + comm.size - 1) % comm.size;
  const wrong = [];
  for (const length of [1, 1000, 1_000_000]) {
    const send = comm.alloc(Float32Array, length);
    const memory = comm.alloc(Float32Array, length);
    const recv = comm.wrap(memory.address, Float32Array, length);
    await send.copyFrom(new Float32Array(length).fill(comm.rank + length));
    await group(() => {
      void comm.send(send, next);
      void comm.recv(recv, previous);
    });
    const found = await memory.read();
    if (found.some((value) => value !== previous + length)) wrong.push(`length ${length}: ${found[0]}`);
  }
  return wrong;
}

/** Unequal progress: the last rank takes new memory while the others wait for it in a kernel. */
async function allocateLate(comm) {
  const a = comm.alloc(Float32Array, 1000);
  const b = comm.alloc(Float32Array, 1000);
  await comm.allReduce(a, b);
  if (comm.rank === comm.size - 1) await new Promise((resolve) => setTimeout(resolve, 300));
  const large = 64 * 1024 * 1024;
  const c = comm.rank === comm.size - 1 ? comm.alloc(Float32Array, large) : undefined;
  await comm.allReduce(a, b);
  const d = c ?? comm.alloc(Float32Array, large);
  await comm.allReduce(d, d);
  d.free();
  await comm.allReduce(a, b);
  return { late: 'done' };
}

const comm = await Communicator.fromEnv({
  device: cuda(Number(process.env.GPU ?? 0)),
  timeoutMs: Number(process.env.TIMEOUT_MS ?? 15_000),
});
const tasks = {
  compute,
  computeInAnyOrder,
  callForEver,
  leaveAlone,
  stayAway,
  allocateLate,
  ring,
  differ,
  blockForEver,
  blockElsewhere,
  virtual,
};
const begin = performance.now();
const result = await tasks[task](comm);
await comm.close();
report({ result, ms: Math.round(performance.now() - begin) });

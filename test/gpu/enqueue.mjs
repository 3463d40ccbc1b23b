/**
 * What the host spends: opening communicators, first calls with and without machine code on disk, and launches of
 * prepared operations and graphs, with the forms of calling the driver beside them. Prints one JSON object.
 * Usage: node test/gpu/enqueue.mjs [GPU ...]     the GPUs of the ranks, by default 0 0
 */
import { createRequire } from 'node:module';
import { createLocalCommunicators, cuda } from '#src/index.js';

const gpus = process.argv.slice(2).map(Number);
if (gpus.length === 0) gpus.push(0, 0);
const report = { gpus, node: process.version };
const now = () => performance.now();
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

let start = now();
const comms = await createLocalCommunicators(
  gpus.map((gpu) => cuda(gpu)),
  { timeoutMs: 20_000 },
);
report.createMs = now() - start;
report.description = comms[0].description;

const sizes = [2, 256, 8192, 262144, 8388608];
const buffers = comms.map((comm) => ({
  send: comm.alloc(Float32Array, sizes.at(-1)),
  recv: comm.alloc(Float32Array, sizes.at(-1)),
}));
await Promise.all(comms.map((comm) => comm.synchronize()));
const all = (act) => Promise.all(comms.map((comm, rank) => act(comm, buffers[rank])));

start = now();
await all((comm, { send, recv }) => comm.allReduce(send.subarray(0, 2), recv.subarray(0, 2)));
report.firstCallMs = now() - start;
start = now();
await all((comm, { send, recv }) => comm.allReduce(send, recv));
report.firstLargeCallMs = now() - start;

report.sizes = [];
for (const count of sizes) {
  const operations = comms.map((comm, rank) =>
    comm.prepare.allReduce(buffers[rank].send.subarray(0, count), buffers[rank].recv.subarray(0, count)),
  );
  await Promise.all(operations.map(({ ready }) => ready));
  const row = { bytes: count * 4, how: operations[0].explanation };
  const batch = count > 1e6 ? 20 : 200;
  const enqueue = [];
  const total = [];
  for (let round = 0; round < 15; round++) {
    const begin = now();
    for (let k = 0; k < batch; k++) for (const operation of operations) operation.run();
    const queued = now();
    await Promise.all(comms.map((comm) => comm.synchronize()));
    enqueue.push(((queued - begin) * 1000) / batch / comms.length);
    total.push(((now() - begin) * 1000) / batch);
  }
  row.enqueueUs = median(enqueue);
  row.plainUs = median(total);
  const awaited = [];
  for (let round = 0; round < 60; round++) {
    const begin = now();
    await all((comm, { send, recv }) => comm.allReduce(send.subarray(0, count), recv.subarray(0, count)));
    awaited.push((now() - begin) * 1000);
  }
  row.awaitedUs = median(awaited);
  const graphs = comms.map((comm, rank) =>
    comm.capture(() => {
      for (let k = 0; k < 20; k++) operations[rank].run();
    }),
  );
  const replay = [];
  for (let round = 0; round < 30; round++) {
    const begin = now();
    for (let k = 0; k < 5; k++) for (const graph of graphs) graph.run();
    await Promise.all(comms.map((comm) => comm.synchronize()));
    replay.push(((now() - begin) * 1000) / 100);
  }
  row.graphUs = median(replay);
  for (const operation of [...operations, ...graphs]) operation.release();
  report.sizes.push(row);
}

// The cost of the border itself: the cheapest calls of the driver in several forms.
const koffi = createRequire(import.meta.url)('koffi');
const library = koffi.load('libcuda.so.1');
const time = (act) => {
  for (let k = 0; k < 2000; k++) act();
  const begin = now();
  for (let k = 0; k < 20_000; k++) act();
  return ((now() - begin) * 1000) / 20_000;
};
const query = library.func('int cuStreamQuery(uintptr_t stream)');
const stream = comms[0].stream;
const [context] = [[0]];
library.func('int cuStreamGetCtx(uintptr_t stream, _Out_ uintptr_t *context)')(stream, context);
const set = library.func('int cuCtxSetCurrent(uintptr_t context)');
report.borderUs = { streamQuery: time(() => query(stream)), setCurrent: time(() => set(context[0])) };
start = now();
await Promise.all(comms.map((comm) => comm.close()));
report.closeMs = now() - start;
console.log(JSON.stringify(report, null, 1));

/**
 * A rank whose behaviour the test chooses. Started by fork; says what happens by messages: `{ joined }`,
 * `{ looping }`, and at the end `{ end: { error?, result?, afterMs, at } }`.
 */
import { Communicator, group, parseUniqueId } from '../../../dist/index.js';

const { id, rank, size, behaviour, options = {}, ...rest } = JSON.parse(process.argv[2]);

const tell = (message) => new Promise((resolve) => process.send(message, resolve));

process.on('unhandledRejection', (error) => {
  process.send({ unhandled: String(error?.stack ?? error) });
});

/** Collectives of the given form, for ever. */
async function loop(comm) {
  const { form, collective = 'allReduce', count = 50_000 } = rest;
  const make = (length) =>
    form.includes('array') ? new Float32Array(length) : comm.alloc(Float32Array, length);
  const send = make(collective === 'reduceScatter' ? count * size : count);
  const recv = collective === 'allReduce' ? send : make(collective === 'allGather' ? count * size : count);
  const prepared = comm.prepare[collective](send, recv);
  await comm.barrier();
  await tell({ looping: true });
  for (;;) {
    if (form.startsWith('sync')) comm[`${collective}Sync`](send, recv);
    else if (form.startsWith('run')) prepared.run();
    else if (form.startsWith('start')) await prepared.start();
    else if (form.startsWith('burst')) await Promise.all([1, 2, 3].map(() => comm[collective](send, recv)));
    else await comm[collective](send, recv);
  }
}

/** Messages around the ring, for ever, or a gather. */
async function messages(comm) {
  const { form, count = 200_000 } = rest;
  const isHeap = !form.includes('array');
  const make = (length) => (isHeap ? comm.alloc(Float32Array, length) : new Float32Array(length));
  const [send, recv, all] = [make(count), make(count), make(count * size)];
  const record = () => {
    comm.send(send, (rank + 1) % size);
    comm.recv(recv, (rank + size - 1) % size);
  };
  const prepared = comm.prepare.group(record);
  await comm.barrier();
  await tell({ looping: true });
  for (;;) {
    if (form.startsWith('group')) await group(record);
    else if (form.startsWith('sync')) comm.groupSync(record);
    else if (form.startsWith('gather')) comm.gatherSync(send, all);
    else prepared.run();
  }
}

const behaviours = {
  loop,
  messages,
  /** Prepared calls that have run well; then the last rank runs a scatter, the others gathers, each of which ends at once. */
  async stray(comm) {
    const [block, all] = [comm.alloc(Uint8Array, 8), comm.alloc(Uint8Array, 8 * size)];
    const gather = comm.prepare.gather(block, all);
    const root = size - 1;
    const scatter = comm.prepare.scatter(all, block, { root });
    for (let i = 0; i < rest.before; i++) {
      gather.run();
      scatter.run();
    }
    // Rank 0 would wait as the root of a gather: it stays away as long as it can.
    if (rank > 0) for (let i = 0; i < rest.more; i++) (rank === root ? scatter : gather).run();
    await comm.barrier();
  },
  /** Rank 0 waits for a message of the last rank, which does not send. */
  async unsent(comm) {
    const data = comm.alloc(Float32Array, 1000);
    await comm.barrier();
    if (rank === 0) await comm.recv(data, size - 1);
    // Longer than the time limit: the rank that waits is the first to know.
    else await new Promise((resolve) => setTimeout(resolve, 1500));
  },
  /** The last rank stays away for a while, or for ever. */
  async late(comm) {
    const data = comm.alloc(Float32Array, 1000);
    await comm.barrier();
    await tell({ looping: true });
    if (rank === size - 1) await new Promise((resolve) => setTimeout(resolve, rest.lateMs));
    const before = process.cpuUsage();
    const since = performance.now();
    if (rest.form === 'sync') comm.allReduceSync(data, data);
    else await comm.allReduce(data, data);
    const { user, system } = process.cpuUsage(before);
    return { waitedMs: performance.now() - since, cpuMs: (user + system) / 1000 };
  },
  /** Rank 1 ends without a word after some operations. */
  async leave(comm) {
    const data = comm.alloc(Float32Array, 1000);
    for (let i = 0; ; i++) {
      if (rank === 1 && i === 5) process.exit(rest.exitCode);
      await comm.allReduce(data, data);
    }
  },
  /** Rank 1 fails with an error of its own. */
  async fail(comm) {
    const data = comm.alloc(Float32Array, 1000);
    for (let i = 0; ; i++) {
      if (rank === 1 && i === 5) throw new Error('a bug in the program');
      if (rest.form === 'sync') comm.allReduceSync(data, data);
      else await comm.allReduce(data, data);
    }
  },
  async abort(comm) {
    const data = comm.alloc(Float32Array, 1000);
    await comm.allReduce(data, data);
    if (rank === 1) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      comm.abort('the loss is NaN');
    }
    if (rest.form === 'sync') comm.allReduceSync(data, data);
    else if (rest.form === 'barrier') await comm.barrier();
    else await comm.allReduce(data, data);
  },
  /** Rank 1 calls something else. */
  async differ(comm) {
    const data = comm.alloc(Float32Array, 1000);
    const call = rank === 1 ? data.subarray(1) : data;
    if (rest.form === 'sync') comm.allReduceSync(call, call);
    else await comm.allReduce(call, call);
  },
  /** Everybody is done, nobody closes. */
  async forget(comm) {
    const data = comm.alloc(Float32Array, 1000).fill(1);
    await comm.allReduce(data, data);
    return data[0];
  },
  /** Has worked in every form, and rests until the parent kills it. */
  async rest(comm) {
    const data = comm.alloc(Float32Array, 1000);
    for (let i = 0; i < 100; i++) {
      comm.allReduceSync(data, data);
      await comm.allReduce(data, data);
    }
    await comm.barrier();
    setInterval(() => {}, 1000);
    return 'rested';
  },
};

const since = performance.now();
let comm;
const end = {};
try {
  comm = await Communicator.init({
    id: parseUniqueId(id),
    rank,
    size,
    timeoutMs: 20_000,
    initTimeoutMs: 10_000,
    ...options,
  });
  await tell({ joined: comm.description });
  end.result = await behaviours[behaviour](comm);
} catch (error) {
  const { code, message, rank: about, stack } = error;
  end.error = { code, message, rank: about, stack };
  process.exitCode = 3;
}
end.afterMs = Math.round(performance.now() - since);
end.at = Date.now();
await tell({ end });
if (behaviour !== 'forget' && behaviour !== 'rest') {
  const closing = performance.now();
  await comm?.close();
  await tell({ closed: Math.round(performance.now() - closing) });
}
process.disconnect();

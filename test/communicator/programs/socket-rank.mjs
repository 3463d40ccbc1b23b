/**
 * A rank over sockets whose behaviour the test chooses. Started by fork; what it has to say are messages:
 * `{ id }` where it was given none and makes one, `{ joined }`, then `{ result }` or
 * `{ error: { code, message, rank, afterMs } }`.
 */
import { Communicator, createUniqueId, formatUniqueId, parseUniqueId } from '../../../dist/index.js';
import { battery } from './plain-collectives.mjs';

const { behaviour, id, rank, size, options = {}, ...rest } = JSON.parse(process.argv[2]);

const tell = (message) => new Promise((resolve) => process.send(message, resolve));

function plain(error, since) {
  const { code, message, rank: about } = error;
  return { code, message, rank: about, afterMs: Math.round(performance.now() - since) };
}

/** A large all-reduce over and over, until it fails. */
async function reduceForEver(comm, form) {
  const data = comm.alloc(Float32Array, rest.count ?? 1 << 20);
  await comm.barrier();
  await tell({ looping: true });
  let since = performance.now();
  try {
    for (;;) {
      since = performance.now();
      if (form === 'sync') comm.allReduceSync(data, data);
      else await comm.allReduce(data, data);
    }
  } catch (error) {
    await tell({ error: { ...plain(error, since), at: Date.now() } });
  }
}

const behaviours = {
  async battery(comm) {
    return battery(comm, rest.seed, rest.rounds, rest.limits);
  },
  loop: (comm) => reduceForEver(comm, rest.form),
  /** The last rank stays away from the operation; it stops itself where `stop` is set. */
  async absent(comm) {
    if (rank === size - 1) {
      await comm.barrier();
      await tell({ looping: true });
      if (rest.stop) process.kill(process.pid, 'SIGSTOP');
      await new Promise((resolve) => setTimeout(resolve, 60_000));
      return;
    }
    await reduceForEver(comm, rest.form);
  },
  /** Every rank has a count of its own. */
  async disagree(comm) {
    const data = comm.alloc(Float32Array, 100 + rank);
    await comm.allReduce(data, data);
  },
  /** Closes as soon as its own part is done. */
  async leaveEarly(comm) {
    const data = comm.alloc(Float64Array, 500_000).fill(rank + 1);
    comm.allReduceSync(data, data);
    const closing = comm.close();
    const good = data.every((value) => value === (size * (size + 1)) / 2);
    await closing;
    return good;
  },
  /** What the process says about itself. */
  async describe(comm) {
    return { description: comm.description, host: process.env.NCCL_HOSTID };
  },
};

async function makeId() {
  const root = await createUniqueId();
  await tell({ id: formatUniqueId(root.id) });
  return root.id;
}

const since = performance.now();
try {
  const comm = await Communicator.init({
    id: id === undefined ? await makeId() : parseUniqueId(id),
    rank,
    size,
    sockets: true,
    timeoutMs: 30_000,
    initTimeoutMs: 20_000,
    ...options,
  });
  await tell({ joined: comm.description });
  const result = await behaviours[behaviour](comm);
  const closeSince = performance.now();
  await comm.close();
  await tell({ result, closeMs: Math.round(performance.now() - closeSince) });
} catch (error) {
  await tell({ error: plain(error, since), stack: error.stack });
  process.exitCode = 1;
}
process.disconnect();

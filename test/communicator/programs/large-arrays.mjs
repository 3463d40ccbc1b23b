/**
 * Ordinary arrays that are larger than the whole heap (TUTTI_HEAP_BYTES): they must move in pieces, right to the
 * last element.
 *
 * usage: tutti run -n N large-arrays.mjs OPTIONS as JSON [THREADS]
 */
import { Communicator, createLocalCommunicators } from '../../../dist/index.js';

const options = JSON.parse(process.argv[2]);
const threads = Number(process.argv[3] ?? 0);
const COUNT = 800_001;

const comms =
  threads > 0 ? await createLocalCommunicators(threads, options) : [await Communicator.fromEnv(options)];
const { size } = comms[0];
/** Whole numbers that differ in every element and rank; sums wrap. */
const input = (rank, i) => Math.imul(i + 1, 2654435761) + rank * 977;
const sum = (i) => {
  let total = 0;
  for (let rank = 0; rank < size; rank++) total = (total + input(rank, i)) | 0;
  return total;
};

function check(what, got, want) {
  for (let i = 0; i < got.length; i++) {
    if (got[i] !== (want(i) | 0))
      throw new Error(`${what}: element ${i} is ${got[i]}, must be ${want(i) | 0}`);
  }
}

const share = Math.floor(COUNT / size);

async function work(comm) {
  const { rank } = comm;
  const make = (length) => Int32Array.from({ length }, (_, i) => input(rank, i));
  const forms = threads > 0 ? ['async', 'start'] : ['async', 'sync', 'start'];
  for (const form of forms) {
    const call = async (name, ...args) => {
      if (form === 'async') await comm[name](...args);
      else if (form === 'sync') comm[`${name}Sync`](...args);
      else {
        const prepared = comm.prepare[name](...args);
        if (form === 'run') prepared.run();
        else await prepared.start();
        prepared.release();
      }
    };
    const data = make(COUNT);
    await call('allReduce', data, data);
    check(`allReduce ${form}`, data, sum);

    const reduced = new Int32Array(COUNT);
    await call('reduce', make(COUNT), reduced, { root: size - 1 });
    check(`reduce ${form}`, reduced, rank === size - 1 ? sum : () => 0);

    const sent = make(COUNT);
    await call('broadcast', sent, { root: 0 });
    check(`broadcast ${form}`, sent, (i) => input(0, i));

    const gathered = new Int32Array(share * size);
    await call('allGather', make(share), gathered);
    check(`allGather ${form}`, gathered, (i) => input(Math.floor(i / share), i % share));

    const scattered = new Int32Array(share);
    await call('reduceScatter', make(share * size), scattered);
    check(`reduceScatter ${form}`, scattered, (i) => sum(rank * share + i));
  }
}
await Promise.all(comms.map(work));
await Promise.all(comms.map((comm) => comm.close()));
console.log('right');

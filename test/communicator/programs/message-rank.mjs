/**
 * One of several ranks that send each other the same random messages, in all forms, and verify every byte that comes.
 *
 * usage: tutti run -n N message-rank.mjs SEED ROUNDS [OPTIONS as JSON]
 * At the end says whether large ordinary arrays are reached where they are. Ends with 1 and the first difference when something is wrong.
 */
import { Communicator, group } from '../../../dist/index.js';

const [seedText, roundsText, optionsText = '{}'] = process.argv.slice(2);
const rounds = Number(roundsText);

let state = Number(seedText) >>> 0;
/** A whole number in [0, n), the same on all ranks (mulberry32). */
function draw(n) {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * n);
}
const pick = (list) => list[draw(list.length)];

const comm = await Communicator.fromEnv({ timeoutMs: 30_000, ...JSON.parse(optionsText) });
const { rank, size } = comm;

const SIZES = [0, 1, 8, 255, 257, 4096, 8192, 8193, 65_536, 70_001, 300_000];
const byteOf = (from, to, m, i) => (from * 91 + to * 37 + m * 11 + i * 7) & 255;

const made = [];
function make(bytes) {
  if (Math.random() < 0.5) return new Uint8Array(bytes);
  try {
    const array = comm.alloc(Uint8Array, bytes);
    made.push(array);
    return array;
  } catch (error) {
    if (process.env.TUTTI_HEAP_BYTES === undefined || error.code !== 'systemError') throw error;
    return new Uint8Array(bytes);
  }
}

function fail(what) {
  console.log(`rank ${rank}: ${what}`);
  process.exit(1);
}

function filled(bytes, from, to, m) {
  const array = make(bytes);
  for (let i = 0; i < bytes; i++) array[i] = byteOf(from, to, m, i);
  return array;
}

function verify(array, from, to, m) {
  const wrong = array.findIndex((byte, i) => byte !== byteOf(from, to, m, i));
  if (wrong >= 0) fail(`byte ${wrong} of ${array.length} from ${from} to ${to} is wrong`);
}

/** Messages between random pairs of ranks, in one group. */
async function messages() {
  const wires = Array.from({ length: draw(12) }, () => ({
    from: draw(size),
    to: draw(size),
    bytes: pick(SIZES),
  }));
  const form = draw(3);
  const sends = wires.map(({ from, to, bytes }, m) => (from === rank ? filled(bytes, from, to, m) : null));
  const recvs = wires.map(({ to, bytes }) => (to === rank ? make(bytes) : null));
  const record = () => {
    wires.forEach(({ from, to }, m) => {
      if (from === rank) comm.send(sends[m], to);
      if (to === rank) comm.recv(recvs[m], from);
    });
  };
  const mine = wires.some(({ from, to }) => from === rank || to === rank);
  if (form === 0) await group(record);
  else if (form === 1) comm.groupSync(record);
  else if (mine) {
    const prepared = comm.prepare.group(record);
    for (let i = 0; i < 3; i++) prepared.run();
    prepared.release();
  }
  wires.forEach(({ from, to }, m) => {
    if (to === rank) verify(recvs[m], from, to, m);
  });
}

/** One message through all ranks, each in its own call. */
async function relay() {
  const bytes = pick(SIZES);
  const isSync = draw(2) === 0;
  const array = rank === 0 ? filled(bytes, 0, 0, 1) : make(bytes);
  const call = async (kind, peer) => {
    if (isSync) comm[`${kind}Sync`](array, peer);
    else await comm[kind](array, peer);
  };
  if (size === 1) return;
  if (rank > 0) await call('recv', rank - 1);
  await call('send', (rank + 1) % size);
  if (rank === 0) await call('recv', size - 1);
  verify(array, 0, 0, 1);
}

async function rooted() {
  const name = pick(['gather', 'scatter']);
  const root = draw(size);
  const count = Math.floor(pick(SIZES) / size);
  const isSync = draw(2) === 0;
  const whole = rank === root ? make(size * count) : null;
  const block = make(count);
  if (name === 'gather') for (let i = 0; i < count; i++) block[i] = byteOf(rank, root, 2, i);
  else
    whole?.forEach((_, i) => {
      whole[i] = byteOf(root, Math.floor(i / count), 2, i % count);
    });
  const [send, recv] = name === 'gather' ? [block, whole] : [whole, block];
  if (isSync) comm[`${name}Sync`](send, recv, { root });
  else await comm[name](send, recv, { root });
  if (name === 'scatter') verify(block, root, rank, 2);
  else
    for (let r = 0; whole !== null && r < size; r++)
      verify(whole.subarray(r * count, (r + 1) * count), r, root, 2);
}

/** A collective between messages: the order of the calls is kept. */
async function sum() {
  const [send, recv] = [new Int32Array(100).fill(rank + 1), new Int32Array(100)];
  await comm.allReduce(send, recv);
  if (recv[99] !== (size * (size + 1)) / 2) fail('a sum is wrong');
}

for (let round = 0; round < rounds; round++) {
  await pick([messages, messages, relay, rooted, sum])();
  for (const array of made.splice(0)) comm.free(array);
}
const ring = comm.prepare.group(() => {
  comm.send(new Uint8Array(100_000), (rank + 1) % size);
  comm.recv(new Uint8Array(100_000), (rank + size - 1) % size);
});
const how = /where they are/.test(ring.explanation) ? 'arrays where they are' : 'arrays moved';
console.log(`${rounds} rounds, ${how}`);
await comm.close();

/**
 * Random operations of a communicator, compared with a plain reference. All ranks draw the same operations from
 * the seed; every rank knows what every other contributes, so it can compute what must come out.
 */
import { decode, encode } from '../../../dist/kernel/numeric.js';

const ARRAYS = {
  int8: Int8Array,
  uint8: Uint8Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
  float32: Float32Array,
  float64: Float64Array,
};
const RAW = new Set(['float16', 'bfloat16']);
const FLOATS = new Set(['float16', 'bfloat16', 'float32', 'float64']);
const COLLECTIVES = ['allReduce', 'reduce', 'broadcast', 'allGather', 'reduceScatter'];
const FORMS = ['async', 'sync', 'run', 'start'];

/** Numbers in [0, n) from a seed (mulberry32). */
function draws(seed) {
  let state = seed >>> 0;
  return (n) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * n);
  };
}

/** What rank r contributes as element i: small, so that sums are exact in every type; powers of two for products. */
function input({ op, salt }, r, i) {
  const x = (Math.imul(i + 1, 31) + Math.imul(r + salt, 17)) >>> 0;
  return op === 'prod' ? 1 + (x % 2) : x % 6;
}

function combined(step, size, i) {
  const values = Array.from({ length: size }, (_, r) => input(step, r, i));
  switch (step.op) {
    case 'sum':
      return values.reduce((a, b) => a + b);
    case 'prod':
      return values.reduce((a, b) => a * b);
    case 'min':
      return Math.min(...values);
    case 'max':
      return Math.max(...values);
    default: {
      const mean = values.reduce((a, b) => a + b) / size;
      return FLOATS.has(step.type) ? mean : Math.trunc(mean);
    }
  }
}

const toElement = (type, value) => {
  if (type === 'int64' || type === 'uint64') return BigInt(value);
  return RAW.has(type) ? Number(encode(type, value)) : value;
};
const toNumber = (type, element) => Number(RAW.has(type) ? decode(type, element) : element);

function differs(type, op, got, want) {
  if (op !== 'avg' || !FLOATS.has(type)) return got !== want;
  const precision = { float16: 2 ** -9, bfloat16: 2 ** -6, float32: 2 ** -21, float64: 2 ** -50 }[type];
  return !(Math.abs(got - want) <= precision * Math.max(1, Math.abs(want)));
}

/** Number of operations done; throws at the first wrong element. */
export async function battery(comm, seed, rounds, { count: most = 30_000, rank8 = false } = {}) {
  const { rank, size } = comm;
  const draw = draws(seed);
  const pick = (list) => list[draw(list.length)];
  for (let round = 0; round < rounds; round++) {
    const collective = pick(COLLECTIVES);
    const step = {
      collective,
      type: pick(Object.keys(ARRAYS)),
      op: pick(['sum', 'prod', 'min', 'max', 'avg']),
      salt: draw(1000),
      root: draw(size),
      count: pick([draw(4), draw(100), draw(most), draw(most) | 1]),
      inPlace: draw(2) === 1,
      form: pick(FORMS),
    };
    // Eight contributions of 2 overflow an int8, which the reference does not model.
    if (rank8 && step.op === 'prod' && step.type === 'int8') step.op = 'sum';
    const heapOf = Array.from({ length: size * 2 }, () => draw(2) === 1);
    const { type, op, root, count, inPlace, form } = step;
    const ArrayType = ARRAYS[type];
    const made = [];
    const make = (length, heap) => {
      if (!heap) return new ArrayType(length);
      const array = comm.alloc(ArrayType, length);
      made.push(array);
      return array;
    };
    const reduces = collective !== 'broadcast' && collective !== 'allGather';
    const value = (r, i) => input(reduces ? step : { ...step, op: 'sum' }, r, i);
    const sendLength = collective === 'reduceScatter' ? count * size : count;
    const recvLength = collective === 'allGather' ? count * size : count;
    let send;
    let recv;
    if (!inPlace) {
      send = make(sendLength, heapOf[rank]);
      recv = make(recvLength, heapOf[size + rank]);
    } else if (collective === 'allGather') {
      recv = make(recvLength, heapOf[rank]);
      send = recv.subarray(rank * count, (rank + 1) * count);
    } else if (collective === 'reduceScatter') {
      send = make(sendLength, heapOf[rank]);
      recv = send.subarray(rank * count, (rank + 1) * count);
    } else send = recv = make(count, heapOf[rank]);
    for (let i = 0; i < sendLength; i++) send[i] = toElement(type, value(rank, i));

    const options = { type };
    if (reduces) options.op = op;
    if (collective === 'broadcast' || collective === 'reduce') options.root = root;
    const out = collective === 'reduce' && rank !== root ? null : recv;
    const input0 = collective === 'broadcast' && rank !== root && !inPlace ? null : send;
    const args = [input0, out, options];
    if (form === 'async') await comm[collective](...args);
    else if (form === 'sync') comm[`${collective}Sync`](...args);
    else {
      const prepared = comm.prepare[collective](...args);
      if (form === 'run') prepared.run();
      else await prepared.start();
      prepared.release();
    }

    if (out !== null) {
      for (let i = 0; i < recvLength; i++) {
        let want;
        if (collective === 'broadcast') want = value(root, i);
        else if (collective === 'allGather') want = value(Math.floor(i / count), i % count);
        else if (collective === 'reduceScatter') want = combined(step, size, rank * count + i);
        else want = combined(step, size, i);
        const got = toNumber(type, recv[i]);
        if (differs(type, op, got, want)) {
          const what = JSON.stringify({ seed, round, rank, size, ...step });
          throw new Error(`element ${i} is ${got}, must be ${want}: ${what}`);
        }
      }
    }
    for (const array of made) comm.free(array);
  }
  return rounds;
}

/**
 * One of several ranks that all make the same random calls and verify every element themselves.
 *
 * usage: tutti run -n N random-rank.mjs SEED ROUNDS [OPTIONS as JSON]
 * Ends with 1 and the first difference when something is wrong.
 */
import { createHash } from 'node:crypto';
import { Communicator } from '../../../dist/index.js';
import { channelShares, ringChunkBytes } from '../../../dist/planning/ring-plan.js';
import { sameElement, TYPES, unsigned } from '../../reference/direct-arithmetic.mjs';
import { contribution, expected } from './plain-reference.mjs';

const [seedText, roundsText, optionsText = '{}'] = process.argv.slice(2);
const seed = Number(seedText);
const rounds = Number(roundsText);
const options = JSON.parse(optionsText);

let state = seed >>> 0;
/** A whole number in [0, n), the same on all ranks (mulberry32). */
function draw(n) {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * n);
}
const pick = (list) => list[draw(list.length)];
const chance = (percent) => draw(100) < percent;

const comm = await Communicator.fromEnv({ timeoutMs: 30_000, ...options });
const { rank, size } = comm;

/** Bytes at which the library changes its ways: one-shot, post, staging pieces. */
const BORDERS = [16, 128 * size, 512, 16384, Math.floor(16384 / size)];
const STAGE_BYTES = 262144;
/** Elements that a rank sends at most, so that verifying stays quick. */
const MOST = Math.floor(6000 / size);

function drawCount(type, blocks) {
  const bytes = TYPES[type].BYTES_PER_ELEMENT;
  if (chance(10)) return 0;
  if (chance(30)) return 1 + draw(9);
  if (bytes === 8 && chance(15)) {
    // Around one and two pieces of the staging memory.
    return Math.max(1, Math.floor((STAGE_BYTES * (1 + draw(2))) / bytes / pick([1, size])) + draw(5) - 2);
  }
  const count = Math.floor((pick(BORDERS) * (1 + draw(3))) / bytes / blocks) + draw(5) - 2;
  return count >= 0 && count * blocks <= MOST ? count : 1 + draw(Math.max(1, Math.floor(MOST / blocks)));
}

/** An array of the heap; none where the heap was made too small for it on purpose. */
function allocate(ArrayType, length) {
  try {
    return comm.alloc(ArrayType, length);
  } catch (error) {
    if (process.env.TUTTI_HEAP_BYTES === undefined || error.code !== 'systemError') throw error;
    return undefined;
  }
}

/** A view that begins some elements off the start of its memory. */
function place(type, length, heap, offset) {
  const ArrayType = TYPES[type];
  const whole = heap ? allocate(ArrayType, length + offset + 1) : undefined;
  const view = (whole ?? new ArrayType(length + offset + 1)).subarray(offset, offset + length);
  return { whole, view };
}

function drawCall() {
  const collective = pick(['allReduce', 'reduce', 'broadcast', 'allGather', 'reduceScatter', 'allToAll']);
  const wide = collective === 'reduceScatter' || collective === 'allToAll';
  const type = pick(Object.keys(TYPES));
  const call = {
    collective,
    type,
    op: pick(['sum', 'prod', 'min', 'max', 'avg']),
    root: draw(size),
    count: drawCount(type, wide ? size : 1),
    inPlace: chance(40) && collective !== 'allToAll',
    plain: chance(50),
    salt: 0,
  };
  const memory = pick(['heap', 'array', 'mixed']);
  const heapOf = Array.from({ length: 2 * size }, () =>
    memory === 'mixed' ? chance(50) : memory === 'heap',
  );
  const offsets = Array.from({ length: size }, () => draw(6));
  const { count, inPlace } = call;
  const sendLength = wide ? count * size : count;
  const recvLength = ['allGather', 'allToAll'].includes(collective) ? count * size : count;
  const made = [];
  const make = (length, heap) => {
    const { whole, view } = place(type, length, heap, offsets[rank]);
    if (whole !== undefined) made.push(whole);
    return view;
  };
  let send;
  let recv;
  if (!inPlace) {
    send = make(sendLength, heapOf[rank]);
    recv = make(recvLength, heapOf[size + rank]);
  } else {
    const whole = make(Math.max(sendLength, recvLength), heapOf[rank]);
    const block = whole.subarray(rank * count, (rank + 1) * count);
    send = collective === 'allGather' ? block : whole;
    recv = collective === 'reduceScatter' ? block : whole;
  }
  const options = { type };
  if (['allReduce', 'reduce', 'reduceScatter'].includes(collective)) options.op = call.op;
  if (['broadcast', 'reduce'].includes(collective)) options.root = call.root;
  const args = inPlace && collective === 'broadcast' ? [recv, options] : [send, recv, options];
  return { call, send, recv, args, made, prepared: undefined };
}

function fill({ call, send, recv, args }) {
  call.salt = draw(2 ** 30);
  const into = unsigned(send);
  // The receiving side must not keep an old result.
  if (!call.inPlace) unsigned(recv).fill(recv.BYTES_PER_ELEMENT === 8 ? 0x5an : 0x5a);
  const wide = into.BYTES_PER_ELEMENT === 8;
  for (let i = 0; i < into.length; i++) {
    const bits = contribution(call, rank, i);
    into[i] = wide ? bits : Number(bits);
  }
  return args;
}

/** Where the ring of an element of an all-reduce ends: the rank that adds last. */
function ringEnd({ type, count }, element) {
  const bytes = TYPES[type].BYTES_PER_ELEMENT;
  const buffers = {
    llBytes: Number(process.env.NCCL_LL_BUFFSIZE),
    simpleBytes: Number(process.env.NCCL_BUFFSIZE),
  };
  const { protocol } = options;
  const share = channelShares(count, bytes, options.channels ?? 1, protocol).find(
    (one) => element < one.offset + one.count,
  );
  const full = Math.floor(ringChunkBytes('allReduce', protocol, buffers) / bytes);
  const loop = full * size;
  const at = element - share.offset;
  const left = share.count - Math.floor(at / loop) * loop;
  const grain = 16 / bytes;
  const chunk = left < loop ? Math.ceil(Math.ceil(left / size) / grain) * grain : full;
  return Math.floor((at % loop) / chunk);
}

/** Name of the algorithm, as the communicator says, where results depend on it. */
function algorithmOf({ collective, type, op, root }, send, recv) {
  if (!['allReduce', 'reduce', 'reduceScatter'].includes(collective)) return options.algorithm;
  const probe = comm.prepare[collective](
    send,
    recv,
    collective === 'reduce' ? { type, op, root } : { type, op },
  );
  const [algorithm] = probe.explanation.split(/[ :]/);
  probe.release();
  return algorithm;
}

function verify({ call, send, recv }, round) {
  if (call.collective === 'reduce' && rank !== call.root) return;
  const algorithm = algorithmOf(call, send, recv);
  const ring = algorithm === 'Ring' ? ringEnd : null;
  // The order of operands of a PAT is proved elsewhere (connected-threads.test.ts); here there is no reference for it.
  if (algorithm === 'PAT' && ['sum', 'prod'].includes(call.op) && /float/.test(call.type)) return;
  const got = unsigned(recv);
  for (let i = 0; i < got.length; i++) {
    const want = expected(call, size, rank, i, ring);
    if (sameElement(call.type, BigInt(got[i]), want)) continue;
    throw new Error(
      `round ${round}, element ${i} is 0x${got[i].toString(16)}, must be 0x${want.toString(16)}: ${JSON.stringify({ seed, rank, size, ...call })}`,
    );
  }
}

/** Float sums too must come out the same on all ranks, to the last bit. */
async function compareBits({ call, recv }, round) {
  if (call.collective !== 'allReduce' || !call.plain) return;
  const digest = createHash('sha256').update(unsigned(recv)).digest();
  const all = new Uint8Array(digest.length * size);
  await comm.allGather(new Uint8Array(digest), all);
  for (let peer = 0; peer < size; peer++) {
    if (digest.equals(all.subarray(peer * digest.length, (peer + 1) * digest.length))) continue;
    throw new Error(
      `round ${round}: ranks ${rank} and ${peer} have different bits: ${JSON.stringify({ seed, ...call })}`,
    );
  }
}

/** Prepared operations that are run again later, oldest first. */
const kept = [];

function drop(one) {
  one.prepared?.release();
  for (const array of one.made) comm.free(array);
}

for (let round = 0; round < rounds; round++) {
  if (kept.length > 1 && chance(20)) {
    // All at once: they share the staging memory of the communicator.
    for (const one of kept) fill(one);
    const started = kept.map((one) => one.prepared.start());
    await Promise.all(started);
    for (const one of kept) verify(one, round);
    continue;
  }
  if (kept.length > 0 && chance(25)) {
    const one = pick(kept);
    fill(one);
    if (chance(50)) one.prepared.run();
    else await one.prepared.start();
    verify(one, round);
    continue;
  }
  const one = drawCall();
  fill(one);
  const { collective } = one.call;
  const form = pick(['async', 'sync', 'syncTwice', 'run', 'start']);
  if (form === 'async') await comm[collective](...one.args);
  else if (form === 'sync') comm[`${collective}Sync`](...one.args);
  else if (form === 'syncTwice') {
    comm[`${collective}Sync`](...one.args);
    fill(one);
    comm[`${collective}Sync`](...one.args);
  } else {
    one.prepared = comm.prepare[collective](...one.args);
    if (form === 'run') one.prepared.run();
    else await one.prepared.start();
  }
  verify(one, round);
  await compareBits(one, round);
  if (one.prepared === undefined) drop(one);
  else {
    kept.push(one);
    if (kept.length > 4) drop(kept.shift());
  }
}
for (const one of kept) drop(one);
await comm.close();
console.log(`${rounds} rounds`);

/**
 * One of several ranks that all make the same random calls over an algorithm with connections of its own. Elements are
 * small whole numbers, so that sums are exact in any order; results must be right, and the same bits at all ranks.
 *
 * usage: tutti run -n N connected-rank.mjs SEED ROUNDS COLLECTIVE OPTIONS-AS-JSON
 * Ends with 1 and the first difference when something is wrong.
 */
import { createHash } from 'node:crypto';
import { Communicator } from '../../../dist/index.js';
import { decode, encode } from '../../../dist/kernel/numeric.js';
import { TYPES, unsigned } from '../../reference/direct-arithmetic.mjs';

const [seedText, roundsText, collective, optionsText] = process.argv.slice(2);
const rounds = Number(roundsText);
const options = JSON.parse(optionsText);

let state = Number(seedText) >>> 0;
/** A whole number in [0, n), the same on all ranks (mulberry32). */
function draw(n) {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * n);
}

const comm = await Communicator.fromEnv({ timeoutMs: 30_000, ...options });
const { rank, size } = comm;

/** 0 or 1, so that even sums of narrow types are exact. */
const element = (salt, of, i) => (Math.imul(salt + 31 * of + 7 * i, 0x9e3779b1) >>> 13) & 1;

function expectedAt(salt, count, op, i) {
  if (collective === 'allGather') return element(salt, Math.floor(i / count), i % count);
  const blocks = collective === 'allToAll' || collective === 'reduceScatter';
  if (collective === 'allToAll') return element(salt, Math.floor(i / count), rank * count + (i % count));
  const at = blocks ? rank * count + i : i;
  const all = Array.from({ length: size }, (_, r) => element(salt, r, at));
  if (op === 'max') return Math.max(...all);
  if (op === 'min') return Math.min(...all);
  return all.reduce((a, b) => (op === 'prod' ? a * b : a + b));
}

for (let round = 0; round < rounds; round++) {
  const names = Object.keys(TYPES);
  const type = names[draw(names.length)];
  const op = ['sum', 'prod', 'min', 'max'][draw(4)];
  const bytes = TYPES[type].BYTES_PER_ELEMENT;
  const count = Math.max(0, Math.floor([0, 1, 16, 600, 5000, 30000][draw(6)] / bytes) + draw(5) - 2);
  const salt = draw(2 ** 30);
  const heap = draw(2) === 0;
  const wideSend = collective === 'reduceScatter' || collective === 'allToAll';
  const wideRecv = collective === 'allGather' || collective === 'allToAll';
  const make = (length) => (heap ? comm.alloc(TYPES[type], length) : new TYPES[type](length));
  const send = make(wideSend ? count * size : count);
  const recv = make(wideRecv ? count * size : count);
  const bits = (value) => encode(type, value);
  const wide = bytes === 8;
  unsigned(send).forEach((_, i, into) => {
    into[i] = wide ? bits(element(salt, rank, i)) : Number(bits(element(salt, rank, i)));
  });
  const reduces = collective === 'allReduce' || collective === 'reduceScatter';
  const args = [send, recv, reduces ? { type, op } : { type }];
  const form = draw(4);
  if (form === 0) await comm[collective](...args);
  else if (form === 1) comm[`${collective}Sync`](...args);
  else {
    const prepared = comm.prepare[collective](...args);
    if (form === 2) prepared.run();
    else await prepared.start();
    prepared.run();
    prepared.release();
  }
  const got = unsigned(recv);
  for (let i = 0; i < got.length; i++) {
    const value = decode(type, BigInt(got[i]));
    const due = expectedAt(salt, count, op, i);
    if (Number(value) === due) continue;
    throw new Error(
      `round ${round}, rank ${rank}, element ${i} is ${value}, must be ${due}: ${JSON.stringify({ type, op, count, heap, form })}`,
    );
  }
  if (collective === 'allReduce') {
    const digest = createHash('sha256').update(got).digest();
    const all = new Uint8Array(digest.length * size);
    await comm.allGather(new Uint8Array(digest), all);
    for (let peer = 0; peer < size; peer++) {
      if (digest.equals(all.subarray(peer * digest.length, (peer + 1) * digest.length))) continue;
      throw new Error(`round ${round}: ranks ${rank} and ${peer} have different bits`);
    }
  }
  if (heap) {
    comm.free(send);
    comm.free(recv);
  }
}
comm.barrierSync();
await comm.close();
console.log(`${rounds} rounds`);

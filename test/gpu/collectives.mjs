/**
 * Runs the collective programs for GPUs on the GPUs of this machine: correctness of sizes, types and operators, then
 * times over shapes (program, blocks, threads, packets under way), from which the table in
 * src/collectives/gpu/shape.ts comes.
 *
 * Usage: node test/gpu/collectives.mjs [--ranks 2] [--share] [--parts check,sweep,...] [--out FILE] [--seconds N] [--rounds N]
 * `--share` puts all ranks on GPU 0. Result: one JSON object; exit status 1 when a result is wrong.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { GPU_COLLECTIVES } from '#src/collectives/gpu/call.js';
import { gpuLaunch, launchOf } from '#src/collectives/gpu/launch.js';
import { gpuMessages } from '#src/collectives/gpu/message-launch.js';
import { STAGED } from '#src/collectives/gpu/names.js';
import { shapeWith } from '#src/collectives/gpu/shape.js';
import { ELEMENT_TYPE_NAMES, ELEMENT_TYPES } from '#src/kernel/element-types.js';
import {
  encode,
  isNarrowFloat,
  narrowBits,
  orderedReduce,
  reduceBits,
  sameBits,
  widenBits,
} from '#src/kernel/numeric.js';
import { GpuRanks } from './pair.mjs';

const { values } = parseArgs({
  options: {
    ranks: { type: 'string', default: '2' },
    share: { type: 'boolean', default: false },
    parts: { type: 'string', default: 'check,allReduce,others' },
    out: { type: 'string' },
    seconds: { type: 'string', default: '120' },
    rounds: { type: 'string', default: '60' },
  },
});

const KB = 1024;
const MB = 1024 * KB;
const ranks = Number(values.ranks);
const deadline = Date.now() + 1000 * Number(values.seconds);
const gpus = new GpuRanks(ranks, { shareDevice: values.share });
const { team } = gpus;
const parts = values.parts.split(',');
const largest = parts.some((p) => !p.startsWith('check')) ? 512 * MB : 64 * MB;
const room = largest + 4096;
const sends = gpus.ranks.map((r) => r.alloc(room));
const recvs = gpus.ranks.map((r) => r.alloc(room));
const report = {
  gpu: gpus.ranks[0].name,
  driver: gpus.driver,
  ranks,
  share: values.share,
  date: new Date().toISOString(),
  checks: 0,
  failures: [],
  rows: [],
};

function random(seed) {
  let state = (seed * 2654435761 + 12345) >>> 0;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 4294967296;
  };
}
const next = random(Number(process.env.SEED ?? 1));

const ARRAYS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array };
const hasBlocks = (collective) => ({
  send: ['reduceScatter', 'allToAll', 'scatter'].includes(collective) ? ranks : 1,
  recv: ['allGather', 'allToAll', 'gather'].includes(collective) ? ranks : 1,
});

function directReduce(type, op, contributions) {
  if (isNarrowFloat(type) && (op === 'sum' || op === 'avg')) {
    const wide = contributions.map((bits) => BigInt(widenBits(type, Number(bits))));
    let total = wide.slice(1).reduce((a, b) => reduceBits('float32', 'sum', a, b), wide[0]);
    if (op === 'avg') total = reduceBits('float32', 'prod', total, encode('float32', Math.fround(1 / ranks)));
    return BigInt(narrowBits(type, Number(total)));
  }
  return orderedReduce(type, op, contributions);
}

function expected(call, inputs) {
  const { collective, count, type, op, root } = call;
  const reduced = (i) =>
    directReduce(
      type,
      op,
      inputs.map((input) => BigInt(input[i])),
    );
  const from = (n, f) => Array.from({ length: n }, (_, i) => f(i));
  return gpus.ranks.map((_, rank) => {
    switch (collective) {
      case 'allReduce':
        return from(count, reduced);
      case 'reduce':
        return rank === root ? from(count, reduced) : [];
      case 'reduceScatter':
        return from(count, (i) => reduced(rank * count + i));
      case 'broadcast':
        return from(count, (i) => inputs[root][i]);
      case 'allGather':
        return inputs.flatMap((input) => [...input.subarray(0, count)]);
      case 'gather':
        return rank === root ? inputs.flatMap((input) => [...input.subarray(0, count)]) : [];
      case 'scatter':
        return from(count, (i) => inputs[root][rank * count + i]);
      case 'allToAll':
        return inputs.flatMap((input) => [...input.subarray(rank * count, (rank + 1) * count)]);
      default:
        return [];
    }
  });
}

/** One call with random inputs and poisoned outputs, compared bit by bit. */
function check(call, shape, { unalign = [], inPlace = false, staged = [] } = {}) {
  const { collective, type, count } = call;
  const { size, kind } = ELEMENT_TYPES[type];
  const blocks = hasBlocks(collective);
  const inputs = gpus.ranks.map(() =>
    ARRAYS[size].from({ length: blocks.send * count }, () => {
      const v = Math.floor(next() * 17) - (kind === 'unsigned' ? 0 : 8);
      const bits = encode(type, kind === 'float' ? v / 4 : v);
      return size === 8 ? bits : Number(bits);
    }),
  );
  const prepared = gpus.ranks.map((r, rank) => {
    const off = BigInt((unalign[rank] ?? 0) * size);
    const send = sends[rank] + off;
    const isInPlace = typeof inPlace === 'boolean' ? inPlace : inPlace.includes(rank);
    const recv = isInPlace ? send : recvs[rank] + off;
    r.fill(recv, 0xa5, blocks.recv * count * size + 64);
    r.upload(send, inputs[rank]);
    const [sendName, recvName] = staged.includes(rank) ? [STAGED, STAGED] : [send, recv];
    const args = { type, op: call.op, count, root: call.root, send, recv, sendName, recvName };
    return { ...gpus.prepare(rank, launchOf(team, call, shape), args), recv };
  });
  const what = `${collective} ${type} ${call.op} ${count} ${JSON.stringify(shape)} ${unalign} ${inPlace}`;
  gpus.runOnce(prepared, what);
  const want = expected(call, inputs);
  report.checks++;
  gpus.ranks.forEach((r, rank) => {
    if (want[rank].length === 0) return;
    const found = new ARRAYS[size](want[rank].length);
    r.download(found, prepared[rank].recv);
    const wrong = want[rank].findIndex((bits, i) => !sameBits(type, BigInt(found[i]), BigInt(bits)));
    if (wrong >= 0) {
      report.failures.push({
        what,
        rank,
        element: wrong,
        found: String(found[wrong]),
        want: String(want[rank][wrong]),
      });
    }
  });
}

const most = Math.max(1, Math.floor(team.multiprocessors / team.ranksPerDevice));
const LL = (blocks, threads = 512, lines = undefined) => ({
  program: 'LL',
  blocks: Math.min(blocks, most),
  threads,
  ...(lines === undefined ? {} : { lines }),
});
const direct = (blocks, unroll = 4, copies = 'push', residency = 2) => ({
  program: 'Direct',
  blocks: Math.min(blocks, most * residency),
  threads: 512,
  unroll,
  residency,
  copies,
});

const LL128 = (blocks, threads) => ({ program: 'LL128', blocks: Math.min(blocks, most), threads });
const lamport = (blocks, threads, packets = 1) => ({
  program: 'Lamport',
  blocks: Math.min(blocks, most),
  threads,
  packets,
});
const FLOATS = ELEMENT_TYPE_NAMES.filter((type) => ELEMENT_TYPES[type].kind === 'float');
const exchange = (blocks, pairs, unroll, threads = 288) => {
  return { program: 'Exchange', blocks, threads, pairs, unroll };
};

function checks() {
  const oneRound = [LL(9, 512, 1), LL(9, 256, 2), LL128(Math.min(most, 18), 64), LL128(9, 128)];
  const shapes = [LL(1, 64), LL(5), ...oneRound, direct(3), direct(7, 4, 'pull'), direct(7, 4, 'split')];
  for (const collective of GPU_COLLECTIVES.filter((c) => c !== 'barrier')) {
    for (const shape of shapes) {
      for (const count of [1, 1000, 4099]) {
        const type = ELEMENT_TYPE_NAMES[Math.floor(next() * 12)];
        const call = { collective, type, op: 'sum', count, root: Math.floor(next() * ranks) };
        const unalign = next() < 0.5 ? [] : gpus.ranks.map(() => Math.floor(next() * 9));
        const inPlace = ['allReduce', 'broadcast'].includes(collective) && next() < 0.5;
        check(call, shape, { unalign, inPlace });
      }
    }
  }
  for (const collective of ['allReduce', 'reduceScatter', 'reduce']) {
    for (const type of FLOATS) {
      for (const shape of [lamport(9, 512), lamport(18, 256), lamport(9, 256, 2)]) {
        const call = { collective, type, op: next() < 0.5 ? 'sum' : 'avg', count: 4099, root: 1 };
        const unalign = next() < 0.5 ? [] : gpus.ranks.map(() => Math.floor(next() * 9));
        check(call, shape, { unalign, inPlace: collective === 'allReduce' && next() < 0.5 });
      }
    }
  }
  const collective = 'allReduce';
  for (const type of ELEMENT_TYPE_NAMES) {
    for (const op of ['sum', 'avg']) check({ collective, type, op, count: 777, root: 0 }, LL(7, 256, 2));
  }
  if (ranks === 2) checkExchange();
  for (const type of ['float32', 'bfloat16', 'float8e4m3']) {
    check({ collective, type, op: 'avg', count: 70001, root: 0 }, direct(16));
    check({ collective, type, op: 'sum', count: 5001, root: 0 }, LL(11, 512, 1));
  }
  // Many calls without a meeting in between, over one area, with blocks that come and go.
  for (const count of [1, 600, 9000, 100000]) {
    const call = { collective: 'allReduce', type: 'float32', op: 'sum', count, root: 0 };
    check(call, gpuLaunch(team, call).shape);
  }
}

/** All-reduces by an exchange of two ranks: in place on any of them, off alignment, out of reach, in many hunks. */
function checkExchange() {
  const one = (limit) => Math.floor(next() * limit);
  const shapes = [
    exchange(128, 2, 8),
    exchange(128, 4, 4),
    exchange(3, 1, 4, 96),
    exchange(7, 2, 2, 160),
    exchange(128, 3, 4, 224),
  ];
  for (let round = 0; round < Number(values.rounds); round++) {
    const type = ELEMENT_TYPE_NAMES[one(ELEMENT_TYPE_NAMES.length)];
    const shape = shapes[one(shapes.length)];
    const count = 1 + one(round % 8 === 0 ? 1 << 18 : 1 << (4 + one(12)));
    const odd = one(16);
    const options = {
      unalign: [[], [], [odd, odd], [one(16), one(16)]][one(4)],
      inPlace: [false, false, false, true, [0], [1]][one(6)],
      staged: [[], [], [], [one(2)]][one(4)],
    };
    const op = ['sum', 'avg', 'max', 'prod'][one(4)];
    check({ collective: 'allReduce', type, op, count, root: 0 }, shape, options);
  }
}

/** The same with floats, in Lamport lines and others. */
function checkLargeFloats(count, round) {
  const shapes = [lamport(128, 1024), lamport(128, 512, 2), lamport(128, 256, 4), LL128(95, 736)];
  const calls = Array.from({ length: 10 }, (_, i) => shapes[(i * (round + 1)) % shapes.length]);
  const inputs = gpus.ranks.map(() => new Float32Array(count).map(() => Math.floor(next() * 4096) - 2048));
  const call = { collective: 'allReduce', type: 'float32', op: 'sum', count, root: 0 };
  gpus.ranks.forEach((r, rank) => {
    r.upload(sends[rank], inputs[rank]);
  });
  const chain = calls.map((shape) =>
    gpus.ranks.map((_, rank) => {
      const at = sends[rank];
      const args = { ...call, send: at, recv: at, sendName: at, recvName: at };
      return gpus.prepare(rank, launchOf(team, call, shape), args);
    }),
  );
  gpus.runOnce(chain.flat(), `large floats ${JSON.stringify(calls)}`);
  report.checks++;
  gpus.ranks.forEach((r, rank) => {
    const found = new Float32Array(count);
    r.download(found, sends[rank]);
    const wrong = found.findIndex(
      (value, i) => value !== inputs.reduce((sum, input) => sum + input[i], 0) * ranks ** (calls.length - 1),
    );
    if (wrong >= 0) report.failures.push({ what: 'large floats', count, rank, element: wrong, calls });
  });
}

/** The buffers of call `i` of a chain of an even number: in place, or there and back again. */
function linkOf(i, rank, isApart) {
  const [send, recv] = isApart && i % 2 === 1 ? [recvs[rank], sends[rank]] : [sends[rank], recvs[rank]];
  const to = isApart ? recv : send;
  return { send, recv: to, sendName: send, recvName: to };
}

/** Sums of so much data that all lines of an area are under way at a time, again and again, in all shapes. */
function checkLarge() {
  const most = 2 * MB;
  const random32 = new Int32Array(most / 4).map(() => next() * 0x100000000);
  const shapes = [
    LL128(128, 768),
    LL128(95, 736),
    LL128(128, 672),
    ...(ranks === 2 ? [exchange(128, 4, 4), exchange(128, 2, 8), exchange(96, 2, 8)] : []),
  ];
  for (let round = 0; round < 24; round++) {
    const count = Math.floor((most * (0.9 + 0.1 * next())) / 4) - 64;
    const at = [Math.floor(next() * 64), Math.floor(next() * 64)].map((n) => n & ~3);
    const inputs = gpus.ranks.map((_, rank) => random32.subarray(at[rank % 2], at[rank % 2] + count));
    const calls = Array.from({ length: 10 }, () => shapes[Math.floor(next() * shapes.length)]);
    if (round < 8) checkLargeFloats(count, round);
    gpus.ranks.forEach((r, rank) => {
      r.upload(sends[rank], inputs[rank]);
    });
    const call = { collective: 'allReduce', type: 'int32', op: 'sum', count, root: 0 };
    const isApart = round % 2 === 1;
    const chain = calls.map((shape, i) =>
      gpus.ranks.map((_, rank) => {
        const args = { type: 'int32', op: 'sum', count, root: 0, ...linkOf(i, rank, isApart) };
        return gpus.prepare(rank, launchOf(team, call, shape), args);
      }),
    );
    const start = Date.now();
    gpus.runOnce(chain.flat(), `large ${JSON.stringify(calls)}`);
    const ms = Date.now() - start;
    report.checks++;
    const factor = ranks ** (calls.length - 1);
    gpus.ranks.forEach((r, rank) => {
      const found = new Int32Array(count);
      r.download(found, sends[rank]);
      for (let i = 0; i < count; i++) {
        let sum = 0;
        for (const input of inputs) sum += input[i];
        if (found[i] === (Math.imul(sum | 0, factor) | 0)) continue;
        report.failures.push({ what: 'large', count, rank, element: i, calls, ms });
        break;
      }
    });
  }
}

function prepareFor(call, shape, inPlace = false) {
  return gpus.ranks.map((_, rank) =>
    gpus.prepare(rank, launchOf(team, call, shape), {
      type: call.type,
      op: call.op,
      count: call.count,
      root: call.root,
      send: inPlace ? recvs[rank] : sends[rank],
      recv: recvs[rank],
      sendName: inPlace ? recvs[rank] : sends[rank],
      recvName: recvs[rank],
    }),
  );
}

/** Time of a call in a shape, as one row of the report. */
function time(call, shape, bytes, { stream = false, inPlace = false } = {}) {
  if (Date.now() > deadline) return;
  const prepared = prepareFor(call, shape, inPlace);
  const what = `${call.collective} of ${bytes} bytes, ${JSON.stringify(shape)}`;
  const small = bytes <= 2 * MB;
  const us = gpus.timeGraph(prepared, what, { calls: 20, launches: small ? 10 : bytes <= 32 * MB ? 2 : 1 });
  const row = { collective: call.collective, bytes, shape, graph: Number(us.toFixed(3)) };
  if (gpus.overlap) row.overlap = true;
  if (inPlace) row.inPlace = true;
  if (stream) row.stream = Number(gpus.timeStream(prepared, what, small ? 200 : 20).toFixed(3));
  report.rows.push(row);
}

function fillRandom() {
  const chunk = new Float32Array(4 * MB).map(() => next() - 0.5);
  gpus.ranks.forEach((r, rank) => {
    for (let at = 0; at < largest; at += chunk.byteLength) r.upload(sends[rank] + BigInt(at), chunk);
  });
}

/** Sums one behind the other in different shapes, without a meeting on the host: each doubles the values. */
function checkChains() {
  const type = 'int32';
  const shapes = [
    LL(8, 512, 1),
    LL(3),
    direct(5),
    LL(8, 256, 2),
    direct(16),
    LL(1),
    LL(16, 256, 1),
    direct(1),
    LL128(9, 64),
    LL128(5, 128),
    ...(ranks === 2 ? [exchange(2, 2, 2), exchange(7, 4, 2), exchange(5, 3, 4, 224)] : []),
  ];
  for (let round = 0; round < 40; round++) {
    const count = 1 + Math.floor(next() * 4000);
    const inputs = gpus.ranks.map(() =>
      Int32Array.from({ length: count }, () => Math.floor(next() * 4096) - 2048),
    );
    const calls = Array.from({ length: 12 }, () => shapes[Math.floor(next() * shapes.length)]);
    const call = { collective: 'allReduce', type, op: 'sum', count, root: 0 };
    gpus.ranks.forEach((r, rank) => {
      r.upload(sends[rank], inputs[rank]);
    });
    const isApart = round % 2 === 1;
    const chain = calls.map((shape, i) =>
      gpus.ranks.map((_, rank) => {
        const args = { type, op: 'sum', count, root: 0, ...linkOf(i, rank, isApart) };
        return gpus.prepare(rank, launchOf(team, call, shape), args);
      }),
    );
    gpus.runOnce(chain.flat(), `chain ${JSON.stringify(calls)}`);
    report.checks++;
    gpus.ranks.forEach((r, rank) => {
      const found = new Int32Array(count);
      r.download(found, sends[rank]);
      const want = (i) => inputs.reduce((sum, input) => sum + input[i], 0) * ranks ** (calls.length - 1);
      const wrong = found.findIndex((value, i) => value !== (want(i) | 0));
      if (wrong >= 0) report.failures.push({ what: 'chain', count, rank, element: wrong, calls });
    });
  }
}

/** Every rank sends to the next and receives from the one before. */
function ringOfMessages(bytes) {
  return gpus.ranks.map((_, rank) => {
    const to = (rank + 1) % ranks;
    const from = (rank + ranks - 1) % ranks;
    const list = [
      { kind: 'send', peer: to, bytes, address: sends[rank] },
      { kind: 'recv', peer: from, bytes, address: recvs[rank], name: recvs[rank] },
    ];
    return gpuMessages(team, rank, list).map((launch) => gpus.prepareMessages(rank, launch));
  });
}

function checkMessages() {
  for (const bytes of [1, 8, 1000, 4096, 70000, 262144, 262145, 1000003, 8 * MB]) {
    gpus.ranks.forEach((r, rank) => {
      r.upload(
        sends[rank],
        Uint8Array.from({ length: bytes }, () => Math.floor(next() * 256)),
      );
      r.fill(recvs[rank], 0xa5, bytes + 64);
    });
    for (let again = 0; again < 3; again++)
      gpus.runOnce(ringOfMessages(bytes).flat(), `messages of ${bytes} bytes`);
    report.checks++;
    gpus.ranks.forEach((r, rank) => {
      const from = (rank + ranks - 1) % ranks;
      const want = new Uint8Array(bytes);
      gpus.ranks[from].download(want, sends[from]);
      const found = new Uint8Array(bytes + 64);
      r.download(found, recvs[rank]);
      const wrong = found.findIndex((value, i) => value !== (want[i] ?? 0xa5));
      if (wrong >= 0) report.failures.push({ what: 'messages', bytes, rank, element: wrong });
    });
  }
}

function timeMessages() {
  gpus.overlap = true;
  for (const bytes of SIZES) {
    const prepared = ringOfMessages(bytes).flat();
    const small = bytes <= 2 * MB;
    const options = { calls: 20, launches: small ? 10 : bytes <= 32 * MB ? 2 : 1 };
    const graph = Number(gpus.timeGraph(prepared, `messages of ${bytes}`, options).toFixed(3));
    const stream = Number(gpus.timeStream(prepared, `messages of ${bytes}`, small ? 200 : 20).toFixed(3));
    const shape = { program: 'Direct', blocks: prepared[0].launch.blocks, copies: 'messages' };
    report.rows.push({ collective: 'sendRecv', bytes, shape, graph, stream, overlap: true });
  }
}

const SIZES = [8, KB, 8 * KB, 32 * KB, 128 * KB, 512 * KB, 2 * MB, 8 * MB, 32 * MB, 128 * MB, 512 * MB];

/** LL shapes of one round for so many bytes of each rank. */
function oneRoundShapes(bytes) {
  const list = [];
  const count = Math.ceil(bytes / 8);
  for (const lines of [1, 2]) {
    for (const threads of [32, 64, 128, 256, 512]) {
      const blocks = Math.ceil(count / (threads * lines));
      if (blocks > 128 || (blocks === 1 && threads > 64 && count * 2 <= threads * lines)) continue;
      if (blocks > 16 && threads < 128) continue;
      list.push(LL(blocks, threads, lines));
    }
  }
  return list;
}

function sweepAllReduce() {
  const call = (bytes) => ({
    collective: 'allReduce',
    type: 'float32',
    op: 'sum',
    count: bytes / 4,
    root: 0,
  });
  for (const overlap of [false, true]) {
    gpus.overlap = overlap;
    for (const bytes of SIZES) {
      const list = bytes <= 512 * KB ? oneRoundShapes(bytes) : [];
      if (bytes <= 8 * KB) list.push(LL(1));
      if (bytes >= 512 * KB && bytes <= 2 * MB) list.push(LL(64));
      if (bytes === 512 * KB) list.push(LL(128));
      for (const blocks of bytes < 512 * KB ? [] : [32, 64, 96, 132, 264]) {
        if (bytes / ranks / blocks < 8 * KB || (bytes >= 8 * MB && blocks < 96)) continue;
        for (const unroll of blocks > 132 || bytes > 4 * MB ? [4] : [1, 2, 4]) {
          list.push(direct(blocks, unroll, 'push', blocks > 132 ? 2 : 1));
        }
      }
      for (const shape of list) time(call(bytes), shape, bytes, { stream: true });
    }
  }
}

/** LL128 shapes for so many bytes of each peer. */
function shapes128(bytes) {
  const list = [];
  const chunks = Math.ceil(bytes / 960);
  for (const warps of [2, 4, 8, 12, 16, 18, 20, 24, 28, 32]) {
    const blocks = Math.ceil(chunks / warps);
    if (blocks > 128 || blocks < 16) continue;
    list.push(LL128(blocks, 32 * warps));
  }
  return list;
}

/** Lamport shapes for so many bytes of each peer. */
function lamportShapes(bytes) {
  const list = [];
  const count = Math.ceil(bytes / 16);
  for (const packets of [1, 2, 4]) {
    for (const threads of [32, 64, 128, 256, 512, 1024]) {
      const blocks = Math.ceil(count / (threads * packets));
      if (threads * packets * (ranks - 1) > 1024 || blocks > 128 || (blocks > 16 && threads < 64)) continue;
      if (blocks * threads * packets >= 2 * count && threads > 64) continue;
      list.push(lamport(blocks, threads, packets));
    }
  }
  return list;
}

function sweepLamport() {
  gpus.overlap = true;
  for (const bytes of [8, 2 * KB, 8 * KB, 32 * KB, 64 * KB, 128 * KB, 256 * KB, 512 * KB, MB, 2 * MB]) {
    const call = { collective: 'allReduce', type: 'float32', op: 'sum', count: bytes / 4, root: 0 };
    const list = lamportShapes(bytes);
    for (const shape of list) time(call, shape, bytes, { stream: true });
    const old = bytes > 128 * KB ? shapeWith('LL128', team, call) : shapeWith('LL', team, call);
    time(call, old, bytes, { stream: true });
    if (bytes === 2 * MB) {
      for (let again = 0; again < 2; again++) {
        time(call, old, bytes, { stream: true });
        for (const shape of list) time(call, shape, bytes, { stream: true });
      }
    }
  }
  for (const collective of ['reduceScatter', 'reduce']) {
    for (const bytes of [32 * KB, 512 * KB, 2 * MB]) {
      const each = collective === 'reduce' ? bytes : bytes / ranks;
      const call = { collective, type: 'float32', op: 'sum', count: each / 4, root: 0 };
      for (const shape of lamportShapes(each)) time(call, shape, bytes);
      time(call, each > 128 * KB ? shapeWith('LL128', team, call) : shapeWith('LL', team, call), bytes);
    }
  }
}

/** Copies by the copy engines between meetings of the ranks, by kernels or by values in memory. */
function sweepEngines() {
  gpus.overlap = false;
  for (const bytes of [2 * MB, 8 * MB, 32 * MB, 128 * MB, 512 * MB]) {
    const call = { collective: 'allGather', type: 'float32', op: 'sum', count: bytes / 8, root: 0 };
    time(call, gpuLaunch(team, call).shape, bytes, { stream: true });
    const launches = bytes > 64 * MB ? 1 : 3;
    for (const meeting of ['kernels', 'values']) {
      for (const parts of [1, 2]) {
        try {
          const barrier = { collective: 'barrier', type: 'uint8', op: 'sum', count: 0, root: 0 };
          const kernels =
            meeting === 'kernels' ? prepareFor(barrier, gpuLaunch(team, barrier).shape) : undefined;
          const found = gpus.timeEngines(sends, recvs, bytes / 2, { kernels, parts, launches });
          report.rows.push({
            collective: `allGather`,
            bytes,
            shape: { program: `engines ${meeting} ${parts}`, blocks: 0, threads: 0 },
            ...found,
          });
        } catch (error) {
          (report.notes ??= []).push(`engines ${meeting} ${parts} ${bytes}: ${error.message}`);
        }
      }
    }
  }
}

/** The all-reduce in LL128 lines and by pushes. */
function sweep128() {
  gpus.overlap = true;
  for (const bytes of [64 * KB, 128 * KB, 256 * KB, 512 * KB, MB, 2 * MB, 3 * MB]) {
    const call = { collective: 'allReduce', type: 'float32', op: 'sum', count: bytes / 4, root: 0 };
    for (const shape of shapes128(bytes)) time(call, shape, bytes, { stream: true });
    time(call, gpuLaunch(team, call).shape, bytes, { stream: true });
  }
}

const EXCHANGES = [exchange(128, 2, 8), exchange(128, 4, 4), exchange(128, 3, 5), exchange(112, 2, 8)];

/** The all-reduce of two ranks by an exchange beside what was before it, again and again in turns. */
function sweepExchange() {
  const direct132 = { ...direct(132, 2, 'push', 1), threads: 1024 };
  for (const bytes of [4 * MB, 8 * MB, 16 * MB, 32 * MB, 64 * MB, 128 * MB, 512 * MB]) {
    const call = { collective: 'allReduce', type: 'float32', op: 'sum', count: bytes / 4, root: 0 };
    const old = bytes >= 96 * MB ? direct(264, 4) : bytes >= 16 * MB ? direct132 : direct(132, 4);
    for (const overlap of [true, false]) {
      gpus.overlap = overlap;
      for (let again = 0; again < 2; again++) {
        time(call, old, bytes, { stream: true });
        for (const shape of EXCHANGES) time(call, shape, bytes, { stream: true });
      }
    }
    gpus.overlap = false;
    for (const shape of [old, EXCHANGES[0]]) {
      time(call, shape, bytes, { stream: true, inPlace: true });
    }
  }
}

/** The other collectives in LL128 lines. */
function sweepOthers128() {
  gpus.overlap = true;
  for (const collective of ['allGather', 'reduceScatter', 'broadcast', 'reduce', 'allToAll']) {
    const perRank = !['broadcast', 'reduce'].includes(collective);
    for (const bytes of [128 * KB, 512 * KB, 2 * MB, 4 * MB]) {
      const each = perRank ? bytes / ranks : bytes;
      if (each > 3 * MB) continue;
      const call = { collective, type: 'float32', op: 'sum', count: each / 4, root: 0 };
      const list = shapes128(each).filter(({ threads }) => threads >= 128);
      for (const shape of list) time(call, shape, bytes, { stream: true });
      time(call, gpuLaunch(team, call).shape, bytes, { stream: true });
    }
  }
}

/** A copy through shared memory by the bulk copy engine of a multiprocessor (TMA), 16 KB at a time. */
const BULK_COPY = `
.version 8.0
.target sm_90
.address_size 64
.visible .entry bulk_copy(.param .u64 source, .param .u64 target, .param .u64 bytes)
{
  .shared .align 128 .b8 buffer[32768];
  .shared .align 8 .b64 ready[2];
  .reg .pred %p<8>;
  .reg .b32 %r<16>;
  .reg .b64 %d<16>;
  mov.u32 %r0, %tid.x;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra done;
  ld.param.u64 %d0, [source];
  ld.param.u64 %d1, [target];
  ld.param.u64 %d2, [bytes];
  mov.u32 %r1, buffer;
  mov.u32 %r2, ready;
  mbarrier.init.shared.b64 [%r2], 1;
  mbarrier.init.shared.b64 [%r2+8], 1;
  fence.proxy.async;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %d3, %r3, 16384;
  mul.wide.u32 %d4, %r4, 16384;
  mov.u32 %r5, 0;
again:
  setp.ge.u64 %p1, %d3, %d2;
  @%p1 bra last;
  and.b32 %r6, %r5, 1;
  shr.u32 %r7, %r5, 1;
  and.b32 %r7, %r7, 1;
  shl.b32 %r8, %r6, 14;
  add.u32 %r8, %r8, %r1;
  shl.b32 %r9, %r6, 3;
  add.u32 %r9, %r9, %r2;
  cp.async.bulk.wait_group.read 1;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r9], 16384;
  add.u64 %d5, %d0, %d3;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%d5], 16384, [%r9];
wait:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r9], %r7;
  @!%p2 bra wait;
  add.u64 %d6, %d1, %d3;
  cp.async.bulk.global.shared::cta.bulk_group [%d6], [%r8], 16384;
  cp.async.bulk.commit_group;
  add.u64 %d3, %d3, %d4;
  add.u32 %r5, %r5, 1;
  bra again;
last:
  cp.async.bulk.wait_group 0;
done:
  ret;
}
`;

/** How fast the link is in both directions by other means than programs of ours. */
function probeLink() {
  for (const bytes of [32 * MB, 512 * MB]) {
    const calls = bytes > 64 * MB ? 6 : 40;
    const row = (name, us) =>
      report.rows.push({ collective: `link ${name}`, bytes, shape: { program: 'LL' }, graph: us });
    row('copy engines', gpus.timeCopies(sends, recvs, bytes, calls));
    for (const perProcessor of [1, 2, 4, 6]) {
      const options = { blocks: 132 * perProcessor, threads: 32, sends, recvs, bytes, calls };
      row(`bulk copies ${perProcessor}`, gpus.timeText('bulk_copy', BULK_COPY, options));
    }
  }
  const a = new Uint32Array(65536);
  const b = new Uint32Array(65536);
  gpus.ranks[0].download(a, sends[0] + BigInt(100 * MB));
  gpus.ranks[1].download(b, recvs[1] + BigInt(100 * MB));
  if (a.some((value, i) => value !== b[i])) report.failures.push({ what: 'bulk copy' });
}

function sweepOthers() {
  gpus.overlap = true;
  const ways = {
    allGather: ['push', 'pull'],
    allToAll: ['push', 'pull'],
    broadcast: ['push', 'pull', 'split'],
    reduce: ['pull', 'split'],
  };
  for (const collective of ['allGather', 'reduceScatter', 'allToAll', 'broadcast', 'reduce']) {
    const perRank = !['broadcast', 'reduce'].includes(collective);
    for (const bytes of SIZES.filter((n) => n >= KB)) {
      const each = perRank ? bytes / ranks : bytes;
      const call = { collective, type: 'float32', op: 'sum', count: each / 4, root: 0 };
      const list = each <= 512 * KB ? oneRoundShapes(each).filter(({ threads }) => threads >= 128) : [];
      for (const blocks of bytes < 512 * KB ? [] : [32, 64, 132, 264]) {
        if (each / blocks < 8 * KB || (bytes >= 8 * MB && blocks < 64)) continue;
        for (const copies of ways[collective] ?? ['push']) {
          for (const unroll of bytes <= 8 * MB ? [2, 4] : [4, 8]) {
            list.push(direct(blocks, unroll, copies, blocks > 132 ? 2 : 1));
          }
        }
      }
      for (const shape of list) time(call, shape, bytes);
    }
  }
}

/** What `gpuLaunch` chooses. */
function chosen() {
  gpus.overlap = true;
  for (const collective of ['allReduce', 'allGather', 'reduceScatter', 'allToAll', 'broadcast', 'reduce']) {
    const perRank = !['broadcast', 'reduce', 'allReduce'].includes(collective);
    for (let bytes = 8; bytes <= 512 * MB; bytes *= 4) {
      const count = Math.floor(perRank ? bytes / ranks / 4 : bytes / 4);
      if (count === 0) continue;
      const call = { collective, type: 'float32', op: 'sum', count, root: 0 };
      time(call, gpuLaunch(team, call).shape, bytes, { stream: true });
    }
  }
}

/** How long waits poll before they sleep, against ranks that are far apart and ranks that are not. */
function sweepWaits() {
  gpus.overlap = true;
  for (const [polls, sleep] of [
    [4096, 256],
    [8, 64],
    [8, 256],
    [16, 512],
    [32, 256],
    [32, 1000],
    [64, 1000],
  ]) {
    gpus.forget();
    gpus.edit = (text) =>
      text
        .replace(/(setp\.gt\.u32 %p\d+, %r\d+), 4096;/g, `$1, ${polls};`)
        .replace(/nanosleep\.u32 256/g, `nanosleep.u32 ${sleep}`);
    for (const bytes of [8, 32 * KB, 128 * KB, 512 * KB, 2 * MB]) {
      const call = { collective: 'allReduce', type: 'float32', op: 'sum', count: bytes / 4, root: 0 };
      const { shape } = gpuLaunch(team, call);
      const prepared = prepareFor(call, shape);
      const what = `waits of ${bytes}`;
      const graph = Number(gpus.timeGraph(prepared, what, { launches: 10 }).toFixed(3));
      const stream = Number(gpus.timeStream(prepared, what, 200).toFixed(3));
      const skewed = [0, 1, 2, 3].map(() => Number(gpus.timeSkewed(prepared, what).toFixed(1)));
      report.rows.push({
        collective: `wait ${polls} ${sleep}`,
        bytes,
        shape,
        graph,
        stream,
        skewed,
        overlap: true,
      });
    }
  }
  gpus.edit = (text) => text;
  gpus.forget();
}

/** Changes of the accesses of direct programs, by name. */
const ACCESSES = {
  plain: (text) => text,
  loadStream: (text) => text.replaceAll('ld.global.v4', 'ld.global.cs.v4'),
  storeStream: (text) => text.replaceAll('st.global.v4', 'st.global.cs.v4'),
  bothStream: (text) =>
    text.replaceAll('ld.global.v4', 'ld.global.cs.v4').replaceAll('st.global.v4', 'st.global.cs.v4'),
  loadPast: (text) => text.replaceAll('ld.global.v4', 'ld.global.L1::no_allocate.v4'),
  loadRelaxed: (text) => text.replaceAll('ld.global.v4', 'ld.relaxed.sys.global.v4'),
};

/** All-reduce of much data: threads, blocks, packets under way and cache hints. */
function tune() {
  gpus.overlap = true;
  for (const [name, edit] of Object.entries(ACCESSES)) {
    gpus.forget();
    gpus.edit = edit;
    for (const threads of name === 'plain' ? [256, 512, 768, 1024] : [512]) {
      for (const [perProcessor, unroll] of [
        [1, 2],
        [1, 3],
        [1, 4],
        [1, 6],
        [1, 8],
        [2, 2],
        [2, 3],
        [2, 4],
      ]) {
        if (threads * perProcessor > 1536 || (name !== 'plain' && ![3, 4].includes(unroll))) continue;
        if (threads * perProcessor < 512 || (threads === 1024 && unroll > 4)) continue;
        for (const bytes of [32 * MB, 512 * MB]) {
          const call = { collective: 'allReduce', type: 'float32', op: 'sum', count: bytes / 4, root: 0 };
          const shape = {
            ...direct(132 * perProcessor, unroll, 'push', perProcessor),
            blocks: 132 * perProcessor,
            threads,
          };
          const prepared = prepareFor(call, shape);
          const what = `tune ${name} ${JSON.stringify(shape)}`;
          const graph = Number(
            gpus.timeGraph(prepared, what, { launches: bytes > 64 * MB ? 1 : 4 }).toFixed(2),
          );
          const stream = Number(gpus.timeStream(prepared, what, bytes > 64 * MB ? 10 : 40).toFixed(2));
          report.rows.push({
            collective: `tune ${bytes}`,
            bytes: `${name} ${threads}x${shape.blocks} u${unroll}`,
            shape,
            graph,
            stream,
          });
        }
      }
    }
  }
  gpus.edit = (text) => text;
  gpus.forget();
}

const clock = Date.now();
report.seconds = {};
try {
  for (const part of parts) {
    const start = Date.now();
    gpus.overlap = part === 'checkOverlap';
    if (part === 'check') checks();
    if (part === 'checkOverlap' || part === 'check') checkChains();
    if (part === 'allReduce') sweepAllReduce(fillRandom());
    if (part === 'others') sweepOthers();
    if (part === 'checkLarge') checkLarge();
    if (part === 'll128') sweep128(fillRandom());
    if (part === 'lamport') sweepLamport(fillRandom());
    if (part === 'engines') sweepEngines(fillRandom());
    if (part === 'others128') sweepOthers128();
    if (part === 'checkExchange') checkExchange();
    if (part === 'exchange') sweepExchange(fillRandom());
    if (part === 'link') probeLink(fillRandom());
    if (part === 'chosen') chosen(fillRandom());
    if (part === 'tune') tune(fillRandom());
    if (part === 'waits') sweepWaits();
    if (part === 'checkMessages') checkMessages();
    if (part === 'messages') timeMessages();
    report.seconds[part] = (Date.now() - start) / 1000;
  }
} catch (error) {
  report.error = String(error?.stack ?? error);
}
report.seconds.all = (Date.now() - clock) / 1000;
if (values.out !== undefined) writeFileSync(values.out, JSON.stringify(report));
const best = new Map();
for (const row of report.rows) {
  const key = `${row.collective} ${row.bytes}${row.overlap ? ' overlap' : ''}${row.inPlace ? ' in place' : ''}`;
  const list = best.get(key) ?? [];
  list.push(row);
  best.set(key, list);
}
for (const [key, list] of best) {
  list.sort((a, b) => a.graph - b.graph);
  if (list[0].skewed !== undefined) console.log(`  skewed ${list[0].skewed}`);
  const text = list.slice(0, process.env.ROWS ?? 3).map(({ graph, stream, shape: s }) => {
    const form =
      s.program !== 'Direct'
        ? `${s.program} ${s.blocks}x${s.threads}x${s.lines ?? s.unroll ?? s.packets ?? 'n'}${s.pairs === undefined ? '' : ` ${s.pairs} pairs`}`
        : `D ${s.blocks} u${s.unroll} ${s.copies} r${s.residency}`;
    return `${graph}${stream === undefined ? '' : ` (${stream})`} ${form}`;
  });
  console.log(`${key}: ${text.join(' | ')}`);
}
console.log(JSON.stringify({ ...report, rows: report.rows.length, failures: report.failures.slice(0, 8) }));
process.exit(report.failures.length > 0 || report.error !== undefined ? 1 : 0);

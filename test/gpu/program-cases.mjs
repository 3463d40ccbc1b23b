/**
 * Programs over scalars, memory and control, and what a plain evaluator of the representation (or a few lines here)
 * says must come out. See element-cases.mjs for what a case is.
 */
import { kernel } from '#src/kernel/builder.js';
import { random, TRAITS } from './element-cases.mjs';

const WHOLE = ['i32', 'u32', 'i64', 'u64'];
const FLOAT = ['f32', 'f64'];
const WIDTH = { i32: 32, u32: 32, i64: 64, u64: 64, f32: 32, f64: 64 };
const WHOLE_OPS = [
  'add',
  'sub',
  'mul',
  'mulHi',
  'div',
  'rem',
  'min',
  'max',
  'and',
  'or',
  'xor',
  'shl',
  'shr',
];
const FLOAT_OPS = ['add', 'sub', 'mul', 'div', 'min', 'max'];
const COMPARE = ['eq', 'ne', 'lt', 'le', 'gt', 'ge'];
const UNARY = ['neg', 'not', 'clz', 'ctz', 'popcnt', 'abs'];

/** The evaluator has addresses of 32 bits; memory begins here in its world. */
const BASE = 1024;

function bytesDiffer(actual, expected) {
  const found = [];
  for (let i = 0; i < expected.length; i++) {
    if (actual[i] !== expected[i]) found.push(`byte ${i}: ${actual[i]} instead of ${expected[i]}`);
  }
  return found;
}

/** Stores results one after the other, 8 bytes each; NaNs as a mark. */
class Results {
  bytes = 0;
  constructor(k, to) {
    this.k = k;
    this.to = to;
  }
  put(value) {
    const { k, to } = this;
    const at = { offset: this.bytes };
    this.bytes += 8;
    if (value.type === 'pred') k.store('u32', to, k.select(value, k.u32(1), 2), at);
    else if (value.type === 'f32' || value.type === 'f64') {
      k.store(value.type, to, k.select(value.eq(value), value, k.input(value.type, 12345)), at);
    } else k.store(value.type, to, value, at);
  }
}

/** All operations on one type, for one pair of inputs per block. */
function scalarProgram(type, stride) {
  let used = 0;
  const program = kernel(`scalar_${type}`, TRAITS, (k, base) => {
    const from = base.offset(k.blockIndex.cast('u64').mul(stride));
    const results = new Results(k, from.offset(32));
    const a = k.load(type, from);
    const b = k.load(type, from, { offset: 8 });
    const bits = k.load('u32', from, { offset: 16 });
    const float = FLOAT.includes(type);
    for (const op of float ? FLOAT_OPS : WHOLE_OPS) {
      if (op === 'shl' || op === 'shr') results.put(a[op](bits.and(WIDTH[type] - 1)));
      else results.put(a[op](!float && (op === 'div' || op === 'rem') ? b.or(1) : b));
    }
    for (const op of COMPARE) results.put(a[op](b));
    for (const op of float ? ['neg', 'abs'] : UNARY) results.put(a[op]());
    for (const to of [...WHOLE, ...FLOAT, 'pred']) results.put(a.cast(to));
    results.put(a.eq(b).cast(type));
    for (const to of [...WHOLE, ...FLOAT]) {
      if (WIDTH[to] === WIDTH[type] && FLOAT.includes(to) !== float) results.put(a.bitcast(to));
    }
    results.put(k.select(a.lt(b), a, b));
    const p = a.lt(b);
    const q = bits.and(1).eq(0);
    for (const value of [
      p.and(q),
      p.or(q),
      p.xor(q),
      p.not(),
      p.eq(q),
      p.ne(q),
      p.lt(q),
      p.le(q),
      p.gt(q),
      p.ge(q),
    ])
      results.put(value);
    results.put(k.select(q, p, p.not()));
    results.put(k.threadIndex);
    results.put(k.blockIndex);
    results.put(k.threadCount);
    results.put(k.blockCount);
    used = 32 + results.bytes;
  });
  if (used > stride) throw new Error(`${used} bytes of results`);
  return program;
}

function scalarCase(type, blocks, evaluate, seed) {
  const stride = 512;
  const memory = new Uint8Array(stride * blocks);
  const view = new DataView(memory.buffer);
  const next = random(seed);
  const wholes = [
    0n,
    1n,
    2n,
    3n,
    7n,
    31n,
    63n,
    0x7fffffffn,
    0x80000000n,
    0xffffffffn,
    1n << 32n,
    1n << 62n,
    (1n << 63n) - 1n,
    1n << 63n,
    -1n,
    -2n,
  ];
  const floats = [
    0,
    -0,
    1,
    -1,
    0.5,
    1.5,
    2.5,
    -2.5,
    1e-45,
    1e-310,
    3e38,
    1e300,
    Infinity,
    -Infinity,
    NaN,
    2147483647,
    2147483648,
    -2147483649,
    4294967295.5,
    2 ** 63,
    -(2 ** 63),
    2 ** 64,
    16777217,
  ];
  const write = (at) => {
    if (FLOAT.includes(type)) {
      const special = next() % 2 === 0;
      const value = floats[next() % floats.length];
      if (special && type === 'f32') view.setFloat32(at, value, true);
      else if (special) view.setFloat64(at, value, true);
      else {
        view.setUint32(at, next(), true);
        view.setUint32(at + 4, next(), true);
        // JavaScript makes a signalling float32 NaN a quiet one by reading it; a GPU does not.
        const bits = view.getUint32(at, true);
        if (type === 'f32' && (bits & 0x7fffffff) > 0x7f800000) view.setUint32(at, bits | 0x400000, true);
      }
      return;
    }
    const value =
      next() % 2 === 0 ? wholes[next() % wholes.length] : (BigInt(next()) << 32n) | BigInt(next());
    view.setBigUint64(at, BigInt.asUintN(64, value), true);
  };
  for (let i = 0; i < blocks; i++) {
    write(i * stride);
    write(i * stride + 8);
    view.setUint32(i * stride + 16, next(), true);
  }
  const program = scalarProgram(type, stride);
  const world = new Uint8Array(BASE + memory.length);
  world.set(memory, BASE);
  for (let block = 0; block < blocks; block++) {
    evaluate(program, { view: new DataView(world.buffer), descriptor: BASE, block, blocks });
  }
  return {
    program,
    grid: blocks,
    block: 1,
    memory,
    elements: blocks,
    check: (after) =>
      bytesDiffer(after, world.subarray(BASE)).map((text) => `${text} (cell = byte mod ${stride})`),
  };
}

function loadsPointer(statements) {
  return statements.some(
    (s) =>
      (s.kind === 'load' && s.memory === 'ptr') ||
      [s.taken, s.otherwise, s.body, s.step].some((list) => list !== undefined && loadsPointer(list)),
  );
}

/** Random programs; those that read addresses are left out, because they are 32 bits wide to the evaluator. */
function randomCases(count, { evaluate, randomProgram }, seed) {
  const next = random(seed);
  const cases = [];
  const SIZE = 8192;
  while (cases.length < count) {
    const choices = Array.from({ length: 40 + (next() % 600) }, () => next() >>> 1);
    const program = { ...randomProgram(choices, { waits: false }), name: `random_${cases.length}` };
    if (loadsPointer(program.body)) continue;
    const memory = new Uint8Array(SIZE);
    for (let i = 0; i < 256; i++) memory[i] = (i * 37 + 11) & 0xff;
    const world = new Uint8Array(BASE + SIZE);
    world.set(memory, BASE);
    const status = evaluate(program, {
      view: new DataView(world.buffer),
      descriptor: BASE,
      block: 0,
      blocks: 1,
    });
    cases.push({
      program,
      grid: 1,
      block: 1,
      memory,
      elements: 1,
      check: (after, statuses) => [
        ...bytesDiffer(after, world.subarray(BASE)),
        ...(statuses[0] === status >>> 0 ? [] : [`status ${statuses[0]} instead of ${status >>> 0}`]),
      ],
    });
  }
  return cases;
}

/** Parts of packets of every length, from and to every aligned address. */
function partCase(align, known) {
  const counts = Array.from({ length: 16 / align + 1 }, (_, i) => i * align);
  const memory = new Uint8Array(64 + counts.length * 96);
  for (let i = 0; i < 48; i++) memory[i] = 200 - i;
  const out = (i) => 64 + 96 * i;
  const shift = align; // an address that is aligned to no more than the elements
  const expected = memory.slice();
  counts.forEach((bytes, i) => {
    for (let b = 0; b < bytes; b++) {
      expected[out(i) + b] = memory[b];
      expected[out(i) + 16 + shift + b] = memory[b];
      expected[out(i) + 64 + shift + b] = memory[shift + b];
    }
    for (let b = 0; b < 16; b++) expected[out(i) + 48 + b] = b < bytes ? memory[shift + b] : 0;
  });
  return {
    program: kernel(`parts_${known ? 'known' : 'counted'}_${align}`, TRAITS, (k, base) => {
      counts.forEach((bytes, i) => {
        const length = known ? bytes : k.threadIndex.add(bytes);
        const first = k.loadPart(base, length, align);
        const second = k.loadPart(base.offset(shift), length, align);
        const to = base.offset(out(i));
        k.storePart(to, first, length, align);
        k.storePart(to.offset(16 + shift), first, length, align);
        k.store('packet', to, second, { offset: 48 });
        k.storePart(to.offset(64 + shift), second, length, align);
      });
    }),
    grid: 1,
    block: 1,
    memory,
    elements: counts.length,
    check: (after) => bytesDiffer(after, expected),
  };
}

/** Accesses that promise less than their natural alignment. */
function unalignedCase() {
  const memory = new Uint8Array(2048);
  for (let i = 0; i < 64; i++) memory[i] = 7 * i + 3;
  const expected = memory.slice();
  const cells = { i16: 2, u16: 2, i32: 4, u32: 4, i64: 8, u64: 8, f32: 4, f64: 8, packet: 16 };
  const moves = [];
  let at = 64;
  for (const [type, bytes] of Object.entries(cells)) {
    for (let align = 1; align < bytes; align *= 2) {
      moves.push([type, align, at]);
      expected.set(memory.subarray(align, align + bytes), at + align);
      at += 32;
    }
  }
  return {
    program: kernel('unaligned', TRAITS, (k, base) => {
      for (const [type, align, to] of moves) {
        k.store(type, base, k.load(type, base, { offset: align, align }), { offset: to + align, align });
      }
    }),
    grid: 1,
    block: 1,
    memory,
    elements: moves.length,
    // The interpreter takes such accesses of a GPU's programs for mistakes.
    gpuOnly: true,
    check: (after) => bytesDiffer(after, expected),
  };
}

/** Copies of many lengths between addresses that differ in alignment. */
function copyCase() {
  const jobs = [];
  let at = 4096;
  for (const bytes of [0, 1, 3, 4, 15, 16, 17, 63, 64, 65, 200, 1000]) {
    for (const [from, to] of [
      [0, 0],
      [4, 4],
      [1, 1],
      [0, 4],
      [16, 32],
      [3, 8],
    ]) {
      jobs.push([bytes, from, at + to]);
      at += 1152;
    }
  }
  const memory = new Uint8Array(at + jobs.length * 8);
  const next = random(5);
  for (let i = 0; i < 2048; i++) memory[i] = next();
  const lengths = new BigUint64Array(memory.buffer, at, jobs.length);
  lengths.set(jobs.map(([bytes]) => BigInt(bytes)));
  const expected = memory.slice();
  for (const [bytes, from, to] of jobs) expected.set(memory.subarray(from, from + bytes), to);
  return {
    program: kernel('copies', TRAITS, (k, base) => {
      jobs.forEach(([, from, to], i) => {
        k.copy(base.offset(to), base.offset(from), k.load('u64', base, { offset: at + 8 * i }));
      });
    }),
    grid: 1,
    block: 1,
    memory,
    elements: jobs.length,
    check: (after) => bytesDiffer(after, expected),
  };
}

/** Many threads: atomics, shuffles, votes, barriers. */
function threadCases() {
  const cell = (after, at) => new DataView(after.buffer).getUint32(at, true);
  const atomics = {
    program: kernel('atomics', TRAITS, (k, base) => {
      const one = k.threadIndex.add(1);
      k.atomic('add', 'u32', base, one);
      k.atomic('add', 'u64', base, one.cast('u64').shl(30), { offset: 8 });
      k.atomic('max', 'u32', base, one, { offset: 16 });
      k.atomic('min', 'u32', base, k.u32(5000).sub(one), { offset: 20 });
      k.atomic('or', 'u32', base, k.u32(1).shl(k.threadIndex.and(15)), { offset: 24 });
      k.atomic('and', 'u64', base, k.u64(1).shl(k.threadIndex.and(31)).not(), { offset: 32 });
      k.atomic('xor', 'u32', base, one, { offset: 40, scope: 'device' });
      const old = k.atomic('exchange', 'u32', base, one, { offset: 44 });
      k.atomic('add', 'u32', base, old, { offset: 48 });
      const again = k.variable('u32', 1);
      k.loop((loop) => {
        const seen = k.load('u64', base, { offset: 56, order: 'relaxed' });
        const found = k.compareExchange('u64', base, seen, seen.add(3n), { offset: 56 });
        k.if(found.eq(seen), () => loop.break());
        again.set(again.value.add(1));
      });
    }),
    grid: 4,
    block: 128,
    memory: new Uint8Array(64),
    elements: 512,
    check(after) {
      const view = new DataView(after.buffer);
      const sum = (128 * 129) / 2;
      const due = [
        [0, 4 * sum],
        [16, 128],
        [20, 4872],
        [24, 0xffff],
        [40, 0],
        [56, 3 * 512],
      ];
      const found = due.flatMap(([at, value]) =>
        cell(after, at) === value ? [] : [`cell ${at}: ${cell(after, at)} instead of ${value}`],
      );
      if (view.getBigUint64(8, true) !== BigInt(4 * sum) << 30n) found.push('sum of 64 bits');
      if (view.getBigUint64(32, true) !== 0xffffffff00000000n) found.push('and of 64 bits');
      if (cell(after, 48) + cell(after, 44) !== 4 * sum) found.push('exchanges lose values');
      return found;
    },
  };
  atomics.memory.fill(0xff, 20, 24);
  atomics.memory.fill(0xff, 32, 40);

  const warp = {
    program: kernel('warp', TRAITS, (k, base) => {
      const t = k.threadIndex;
      const lane = t.and(31);
      const to = base.offset(t.cast('u64').mul(64));
      const from = lane.xor(5);
      k.store('u32', to, k.shuffle(t.mul(3), from));
      k.store('u64', to, k.shuffle(t.cast('u64').mul(0x100000001n), from), { offset: 8 });
      k.store('f64', to, k.shuffle(t.cast('f64'), from), { offset: 16 });
      k.store('f32', to, k.shuffle(t.cast('f32'), from), { offset: 24 });
      k.store('packet', to, k.shuffle(k.packet(t.cast('u64'), t.cast('u64').add(9n)), from), { offset: 32 });
      const flags = [k.shuffle(lane.lt(7), from), k.vote('any', t.eq(70)), k.vote('all', t.lt(64))];
      for (const [i, flag] of flags.entries()) k.store('u32', to, flag.cast('u32'), { offset: 48 + 4 * i });
    }),
    grid: 1,
    block: 96,
    memory: new Uint8Array(96 * 64),
    elements: 96,
    check(after) {
      const view = new DataView(after.buffer);
      const found = [];
      for (let t = 0; t < 96; t++) {
        const other = t ^ 5;
        const at = 64 * t;
        const actual = [
          view.getUint32(at, true),
          view.getBigUint64(at + 8, true),
          view.getFloat64(at + 16, true),
          view.getFloat32(at + 24, true),
          view.getBigUint64(at + 32, true),
          view.getBigUint64(at + 40, true),
          view.getUint32(at + 48, true),
          view.getUint32(at + 52, true),
          view.getUint32(at + 56, true),
        ];
        const due = [
          3 * other,
          BigInt(other) * 0x100000001n,
          other,
          other,
          BigInt(other),
          BigInt(other + 9),
          (other & 31) < 7 ? 1 : 0,
          t >= 64 ? 1 : 0,
          t < 64 ? 1 : 0,
        ];
        if (actual.some((value, i) => value !== due[i]))
          found.push(`thread ${t}: ${actual} instead of ${due}`);
      }
      return found;
    },
  };

  // Every thread writes, then reads what its neighbour wrote, over and over; two halves of the block on their own.
  const barriers = {
    program: kernel('barriers', TRAITS, (k, base) => {
      const t = k.threadIndex;
      const half = t.div(64);
      const mine = base.offset(t.cast('u64').mul(4));
      const other = base.offset(half.mul(64).add(t.add(1).and(63)).cast('u64').mul(4));
      const value = k.variable('u32', t);
      k.for(k.u32(0), 50, 1, () => {
        k.store('u32', mine, value.value);
        k.if(
          half.eq(0),
          () => k.barrier(1, 64),
          () => k.barrier(2, 64),
        );
        value.set(k.load('u32', other).add(1));
        k.barrier();
      });
      k.store('u32', mine, value.value);
    }),
    grid: 1,
    block: 128,
    memory: new Uint8Array(512),
    elements: 128,
    check: (after) =>
      Array.from(new Uint32Array(after.buffer)).flatMap((value, t) => {
        const due = (t & 64) + (((t & 63) + 50) & 63) + 50;
        return value === due ? [] : [`thread ${t}: ${value} instead of ${due}`];
      }),
  };
  return [atomics, warp, barriers];
}

/** Waits: for another block, for ever (until aborted), and statuses. */
function waitCases() {
  const handOver = {
    program: kernel('hand_over', TRAITS, (k, base) => {
      // A token goes round the blocks; each adds to the data that it covers.
      const b = k.blockIndex;
      k.for(k.u32(0), 20, 1, (round) => {
        k.if(k.threadIndex.eq(0), () => {
          const turn = round.mul(k.blockCount).add(b);
          k.wait(() => k.load('u32', base, { order: 'acquire', scope: 'device' }).eq(turn));
        });
        k.barrier();
        const mine = base.offset(k.threadIndex.cast('u64').mul(4));
        k.store('u32', mine, k.load('u32', mine, { offset: 64 }).add(b.add(1)), { offset: 64 });
        k.barrier();
        k.if(k.threadIndex.eq(0), () => {
          k.store('u32', base, round.mul(k.blockCount).add(b).add(1), { order: 'release', scope: 'device' });
        });
      });
    }),
    grid: 8,
    block: 64,
    memory: new Uint8Array(64 + 256),
    elements: 8,
    check(after) {
      const cells = new Uint32Array(after.buffer, 64, 64);
      return Array.from(cells).flatMap((value, t) =>
        value === 20 * 36 ? [] : [`thread ${t}: ${value} instead of 720`],
      );
    },
  };

  const aborted = (name, counted, waiters) => {
    let rounds = 0;
    return {
      program: kernel(name, TRAITS, (k, base) => {
        k.for(k.u32(0), 3, 1, () => {
          k.if(k.threadIndex.lt(waiters), () => {
            k.wait(() => k.load('u32', base, { order: 'acquire' }).eq(99));
          });
          if (counted) k.barrier(1, 128);
          else k.barrier();
        });
      }),
      grid: 3,
      block: 128,
      memory: new Uint8Array(16),
      elements: 3,
      abort: true,
      meanwhile: (words) => {
        if (++rounds > 20) words[0] = 1;
      },
      check: (_, statuses) => (statuses.every((s) => s === 1) ? [] : [`statuses ${statuses} instead of 1`]),
    };
  };

  const statuses = {
    program: kernel('statuses', TRAITS, (k) => {
      k.if(k.threadIndex.eq(5).and(k.blockIndex.eq(1)), () => k.return(17));
      k.if(k.threadIndex.eq(7), () => k.return(k.blockIndex.mul(k.blockIndex.sub(1)).mul(10)));
      k.return();
    }),
    grid: 4,
    block: 64,
    memory: new Uint8Array(16),
    elements: 4,
    check: (_, found) => (`${found}` === '0,17,20,60' ? [] : [`statuses ${found} instead of 0,17,20,60`]),
  };
  return [
    handOver,
    aborted('aborted_one', false, 1),
    aborted('aborted_all', false, 128),
    aborted('aborted_counted', true, 64),
    statuses,
  ];
}

/** All cases over programs. `tools` are the evaluator and the generator of random programs (see prepare.mjs). */
export function programCases(tools, { seed = 1, scale = 1 } = {}) {
  const blocks = Math.max(64, Math.floor(2000 / scale));
  return [
    ...[...WHOLE, ...FLOAT].map((type, i) => scalarCase(type, blocks, tools.evaluate, seed * 31 + i)),
    ...[1, 2, 4, 8, 16].flatMap((align) => [partCase(align, true), partCase(align, false)]),
    unalignedCase(),
    copyCase(),
    ...threadCases(),
    ...waitCases(),
    ...randomCases(Math.max(20, Math.floor(150 / scale)), tools, seed * 7),
  ];
}

/**
 * Instructions of memory accesses.
 *
 * Plain accesses of up to 8 aligned bytes are one machine instruction in every engine with 64-bit code, which
 * is all that `relaxed` asks for; ordered loads and release stores use the (sequentially consistent) atomic
 * instructions, because only those order what stands around them. A relaxed or volatile load is an atomic one
 * too: it costs nothing more and no compiler may drop it from a polling loop.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import { type AtomicOp, MEMORY_BYTES, type MemoryType, type Statement } from '../ir.js';
import type { Code } from './code.js';
import type { NameWith } from './instructions.js';

type Kind<K extends Statement['kind']> = Extract<Statement, { kind: K }>;

type ScalarMemory = Exclude<MemoryType, 'packet'>;

/** How cells of each type are accessed. A `ptr` cell is 8 bytes; the low 4 are the address. */
interface Access {
  readonly load: NameWith<'memory'>;
  readonly store: NameWith<'memory'>;
  readonly atomicLoad: NameWith<'memory'>;
  readonly atomicStore: NameWith<'memory'>;
  /** From what the atomic load gives to the value. */
  readonly after?: NameWith<'none'>;
  /** From the value to what the atomic store takes. */
  readonly before?: NameWith<'none'>;
}

const BYTE = {
  store: 'i32.store8',
  atomicLoad: 'i32.atomic.load8_u',
  atomicStore: 'i32.atomic.store8',
} as const;
const SHORT = {
  store: 'i32.store16',
  atomicLoad: 'i32.atomic.load16_u',
  atomicStore: 'i32.atomic.store16',
} as const;
const WORD = {
  load: 'i32.load',
  store: 'i32.store',
  atomicLoad: 'i32.atomic.load',
  atomicStore: 'i32.atomic.store',
} as const;
const LONG = {
  load: 'i64.load',
  store: 'i64.store',
  atomicLoad: 'i64.atomic.load',
  atomicStore: 'i64.atomic.store',
} as const;

const ACCESS: Readonly<Record<ScalarMemory, Access>> = {
  i8: { load: 'i32.load8_s', ...BYTE, after: 'i32.extend8_s' },
  u8: { load: 'i32.load8_u', ...BYTE },
  i16: { load: 'i32.load16_s', ...SHORT, after: 'i32.extend16_s' },
  u16: { load: 'i32.load16_u', ...SHORT },
  i32: WORD,
  u32: WORD,
  i64: LONG,
  u64: LONG,
  ptr: {
    load: 'i32.load',
    store: 'i64.store',
    atomicLoad: 'i32.atomic.load',
    atomicStore: 'i64.atomic.store',
  },
  f32: {
    ...WORD,
    load: 'f32.load',
    store: 'f32.store',
    after: 'f32.reinterpret_i32',
    before: 'i32.reinterpret_f32',
  },
  f64: {
    ...LONG,
    load: 'f64.load',
    store: 'f64.store',
    after: 'f64.reinterpret_i64',
    before: 'i64.reinterpret_f64',
  },
};

/** Bytes that one load touches: of a `ptr` cell only the low half. */
function loadedBytes(memory: MemoryType): number {
  return memory === 'ptr' ? 4 : MEMORY_BYTES[memory];
}

function requireAligned(access: Kind<'load'> | Kind<'store'>): void {
  const { order, memory, align } = access;
  if (align >= MEMORY_BYTES[memory]) return;
  throw new TuttiError(
    'internalError',
    `an ${order} access of ${memory} needs alignment ${MEMORY_BYTES[memory]}, not ${align}`,
  );
}

/** Replaces the address on the stack by the value; `offset` is the part of it that is an immediate. */
export function load(code: Code, access: Kind<'load'>, offset: number): void {
  const { memory, order, align } = access;
  const bytes = loadedBytes(memory);
  if (memory === 'packet') {
    code.memory('v128.load', Math.min(align, bytes), offset);
    // 16 bytes are never one atomic access; what follows an acquire must still come after it.
    if (order === 'acquire') code.op('atomic.fence');
    return;
  }
  if (order === 'acquire') requireAligned(access);
  const how = ACCESS[memory];
  if (order === 'weak' || align < bytes) code.memory(how.load, Math.min(align, bytes), offset);
  else {
    code.memory(how.atomicLoad, bytes, offset);
    if (how.after !== undefined) code.op(how.after);
  }
}

/** Stores the value on the stack at the address below it. */
export function store(code: Code, access: Kind<'store'>, offset: number): void {
  const { memory, order, align } = access;
  const bytes = MEMORY_BYTES[memory];
  const release = order === 'release';
  if (memory === 'packet') {
    if (release) code.op('atomic.fence');
    code.memory('v128.store', Math.min(align, bytes), offset);
    return;
  }
  if (release) requireAligned(access);
  const how = ACCESS[memory];
  if (memory === 'ptr') code.op('i64.extend_i32_u');
  if (!release) code.memory(how.store, Math.min(align, bytes), offset);
  else {
    if (how.before !== undefined) code.op(how.before);
    code.memory(how.atomicStore, bytes, offset);
  }
}

const READ_MODIFY_WRITE: Partial<Record<AtomicOp, 'add' | 'and' | 'or' | 'xor' | 'xchg'>> = {
  add: 'add',
  and: 'and',
  or: 'or',
  xor: 'xor',
  exchange: 'xchg',
};

/** Replaces address and value on the stack by the old value. */
export function atomic(code: Code, access: Kind<'atomic'>, offset: number): void {
  const wasm = access.memory === 'u32' ? 'i32' : 'i64';
  const bytes = MEMORY_BYTES[access.memory];
  const direct = READ_MODIFY_WRITE[access.operation];
  if (direct !== undefined) {
    code.memory(`${wasm}.atomic.rmw.${direct}`, bytes, offset);
    return;
  }
  // WebAssembly has no atomic minimum: repeat until nobody came between.
  code.scratch('i32', 1, (address) => {
    code.scratch(wasm, 3, (...locals) => {
      const [value, old, seen] = locals as [number, number, number];
      code.set(value);
      code.tee(address!);
      code.memory(`${wasm}.atomic.load`, bytes, offset);
      code.set(seen);
      code.loop((again) => {
        code.get(seen);
        code.set(old);
        code.get(address!, old);
        code.get(old, value, old, value);
        code.op(access.operation === 'min' ? `${wasm}.lt_u` : `${wasm}.gt_u`, 'select');
        code.memory(`${wasm}.atomic.rmw.cmpxchg`, bytes, offset);
        code.tee(seen);
        code.get(old);
        code.op(`${wasm}.ne`);
        code.branchIf(again);
      });
      code.get(old);
    });
  });
}

/** Replaces address, expected and new value on the stack by the old value. */
export function compareExchange(code: Code, access: Kind<'compareExchange'>, offset: number): void {
  const wasm = access.memory === 'u32' ? 'i32' : 'i64';
  code.memory(`${wasm}.atomic.rmw.cmpxchg`, MEMORY_BYTES[access.memory], offset);
}

/** Sizes below 8 that may be left over when counts are multiples of `align`. */
function pieces(align: number): (4 | 2 | 1)[] {
  return ([4, 2, 1] as const).filter((size) => size >= align);
}

/** Replaces address and byte count on the stack by a packet; nothing outside of the bytes is read. */
export function loadPart(code: Code, align: number): void {
  code.scratch('i32', 3, (...locals) => {
    const [address, bytes, tail] = locals as [number, number, number];
    code.scratch('i64', 1, (bits) => {
      code.set(bytes);
      code.set(address);
      code.get(bytes);
      code.i32(16);
      code.op('i32.ge_u');
      code.if(
        () => {
          code.get(address);
          code.memory('v128.load', align);
        },
        () => {
          // The last 0 to 7 bytes, in pieces, into one 64-bit word.
          code.i64(0n);
          code.set(bits!);
          if (align < 8) {
            code.get(address, bytes);
            code.i32(8);
            code.op('i32.and', 'i32.add');
            code.set(tail);
          }
          for (const size of pieces(align)) {
            code.get(bytes);
            code.i32(size);
            code.op('i32.and');
            code.if(() => {
              // Larger pieces come first in memory.
              const before = 8 - 2 * size;
              const placed = () => {
                code.get(bytes);
                code.i32(before);
                code.op('i32.and');
              };
              code.get(bits!);
              code.get(tail);
              if (before !== 0) {
                placed();
                code.op('i32.add');
              }
              const name = size === 4 ? 'i64.load32_u' : size === 2 ? 'i64.load16_u' : 'i64.load8_u';
              code.memory(name, Math.min(size, align));
              if (before !== 0) {
                placed();
                code.i32(3);
                code.op('i32.shl', 'i64.extend_i32_u', 'i64.shl');
              }
              code.op('i64.or');
              code.set(bits!);
            });
          }
          code.get(bytes);
          code.i32(8);
          code.op('i32.and');
          code.if(
            () => {
              code.get(address);
              code.memory('i64.load', Math.min(8, align));
              code.op('i64x2.splat');
              code.get(bits!);
              code.lane('i64x2.replace_lane', 1);
            },
            () => {
              code.v128(new Uint8Array(16));
              code.get(bits!);
              code.lane('i64x2.replace_lane', 0);
            },
            'v128',
          );
        },
        'v128',
      );
    });
  });
}

/** Takes address, packet and byte count from the stack; nothing outside of the bytes is written. */
export function storePart(code: Code, align: number): void {
  code.scratch('i32', 2, (...locals) => {
    const [address, bytes] = locals as [number, number];
    code.scratch('v128', 1, (packet) => {
      code.scratch('i64', 1, (bits) => {
        code.set(bytes);
        code.set(packet!);
        code.set(address);
        code.get(bytes);
        code.i32(16);
        code.op('i32.ge_u');
        code.if(
          () => {
            code.get(address, packet!);
            code.memory('v128.store', align);
          },
          () => {
            const advance = (size: number) => {
              code.get(address);
              code.i32(size);
              code.op('i32.add');
              code.set(address);
            };
            code.get(packet!);
            code.lane('i64x2.extract_lane', 0);
            code.set(bits!);
            code.get(bytes);
            code.i32(8);
            code.op('i32.and');
            code.if(() => {
              code.get(address, bits!);
              code.memory('i64.store', Math.min(8, align));
              code.get(packet!);
              code.lane('i64x2.extract_lane', 1);
              code.set(bits!);
              if (align < 8) advance(8);
            });
            for (const size of pieces(align)) {
              code.get(bytes);
              code.i32(size);
              code.op('i32.and');
              code.if(() => {
                code.get(address, bits!);
                const name = size === 4 ? 'i64.store32' : size === 2 ? 'i64.store16' : 'i64.store8';
                code.memory(name, Math.min(size, align));
                if (size === align) return;
                code.get(bits!);
                code.i64(BigInt(8 * size));
                code.op('i64.shr_u');
                code.set(bits!);
                advance(size);
              });
            }
          },
        );
      });
    });
  });
}

/**
 * Up to this many bytes a copy is done in line. `memory.copy` is a call out of WebAssembly of about 20 ns, but
 * moves 2 to 4 times more per ns than a loop of packets (Node 20, Xeon 2.5 GHz); they meet at 300 to 500 bytes.
 */
const INLINE_COPY_BYTES = 256;

/** Takes target, source and byte count from the stack. */
export function copy(code: Code): void {
  code.scratch('i32', 4, (...locals) => {
    const [to, from, bytes, last] = locals as [number, number, number, number];
    code.set(bytes);
    code.set(from);
    code.set(to);

    /** Moves `size` bytes at `offset` behind the local `at`, or behind the start. */
    const move = (size: 1 | 2 | 4 | 8 | 16, at?: number, offset = 0) => {
      const [load, store] = PIECE[size];
      for (const address of [to, from]) {
        code.get(address);
        if (at === undefined) continue;
        code.get(at);
        code.op('i32.add');
      }
      code.memory(load, 1, offset);
      code.memory(store, 1, offset);
    };
    const moveTwo = (at: number) => {
      move(16, at);
      move(16, at, 16);
    };
    /** The offset of the last `size` bytes. */
    const setLast = (size: number) => {
      code.get(bytes);
      code.i32(size);
      code.op('i32.sub');
      code.set(last);
    };
    const atLeast = (size: number) => {
      code.get(bytes);
      code.i32(size);
      code.op('i32.ge_u');
    };

    code.block((done) => {
      code.get(bytes);
      code.i32(INLINE_COPY_BYTES);
      code.op('i32.gt_u');
      code.if(() => {
        code.get(to, from, bytes);
        code.op('memory.copy');
        code.branch(done);
      });
      atLeast(32);
      code.if(() => {
        // Two packets at a time from the start, and two that end with the last byte and may overlap those before.
        setLast(32);
        code.scratch('i32', 1, (at) => {
          code.i32(0);
          code.set(at!);
          code.loop((again) => {
            moveTwo(at!);
            code.get(at!);
            code.i32(32);
            code.op('i32.add');
            code.tee(at!);
            code.get(last);
            code.op('i32.lt_u');
            code.branchIf(again);
          });
        });
        moveTwo(last);
        code.branch(done);
      });
      // Twice the largest power of two that fits: from the start and to the end.
      for (const size of [16, 8, 4, 2] as const) {
        atLeast(size);
        code.if(() => {
          setLast(size);
          move(size);
          move(size, last);
          code.branch(done);
        });
      }
      code.get(bytes);
      code.if(() => move(1));
    });
  });
}

const PIECE = {
  1: ['i32.load8_u', 'i32.store8'],
  2: ['i32.load16_u', 'i32.store16'],
  4: ['i32.load', 'i32.store'],
  8: ['i64.load', 'i64.store'],
  16: ['v128.load', 'v128.store'],
} as const;

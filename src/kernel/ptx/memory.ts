/**
 * Instructions of memory accesses.
 *
 * All memory of programs is global memory (their own, a peer's, the host's, through one address space). Order and
 * scope are those of the PTX memory model (sm_70): `weak` accesses may be combined and cached in the first level,
 * `relaxed` ones may not, `acquire` and `release` order what stands around them. A 16-byte access is four 32-bit
 * words that travel together where the address is aligned to 16 bytes; the model orders each word for itself.
 * PTX ISA: chapters "Memory consistency model", "ld", "st", "atom".
 */

import { TuttiError } from '../../errors/tutti-error.js';
import { ELEMENT_TYPES, type ElementType, type StepOp } from '../element-types.js';
import {
  type AtomicOp,
  type CacheHint,
  MEMORY_BYTES,
  type MemoryType,
  type Order,
  type Scope,
  type Statement,
} from '../ir.js';
import type { Code } from './code.js';
import { joinWords, splitWords } from './packets.js';
import { registersFor, type Words, word } from './values.js';

type Kind<K extends Statement['kind']> = Extract<Statement, { kind: K }>;

/** A register that holds an address, and constant bytes to add. */
export interface Address {
  readonly base: string;
  readonly offset: number;
}

function plus({ base, offset }: Address, bytes: number): Address {
  return { base, offset: offset + bytes };
}

function bracket({ base, offset }: Address): string {
  return offset === 0 ? `[${base}]` : `[${base}+${offset}]`;
}

export const SCOPES: Readonly<Record<Scope, string>> = { block: 'cta', device: 'gpu', system: 'sys' };

/** The part of an instruction's name that says order and cache. */
function qualifiers(order: Order, scope: Scope, cache: CacheHint): string {
  switch (order) {
    case 'weak':
      return cache === 'stream' ? '.global.cs' : '.global';
    case 'volatile':
      return '.volatile.global';
    default:
      return `.${order}.${SCOPES[scope]}.global`;
  }
}

/** How a cell type is named in loads and stores. */
function cellType(memory: MemoryType): string {
  switch (memory) {
    case 'i8':
    case 'i16':
      return `s${memory.slice(1)}`;
    case 'u8':
    case 'u16':
      return memory;
    case 'packet':
      return 'v4.b32';
    case 'f32':
    case 'f64':
      return memory;
    default:
      return MEMORY_BYTES[memory] === 8 ? 'b64' : 'b32';
  }
}

/** Cells narrower than a register are stored from its low bits. */
function storeType(memory: MemoryType): string {
  return MEMORY_BYTES[memory] < 4 ? `b${8 * MEMORY_BYTES[memory]}` : cellType(memory);
}

function text(words: Words): string {
  return words.length === 1 ? words[0]! : `{${words.join(', ')}}`;
}

function isSynchronising(order: Order): boolean {
  return order === 'acquire' || order === 'release';
}

function requireAligned({ order, memory, align }: Kind<'load'> | Kind<'store'>): void {
  const needed = MEMORY_BYTES[memory];
  if (align >= needed) return;
  throw new TuttiError(
    'internalError',
    `an ${order} access of ${memory} needs alignment ${needed}, not ${align}`,
  );
}

/** The value of a cell, in fresh registers. */
export function load(code: Code, access: Kind<'load'>, address: Address): Words {
  const { memory, order, scope, cache, align, target } = access;
  if (order === 'release') throw new TuttiError('internalError', 'a load cannot be a release');
  if (isSynchronising(order)) requireAligned(access);
  const bytes = MEMORY_BYTES[memory];
  if (align >= bytes) {
    const words = registersFor(code, target.type);
    code.op(`ld${qualifiers(order, scope, cache)}.${cellType(memory)}`, text(words), bracket(address));
    return words;
  }
  const words = loadPieces(code, address, bytes, align);
  switch (memory) {
    case 'packet':
      return words;
    case 'i16':
      return [code.result('b32', 'cvt.s32.s16', lowHalf(code, words[0]!))];
    case 'f32':
      return [code.result('f32', 'mov.b32', words[0]!)];
    case 'f64':
      return [code.result('f64', 'mov.b64', `{${words.join(', ')}}`)];
    default:
      return bytes === 8 ? [joinWords(code, words[0]!, words[1]!)] : [words[0]!];
  }
}

/** The value of a cell of a parameter: nobody writes there, and what is aligned in its struct is aligned here. */
export function loadParameter(code: Code, { memory, align, target }: Kind<'load'>, address: Address): Words {
  if (align < MEMORY_BYTES[memory]) {
    throw new TuttiError('internalError', `a load of ${memory} from a parameter with alignment ${align}`);
  }
  const words = registersFor(code, target.type);
  code.op(`ld.param.${cellType(memory)}`, text(words), bracket(address));
  return words;
}

function lowHalf(code: Code, w: string): string {
  return code.result('b16', 'cvt.u16.u32', w);
}

/** Stores a value; literals are in registers already. */
export function store(code: Code, access: Kind<'store'>, address: Address, value: Words): void {
  const { memory, order, scope, cache, align } = access;
  if (order === 'acquire') throw new TuttiError('internalError', 'a store cannot be an acquire');
  if (isSynchronising(order)) requireAligned(access);
  const bytes = MEMORY_BYTES[memory];
  if (align >= bytes) {
    code.op(`st${qualifiers(order, scope, cache)}.${storeType(memory)}`, bracket(address), text(value));
    return;
  }
  let words = value;
  if (memory === 'f32') words = [code.result('b32', 'mov.b32', value[0]!)];
  else if (bytes === 8) words = splitWords(code, value[0]!);
  storePieces(code, address, words, bytes, align);
}

// ---- accesses in pieces ----

/** One load of `size` bytes into words of four bytes; shorter ones extend with zeros. */
function loadPiece(code: Code, address: Address, size: number): Words {
  const words = Array.from({ length: Math.max(1, size / 4) }, () => code.register('b32'));
  const type = size < 4 ? `u${8 * size}` : size === 4 ? 'b32' : `v${size / 4}.b32`;
  code.op(`ld.global.${type}`, text(words), bracket(address));
  return words;
}

function storePiece(code: Code, address: Address, words: Words, size: number): void {
  const type = size < 4 ? `b${8 * size}` : size === 4 ? 'b32' : `v${size / 4}.b32`;
  code.op(`st.global.${type}`, bracket(address), text(words));
}

/** `bytes` bytes in loads of `align`, as words. */
function loadPieces(code: Code, address: Address, bytes: number, align: number): Words {
  const size = Math.min(align, bytes);
  if (size >= 4) {
    return Array.from({ length: bytes / size }, (_, i) =>
      loadPiece(code, plus(address, i * size), size),
    ).flat();
  }
  const pieces = Array.from(
    { length: bytes / size },
    (_, i) => loadPiece(code, plus(address, i * size), size)[0]!,
  );
  const perWord = 4 / size;
  return Array.from({ length: Math.ceil(bytes / 4) }, (_, w) =>
    combine(code, pieces.slice(w * perWord, (w + 1) * perWord), size),
  );
}

/** One word from pieces of `size` bytes, the lowest first. */
function combine(code: Code, pieces: readonly string[], size: number): string {
  let result = pieces[0]!;
  pieces.slice(1).forEach((piece, i) => {
    result = code.result('b32', 'bfi.b32', piece, result, word(8 * size * (i + 1)), word(8 * size));
  });
  return result;
}

/** Piece `index` of `size` bytes of a value, where it can be stored from. */
function pieceOf(code: Code, words: Words, index: number, size: number): Words {
  if (size >= 4) return words.slice((index * size) / 4, ((index + 1) * size) / 4);
  const from = words[Math.floor((index * size) / 4)]!;
  const shift = (8 * size * index) % 32;
  return [shift === 0 ? from : code.result('b32', 'shr.u32', from, word(shift))];
}

function storePieces(code: Code, address: Address, words: Words, bytes: number, align: number): void {
  const size = Math.min(align, bytes);
  for (let i = 0; i < bytes / size; i++) {
    storePiece(code, plus(address, i * size), pieceOf(code, words, i, size), size);
  }
}

// ---- parts of packets ----

const PACKET = 16;

function zeros(code: Code, count: number): Words {
  return Array.from({ length: count }, () => code.result('b32', 'mov.b32', '0'));
}

/** Copies words into registers that code on several paths sets. */
function moveWords(code: Code, to: Words, from: Words): void {
  from.forEach((w, i) => {
    code.op('mov.b32', to[i]!, w);
  });
}

/** Whether one access may move all of `bytes`, if only the address is aligned. */
function isPowerOfTwo(bytes: number): boolean {
  return bytes > 0 && (bytes & (bytes - 1)) === 0;
}

/** Runs one of two pieces of code, the first where the address is a multiple of `bytes`. */
function ifAligned(
  code: Code,
  { base, offset }: Address,
  bytes: number,
  aligned: () => void,
  otherwise: () => void,
): void {
  const at = offset === 0 ? base : code.result('b64', 'add.s64', base, String(offset));
  const low = code.result('b64', 'and.b64', at, word(bytes - 1));
  const slow = code.label();
  const done = code.label();
  code.when(code.result('pred', 'setp.ne.u64', low, '0'), 'bra', slow);
  aligned();
  code.op('bra', done);
  code.place(slow);
  otherwise();
  code.place(done);
}

/** The first bytes at an address, of a number known now; the rest is zero. */
export function loadKnownPart(code: Code, address: Address, bytes: number, align: number): Words {
  const words = zeros(code, 4);
  const whole = bytes - (bytes % align);
  if (whole === 0) return words;
  if (isPowerOfTwo(whole) && whole > align) {
    // Elements usually start at an address that lets a whole line be loaded at once.
    ifAligned(
      code,
      address,
      whole,
      () => moveWords(code, words, loadPieces(code, address, whole, whole)),
      () => moveWords(code, words, loadPieces(code, address, whole, align)),
    );
  } else moveWords(code, words, loadPieces(code, address, whole, align));
  return words;
}

export function storeKnownPart(
  code: Code,
  address: Address,
  value: Words,
  bytes: number,
  align: number,
): void {
  const whole = bytes - (bytes % align);
  if (whole === 0) return;
  if (isPowerOfTwo(whole) && whole > align) {
    ifAligned(
      code,
      address,
      whole,
      () => storePieces(code, address, value, whole, whole),
      () => storePieces(code, address, value, whole, align),
    );
  } else storePieces(code, address, value, whole, align);
}

/** Calls `piece` for each piece of a packet, on a path that runs only where `bytes` reaches its end. */
function forPieces(
  code: Code,
  bytes: string,
  align: number,
  piece: (index: number, size: number) => void,
): void {
  const size = Math.min(align, PACKET);
  const done = code.label();
  for (let i = 0; i < PACKET / size; i++) {
    code.when(code.result('pred', 'setp.lt.u32', bytes, word((i + 1) * size)), 'bra', done);
    piece(i, size);
  }
  code.place(done);
}

/** The first `bytes` (a register, 0 to 16) bytes at an address; nothing beyond them is read. */
export function loadPart(code: Code, address: Address, bytes: string, align: number): Words {
  const words = zeros(code, 4);
  forPieces(code, bytes, align, (index, size) => {
    const piece = loadPiece(code, plus(address, index * size), size);
    if (size >= 4) moveWords(code, words.slice((index * size) / 4), piece);
    else {
      const to = words[Math.floor((index * size) / 4)]!;
      code.op('bfi.b32', to, piece[0]!, to, word((8 * size * index) % 32), word(8 * size));
    }
  });
  return words;
}

export function storePart(code: Code, address: Address, value: Words, bytes: string, align: number): void {
  forPieces(code, bytes, align, (index, size) => {
    storePiece(code, plus(address, index * size), pieceOf(code, value, index, size), size);
  });
}

// ---- copy ----

/** Packets that a copying thread has in flight. */
const COPY_PACKETS = 4;

/** Moves `bytes` (a 64-bit register) from one address to another by this thread alone. */
export function copy(code: Code, to: string, from: string, bytes: string): void {
  const target = code.result('b64', 'mov.b64', to);
  const source = code.result('b64', 'mov.b64', from);
  const left = code.result('b64', 'mov.b64', bytes);
  const both = code.result('b64', 'or.b64', to, from);

  /** Rounds of `count` accesses of `size` bytes as long as that much is left. */
  const rounds = (size: number, count: number) => {
    const step = size * count;
    const again = code.label();
    const done = code.label();
    code.place(again);
    code.when(code.result('pred', 'setp.lt.u64', left, word(step)), 'bra', done);
    const pieces = Array.from({ length: count }, (_, i) =>
      loadPiece(code, { base: source, offset: i * size }, size),
    );
    pieces.forEach((piece, i) => {
      storePiece(code, { base: target, offset: i * size }, piece, size);
    });
    code.op('add.s64', target, target, word(step));
    code.op('add.s64', source, source, word(step));
    code.op('sub.s64', left, left, word(step));
    code.op('bra', again);
    code.place(done);
  };
  const unlessAligned = (size: number): string => {
    const skip = code.label();
    const low = code.result('b64', 'and.b64', both, word(size - 1));
    code.when(code.result('pred', 'setp.ne.u64', low, '0'), 'bra', skip);
    return skip;
  };
  const noPackets = unlessAligned(PACKET);
  rounds(PACKET, COPY_PACKETS);
  rounds(PACKET, 1);
  code.place(noPackets);
  const noWords = unlessAligned(4);
  rounds(4, 1);
  code.place(noWords);
  rounds(1, 1);
}

// ---- multicast ----

/** Language versions: multimem instructions; sums of 16-bit floats in 32 bits. */
const MULTIMEM_VERSION = 81;
const WIDE_SUM_VERSION = 82;
const MULTIMEM_CAPABILITY = 90;

function requireMulticast(code: Code): void {
  code.need(MULTIMEM_VERSION);
  if (code.capability >= MULTIMEM_CAPABILITY) return;
  throw new TuttiError(
    'invalidArgument',
    `multicast addresses need sm_${MULTIMEM_CAPABILITY} or newer, not sm_${code.capability}`,
  );
}

const IN_SWITCH: Readonly<Record<StepOp, string>> = { sum: 'add', min: 'min', max: 'max', prod: 'mul' };

/** What a switch makes of the packets at all replicas, in fresh registers. */
export function multicastLoad(code: Code, type: ElementType, step: StepOp, base: string): Words {
  requireMulticast(code);
  const op = `multimem.ld_reduce.relaxed.sys.global.${IN_SWITCH[step]}`;
  const { kind, size } = ELEMENT_TYPES[type];
  if (type === 'float32') {
    const lanes = Array.from({ length: 4 }, () => code.register('f32'));
    code.op(`${op}.v4.f32`, text(lanes), bracket({ base, offset: 0 }));
    return lanes.map((lane) => code.result('b32', 'mov.b32', lane));
  }
  if (kind === 'float' && size === 2) {
    const words = registersFor(code, 'packet');
    if (step === 'sum') code.need(WIDE_SUM_VERSION);
    const form = `${step === 'sum' ? '.acc::f32' : ''}.v4.${type === 'float16' ? 'f16x2' : 'bf16x2'}`;
    code.op(`${op}${form}`, text(words), bracket({ base, offset: 0 }));
    return words;
  }
  // Others have no vectors. Signs make no difference to a sum, whose 8-byte form is unsigned.
  const letter = kind === 'float' ? 'f' : kind === 'signed' && !(step === 'sum' && size === 8) ? 's' : 'u';
  return Array.from({ length: 16 / size }, (_, i) => {
    const address = bracket({ base, offset: i * size });
    if (size === 4) return [code.result('b32', `${op}.${letter}32`, address)];
    const wide = code.result(letter === 'f' ? 'f64' : 'b64', `${op}.${letter}64`, address);
    return splitWords(code, letter === 'f' ? code.result('b64', 'mov.b64', wide) : wide);
  }).flat();
}

/** The four words to all replicas, as 16-bit floats, of which a store needs to know nothing but the width. */
export function multicastStore(code: Code, base: string, value: Words): void {
  requireMulticast(code);
  code.op('multimem.st.relaxed.sys.global.v4.f16x2', bracket({ base, offset: 0 }), text(value));
}

export function multicastAdd(code: Code, base: string, value: string): void {
  requireMulticast(code);
  code.op('multimem.red.release.sys.global.add.u32', bracket({ base, offset: 0 }), value);
}

// ---- read-modify-write ----

const OPERATIONS: Readonly<Record<AtomicOp, [name: string, type: 'u' | 'b']>> = {
  add: ['add', 'u'],
  and: ['and', 'b'],
  or: ['or', 'b'],
  xor: ['xor', 'b'],
  exchange: ['exch', 'b'],
  max: ['max', 'u'],
  min: ['min', 'u'],
};

/** The old value; acquire and release. */
export function atomic(code: Code, access: Kind<'atomic'>, address: Address, value: string): string {
  const bits = 8 * MEMORY_BYTES[access.memory];
  const [name, type] = OPERATIONS[access.operation];
  const operation = `atom.acq_rel.${SCOPES[access.scope]}.global.${name}.${type}${bits}`;
  return code.result(bits === 64 ? 'b64' : 'b32', operation, bracket(address), value);
}

export function compareExchange(
  code: Code,
  access: Kind<'compareExchange'>,
  address: Address,
  expected: string,
  value: string,
): string {
  const bits = 8 * MEMORY_BYTES[access.memory];
  const operation = `atom.acq_rel.${SCOPES[access.scope]}.global.cas.b${bits}`;
  return code.result(bits === 64 ? 'b64' : 'b32', operation, bracket(address), expected, value);
}

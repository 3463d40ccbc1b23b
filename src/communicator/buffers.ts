/**
 * From what the user passes (typed arrays, options) to what is meant (element type, count, in place or not),
 * with every mistake found before anything starts.
 *
 * A buffer is a typed array; its class gives the element type. Types that JavaScript lacks are named:
 * float16 and bfloat16 live in a Uint16Array, the two fp8 types in a Uint8Array.
 */

import type { Collective } from '../collectives/control-block.js';
import { TuttiError } from '../errors/tutti-error.js';
import {
  ELEMENT_TYPE_NAMES,
  ELEMENT_TYPES,
  type ElementType,
  REDUCE_OP_NAMES,
  type ReduceOp,
} from '../kernel/element-types.js';
import { checkKnownOptions } from './known-options.js';

/** The typed arrays that hold elements of a collective. */
export type Buffer =
  | Int8Array
  | Uint8Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float32Array
  | Float64Array;

/** The arrays of the same class as B, whatever memory they lie in. */
export type SameClass<B extends Buffer> = B extends Int8Array
  ? Int8Array
  : B extends Uint8Array
    ? Uint8Array
    : B extends Uint16Array
      ? Uint16Array
      : B extends Int32Array
        ? Int32Array
        : B extends Uint32Array
          ? Uint32Array
          : B extends BigInt64Array
            ? BigInt64Array
            : B extends BigUint64Array
              ? BigUint64Array
              : B extends Float32Array
                ? Float32Array
                : Float64Array;

const NATURAL: Readonly<Record<string, ElementType>> = {
  Int8Array: 'int8',
  Uint8Array: 'uint8',
  Int32Array: 'int32',
  Uint32Array: 'uint32',
  BigInt64Array: 'int64',
  BigUint64Array: 'uint64',
  Float16Array: 'float16',
  Float32Array: 'float32',
  Float64Array: 'float64',
};

/** The array class that carries each element type. */
export const CARRIER: Readonly<Record<ElementType, string>> = {
  int8: 'Int8Array',
  uint8: 'Uint8Array',
  int32: 'Int32Array',
  uint32: 'Uint32Array',
  int64: 'BigInt64Array',
  uint64: 'BigUint64Array',
  float16: 'Uint16Array',
  float32: 'Float32Array',
  float64: 'Float64Array',
  bfloat16: 'Uint16Array',
  float8e4m3: 'Uint8Array',
  float8e5m2: 'Uint8Array',
};

function className(value: unknown): string {
  if (value === null || typeof value !== 'object') return value === null ? 'null' : typeof value;
  // Node's Buffer is a Uint8Array; the tag names the class that stores the elements.
  return (
    (value as { [Symbol.toStringTag]?: string })[Symbol.toStringTag] ?? value.constructor?.name ?? 'object'
  );
}

function resolveType(
  call: string,
  name: string,
  buffer: unknown,
  asked: ElementType | undefined,
): ElementType {
  const carrier = className(buffer);
  if (!ArrayBuffer.isView(buffer) || carrier === 'DataView') {
    throw new TuttiError(
      'invalidArgument',
      `${call}: ${name} must be a typed array, not ${carrier}; make one with comm.alloc(Float32Array, n)`,
    );
  }
  if (asked !== undefined) {
    if (!(asked in ELEMENT_TYPES)) {
      throw new TuttiError(
        'invalidArgument',
        `${call}: unknown type ${String(asked)}; use one of ${ELEMENT_TYPE_NAMES.join(', ')}`,
      );
    }
    if (carrier !== CARRIER[asked] && NATURAL[carrier] !== asked) {
      throw new TuttiError(
        'invalidArgument',
        `${call}: ${asked} lives in a ${CARRIER[asked]}, but ${name} is a ${carrier}`,
      );
    }
    return asked;
  }
  const natural = NATURAL[carrier];
  if (natural === undefined) {
    const hint =
      carrier === 'Uint16Array' ? "; say which with { type: 'float16' } or { type: 'bfloat16' }" : '';
    throw new TuttiError(
      'invalidArgument',
      `${call}: no element type belongs to a ${carrier} (${name})${hint}`,
    );
  }
  return natural;
}

/** A checked call: everything the planner needs, nothing of the user's options left to interpret. */
export interface CheckedCall {
  readonly collective: Collective;
  readonly type: ElementType;
  readonly op: ReduceOp;
  readonly root: number;
  /** Elements as the API counts them: of one block for the collectives with a block per rank, in all otherwise. */
  readonly count: number;
  /** Null where this rank neither sends (receives) anything nor needs a buffer. */
  readonly send: Buffer | null;
  readonly recv: Buffer | null;
}

export interface CallOptions {
  /** Element type, where the array's class does not tell. */
  readonly type?: ElementType;
  /** Operator of a reduction; default sum. */
  readonly op?: ReduceOp;
  /** Root rank of broadcast and reduce; default 0. */
  readonly root?: number;
}

/** Options that each collective understands. */
const OPTIONS_OF: Readonly<Record<Exclude<Collective, 'barrier'>, readonly (keyof CallOptions)[]>> = {
  allReduce: ['op', 'type'],
  reduce: ['op', 'root', 'type'],
  broadcast: ['root', 'type'],
  allGather: ['type'],
  reduceScatter: ['op', 'type'],
  allToAll: ['type'],
};

interface Place {
  readonly rank: number;
  readonly size: number;
}

function byteRange(buffer: Buffer): { memory: ArrayBufferLike; from: number; to: number } {
  return { memory: buffer.buffer, from: buffer.byteOffset, to: buffer.byteOffset + buffer.byteLength };
}

/** Refuses buffers that overlap in any way but the collective's in-place form. */
function checkOverlap(call: string, send: Buffer, recv: Buffer, inPlaceFrom: number, what: string): void {
  const s = byteRange(send);
  const r = byteRange(recv);
  if (s.memory !== r.memory || s.from >= r.to || r.from >= s.to) return;
  if (s.from === inPlaceFrom) return;
  throw new TuttiError(
    'invalidArgument',
    `${call}: send (bytes ${s.from} to ${s.to}) and recv (bytes ${r.from} to ${r.to}) overlap; ${what}`,
  );
}

function checkLength(call: string, name: string, buffer: Buffer, due: number, why: string): void {
  if (buffer.length !== due) {
    throw new TuttiError(
      'invalidArgument',
      `${call}: ${name} holds ${buffer.length} elements, ${due} are due (${why})`,
    );
  }
}

/** Checks a call of one rank. Throws `invalidArgument` naming what is wrong and what would be right. */
export function checkCall(
  collective: Exclude<Collective, 'barrier'>,
  send: Buffer | null | undefined,
  recv: Buffer | null | undefined,
  options: CallOptions,
  { rank, size }: Place,
): CheckedCall {
  const call = collective;
  checkKnownOptions(call, options, OPTIONS_OF[collective]);
  const op = options.op ?? 'sum';
  if (!REDUCE_OP_NAMES.includes(op)) {
    throw new TuttiError(
      'invalidArgument',
      `${call}: unknown operator ${String(op)}; use one of ${REDUCE_OP_NAMES.join(', ')}`,
    );
  }
  const root = options.root ?? 0;
  if (!Number.isInteger(root) || root < 0 || root >= size) {
    throw new TuttiError(
      'invalidArgument',
      `${call}: invalid root ${String(root)}; it must be a rank from 0 to ${size - 1}`,
    );
  }
  const needsSend = collective !== 'broadcast' || rank === root;
  const needsRecv = collective !== 'reduce' || rank === root;
  const leading = needsSend ? send : recv;
  const type = resolveType(call, needsSend ? 'send' : 'recv', leading, options.type);
  for (const [name, buffer, needed] of [
    ['send', send, needsSend],
    ['recv', recv, needsRecv],
  ] as const) {
    if (!needed || buffer === leading) continue;
    const other = resolveType(call, name, buffer, options.type);
    if (other !== type) {
      throw new TuttiError(
        'invalidArgument',
        `${call}: send holds ${type}, recv holds ${other}; both must agree`,
      );
    }
  }
  const base = { collective, type, op, root };
  switch (collective) {
    case 'allReduce':
      checkLength(call, 'recv', recv!, send!.length, 'as many as in send');
      checkOverlap(call, send!, recv!, recv!.byteOffset, 'pass the same buffer twice to work in place');
      return { ...base, count: send!.length, send: send!, recv: recv! };
    case 'reduce':
      if (!needsRecv) return { ...base, count: send!.length, send: send!, recv: null };
      checkLength(call, 'recv', recv!, send!.length, 'as many as in send');
      checkOverlap(call, send!, recv!, recv!.byteOffset, 'pass the same buffer twice to work in place');
      return { ...base, count: send!.length, send: send!, recv: recv! };
    case 'broadcast':
      if (!needsSend) return { ...base, count: recv!.length, send: null, recv: recv! };
      checkLength(call, 'recv', recv!, send!.length, 'as many as in send');
      checkOverlap(call, send!, recv!, recv!.byteOffset, 'pass one buffer to work in place');
      return { ...base, count: recv!.length, send: send!, recv: recv! };
    case 'allGather':
      checkLength(call, 'recv', recv!, send!.length * size, `${size} ranks x ${send!.length} of send`);
      checkOverlap(
        call,
        send!,
        recv!,
        recv!.byteOffset + rank * send!.byteLength,
        `in place, send is block ${rank} of recv`,
      );
      return { ...base, count: send!.length, send: send!, recv: recv! };
    case 'reduceScatter':
      checkLength(call, 'send', send!, recv!.length * size, `${size} ranks x ${recv!.length} of recv`);
      checkOverlap(
        call,
        send!,
        recv!,
        recv!.byteOffset - rank * recv!.byteLength,
        `in place, recv is block ${rank} of send`,
      );
      return { ...base, count: recv!.length, send: send!, recv: recv! };
    case 'allToAll':
      if (send!.length % size !== 0) {
        throw new TuttiError(
          'invalidArgument',
          `${call}: send holds ${send!.length} elements, which ${size} ranks cannot share; it must hold a block for each`,
        );
      }
      checkLength(call, 'recv', recv!, send!.length, 'as many as in send');
      // No place is the right one: blocks would be overwritten before they are read.
      checkOverlap(call, send!, recv!, Number.NaN, 'it has no in-place form, pass two arrays');
      return { ...base, count: send!.length / size, send: send!, recv: recv! };
  }
}

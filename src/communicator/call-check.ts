/**
 * From what the user passes (buffers, options) to what is meant (element type, count, in place or not), with every
 * mistake found before anything starts. The rules are the same for every kind of memory.
 */

import { TuttiError } from '../errors/tutti-error.js';
import {
  ELEMENT_TYPE_NAMES,
  ELEMENT_TYPES,
  type ElementType,
  REDUCE_OP_NAMES,
  type ReduceOp,
} from '../kernel/element-types.js';
import { checkKnownOptions } from './known-options.js';

/** What the rules need to know of a buffer. */
export interface BufferFacts {
  /** Class of typed array that its elements are those of. */
  readonly carrier: string;
  /** Element type, where the buffer tells more than its class does. */
  readonly type?: ElementType;
  readonly length: number;
  /** The memory that it lies in, the place of its first byte there, and its size in bytes. */
  readonly memory: unknown;
  readonly from: number;
  readonly bytes: number;
}

/** Facts of an argument; throws `invalidArgument` when it is no buffer of the kind that is due. */
export type Describe = (call: string, name: string, buffer: unknown) => BufferFacts;

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

function resolveType(
  call: string,
  name: string,
  { carrier, type }: BufferFacts,
  asked: ElementType | undefined,
): ElementType {
  if (asked !== undefined) {
    if (!Object.hasOwn(ELEMENT_TYPES, asked)) {
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
  const natural = type ?? NATURAL[carrier];
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
export interface CheckedCallOf<B, C extends string> {
  readonly collective: C;
  readonly type: ElementType;
  readonly op: ReduceOp;
  readonly root: number;
  /** Elements as the API counts them: of one block for the collectives with a block per rank, in all otherwise. */
  readonly count: number;
  /** Null where this rank neither sends (receives) anything nor needs a buffer. */
  readonly send: B | null;
  readonly recv: B | null;
}

export interface CallOptions {
  /** Element type, where the array's class does not tell. */
  readonly type?: ElementType;
  /** Operator of a reduction; default sum. */
  readonly op?: ReduceOp;
  /** Root rank of broadcast and reduce; default 0. */
  readonly root?: number;
}

/** Collectives whose buffers are checked here. */
export type CheckedCollective =
  | 'allReduce'
  | 'reduce'
  | 'broadcast'
  | 'allGather'
  | 'reduceScatter'
  | 'allToAll'
  | 'gather'
  | 'scatter';

/** Options that each collective understands. */
const OPTIONS_OF: Readonly<Record<CheckedCollective, readonly (keyof CallOptions)[]>> = {
  allReduce: ['op', 'type'],
  reduce: ['op', 'root', 'type'],
  broadcast: ['root', 'type'],
  allGather: ['type'],
  reduceScatter: ['op', 'type'],
  allToAll: ['type'],
  gather: ['root', 'type'],
  scatter: ['root', 'type'],
};

/** Refuses buffers that overlap in any way but the collective's in-place form. */
function checkOverlap(
  call: string,
  send: BufferFacts,
  recv: BufferFacts,
  inPlaceFrom: number,
  what: string,
): void {
  const sendEnd = send.from + send.bytes;
  const recvEnd = recv.from + recv.bytes;
  if (send.memory !== recv.memory || send.from >= recvEnd || recv.from >= sendEnd) return;
  if (send.from === inPlaceFrom) return;
  const distance = Math.abs(recv.from - send.from);
  throw new TuttiError(
    'invalidArgument',
    `${call}: send (${send.bytes} bytes) and recv (${recv.bytes} bytes), which begins ${distance} bytes ${recv.from < send.from ? 'before' : 'after'} it, overlap; ${what}`,
  );
}

function checkLength(call: string, name: string, buffer: BufferFacts, due: number, why: string): void {
  if (buffer.length !== due) {
    throw new TuttiError(
      'invalidArgument',
      `${call}: ${name} holds ${buffer.length} elements, ${due} are due (${why})`,
    );
  }
}

/** Length of one of a buffer's `size` blocks. */
function blockLength(call: string, buffer: BufferFacts, size: number): number {
  if (buffer.length % size !== 0) {
    throw new TuttiError(
      'invalidArgument',
      `${call}: send holds ${buffer.length} elements, which ${size} ranks cannot share; it must hold a block for each`,
    );
  }
  return buffer.length / size;
}

const SAME = 'as many as in send';
const TWICE = 'pass the same buffer twice to work in place';

/** Checks a call of one rank. Throws `invalidArgument` naming what is wrong and what would be right. */
export function checkCallOf<B, C extends CheckedCollective>(
  describe: Describe,
  collective: C,
  send: B | null | undefined,
  recv: B | null | undefined,
  options: CallOptions,
  { rank, size }: { readonly rank: number; readonly size: number },
): CheckedCallOf<B, C> {
  const call: CheckedCollective = collective;
  checkKnownOptions(call, options, OPTIONS_OF[call]);
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
  const needsSend = (call !== 'broadcast' && call !== 'scatter') || rank === root;
  const needsRecv = (call !== 'reduce' && call !== 'gather') || rank === root;
  const sendFacts = needsSend ? describe(call, 'send', send) : undefined;
  const sameBuffer = needsSend && send === recv;
  const recvFacts = sameBuffer ? sendFacts : needsRecv ? describe(call, 'recv', recv) : undefined;
  const types = [
    sendFacts && resolveType(call, 'send', sendFacts, options.type),
    recvFacts && resolveType(call, 'recv', recvFacts, options.type),
  ];
  const type = (types[0] ?? types[1])!;
  if (types[0] !== undefined && types[1] !== undefined && types[1] !== type) {
    throw new TuttiError(
      'invalidArgument',
      `${call}: send holds ${type}, recv holds ${types[1]}; both must agree`,
    );
  }
  const count = countOf(call, sendFacts, recvFacts, { rank, size });
  return {
    collective,
    type,
    op,
    root,
    count,
    send: needsSend ? (send as B) : null,
    recv: needsRecv ? (recv as B) : null,
  };
}

/** Lengths and overlap of a call's buffers: the count, or an error. A rank that needs no buffer has none. */
function countOf(
  call: CheckedCollective,
  send: BufferFacts | undefined,
  recv: BufferFacts | undefined,
  { rank, size }: { readonly rank: number; readonly size: number },
): number {
  switch (call) {
    case 'allReduce':
    case 'reduce':
    case 'broadcast':
      if (send === undefined || recv === undefined) return (send ?? recv)!.length;
      checkLength(call, 'recv', recv, send.length, SAME);
      checkOverlap(
        call,
        send,
        recv,
        recv.from,
        call === 'broadcast' ? 'pass one buffer to work in place' : TWICE,
      );
      return send.length;
    case 'allGather':
    case 'gather':
      if (recv === undefined) return send!.length;
      checkLength(call, 'recv', recv, send!.length * size, `${size} ranks x ${send!.length} of send`);
      checkOverlap(
        call,
        send!,
        recv,
        recv.from + rank * send!.bytes,
        `in place, send is block ${rank} of recv`,
      );
      return send!.length;
    case 'reduceScatter':
    case 'scatter':
      if (send === undefined) return recv!.length;
      checkLength(call, 'send', send, recv!.length * size, `${size} ranks x ${recv!.length} of recv`);
      checkOverlap(
        call,
        send,
        recv!,
        recv!.from - rank * recv!.bytes,
        `in place, recv is block ${rank} of send`,
      );
      return recv!.length;
    case 'allToAll': {
      const block = blockLength(call, send!, size);
      checkLength(call, 'recv', recv!, send!.length, SAME);
      // No place is the right one: blocks would be overwritten before they are read.
      checkOverlap(call, send!, recv!, Number.NaN, 'it has no in-place form, pass two arrays');
      return block;
    }
  }
}

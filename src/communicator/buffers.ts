/**
 * Buffers of the host.
 *
 * A buffer is a typed array; its class gives the element type. Types that JavaScript lacks are named:
 * float16 and bfloat16 live in a Uint16Array, the two fp8 types in a Uint8Array.
 */

import type { Collective } from '../collectives/control-block.js';
import { TuttiError } from '../errors/tutti-error.js';
import { type BufferFacts, type CallOptions, type CheckedCallOf, checkCallOf } from './call-check.js';

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

/** The class that stores a value's elements: Node's Buffer is a Uint8Array. */
export function className(value: unknown): string {
  if (value === null || typeof value !== 'object') return value === null ? 'null' : typeof value;
  return (
    (value as { [Symbol.toStringTag]?: string })[Symbol.toStringTag] ?? value.constructor?.name ?? 'object'
  );
}

function describeArray(call: string, name: string, buffer: unknown): BufferFacts {
  const carrier = className(buffer);
  if (!ArrayBuffer.isView(buffer) || carrier === 'DataView') {
    throw new TuttiError(
      'invalidArgument',
      `${call}: ${name} must be a typed array, not ${carrier}; make one with comm.alloc(Float32Array, n)`,
    );
  }
  const { length, buffer: memory, byteOffset: from, byteLength: bytes } = buffer as Buffer;
  return { carrier, length, memory, from, bytes };
}

/** A checked call on typed arrays. */
export type CheckedCall = CheckedCallOf<Buffer, Collective>;

/** Checks a gather or scatter of one rank. Throws as `checkCall`. */
export function checkMessageCollective(
  collective: 'gather' | 'scatter',
  send: Buffer | null | undefined,
  recv: Buffer | null | undefined,
  options: CallOptions,
  place: { readonly rank: number; readonly size: number },
): CheckedCallOf<Buffer, 'gather' | 'scatter'> {
  return checkCallOf(describeArray, collective, send, recv, options, place);
}

/** Checks an array that is sent or received; its elements may be of any type. */
export function checkMessageArray(call: string, buffer: unknown): void {
  describeArray(call, 'the buffer', buffer);
}

/** Checks a call of one rank. Throws `invalidArgument` naming what is wrong and what would be right. */
export function checkCall(
  collective: Exclude<Collective, 'barrier'>,
  send: Buffer | null | undefined,
  recv: Buffer | null | undefined,
  options: CallOptions,
  place: { readonly rank: number; readonly size: number },
): CheckedCallOf<Buffer, Exclude<Collective, 'barrier'>> {
  return checkCallOf(describeArray, collective, send, recv, options, place);
}

/** What tests say about errors: the code, the rank, and the words that must be in the message. */
import { expect } from 'vitest';
import { type ErrorCode, TuttiError } from '#src/errors/tutti-error.js';

export interface Expected {
  readonly code: ErrorCode;
  /** The rank that the error is about; undefined when it does not matter. */
  readonly rank?: number;
  readonly words: readonly (string | RegExp)[];
}

export function expectError(error: unknown, { code, rank, words }: Expected): void {
  expect(TuttiError.is(error), `not a TuttiError: ${String(error)}`).toBe(true);
  const found = error as TuttiError;
  expect({ code: found.code, message: found.message }).toMatchObject({ code });
  for (const word of words) expect(found.message).toMatch(word);
  if (rank !== undefined) expect({ rank: found.rank, message: found.message }).toMatchObject({ rank });
}

/** The error that a call throws. */
export function thrownBy(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  return new Error('nothing was thrown');
}

/** The errors of promises that all have to fail. */
export async function rejections(promises: readonly Promise<unknown>[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(promises);
  return settled.map((one) => (one.status === 'rejected' ? one.reason : new Error('it did not fail')));
}

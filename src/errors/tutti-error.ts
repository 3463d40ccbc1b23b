/**
 * The one error class of the library.
 *
 * Every failure that a user can meet is a `TuttiError` with a stable `code` (NCCL's result names in
 * camelCase, so that people who know `ncclInvalidArgument` find themselves at home), a message that names
 * the wrong value and what would be right, the `rank` it concerns where one is known, and the `cause`.
 * This folder is the lowest layer: everything may import it, it imports nothing.
 */

/** Result names of NCCL 2.30 (`ncclSystemError` is `systemError` here). `success` and `inProgress` never throw. */
export type ErrorCode =
  | 'unhandledCudaError'
  | 'systemError'
  | 'internalError'
  | 'invalidArgument'
  | 'invalidUsage'
  | 'remoteError'
  | 'timeout';

/** NCCL's numeric result of each code, for exit statuses and for people who port code. */
export const RESULT_NUMBER: Readonly<Record<ErrorCode, number>> = {
  unhandledCudaError: 1,
  systemError: 2,
  internalError: 3,
  invalidArgument: 4,
  invalidUsage: 5,
  remoteError: 6,
  timeout: 8,
};

/** Brand that survives two copies of the library in one process (`instanceof` does not). */
const BRAND = Symbol.for('tutti.error');

export interface TuttiErrorOptions {
  /** The rank that the error is about: the culprit where one is known, else the rank that noticed. */
  rank?: number;
  cause?: unknown;
}

export class TuttiError extends Error {
  override readonly name = 'TuttiError';
  readonly code: ErrorCode;
  readonly rank: number | undefined;
  readonly [BRAND] = true;

  constructor(code: ErrorCode, message: string, options: TuttiErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.rank = options.rank;
  }

  /** True for a `TuttiError` of any copy of the library. */
  static is(value: unknown): value is TuttiError {
    return typeof value === 'object' && value !== null && BRAND in value;
  }
}

/**
 * Tuners: code from outside that may change what the cost model says, call by call.
 *
 * The contract is that of NCCL's newest tuner plugins (version 6), as objects: a plugin is asked once per communicator
 * and may change the model's constants; for each call it gets the table of predicted times and may rewrite it; at last
 * it may change the chunk size. All ranks must have tuners that answer alike. (NCCL 2.30.7, nccl_tuner.h.)
 */
import { TuttiError } from '../errors/tutti-error.js';
import type { LogSink } from '../topology/log.js';
import { MAX_CHANNELS } from '../topology/settings.js';
import type { TuningConstants } from './constants.js';
import { CELLS, type NcclAlgorithm, type NcclFunction, type NcclProtocol } from './names.js';

/** Cost of a candidate that is not available. */
export const IGNORE = -1;

/**
 * Predicted times in microseconds, by `cellOf(algorithm, protocol)`; IGNORE where a candidate is not available. The
 * least that is not negative wins: 0 to force a candidate, IGNORE to exclude one. A tuner should leave cells alone
 * that are IGNORE: nothing checks that the candidate can run.
 */
export type CostTable = Float32Array;

/** The communicator that a tuner is asked for. */
export interface TunerCommunicator {
  readonly nRanks: number;
  readonly nNodes: number;
  /** NVLink domains (nodes), and ranks of the smallest and the largest. */
  readonly nvlDomains: number;
  readonly minRanksPerNvlDomain: number;
  readonly maxRanksPerNvlDomain: number;
}

/** A call to decide. */
export interface TunerCall {
  readonly function: NcclFunction;
  /** Of the whole message. */
  readonly bytes: number;
  /** Collectives of the group that follow each other on a channel. */
  readonly pipelined: number;
  /** Both buffers are registered. */
  readonly registered: boolean;
}

/** A decided call whose chunks are to be cut. */
export interface TunerChunkCall {
  readonly function: NcclFunction;
  readonly bytes: number;
  readonly algorithm: NcclAlgorithm;
  readonly protocol: NcclProtocol;
  readonly channels: number;
  /** Bytes, as NCCL's rules have it. */
  readonly chunkSize: number;
}

/** A plugin's answer for one communicator. */
export interface Tuner {
  /** Same call, same answer: decisions may be remembered. False if absent. */
  readonly repeatable?: boolean;
  /**
   * Rewrites the costs of a call in place.
   *
   * @returns channels at most, which replace NCCL's number; 0 or nothing keeps it
   */
  getCollInfo(call: TunerCall, costs: CostTable): number | undefined;
  /** Bytes of a chunk; clamped to the buffer and rounded down to the protocol's grain. */
  getChunkSize?(call: TunerChunkCall): number;
  /** The communicator ends. */
  finalize?(): void;
}

/** A plugin, as a module exports it. */
export interface TunerPlugin {
  readonly name: string;
  /**
   * Called once per communicator before its tables are computed.
   *
   * @param constants the communicator's own copy, which may be changed
   */
  init(communicator: TunerCommunicator, constants: TuningConstants, log: LogSink): Tuner;
}

/** A plugin bound to a communicator. */
export interface BoundTuner {
  readonly name: string;
  readonly tuner: Tuner;
}

/**
 * Binds a plugin to a communicator.
 *
 * @throws TuttiError if the plugin fails, or leaves a constant that is no finite number
 */
export function bindTuner(
  plugin: TunerPlugin,
  communicator: TunerCommunicator,
  constants: TuningConstants,
  log: LogSink,
): BoundTuner {
  const standard = structuredClone(constants);
  const tuner = guarded(plugin.name, 'init', () => plugin.init(communicator, constants, log));
  checkConstants(plugin.name, constants, standard);
  return { name: plugin.name, tuner };
}

/**
 * Lets a tuner rewrite the costs of a call.
 *
 * @returns channels that replace NCCL's number, 0 for none
 * @throws TuttiError what the tuner throws, or invalidUsage for channels that cannot be and a table that is gone
 */
export function askTuner({ name, tuner }: BoundTuner, call: TunerCall, costs: CostTable): number {
  const channels = answerOf(name, 'getCollInfo', () => tuner.getCollInfo(call, costs)) ?? 0;
  if (costs.length !== CELLS) {
    throw new TuttiError(
      'invalidUsage',
      `tuner ${name} took the table of costs away; write its ${CELLS} cells where they are`,
    );
  }
  if (Number.isInteger(channels) && channels >= 0 && channels <= MAX_CHANNELS) return channels;
  throw new TuttiError(
    'invalidUsage',
    `tuner ${name} asked for ${shown(channels)} channels; return 0 to keep NCCL's number, or 1 to ${MAX_CHANNELS}`,
  );
}

/** Bounds of a chunk, bytes: what a buffer's slots hold, and the unit that it is rounded down to. */
export interface ChunkBounds {
  readonly ceiling: number;
  readonly grain: number;
}

/**
 * Chunk size of a decided call, after NCCL's rules and the tuner's word.
 *
 * @returns bytes, a multiple of the grain
 * @throws TuttiError what the tuner throws, or invalidUsage for a chunk that holds nothing
 */
export function tunedChunkSize(
  bound: BoundTuner | undefined,
  call: TunerChunkCall,
  { ceiling, grain }: ChunkBounds,
  log: LogSink,
): number {
  let chunk = call.chunkSize;
  if (bound?.tuner.getChunkSize !== undefined) {
    const { name, tuner } = bound;
    const asked = answerOf(name, 'getChunkSize', () => tuner.getChunkSize!(call));
    if (typeof asked !== 'number' || !(asked >= grain)) {
      throw new TuttiError(
        'invalidUsage',
        `tuner ${name} asked for chunks of ${shown(asked)} bytes; ${call.protocol} moves ${grain} at least`,
      );
    }
    if (asked > ceiling) {
      log(
        'INFO',
        'TUNING',
        `Tuner ${name}: chunk size ${asked} is larger than the buffer allows, using ${ceiling}`,
      );
    }
    chunk = Math.min(asked, ceiling);
  }
  return Math.floor(chunk / grain) * grain;
}

/** Errors of the library pass; others are reported as the plugin's. */
function guarded<T>(name: string, method: string, call: () => T): T {
  try {
    return call();
  } catch (cause) {
    if (TuttiError.is(cause)) throw cause;
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new TuttiError('internalError', `tuner ${name} failed in ${method}: ${text}`, { cause });
  }
}

/** What a method answers at once: a call cannot wait for a promise. */
function answerOf<T>(name: string, method: string, call: () => T): T {
  const answer: unknown = guarded(name, method, call);
  refusePromise(name, method, answer);
  return answer as T;
}

/** @throws TuttiError invalidUsage for a promise; what becomes of it is of no interest then */
export function refusePromise(name: string, method: string, answer: unknown): void {
  const then = typeof answer === 'object' && answer !== null && (answer as PromiseLike<unknown>).then;
  if (typeof then !== 'function') return;
  then.call(
    answer,
    () => {},
    () => {},
  );
  throw new TuttiError(
    'invalidUsage',
    `tuner ${name} answers ${method} with a promise, and nothing waits for it; make ${method} no async function`,
  );
}

/** A value in a message: texts in quotes, so that '16' and 16 are told apart. */
const shown = (value: unknown): string => (typeof value === 'string' ? JSON.stringify(value) : String(value));

/** Constants keep their places, and each is a finite number. */
function checkConstants(name: string, constants: unknown, standard: unknown, path = ''): void {
  if (typeof standard !== 'object' || standard === null) {
    if (typeof constants === 'number' && Number.isFinite(constants)) return;
    throw new TuttiError(
      'invalidUsage',
      `tuner ${name} set the constant ${path} to ${shown(constants)}; constants are finite numbers`,
    );
  }
  const inner: unknown = constants;
  if (typeof inner !== 'object' || inner === null) {
    throw new TuttiError(
      'invalidUsage',
      `tuner ${name} put ${shown(inner)} in the place of the constants ${path}; change the numbers in them`,
    );
  }
  for (const [key, value] of Object.entries(standard)) {
    const at = path === '' ? key : `${path}.${key}`;
    checkConstants(name, (inner as Readonly<Record<string, unknown>>)[key], value, at);
  }
}

/**
 * Settings of a communicator: options first, then environment variables, then defaults.
 */

import { ALGORITHMS, type Algorithm } from '../collectives/registry.js';
import type { RingProtocol } from '../collectives/ring.js';
import { LL_BUFFER_BYTES, SIMPLE_BUFFER_BYTES, STEPS } from '../collectives/ring-connection.js';
import { TuttiError } from '../errors/tutti-error.js';
import { parseAlgorithm, parseProtocol, RING_PROTOCOLS } from '../tuning/host-selection.js';
import type { RankAreaShape } from './rank-area.js';

export interface CommunicatorOptions {
  /** Longest that one operation may take, milliseconds; 0 waits for ever. Default 600000 (TUTTI_TIMEOUT_MS). */
  readonly timeoutMs?: number;
  /** Longest wait for the other ranks at the start, milliseconds. Default 120000 (TUTTI_INIT_TIMEOUT_MS). */
  readonly initTimeoutMs?: number;
  /** Forces an algorithm (NCCL_ALGO) or a ring protocol (NCCL_PROTO); must be equal on all ranks. */
  readonly algorithm?: Algorithm;
  readonly protocol?: RingProtocol;
  /**
   * Compare operation, type, operator, root and count of all ranks before every ring operation (TUTTI_CHECK=1).
   * Direct algorithms always compare them: it costs them nothing.
   */
  readonly check?: boolean;
  /** Parallel rings (NCCL_MIN_NCHANNELS); must be equal on all ranks. Default 1. */
  readonly channels?: number;
  /** Do not share memory between processes, use sockets (NCCL_P2P_DISABLE=1 with NCCL_SHM_DISABLE=1). */
  readonly sockets?: boolean;
}

/** The names of all options. */
export const COMMUNICATOR_OPTIONS: readonly (keyof CommunicatorOptions)[] = [
  'timeoutMs',
  'initTimeoutMs',
  'algorithm',
  'protocol',
  'check',
  'channels',
  'sockets',
];

export interface Settings {
  readonly timeoutMs: number;
  readonly initTimeoutMs: number;
  readonly algorithm: Algorithm | undefined;
  readonly protocol: RingProtocol | undefined;
  readonly check: boolean;
  readonly sockets: boolean;
  readonly shape: RankAreaShape;
}

/** Ten minutes, as PyTorch gives NCCL: longer than any pause of a healthy job, short enough to end a dead one. */
const TIMEOUT_MS = 600_000;
const INIT_TIMEOUT_MS = 120_000;

/** Rings of one communicator; more cost memory and serve no purpose on a host. */
const MAX_CHANNELS = 64;

type Environment = Readonly<Record<string, string | undefined>>;

function integer(env: Environment, name: string, least: number, most: number): number | undefined {
  const text = env[name];
  if (text === undefined || text === '') return undefined;
  const value = Number(text);
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new TuttiError('invalidUsage', `${name}=${text} must be an integer from ${least} to ${most}`);
  }
  return value;
}

/** A buffer is eight slots of whole 512-byte grains. */
function bufferBytes(env: Environment, name: string, standard: number): number {
  const bytes = integer(env, name, STEPS * 512, 1 << 30) ?? standard;
  if (bytes % (STEPS * 512) !== 0) {
    throw new TuttiError('invalidUsage', `${name}=${bytes} must be a multiple of ${STEPS * 512}`);
  }
  return bytes;
}

function positive(name: string, value: number, least: number): number {
  if (!Number.isFinite(value) || value < least) {
    throw new TuttiError(
      'invalidArgument',
      `${name} is ${String(value)}; it must be a number of at least ${least}`,
    );
  }
  return value;
}

function oneOf<T>(name: string, value: T | undefined, names: readonly T[]): T | undefined {
  if (value === undefined || names.includes(value)) return value;
  throw new TuttiError(
    'invalidArgument',
    `${name} is ${String(value)}; it must be one of ${names.join(', ')}`,
  );
}

function flag(name: string, value: boolean | undefined): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value;
  throw new TuttiError('invalidArgument', `${name} is ${String(value)}; it must be true or false`);
}

export function resolveSettings(options: CommunicatorOptions, env: Environment): Settings {
  const channels = options.channels ?? integer(env, 'NCCL_MIN_NCHANNELS', 1, MAX_CHANNELS) ?? 1;
  if (!Number.isInteger(channels) || channels < 1 || channels > MAX_CHANNELS) {
    throw new TuttiError(
      'invalidArgument',
      `channels is ${String(channels)}; it must be an integer from 1 to ${MAX_CHANNELS}`,
    );
  }
  return {
    timeoutMs: positive(
      'timeoutMs',
      options.timeoutMs ?? integer(env, 'TUTTI_TIMEOUT_MS', 0, 2 ** 31) ?? TIMEOUT_MS,
      0,
    ),
    initTimeoutMs: positive(
      'initTimeoutMs',
      options.initTimeoutMs ?? integer(env, 'TUTTI_INIT_TIMEOUT_MS', 1, 2 ** 31) ?? INIT_TIMEOUT_MS,
      1,
    ),
    algorithm:
      oneOf('algorithm', options.algorithm, ALGORITHMS) ?? parseAlgorithm(env.NCCL_ALGO, 'NCCL_ALGO'),
    protocol:
      oneOf('protocol', options.protocol, RING_PROTOCOLS) ?? parseProtocol(env.NCCL_PROTO, 'NCCL_PROTO'),
    check: flag('check', options.check) ?? env.TUTTI_CHECK === '1',
    sockets:
      flag('sockets', options.sockets) ?? (env.NCCL_P2P_DISABLE === '1' && env.NCCL_SHM_DISABLE === '1'),
    shape: {
      channels,
      llBytes: bufferBytes(env, 'NCCL_LL_BUFFSIZE', LL_BUFFER_BYTES),
      simpleBytes: bufferBytes(env, 'NCCL_BUFFSIZE', SIMPLE_BUFFER_BYTES),
    },
  };
}

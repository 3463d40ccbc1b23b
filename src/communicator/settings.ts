/**
 * Settings of a communicator: options first, then environment variables, then defaults.
 */

import type { Algorithm } from '../collectives/registry.js';
import type { RingProtocol } from '../collectives/ring.js';
import { LL_BUFFER_BYTES, SIMPLE_BUFFER_BYTES, STEPS } from '../collectives/ring-connection.js';
import { CHUNK128_BYTES } from '../collectives/warp-chunk.js';
import { TuttiError } from '../errors/tutti-error.js';
import { SWITCH_BYTES, type SwitchSettings } from '../planning/switch-limits.js';
import { type HostChoices, hostChoices } from '../tuning/host-choices.js';
import type { CudaDeviceName } from './cuda/cuda-device-name.js';
import type { RankAreaShape } from './rank-area.js';

export interface CommunicatorOptions {
  /** Longest that one operation may take, milliseconds; 0 waits for ever. Default 600000 (TUTTI_TIMEOUT_MS). */
  readonly timeoutMs?: number;
  /** Longest wait for the other ranks at the start, milliseconds. Default 120000 (TUTTI_INIT_TIMEOUT_MS). */
  readonly initTimeoutMs?: number;
  /**
   * Allows some algorithms only (NCCL_ALGO) or protocols (NCCL_PROTO): a name, or a list as in NCCL's variables, for
   * instance 'ring;allreduce:tree' or '^OneShot'. Calls for which nothing is left fail. Must be equal on all ranks.
   */
  readonly algorithm?: Algorithm | (string & {});
  readonly protocol?: RingProtocol | (string & {});
  /**
   * Ranks of one emulated node (TUTTI_RANKS_PER_NODE), for algorithms that treat the ranks of a node and the nodes
   * differently; must be equal on all ranks. Default: as the algorithm likes.
   */
  readonly ranksPerNode?: number;
  /**
   * Has all ranks compare operation, type, operator, root and count before every operation in which they do not meet
   * (TUTTI_CHECK=1). Ranks that share memory compare without it, but each with its neighbours only, and a rank may be
   * some calls ahead when the difference is found. On GPUs: before every call that is awaited.
   */
  readonly check?: boolean;
  /** Parallel rings (NCCL_MIN_NCHANNELS); must be equal on all ranks. Default 1. */
  readonly channels?: number;
  /**
   * Buffer of the emulated switches of NVLS and CollNet, bytes (TUTTI_SWITCH_BYTES): what needs more of it is not set
   * up. Must be equal on all ranks.
   */
  readonly switchBytes?: number;
  /** Do not share memory between processes, use sockets (NCCL_P2P_DISABLE=1 with NCCL_SHM_DISABLE=1). */
  readonly sockets?: boolean;
}

/** The names of all options. */
export const COMMUNICATOR_OPTIONS: readonly (keyof CommunicatorOptions)[] = [
  'timeoutMs',
  'initTimeoutMs',
  'algorithm',
  'protocol',
  'ranksPerNode',
  'check',
  'channels',
  'switchBytes',
  'sockets',
];

/** Options of a communicator whose ranks work on GPUs. */
export interface CudaCommunicatorOptions extends CommunicatorOptions {
  /**
   * This rank's GPU, as `cuda(0)`; `'cuda'`: the one with the rank's number, among those that the process sees (which may
   * be one only). All ranks of a communicator work on GPUs, or none.
   */
  readonly device: CudaDeviceName | 'cuda';
}

export interface Settings {
  readonly timeoutMs: number;
  readonly initTimeoutMs: number;
  readonly choices: HostChoices;
  readonly ranksPerNode: number | undefined;
  readonly check: boolean;
  readonly sockets: boolean;
  /** Ordinary arrays of other processes may be read where they are. */
  readonly peerReads: boolean;
  /** GPUs may use each other's memory. */
  readonly peerToPeer: boolean;
  readonly switches: SwitchSettings;
  readonly shape: RankAreaShape;
  /** What of the shape somebody has asked for. */
  readonly asked: Partial<RankAreaShape> & { readonly ll128Bytes?: number };
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

/** A buffer is eight slots of whole grains of 512 bytes, or what a warp moves at a time. */
function bufferBytes(env: Environment, name: string, grain = 512): number | undefined {
  const bytes = integer(env, name, STEPS * grain, 1 << 30);
  if (bytes !== undefined && bytes % (STEPS * grain) !== 0) {
    throw new TuttiError('invalidUsage', `${name}=${bytes} must be a multiple of ${STEPS * grain}`);
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

/** A list of names; what they are is found out by whoever reads it. */
function list(name: string, value: unknown): string | undefined {
  if (value === undefined || typeof value === 'string') return value;
  throw new TuttiError(
    'invalidArgument',
    `${name} is ${String(value)}; it must be a name or a list of names`,
  );
}

/** Options first, each before its variable. */
function choicesOf(options: CommunicatorOptions, env: Environment): HostChoices {
  const algorithm = list('algorithm', options.algorithm);
  const protocol = list('protocol', options.protocol);
  try {
    return readChoices(algorithm, protocol, env);
  } catch (error) {
    const isOption = algorithm !== undefined || protocol !== undefined;
    if (!TuttiError.is(error) || !isOption) throw error;
    throw new TuttiError('invalidArgument', error.message, { cause: error });
  }
}

function readChoices(
  algorithm: string | undefined,
  protocol: string | undefined,
  env: Environment,
): HostChoices {
  return hostChoices(
    { algorithm: algorithm ?? env.NCCL_ALGO, protocol: protocol ?? env.NCCL_PROTO },
    {
      algorithm: algorithm === undefined ? 'NCCL_ALGO' : 'algorithm',
      protocol: protocol === undefined ? 'NCCL_PROTO' : 'protocol',
    },
  );
}

function flag(name: string, value: boolean | undefined): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value;
  throw new TuttiError('invalidArgument', `${name} is ${String(value)}; it must be true or false`);
}

function ranksPerNode(options: CommunicatorOptions, env: Environment): number | undefined {
  const value = options.ranksPerNode ?? integer(env, 'TUTTI_RANKS_PER_NODE', 1, 2 ** 20);
  if (value === undefined || (Number.isInteger(value) && value >= 1)) return value;
  throw new TuttiError(
    'invalidArgument',
    `ranksPerNode is ${String(value)}; it must be an integer of at least 1`,
  );
}

function switchSettings(options: CommunicatorOptions, env: Environment): SwitchSettings {
  const bytes = options.switchBytes ?? integer(env, 'TUTTI_SWITCH_BYTES', 0, 2 ** 40) ?? SWITCH_BYTES;
  if (!Number.isInteger(bytes) || bytes < 0) {
    throw new TuttiError(
      'invalidArgument',
      `switchBytes is ${String(bytes)}; it must be an integer of at least 0`,
    );
  }
  return { bytes, nvls: env.NCCL_NVLS_ENABLE !== '0', collnet: env.NCCL_COLLNET_ENABLE !== '0' };
}

export function resolveSettings(options: CommunicatorOptions, env: Environment): Settings {
  const askedChannels = options.channels ?? integer(env, 'NCCL_MIN_NCHANNELS', 1, MAX_CHANNELS);
  const channels = askedChannels ?? 1;
  const llBytes = bufferBytes(env, 'NCCL_LL_BUFFSIZE');
  const ll128Bytes = bufferBytes(env, 'NCCL_LL128_BUFFSIZE', 2 * CHUNK128_BYTES);
  const simpleBytes = bufferBytes(env, 'NCCL_BUFFSIZE');
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
    choices: choicesOf(options, env),
    ranksPerNode: ranksPerNode(options, env),
    switches: switchSettings(options, env),
    check: flag('check', options.check) ?? env.TUTTI_CHECK === '1',
    peerReads: env.TUTTI_PEER_READS !== '0',
    peerToPeer: env.NCCL_P2P_DISABLE !== '1',
    sockets:
      flag('sockets', options.sockets) ?? (env.NCCL_P2P_DISABLE === '1' && env.NCCL_SHM_DISABLE === '1'),
    shape: {
      channels,
      llBytes: llBytes ?? LL_BUFFER_BYTES,
      simpleBytes: simpleBytes ?? SIMPLE_BUFFER_BYTES,
    },
    asked: {
      ...(askedChannels === undefined ? {} : { channels: askedChannels }),
      ...(llBytes === undefined ? {} : { llBytes }),
      ...(ll128Bytes === undefined ? {} : { ll128Bytes }),
      ...(simpleBytes === undefined ? {} : { simpleBytes }),
    },
  };
}

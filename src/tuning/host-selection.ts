/**
 * Which algorithm runs an operation on host memory.
 *
 * Ranks that share memory meet directly: one-shot through the posts while the data are small, two-shot
 * between the buffers beyond. Without shared memory the ring is the only way; it takes LL for small messages.
 * NCCL_ALGO and NCCL_PROTO (or the communicator's options) force a choice.
 * The thresholds were measured on two cores with bench/host.js and are revisited when it is run elsewhere.
 */

import { type Collective, EAGER_BYTES, MAX_DIRECT_RANKS } from '../collectives/control-block.js';
import { ALGORITHMS, type Algorithm } from '../collectives/registry.js';
import type { RingProtocol } from '../collectives/ring.js';
import { TuttiError } from '../errors/tutti-error.js';

export interface HostSelectionInput {
  readonly collective: Collective;
  /** Bytes of one rank's block for all-gather, of all blocks for reduce-scatter, of the buffer otherwise. */
  readonly bytes: number;
  readonly ranks: number;
  /** All ranks reach each other's memory. */
  readonly shared: boolean;
  readonly algorithm?: Algorithm | undefined;
  readonly protocol?: RingProtocol | undefined;
}

export interface HostSelection {
  readonly algorithm: Algorithm;
  readonly protocol: RingProtocol;
  /** Why, in words, for `explain` outputs. */
  readonly reason: string;
}

/** Below this a one-shot wins: its copy through the post costs less than the closing barrier. */
export const ONE_SHOT_BYTES = 512;

/** Ring messages up to this many bytes per rank and step travel by LL. */
export const RING_LL_BYTES = 16384;

export function selectOnHost(input: HostSelectionInput): HostSelection {
  const { collective, bytes, ranks, shared } = input;
  const direct = shared && ranks <= MAX_DIRECT_RANKS;
  // LL flags travel in the data, which only memory can show one by one: sockets take Simple.
  const ringProtocol = shared
    ? (input.protocol ?? (bytes / ranks <= RING_LL_BYTES ? 'LL' : 'Simple'))
    : 'Simple';
  if (input.algorithm === 'Ring' || (input.algorithm === undefined && !direct)) {
    const reason =
      input.algorithm === 'Ring'
        ? 'the ring was asked for'
        : shared
          ? `direct algorithms end at ${MAX_DIRECT_RANKS} ranks`
          : 'the ranks do not share memory';
    return { algorithm: 'Ring', protocol: ringProtocol, reason };
  }
  if (!direct) {
    throw new TuttiError(
      'invalidUsage',
      `algorithm ${input.algorithm} needs at most ${MAX_DIRECT_RANKS} ranks that share memory; unset NCCL_ALGO or choose Ring`,
    );
  }
  if (collective === 'barrier')
    return { algorithm: 'OneShot', protocol: 'Simple', reason: 'a barrier has no data' };
  if (input.algorithm !== undefined) {
    return { algorithm: input.algorithm, protocol: 'Simple', reason: `${input.algorithm} was asked for` };
  }
  if (input.protocol !== undefined) {
    return {
      algorithm: 'Ring',
      protocol: input.protocol,
      reason: `protocol ${input.protocol} belongs to the ring`,
    };
  }
  return bytes <= ONE_SHOT_BYTES
    ? {
        algorithm: 'OneShot',
        protocol: 'Simple',
        reason: `at most ${ONE_SHOT_BYTES} bytes: inside the posts`,
      }
    : {
        algorithm: 'TwoShot',
        protocol: 'Simple',
        reason: `more than ${ONE_SHOT_BYTES} bytes: between the buffers`,
      };
}

/** Elements of one one-shot round: what fits into a post (a reduce-scatter post holds a block per rank). */
export function oneShotPiece(collective: Collective, elementBytes: number, ranks: number): number {
  const room = collective === 'reduceScatter' ? Math.floor(EAGER_BYTES / ranks) : EAGER_BYTES;
  return Math.max(1, Math.floor(room / elementBytes));
}

export const RING_PROTOCOLS: readonly RingProtocol[] = ['LL', 'Simple'];

export function parseAlgorithm(text: string | undefined, name: string): Algorithm | undefined {
  return parseName(text, ALGORITHMS, name);
}

export function parseProtocol(text: string | undefined, name: string): RingProtocol | undefined {
  return parseName(text, RING_PROTOCOLS, name);
}

function parseName<T extends string>(
  text: string | undefined,
  names: readonly T[],
  variable: string,
): T | undefined {
  if (text === undefined || text === '') return undefined;
  const found = names.find((name) => name.toLowerCase() === text.toLowerCase());
  if (found !== undefined) return found;
  throw new TuttiError('invalidUsage', `${variable}=${text} is unknown here; use one of ${names.join(', ')}`);
}

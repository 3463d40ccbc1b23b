/**
 * What a call on host memory is predicted to take with an algorithm and protocol:
 *
 * ```
 * time = start + steps x step + crowding x touched / bandwidth
 * ```
 *
 * - *Steps* are the messages that wait for each other: a meeting waits for n - 1 posts, a ring's last chunk for
 *   2 (n - 1) hops, and so on. Ranks that share a core wait for each other's turns besides, so both the start and the
 *   steps have constants of their own where ranks are more than cores, and count as often as there are ranks per core.
 * - *Touched* are the bytes that a rank reads and writes on average, for each byte of the larger of its two arrays.
 * - The *bandwidth* is that of one core at such bytes, interpolated by the logarithm between caches and memory.
 *
 * Times are those of a loop of equal calls, as benchmarks measure them: a rank that does not wait for the others
 * (the root of a broadcast over a ring) may be some calls ahead.
 */
import { EAGER_BYTES } from '../../collectives/control-block.js';
import { usualNodeSize } from '../../collectives/node-size.js';
import type { Algorithm } from '../../collectives/registry.js';
import { TuttiError } from '../../errors/tutti-error.js';
import type { Candidate, DataCollective } from './candidates.js';

/** Microseconds. */
export interface Latency {
  readonly start: number;
  readonly step: number;
}

/** The numbers of one collective with one algorithm and protocol. */
export interface CandidateConstants {
  /** Every rank has a core. */
  readonly alone: Latency;
  /** Ranks take turns on cores. */
  readonly crowded: Latency;
  /** GB/s read and written by a core, for each of KNOTS. */
  readonly bandwidth: readonly [number, number, number];
}

/** Constants by collective and name of the candidate. */
export type HostTable = Readonly<Record<DataCollective, Readonly<Record<string, CandidateConstants>>>>;

/** Bytes that a core's ranks work on at which bandwidths are given: in its own cache, in a shared one, in memory. */
export const KNOTS: readonly [number, number, number] = [2 ** 17, 2 ** 21, 2 ** 25];

/** A call as the model sees it. */
export interface HostCall {
  readonly collective: DataCollective;
  readonly ranks: number;
  /** Bytes of the larger of both arrays of a rank. */
  readonly bytes: number;
  /** Ranks of an emulated node; undefined: as the algorithm likes. */
  readonly ranksPerNode?: number | undefined;
}

/** How ranks reach each other: in each other's memory, or through sockets, each with a second thread for them. */
export type HostPath = 'window' | 'socket';

/** Busy threads per core, 1 where every one has its own. */
export function crowding(ranks: number, cores: number, path: HostPath): number {
  return Math.max(1, (path === 'window' ? ranks : 2 * ranks) / cores);
}

/** Emulated switches have no times of their own (candidates.ts). */
const notModelled = (algorithm: Algorithm): TuttiError =>
  new TuttiError('internalError', `the host's cost model does not know ${algorithm}`);

/** Messages that wait for each other. */
export function stepsOf(algorithm: Algorithm, call: HostCall): number {
  const { collective, ranks } = call;
  const hops = ranks - 1;
  switch (algorithm) {
    case 'OneShot':
      return hops * oneShotRounds(call);
    case 'TwoShot':
      return hops;
    case 'Ring':
      return collective === 'allReduce' ? 2 * hops : hops;
    case 'Hierarchical': {
      const { inside, nodes } = nodesOf(call);
      return 2 * (inside - 1) + 2 * (nodes - 1);
    }
    case 'PAT':
      return Math.ceil(Math.log2(ranks));
    case 'Recursive':
      return Math.ceil(Math.log2(ranks)) + (Number.isInteger(Math.log2(ranks)) ? 0 : 1);
    case 'Tree':
      // Up and down.
      return 2 * Math.ceil(Math.log2(ranks));
    case 'NVLS':
    case 'NVLSTree':
    case 'CollNetDirect':
    case 'CollNetChain':
      throw notModelled(algorithm);
  }
}

/** Meetings of a one-shot: a post holds no more. */
export function oneShotRounds({ collective, ranks, bytes }: HostCall): number {
  const own = collective === 'allGather' ? bytes / ranks : bytes;
  return Math.max(1, Math.ceil(own / EAGER_BYTES));
}

function nodesOf({ ranks, ranksPerNode }: HostCall): { inside: number; nodes: number } {
  const inside = Math.min(ranks, ranksPerNode ?? usualNodeSize(ranks));
  return { inside, nodes: ranks / inside };
}

/** Bytes that a rank reads and writes on average, per byte of the larger array. */
export function touchedOf(algorithm: Algorithm, call: HostCall): number {
  const { collective, ranks: n } = call;
  switch (algorithm) {
    case 'OneShot':
      return oneShotTouched(collective, n);
    case 'TwoShot':
      return collective === 'reduce' || collective === 'reduceScatter' ? (n + 1) / n : 2;
    case 'Ring':
      return ringTouched(collective, n);
    case 'PAT':
      return ringTouched(collective, n);
    case 'Hierarchical': {
      const { inside, nodes } = nodesOf(call);
      const within = inside > 1 ? 2 * ringTouched('allGather', inside) : 0;
      return within + (nodes > 1 ? ringTouched('allReduce', nodes) / inside : 0);
    }
    case 'Recursive':
      // Own and received read, own and sent written, in each round.
      return 4 * Math.log2(n);
    case 'Tree':
      // The own input and output, and both sides of every edge, up and down.
      return 2 + (4 * (n - 1)) / n;
    case 'NVLS':
    case 'NVLSTree':
    case 'CollNetDirect':
    case 'CollNetChain':
      throw notModelled(algorithm);
  }
}

function oneShotTouched(collective: DataCollective, n: number): number {
  switch (collective) {
    case 'allReduce':
      return 2 + n + 1;
    case 'reduce':
      return 2 + (n + 1) / n;
    case 'broadcast':
      return 2 + 2 / n;
    case 'allGather':
      return 2 / n + 2;
    case 'reduceScatter':
      return 2 + (n + 1) / n;
    case 'allToAll':
      return 4;
  }
}

/** From the calls of the ring schedules (docs/algorithms/ring.md). */
function ringTouched(collective: DataCollective, n: number): number {
  switch (collective) {
    case 'allReduce':
      return (8 + 6 * (n - 2)) / n;
    case 'allToAll':
      return (2 + 4 * (n - 1) + (n - 1) * (n - 2)) / n;
    case 'allGather':
    case 'reduceScatter':
    case 'broadcast':
    case 'reduce':
      return (5 + 3 * (n - 2)) / n;
  }
}

/** Weights of the three bandwidths at a number of bytes; they sum to 1. */
export function knotWeights(bytes: number): readonly [number, number, number] {
  const [near, shared, far] = KNOTS.map(Math.log2) as [number, number, number];
  const at = Math.min(far, Math.max(near, Math.log2(Math.max(1, bytes))));
  if (at <= shared) {
    const part = (at - near) / (shared - near);
    return [1 - part, part, 0];
  }
  const part = (at - shared) / (far - shared);
  return [0, 1 - part, part];
}

/** What multiplies each constant, in microseconds: the model is linear in starts, steps and inverse bandwidths. */
export interface Features {
  readonly isCrowded: boolean;
  readonly start: number;
  readonly step: number;
  /** Times the inverse of each bandwidth in GB/s. */
  readonly bytes: readonly [number, number, number];
}

export function featuresOf(
  { algorithm }: Candidate,
  call: HostCall,
  cores: number,
  path: HostPath,
): Features {
  const crowd = crowding(call.ranks, cores, path);
  const weights = knotWeights(2 * crowd * call.bytes);
  const thousands = (crowd * touchedOf(algorithm, call) * call.bytes) / 1e3;
  return {
    isCrowded: crowd > 1,
    start: crowd,
    step: crowd * stepsOf(algorithm, call),
    bytes: [weights[0] * thousands, weights[1] * thousands, weights[2] * thousands],
  };
}

export interface Prediction {
  /** Microseconds: all of it, and its parts. */
  readonly time: number;
  readonly latency: number;
  readonly bytesTime: number;
}

export function predict(features: Features, constants: CandidateConstants): Prediction {
  const { start, step } = features.isCrowded ? constants.crowded : constants.alone;
  const latency = features.start * start + features.step * step;
  const [near, shared, far] = features.bytes;
  const [a, b, c] = constants.bandwidth;
  const bytesTime = near / a + shared / b + far / c;
  return { time: latency + bytesTime, latency, bytesTime };
}

/**
 * Which algorithm runs an operation on host memory.
 *
 * Ranks that share memory meet directly: one-shot through the posts while the data are small, two-shot
 * between the buffers beyond. Without shared memory the ring is the only way; it takes LL for small messages.
 * NCCL_ALGO and NCCL_PROTO (or the communicator's options) leave fewer candidates, and as with NCCL a call without any
 * fails. An algorithm that knows only Simple is used with it whatever the list of protocols says.
 * The thresholds were measured on two cores with bench/host.js and are revisited when it is run elsewhere.
 */

import { type Collective, EAGER_BYTES, MAX_DIRECT_RANKS } from '../collectives/control-block.js';
import { ALGORITHMS, type Algorithm, isDirect, protocolsOf, supports } from '../collectives/registry.js';
import type { RingProtocol } from '../collectives/ring.js';
import { TuttiError } from '../errors/tutti-error.js';
import type { ReduceOp } from '../kernel/element-types.js';
import { functionName, type HostChoices } from './host-choices.js';

export interface HostSelectionInput {
  readonly collective: Collective;
  /** Operator of a reduction. */
  readonly op: ReduceOp;
  /** Bytes of one rank's block for all-gather, of all blocks for reduce-scatter and all-to-all, of the buffer otherwise. */
  readonly bytes: number;
  readonly ranks: number;
  /** Ranks of an emulated node, where the user has said. */
  readonly ranksPerNode?: number | undefined;
  /** All ranks reach each other's memory. */
  readonly shared: boolean;
  readonly choices: HostChoices;
  /** Why an algorithm cannot be set up in this communicator, where that is known beforehand. */
  readonly setUp?: (algorithm: Algorithm) => string | undefined;
}

export interface HostSelection {
  readonly algorithm: Algorithm;
  readonly protocol: RingProtocol;
  /** Why, in words, for `explain` outputs. */
  readonly reason: string;
}

/** Below this a one-shot wins: its copy through the post costs less than the closing barrier. */
export const ONE_SHOT_BYTES = 512;

/** Messages of up to this many bytes per rank and step travel by LL. */
export const RING_LL_BYTES = 16384;

/** Which of several allowed algorithms comes first, where the usual one is not among them. */
const PREFERENCE: readonly Algorithm[] = ['TwoShot', 'OneShot', 'Ring'];

/** Whoever names one of these wants it wherever it can be set up, and others of the list in place of it. */
const OVER_SWITCHES: readonly Algorithm[] = ['NVLS', 'NVLSTree', 'CollNetDirect', 'CollNetChain'];

export function selectOnHost(input: HostSelectionInput): HostSelection {
  const { collective, choices, shared } = input;
  if (collective === 'barrier')
    return { algorithm: 'OneShot', protocol: 'Simple', reason: 'a barrier has no data' };
  const usual = usualAlgorithm(input);
  const protocols = choices.protocols(collective);
  // A protocol can only be asked of connections.
  const askedProtocol = protocols.length === 1 ? protocols[0]! : undefined;
  if (choices.anyAlgorithm(collective) && protocols.length > 0) {
    if (askedProtocol === undefined || !isDirect(usual.algorithm)) return withProtocol(input, usual);
    return withProtocol(input, {
      algorithm: 'Ring',
      reason: `protocol ${askedProtocol} belongs to the ring`,
    });
  }
  const obstacles = new Map<Algorithm, string>();
  // A list of protocols without any of ours leaves no candidate: who has but one takes it only when asked by name.
  const all = choices.anyAlgorithm(collective)
    ? ALGORITHMS.filter((name) => protocolsOf(name).length > 1)
    : [
        ...(choices.namesAlgorithms(collective) ? OVER_SWITCHES : []),
        usual.algorithm,
        ...PREFERENCE,
        ...ALGORITHMS,
      ];
  for (const algorithm of all) {
    const obstacle = obstacleTo(algorithm, input);
    if (obstacle !== undefined) {
      obstacles.set(algorithm, obstacle);
      continue;
    }
    const reason = algorithm === usual.algorithm && shared ? usual.reason : `${algorithm} was asked for`;
    const asked = algorithm === 'Ring' ? 'the ring was asked for' : reason;
    return withProtocol(input, { algorithm, reason: [asked, ...hindered(obstacles)].join('; ') });
  }
  throw noCandidate(input, obstacles);
}

type Unfinished = Omit<HostSelection, 'protocol'>;

/** What is chosen where everything is allowed. */
function usualAlgorithm({ bytes, ranks, shared }: HostSelectionInput): Unfinished {
  if (!shared) return { algorithm: 'Ring', reason: 'the ranks do not share memory' };
  if (ranks > MAX_DIRECT_RANKS) {
    return { algorithm: 'Ring', reason: `direct algorithms end at ${MAX_DIRECT_RANKS} ranks` };
  }
  return bytes <= ONE_SHOT_BYTES
    ? { algorithm: 'OneShot', reason: `at most ${ONE_SHOT_BYTES} bytes: inside the posts` }
    : { algorithm: 'TwoShot', reason: `more than ${ONE_SHOT_BYTES} bytes: between the buffers` };
}

/** Why an algorithm cannot be taken; undefined when it can. */
function obstacleTo(
  algorithm: Algorithm,
  { collective, choices, shared, ranks, ranksPerNode, op, setUp }: HostSelectionInput,
): string | undefined {
  if (!choices.allowsAlgorithm(collective, algorithm)) return NOT_LISTED;
  if (!supports(algorithm, collective)) return `does not do ${functionName(collective)}`;
  if (algorithm === 'PAT' && collective === 'reduceScatter' && op === 'avg') return 'does no averages';
  if (algorithm === 'Hierarchical' && ranksPerNode !== undefined) {
    if (ranks % Math.min(ranks, ranksPerNode) !== 0) {
      return `needs nodes of one size, and ${ranks} ranks make none of ${ranksPerNode}`;
    }
  }
  if (algorithm !== 'Ring' && !shared) return 'needs ranks that share memory';
  const able = protocolsOf(algorithm);
  const allowed = choices.protocols(collective);
  if (able.length > 1 && !able.some((protocol) => allowed.includes(protocol))) {
    return `has ${able.join(' and ')} only`;
  }
  if (isDirect(algorithm) && ranks > MAX_DIRECT_RANKS) return `needs at most ${MAX_DIRECT_RANKS} ranks`;
  return setUp?.(algorithm);
}

const NOT_LISTED = 'not in the list';

/** Algorithms that were asked for and cannot be taken, with the reason. */
const hindered = (obstacles: ReadonlyMap<Algorithm, string>): string[] =>
  [...obstacles].filter(([, why]) => why !== NOT_LISTED).map(([name, why]) => `${name} ${why}`);

function noCandidate(
  { collective, choices }: HostSelectionInput,
  obstacles: ReadonlyMap<Algorithm, string>,
): TuttiError {
  const set = [
    ...(choices.algorithm === undefined ? [] : [` NCCL_ALGO was set to ${choices.algorithm}.`]),
    ...(choices.protocol === undefined ? [] : [` NCCL_PROTO was set to ${choices.protocol}.`]),
  ].join('');
  const asked = hindered(obstacles);
  const why = asked.length === 0 ? 'no name of the list has a program on host memory' : asked.join(', ');
  return new TuttiError(
    'invalidUsage',
    `No algorithm/protocol available for function ${functionName(collective)}:${set} ${why}; ` +
      'leave the variable or option out, or add Ring to it',
  );
}

/** LL while what a step moves is small, Simple beyond, unless a list says otherwise. */
function withProtocol(input: HostSelectionInput, { algorithm, reason }: Unfinished): HostSelection {
  const { collective, bytes, ranks, shared, choices } = input;
  const able = protocolsOf(algorithm);
  const allowed = choices.protocols(collective).filter((protocol) => able.includes(protocol));
  const candidates = allowed.length > 0 ? allowed : able;
  // LL flags travel in the data, which only memory can show one by one: sockets take Simple.
  const small = bytes / ranks <= RING_LL_BYTES;
  const wanted = shared && small ? 'LL' : 'Simple';
  const protocol = !shared ? 'Simple' : candidates.includes(wanted) ? wanted : candidates[0]!;
  return { algorithm, protocol, reason };
}

/** Elements of one one-shot round: what fits into a post (that of a reduce-scatter or an all-to-all holds a block per rank). */
export function oneShotPiece(collective: Collective, elementBytes: number, ranks: number): number {
  const isWide = collective === 'reduceScatter' || collective === 'allToAll';
  const room = isWide ? Math.floor(EAGER_BYTES / ranks) : EAGER_BYTES;
  return Math.max(1, Math.floor(room / elementBytes));
}

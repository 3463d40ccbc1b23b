/**
 * Which algorithm and protocol runs a collective on GPUs.
 *
 * By default the programs in which all ranks meet, as measured (collectives/gpu/shape.ts): *OneShot* with LL or LL128,
 * where every rank gets what it needs from everybody and computes alone, and *TwoShot* with Simple, where ranks read and
 * write each other's buffers. NCCL_ALGO and NCCL_PROTO, or the communicator's options, leave fewer: rings, trees and PAT over
 * connections run where they are asked for, that is where a list leaves nothing in which ranks meet.
 *
 * As on host memory a call without a candidate fails, and an algorithm with one protocol is used with it whatever the
 * list of protocols says, if it is asked for by name.
 */

import type { Collective } from '../collectives/control-block.js';
import { callBytes, type GpuCall, type GpuShape, type GpuTeam } from '../collectives/gpu/call.js';
import type { ConnectorKind } from '../collectives/gpu/connectors.js';
import { gpuShape } from '../collectives/gpu/shape.js';
import { ALGORITHMS, type Algorithm, supports } from '../collectives/registry.js';
import { TuttiError } from '../errors/tutti-error.js';
import { functionName, type HostChoices } from './host-choices.js';
import { timeText } from './report/quantities.js';

export type GpuAlgorithm = 'OneShot' | 'TwoShot' | ConnectorKind;
export type GpuProtocol = 'LL' | 'LL128' | 'Simple';

/** An algorithm with a protocol. */
export interface GpuWay {
  readonly algorithm: GpuAlgorithm;
  readonly protocol: GpuProtocol;
}

export interface GpuSelection extends GpuWay {
  /** Why, in words. */
  readonly reason: string;
}

/** Protocols of the algorithms, those in which ranks meet first. */
export const GPU_PROTOCOLS: Readonly<Record<GpuAlgorithm, readonly GpuProtocol[]>> = {
  OneShot: ['LL', 'LL128'],
  TwoShot: ['Simple'],
  Ring: ['LL', 'LL128', 'Simple'],
  Tree: ['LL', 'LL128', 'Simple'],
  PAT: ['Simple'],
};

export const GPU_ALGORITHMS = Object.keys(GPU_PROTOCOLS) as readonly GpuAlgorithm[];

const MEETING: Readonly<Record<GpuShape['program'], GpuWay>> = {
  LL: { algorithm: 'OneShot', protocol: 'LL' },
  LL128: { algorithm: 'OneShot', protocol: 'LL128' },
  Lamport: { algorithm: 'OneShot', protocol: 'LL' },
  Exchange: { algorithm: 'TwoShot', protocol: 'Simple' },
  Direct: { algorithm: 'TwoShot', protocol: 'Simple' },
};

/** Collectives that lists can speak of. */
type ListedCollective = Exclude<Collective, 'barrier'>;

function isListed(collective: GpuCall['collective']): collective is ListedCollective {
  return collective !== 'barrier' && collective !== 'gather' && collective !== 'scatter';
}

/** What a program in which ranks meet is called in lists. */
export function wayOf(program: GpuShape['program']): GpuWay {
  return MEETING[program];
}

/** A way over connections. */
type ConnectedWay = GpuWay & { readonly algorithm: ConnectorKind };

/** Whether it has connections; in the others ranks meet. */
function isConnected<W extends GpuWay>(way: W): way is W & ConnectedWay {
  return way.algorithm !== 'OneShot' && way.algorithm !== 'TwoShot';
}

const isMeeting = (way: GpuWay): boolean => !isConnected(way);

/** A way with what is in its way. */
interface Candidate extends GpuWay {
  readonly obstacle: string | undefined;
}

const NOT_LISTED = 'not in the list';

function obstacleTo({ algorithm, protocol }: GpuWay, collective: ListedCollective, choices: HostChoices) {
  if (!choices.allowsAlgorithm(collective, algorithm)) return NOT_LISTED;
  if (choices.allowsProtocol(collective, protocol)) return undefined;
  const able = GPU_PROTOCOLS[algorithm];
  if (able.length === 1 && !choices.anyAlgorithm(collective)) return undefined;
  return able.some((one) => choices.allowsProtocol(collective, one))
    ? NOT_LISTED
    : `has ${able.join(' and ')} only`;
}

function candidatesFor(collective: ListedCollective, choices: HostChoices): Candidate[] {
  return GPU_ALGORITHMS.filter((algorithm) => supports(algorithm, collective)).flatMap((algorithm) =>
    GPU_PROTOCOLS[algorithm].map((protocol) => ({
      algorithm,
      protocol,
      obstacle: obstacleTo({ algorithm, protocol }, collective, choices),
    })),
  );
}

/** What is in the way of a candidate that lists allow, for this call. */
function hindrance(team: GpuTeam, call: GpuCall, { algorithm, protocol }: GpuWay): string | undefined {
  if (algorithm === 'PAT' && call.op === 'avg' && call.collective === 'reduceScatter')
    return 'does no averages';
  if (protocol !== 'LL128') return undefined;
  return team.wholeLines ? undefined : 'does LL128 only where all GPUs are joined by NVLink';
}

/** Microseconds of a hop, and GB/s of a rank in each direction, measured on two H200 joined by NVLink (docs/gpu-notes.md). */
type ConnectorCosts = Readonly<Partial<Record<GpuProtocol, readonly [hop: number, gigabytes: number]>>>;
const COSTS: Readonly<Record<ConnectorKind, ConnectorCosts>> = {
  Ring: { LL: [1.2, 133], LL128: [1.6, 295], Simple: [3, 280] },
  Tree: { LL: [1.3, 69], LL128: [1.7, 196], Simple: [3.6, 249] },
  PAT: { Simple: [3.1, 183] },
};
/** What a call takes that moves nothing: its launch in a graph, and its first look at counters. */
const LAUNCH_MICROSECONDS = 3.4;

/** Predicted time over connections, microseconds. */
export function predictOverConnections(
  { ranks: n, orders }: GpuTeam,
  call: GpuCall,
  { algorithm, protocol }: ConnectedWay,
): number {
  const bytes = callBytes(call);
  const depth = Math.ceil(Math.log2(Math.max(2, n)));
  let hops = n - 1;
  /** Bytes that a rank sends. */
  let traffic = bytes;
  if (algorithm === 'Tree') {
    hops = 2 * (orders === undefined ? depth : n - 1);
    traffic = n === 2 ? bytes : 2 * bytes;
  } else if (call.collective === 'allReduce') {
    hops = 2 * (n - 1);
    traffic = (2 * (n - 1) * bytes) / n;
  } else if (call.collective === 'allToAll') {
    hops = (n * (n - 1)) / 2;
    traffic = hops * bytes;
  } else if (call.collective === 'allGather' || call.collective === 'reduceScatter') {
    if (algorithm === 'PAT') hops = depth;
    traffic = (n - 1) * bytes;
  }
  const [hop, gigabytes] = COSTS[algorithm][protocol]!;
  return LAUNCH_MICROSECONDS + hops * hop + traffic / (1000 * gigabytes);
}

const nameOf = ({ algorithm, protocol }: GpuWay) => `${algorithm} with ${protocol}`;

/** The way of a call. Throws `invalidUsage` when lists leave none. */
export function selectOnGpu(team: GpuTeam, call: GpuCall, choices: HostChoices): GpuSelection {
  const measured = MEETING[gpuShape(team, call).program];
  const { collective } = call;
  if (!isListed(collective)) return { ...measured, reason: 'there is nothing else' };
  const candidates = candidatesFor(collective, choices).map((one) => ({
    ...one,
    obstacle: one.obstacle ?? hindrance(team, call, one),
  }));
  const able = candidates.filter(({ obstacle }) => obstacle === undefined);
  const isSame = (way: GpuWay) => way.algorithm === measured.algorithm && way.protocol === measured.protocol;
  const meeting = able.find(isSame) ?? able.find(isMeeting);
  if (meeting !== undefined) {
    const { algorithm, protocol } = meeting;
    const others = able.some((way) => way.algorithm !== algorithm);
    const what = isSame(meeting) ? 'measured to be the fastest' : 'ranks meet';
    return { algorithm, protocol, reason: others ? what : `${algorithm} was asked for` };
  }
  const [first, second] = able
    .filter(isConnected)
    .map((way) => ({ ...way, time: predictOverConnections(team, call, way) }))
    .sort((a, b) => a.time - b.time);
  if (first === undefined) throw noCandidate(collective, choices, candidates);
  const { algorithm, protocol } = first;
  if (second === undefined || able.every((way) => way.algorithm === algorithm)) {
    return { algorithm, protocol, reason: `${algorithm} was asked for` };
  }
  const reason = `${timeText(first.time)} predicted, ${timeText(second.time)} with ${nameOf(second)}`;
  return { algorithm, protocol, reason };
}

function noCandidate(
  collective: ListedCollective,
  choices: HostChoices,
  candidates: readonly Candidate[],
): TuttiError {
  const set = [
    ...(choices.algorithm === undefined ? [] : [` NCCL_ALGO was set to ${choices.algorithm}.`]),
    ...(choices.protocol === undefined ? [] : [` NCCL_PROTO was set to ${choices.protocol}.`]),
  ].join('');
  const hindered = candidates
    .filter(({ obstacle }) => obstacle !== undefined && obstacle !== NOT_LISTED)
    .map(({ algorithm, obstacle }) => `${algorithm} ${obstacle}`);
  const unable = ALGORITHMS.filter(
    (name) => choices.allowsAlgorithm(collective, name) && !hasProgram(name, collective),
  ).map((name) => `${name} does not do ${functionName(collective)} on GPUs`);
  const asked = [...new Set([...hindered, ...unable])];
  const why = asked.length === 0 ? 'no name of the list has a program for GPUs' : asked.join(', ');
  return new TuttiError(
    'invalidUsage',
    `No algorithm/protocol available for function ${functionName(collective)}:${set} ${why}; ` +
      'leave the variable or option out, or add Ring to it',
  );
}

function hasProgram(name: Algorithm, collective: ListedCollective): boolean {
  return (GPU_ALGORITHMS as readonly string[]).includes(name) && supports(name, collective);
}

const LISTED: readonly ListedCollective[] = [
  'allReduce',
  'allGather',
  'reduceScatter',
  'broadcast',
  'reduce',
  'allToAll',
];

/** Connections for which there must be room. */
export interface NeededConnectors {
  readonly algorithms: readonly ConnectorKind[];
  readonly protocols: readonly GpuProtocol[];
}

/** Algorithms over connections, and their protocols, that some call may take by what lists leave. */
export function connectorsNeeded(choices: HostChoices): NeededConnectors {
  const needed = LISTED.flatMap((collective) => {
    const able = candidatesFor(collective, choices).filter(({ obstacle }) => obstacle === undefined);
    return able.some(isMeeting) ? [] : able.filter(isConnected);
  });
  return {
    algorithms: (['Ring', 'Tree', 'PAT'] as const).filter((kind) =>
      needed.some(({ algorithm }) => algorithm === kind),
    ),
    protocols: (['LL', 'LL128', 'Simple'] as const).filter((one) =>
      needed.some(({ protocol }) => protocol === one),
    ),
  };
}

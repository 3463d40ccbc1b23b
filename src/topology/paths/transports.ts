/**
 * Which transport joins two ranks: the first of the list that does not refuse. Both ends ask alike and must agree.
 *
 * NVLS is not in the list: it joins all GPUs of a domain and never a pair. (NCCL 2.30.7, transport.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { RankInfo } from '../communicator.js';
import { SILENT } from '../log.js';
import type { GpuNode } from '../system/node.js';
import {
  checkP2p,
  networkIsFaster,
  p2pTransportRefuses,
  type ReachContext,
  type Refusal,
  sharedMemoryRefuses,
  shmTransportRefuses,
} from './reach.js';

/** A rank and one of its peers. */
export interface RankPair {
  readonly rank: RankInfo;
  readonly peer: RankInfo;
  readonly from: GpuNode;
  /** Undefined where the topology of `rank` has been cut to its own node, and the peer is in another. */
  readonly to: GpuNode | undefined;
}

/** A way to move data between two ranks. */
export interface Transport {
  readonly name: string;
  /** Why it does not join them; undefined if it does. */
  refuses(context: ReachContext, pair: RankPair): Refusal | undefined;
}

/** Between GPUs directly. Across the cliques of one NVLink domain it is taken without a look at paths. */
const P2P: Transport = {
  name: 'P2P',
  refuses: (context, { rank, peer, from, to }) => {
    if (crossClique(context, rank, peer)) return undefined;
    if (to !== undefined) return p2pTransportRefuses(context, from, to);
    return rank.hostHash === peer.hostHash ? 'GPU of another node' : 'different host';
  },
};

/** Through memory of the host. */
const SHM: Transport = {
  name: 'SHM',
  refuses: (context, { rank, peer, from, to }) =>
    to === undefined ? sharedMemoryRefuses(context, rank, peer) : shmTransportRefuses(context, from, to),
};

/** Over the network: always between hosts, and inside of one where it is faster or nobody can tell. */
const NET: Transport = {
  name: 'NET',
  refuses: (context, { rank, peer, from, to }) => {
    if (rank.hostHash !== peer.hostHash || to === undefined) return undefined;
    return networkIsFaster(context, from, to) ? undefined : 'network is not faster';
  },
};

/** Reductions inside the network; set up by a procedure of its own. */
const COLLNET: Transport = { name: 'CollNet', refuses: () => 'point-to-point' };

/** In the order in which they are asked. */
export const TRANSPORTS: readonly Transport[] = [P2P, SHM, NET, COLLNET];

export interface TransportChoice {
  /** Undefined if all refuse. */
  readonly transport: Transport | undefined;
  /** Those that were asked before it, and why they refuse. */
  readonly refused: readonly { readonly transport: Transport; readonly why: Refusal }[];
}

/** The first transport that joins two ranks. */
export function findTransport(
  context: ReachContext,
  pair: RankPair,
  transports: readonly Transport[] = TRANSPORTS,
): TransportChoice {
  const refused: { transport: Transport; why: Refusal }[] = [];
  for (const transport of transports) {
    const why = transport.refuses(context, pair);
    if (why === undefined) return { transport, refused };
    refused.push({ transport, why });
  }
  return { transport: undefined, refused };
}

/**
 * The same where there has to be one.
 *
 * @throws TuttiError `systemError` that names both ranks and why each transport refuses.
 */
export function chooseTransport(
  context: ReachContext,
  pair: RankPair,
  transports: readonly Transport[] = TRANSPORTS,
): Transport {
  const { transport, refused } = findTransport(context, pair, transports);
  if (transport !== undefined) return transport;
  const { rank, peer } = pair;
  const text = `No transport found for rank ${placeText(rank)} -> rank ${placeText(peer)}`;
  (context.log ?? SILENT)('WARN', 'INIT', text);
  const reasons = refused.map(({ transport: { name }, why }) => `${name}: ${why}`);
  throw new TuttiError('systemError', `${text} (${reasons.join('; ')})`, { rank: peer.rank });
}

/** For people: `P2P`, `P2P, receiver reads`, `P2P through rank 3`, `SHM`, `NET`, or that there is none, and why. */
export function transportText(context: ReachContext, pair: RankPair, rankOffset = 0): string {
  const { transport, refused } = findTransport(context, pair);
  if (transport === undefined) {
    return `none (${refused.map(({ transport: { name }, why }) => `${name}: ${why}`).join('; ')})`;
  }
  if (transport !== P2P || pair.to === undefined) return transport.name;
  const { intermediate, read } = checkP2p(context, pair.from, pair.to);
  if (intermediate !== undefined) return `P2P through rank ${intermediate.rank + rankOffset}`;
  return read ? 'P2P, receiver reads' : 'P2P';
}

function crossClique({ comm }: ReachContext, rank: RankInfo, peer: RankInfo): boolean {
  const sameDomain = comm.mnnvl && rank.clusterUuid !== '' && rank.clusterUuid === peer.clusterUuid;
  return rank.hostHash !== peer.hostHash && sameDomain && rank.cliqueId !== peer.cliqueId;
}

/** `1[f000]`: rank and bus id without separators, as NCCL writes it. */
const placeText = ({ rank, busId }: RankInfo): string =>
  `${rank}[${busId.replace(/[:.]/g, '').replace(/^0+(?=.)/, '')}]`;

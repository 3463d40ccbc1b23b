/**
 * Numbers the nodes of a communicator.
 *
 * A "node" is a set of ranks whose first ring begins at the same rank: one domain, be it a host, a part of a host or
 * an NVLink clique of several hosts. Nodes are numbered as they appear when the ranks are passed in order, so ranks
 * may be spread over hosts in any way. (NCCL 2.30.7, init.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { greatestOf, leastOf } from '../extremes.js';
import type { DomainInfo } from './domain.js';

export interface CommNode {
  readonly index: number;
  /** The rank that the node's first ring begins at: other nodes take the node's ends from it. */
  readonly firstRank: number;
  /** Ascending; a rank's place here is its local rank. */
  readonly ranks: readonly number[];
  readonly domain: DomainInfo;
}

export interface NodeNumbers {
  readonly nRanks: number;
  readonly nodes: readonly CommNode[];
  readonly rankToNode: Int32Array;
  readonly rankToLocalRank: Int32Array;
  readonly minLocalRanks: number;
  readonly maxLocalRanks: number;
}

/**
 * @throws TuttiError invalidArgument unless every rank from 0 on is in exactly one domain, internalError if a
 * domain has no ring.
 */
export function numberNodes(domains: readonly DomainInfo[]): NodeNumbers {
  const domainOf = domainsByRank(domains);
  const nRanks = domainOf.length;
  const rankToNode = new Int32Array(nRanks);
  const rankToLocalRank = new Int32Array(nRanks);
  const nodes: (CommNode & { readonly ranks: number[] })[] = [];
  const numbers = new Map<number, number>();
  for (const [rank, domain] of domainOf.entries()) {
    const firstRank = firstRankOf(domain, rank);
    let index = numbers.get(firstRank);
    if (index === undefined) {
      index = nodes.length;
      numbers.set(firstRank, index);
      nodes.push({ index, firstRank, ranks: [], domain: domainOf[firstRank] ?? domain });
    }
    const { ranks } = nodes[index]!;
    rankToNode[rank] = index;
    rankToLocalRank[rank] = ranks.length;
    ranks.push(rank);
  }
  const sizes = nodes.map(({ ranks }) => ranks.length);
  return {
    nRanks,
    nodes,
    rankToNode,
    rankToLocalRank,
    minLocalRanks: leastOf(sizes),
    maxLocalRanks: greatestOf(sizes),
  };
}

function domainsByRank(domains: readonly DomainInfo[]): readonly DomainInfo[] {
  const nRanks = domains.reduce((sum, { ranks }) => sum + ranks.length, 0);
  const domainOf: DomainInfo[] = new Array(nRanks);
  for (const domain of domains) {
    for (const rank of domain.ranks) {
      if (!Number.isInteger(rank) || rank < 0 || rank >= nRanks || domainOf[rank] !== undefined) {
        const wrong = domainOf[rank] === undefined ? `is not in 0..${nRanks - 1}` : 'is in two domains';
        throw new TuttiError(
          'invalidArgument',
          `rank ${rank} ${wrong}: the ${domains.length} domains of a communicator of ${nRanks} ranks must hold ` +
            'each rank once',
          { rank },
        );
      }
      domainOf[rank] = domain;
    }
  }
  if (nRanks === 0) throw new TuttiError('invalidArgument', 'a communicator needs at least one rank');
  return domainOf;
}

function firstRankOf({ graphs, rankOffset }: DomainInfo, rank: number): number {
  const first = graphs.ring.channels[0]?.intra[0];
  if (first !== undefined) return first + rankOffset;
  throw new TuttiError('internalError', `the search found no ring for the node of rank ${rank}`, { rank });
}

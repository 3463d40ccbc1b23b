/** Who exchanges with whom in a recursive doubling all-reduce, for any number of ranks. */

import { recursiveRoleName } from '../collectives/recursive.js';
import { type ConnectedAlgorithm, slotElements } from './connected-plan.js';
import { channelShares } from './ring-plan.js';

export interface RecursivePlace {
  /** Partner by round; none for a rank that another stands for. */
  readonly partners: readonly number[];
  /** The rank that this one stands for, or that stands for this one; -1 for none. */
  readonly folded: number;
}

/** Ranks 0 to p - 1 exchange, p the largest power of two among the ranks; rank p + i is stood for by rank i. */
export function recursivePlace(ranks: number, rank: number): RecursivePlace {
  const rounds = Math.floor(Math.log2(ranks));
  const exchanging = 2 ** rounds;
  if (rank >= exchanging) return { partners: [], folded: rank - exchanging };
  return {
    partners: Array.from({ length: rounds }, (_, round) => rank ^ (2 ** round)),
    folded: rank + exchanging < ranks ? rank + exchanging : -1,
  };
}

export const RECURSIVE: ConnectedAlgorithm = {
  connections: ({ ranks, channels }, rank) => {
    const { partners, folded } = recursivePlace(ranks, rank);
    const peers = [...partners, ...(folded === -1 ? [] : [folded])];
    const all = Array.from({ length: channels }, (_, channel) => channel).flatMap((channel) =>
      peers.map((peer) => ({ channel, peer })),
    );
    return { sends: all, receives: all };
  },
  plan: (setting, { elementBytes, count }, rank) => {
    const { partners, folded } = recursivePlace(setting.ranks, rank);
    const others = folded === -1 ? [] : [folded];
    const role = recursiveRoleName({
      lowerPartners: partners.map((partner) => partner < rank),
      folds: partners.length > 0 && folded !== -1,
    });
    const chunk = slotElements(setting, elementBytes);
    return channelShares(count, elementBytes, setting.channels, setting.protocol).map((share, channel) => ({
      role,
      channel,
      receives: [...others, ...partners],
      sends: [...partners, ...others],
      ...share,
      chunk,
      window: chunk,
    }));
  },
  cut: (setting, { elementBytes }) => slotElements(setting, elementBytes),
};

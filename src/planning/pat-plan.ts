/** How PAT's schedule is laid over the blocks of a rank. */

import { PAT_FLAG, type PatField } from '../collectives/pat.js';
import {
  type BlockPlan,
  type ConnectedAlgorithm,
  type ConnectedSetting,
  slotElements,
} from './connected-plan.js';
import { type PatEntry, patAllGather, patDimensions, patReduceScatter, patShape } from './pat-schedule.js';
import { channelShares } from './ring-plan.js';

/** A step as programs read it. */
export function patStepFields(entry: PatEntry): Record<PatField, number> {
  const flags =
    (entry.from >= 0 ? PAT_FLAG.receives : 0) |
    (entry.to >= 0 ? PAT_FLAG.sends : 0) |
    (entry.release ? PAT_FLAG.release : 0) |
    (entry.publish ? PAT_FLAG.publish : 0) |
    (entry.again ? PAT_FLAG.again : 0);
  const { distance, from, fromIndex, to, toIndex, ahead } = entry;
  return { flags, distance, from: Math.max(0, from), fromIndex, to: Math.max(0, to), toIndex, ahead };
}

/** The words of a step in the order of PatStep. */
function stepWords(entry: PatEntry): number[] {
  const { flags, distance, from, fromIndex, to, toIndex, ahead } = patStepFields(entry);
  return [flags, distance, from, fromIndex, to, toIndex, ahead, 0];
}

/**
 * Neighbours by dimension: a reduce-scatter sends to the rank 2^d places on, an all-gather to the one 2^d places back.
 */
function neighbours(ranks: number, rank: number): { ahead: number[]; behind: number[] } {
  const distances = Array.from({ length: patDimensions(ranks) }, (_, d) => 2 ** d);
  return {
    ahead: distances.map((distance) => (rank + distance) % ranks),
    behind: distances.map((distance) => (rank - distance + ranks) % ranks),
  };
}

/** Connections of the two collectives are apart: their schedules count different slots. */
const channelOf = (channel: number, collective: string): number =>
  2 * channel + (collective === 'allGather' ? 1 : 0);

export const PAT: ConnectedAlgorithm = {
  connections: ({ ranks, channels }, rank) => {
    const { ahead, behind } = neighbours(ranks, rank);
    const all = Array.from({ length: channels }, (_, channel) => channel);
    const join = (collective: string, peers: readonly number[]) =>
      all.flatMap((channel) => peers.map((peer) => ({ channel: channelOf(channel, collective), peer })));
    return {
      sends: [...join('reduceScatter', ahead), ...join('allGather', behind)],
      receives: [...join('reduceScatter', behind), ...join('allGather', ahead)],
    };
  },
  plan: (setting: ConnectedSetting, { collective, elementBytes, count }, rank): BlockPlan[] => {
    const { ranks, channels, slotBytes } = setting;
    const { ahead, behind } = neighbours(ranks, rank);
    const gathers = collective === 'allGather';
    const chunk = slotElements(setting, elementBytes);
    return channelShares(count, elementBytes, channels, 'Simple').map((share, channel) => {
      const shape = patShape(ranks, slotBytes, share.count * elementBytes);
      const entries = gathers ? patAllGather(shape) : patReduceScatter(shape);
      return {
        role: 'pat',
        channel: channelOf(channel, collective),
        receives: gathers ? ahead : behind,
        sends: gathers ? behind : ahead,
        ...share,
        chunk,
        window: chunk,
        table: entries.flatMap(stepWords),
      };
    });
  },
  cut: (setting, { elementBytes }) => slotElements(setting, elementBytes),
};

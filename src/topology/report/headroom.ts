/**
 * What stands in the way of a better graph: more channels at the speed that was found, or the next higher speed.
 *
 * Either a link would run out (limits.ts has the accounting), or a ceiling of the search is reached: the most channels,
 * the highest speed of its list, the fastest path, all that one GPU has. Where none of these holds, the search itself
 * gave up: its runs tell how. (NCCL 2.30.7, search.cc.)
 */
import { hasSplitNvlink } from '../paths/trim.js';
import type { SearchResult, SearchRun } from '../search/compute.js';
import { GraphId, Pattern, type TopoGraph } from '../search/graph.js';
import { channelSpeeds } from '../search/speeds.js';
import type { TopoSystem } from '../system/node.js';
import { type LinkLoad, shortageAt } from './limits.js';

/** Channels and GB/s per channel. */
export interface Bundle {
  readonly channels: number;
  readonly bwIntra: number;
  readonly bwInter: number;
}

/** Why a better bundle is not there. */
export type Obstacle =
  /** A link would have to carry more than it has. */
  | { readonly kind: 'link'; readonly load: LinkLoad }
  /** The search was asked for at most these channels. */
  | { readonly kind: 'most channels'; readonly most: number }
  | { readonly kind: 'highest speed'; readonly speed: number }
  /** No path carries a channel of that speed: `ceiling` GB/s. */
  | { readonly kind: 'path'; readonly ceiling: number }
  /** The fewest channels allowed need more than one GPU has: `ceiling` GB/s. */
  | { readonly kind: 'GPU'; readonly ceiling: number; readonly channels: number }
  /** Every link has room, for the orders that were found: the search did not come to it. */
  | { readonly kind: 'search' };

/** A better bundle and what stands in its way. */
export interface NextStep {
  readonly what: 'channel' | 'speed';
  readonly bundle: Bundle;
  readonly obstacle: Obstacle;
}

/** Why the search tried nothing further. */
export type SearchEnd =
  | { readonly kind: 'most channels' }
  /** The channels carry all that one GPU has. */
  | { readonly kind: 'enough'; readonly total: number }
  /** Speeds below about half of the one found are not tried. */
  | { readonly kind: 'half'; readonly next: number }
  | { readonly kind: 'lowest speed' }
  | { readonly kind: 'steps' };

/** Part of the best speed below which no lower one is tried. */
const SLOWEST_PART = 0.49;

/** The best of the first pass, before channels were doubled; undefined if nothing was found or searched. */
export function foundBundle(result: SearchResult): Bundle | undefined {
  const last = firstPass(result).at(-1);
  if (last === undefined || last.bestChannels === 0) return undefined;
  return { channels: last.bestChannels, bwIntra: last.bestBwIntra, bwInter: last.bestBwInter };
}

const firstPass = ({ runs }: SearchResult): SearchRun[] => runs.filter(({ pass }) => pass === 1);

/** Lowest compute capability (times 10), which chooses the list of speeds. */
export const lowestSm = ({ nodes: { DEV } }: TopoSystem): number => Math.min(...DEV.map(({ sm }) => sm));

/** GB/s that the search lets all channels of a graph together have at a GPU. */
export function ceilingOf({ totalBw, nodes: { DEV } }: TopoSystem, pattern: Pattern): number {
  const devices = DEV.length;
  return devices > 1 && pattern !== Pattern.RING ? Math.fround(totalBw * (devices / (devices - 1))) : totalBw;
}

/** What one channel more, and the next higher speed, would meet. */
export function nextSteps(system: TopoSystem, graph: TopoGraph, result: SearchResult): NextStep[] {
  const found = foundBundle(result);
  if (found === undefined) return [];
  return [channelStep(system, graph, found), speedStep(system, graph, result, found)];
}

function channelStep(system: TopoSystem, graph: TopoGraph, found: Bundle): NextStep {
  const bundle = { ...found, channels: found.channels + 1 };
  const { maxChannels: most } = graph;
  const obstacle: Obstacle =
    found.channels >= most ? { kind: 'most channels', most } : linkObstacle(system, graph, bundle);
  return { what: 'channel', bundle, obstacle };
}

function speedStep(system: TopoSystem, graph: TopoGraph, result: SearchResult, found: Bundle): NextStep {
  const { maxBw, inter } = system;
  const speed = channelSpeeds(lowestSm(system), inter).findLast((value) => value > found.bwIntra);
  if (speed === undefined) {
    return {
      what: 'speed',
      bundle: found,
      obstacle: { kind: 'highest speed', speed: found.bwIntra },
    };
  }
  const least = fewestChannels(system, graph);
  // As many channels as carry more than those that were found; NVLS wants all heads first.
  const more = Math.floor((found.channels * found.bwIntra) / speed) + 1;
  const isNvls = graph.pattern === Pattern.NVLS;
  const channels = isNvls ? found.channels : Math.max(least, Math.min(more, found.channels));
  const bundle = { channels, bwIntra: speed, bwInter: speed };
  const ceiling = ceilingOf(system, result.runs[0]!.pattern);
  let obstacle: Obstacle;
  if (speed > maxBw) obstacle = { kind: 'path', ceiling: maxBw };
  else if (Math.fround(speed * least) > ceiling) obstacle = { kind: 'GPU', ceiling, channels: least };
  else obstacle = linkObstacle(system, graph, bundle);
  return { what: 'speed', bundle, obstacle };
}

/** Channels below which the search takes nothing. */
function fewestChannels(system: TopoSystem, { id, maxChannels }: TopoGraph): number {
  switch (id) {
    case GraphId.RING:
      return hasSplitNvlink(system) ? 2 : 1;
    case GraphId.NVLS:
      return system.inter ? 1 : maxChannels;
    case GraphId.COLLNET_DIRECT:
      return 1;
    default:
      // As many as the ring has: least and most are the same.
      return Math.max(1, maxChannels);
  }
}

function linkObstacle(system: TopoSystem, graph: TopoGraph, bundle: Bundle): Obstacle {
  const load = shortageAt(system, graph, bundle, bundle.channels);
  return load === undefined ? { kind: 'search' } : { kind: 'link', load };
}

/** How the first pass ended; undefined if nothing was searched. */
export function searchEnd(system: TopoSystem, result: SearchResult): SearchEnd | undefined {
  const last = firstPass(result).at(-1);
  if (last === undefined) return undefined;
  if (last.end === 'full') return { kind: 'most channels' };
  if (Math.fround(last.bestChannels * last.bestBwInter) >= system.totalBw) {
    return { kind: 'enough', total: system.totalBw };
  }
  const next = channelSpeeds(lowestSm(system), system.inter).find((speed) => speed < last.bwIntra);
  if (next === undefined) return { kind: 'lowest speed' };
  const isHalf = last.bestChannels > 0 && Math.fround(next / last.bestBwInter) <= SLOWEST_PART;
  return isHalf ? { kind: 'half', next } : { kind: 'steps' };
}

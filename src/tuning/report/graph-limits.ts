/**
 * The link of the machine that each graph's channels fill: why a graph has no more bandwidth.
 */
import type { Cluster } from '../../topology/cluster.js';
import { Labels } from '../../topology/report/labels.js';
import { equallyFull, linkLoads } from '../../topology/report/limits.js';
import { linkNames, loadText } from '../../topology/report/link-names.js';
import { LinkType } from '../../topology/system/path-type.js';
import type { ModelGraphs } from '../input.js';

/** What limits a graph. */
export interface GraphLimit {
  /** `PCIe link from NIC mlx5_0 to PCIe switch 01:00.0 (and 7 like it): 24 of 24 GB/s`; undefined for a single GPU. */
  readonly link: string | undefined;
  /** The search found no order, and NCCL uses a simple one. */
  readonly fallback: boolean;
}

export type GraphLimits = Readonly<Partial<Record<keyof ModelGraphs, GraphLimit>>>;

const GRAPHS: readonly (keyof ModelGraphs)[] = ['ring', 'tree', 'nvls', 'collnetChain', 'collnetDirect'];

/** Fullest links of the graphs of rank 0's node. */
export function graphLimits({ domains }: Cluster): GraphLimits {
  const [domain] = domains;
  if (domain === undefined) return {};
  const { system, graphs, rankOffset, results } = domain;
  const labels = new Labels(system, rankOffset);
  const limits: Partial<Record<keyof ModelGraphs, GraphLimit>> = {};
  for (const name of GRAPHS) {
    const loads = linkLoads(system, graphs[name]).filter(({ link }) => link?.type !== LinkType.LOC);
    const [fullest] = loads;
    limits[name] = {
      link: fullest && `${linkNames(equallyFull(loads, fullest), labels)}: ${loadText(fullest)}`,
      fallback: results[name]?.fallback === true,
    };
  }
  return limits;
}

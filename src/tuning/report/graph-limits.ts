/**
 * The link of the machine that each graph's channels fill: why a graph has no more bandwidth.
 */
import type { Cluster, Domain } from '../../topology/cluster.js';
import { distinctDomains } from '../../topology/report/graph-summary.js';
import { Labels } from '../../topology/report/labels.js';
import { equallyFull, type LinkLoad, linkLoads } from '../../topology/report/limits.js';
import { linkNames, loadText } from '../../topology/report/link-names.js';
import type { TopoGraph } from '../../topology/search/graph.js';
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

/** Fullest links of the graphs, as all nodes have agreed on them, on the node where they are fullest. */
export function graphLimits({ domains, comm }: Cluster): GraphLimits {
  const kinds = distinctDomains(domains);
  const limits: Partial<Record<keyof ModelGraphs, GraphLimit>> = {};
  for (const name of GRAPHS) {
    const fullest = kinds
      .map((domain) => ({ domain, loads: loadsOf(domain, name, comm.aligned[name]) }))
      .toSorted((a, b) => shareOf(b.loads[0]) - shareOf(a.loads[0]))[0];
    const isOneKind = kinds.length === 1;
    limits[name] = {
      link: fullest && linkText(fullest.domain, fullest.loads, isOneKind),
      fallback: kinds.some(({ results }) => results[name]?.fallback === true),
    };
  }
  return limits;
}

/** Loads of links when the channels run as agreed, fullest first. */
const loadsOf = ({ system, graphs }: Domain, name: keyof ModelGraphs, agreed: TopoGraph): LinkLoad[] =>
  linkLoads(system, graphs[name], agreed, agreed.nChannels).filter(({ link }) => link?.type !== LinkType.LOC);

const shareOf = (load: LinkLoad | undefined): number => (load === undefined ? 0 : load.load / load.capacity);

function linkText(
  { system, rankOffset, ranks }: Domain,
  loads: readonly LinkLoad[],
  isOneKind: boolean,
): string | undefined {
  const [fullest] = loads;
  if (fullest === undefined) return undefined;
  const where = isOneKind ? '' : ` on the node of rank ${ranks[0]}`;
  const names = linkNames(equallyFull(loads, fullest), new Labels(system, rankOffset));
  return `${names}${where}: ${loadText(fullest)}`;
}

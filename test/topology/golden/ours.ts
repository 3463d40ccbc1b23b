/** Our own answer for a golden file's inputs, in the golden shape. */
import { type Domain, describeCluster } from '#src/topology/cluster.js';
import { communicatorShape } from '../connect/shape.js';
import type { GoldenDomain, GoldenParts } from './format.js';
import type { GoldenInputs } from './inputs.js';
import { graphShape, systemShape } from './shape.js';
import { type GoldenCalls, tuningParts } from './tuning-shape.js';

/** Equal hosts are listed up to this one only; NVLink cliques all. */
const HOSTS_LISTED = 2;

/** Describes the cluster, as a user would, and decides the `calls` of the golden file. */
export function ownParts(inputs: GoldenInputs, calls: GoldenCalls): GoldenParts {
  const cluster = describeCluster(inputs);
  const { domains, comm } = cluster;
  const [first, ...others] = domains.filter(({ node }) => node === 0);
  // One that differs is listed too.
  const lastNode = inputs.nodes.length - 1;
  const differs = inputs.nodes[lastNode] !== inputs.nodes[0];
  const last = differs ? domains.filter(({ node }) => node === lastNode) : [];
  const isListed = ({ node }: Domain) => node < HOSTS_LISTED || (differs && node === lastNode);
  const listed = inputs.mnnvl ? domains : domains.filter(isListed);
  const shape = communicatorShape(comm);
  const tuning = tuningParts(cluster, inputs.env, calls);
  return {
    ...shape,
    ...tuning,
    comm: { ...shape.comm, ...tuning.comm },
    system: systemShape(first!.system, first!.rankOffset),
    domainSystems: [...others, ...last].map(({ system, rankOffset }) => systemShape(system, rankOffset)),
    nDomains: domains.length,
    search: listed.map(domainShape),
  };
}

function domainShape({ ranks, rankOffset, system, graphs }: Domain): GoldenDomain {
  const { ring, tree, collnetChain, collnetDirect, nvls } = graphs;
  return {
    leaderRank: Math.min(...ranks),
    ranks,
    ring: graphShape(ring, system, rankOffset),
    tree: graphShape(tree, system, rankOffset),
    collnetChain: graphShape(collnetChain, system, rankOffset),
    collnetDirect: graphShape(collnetDirect, system, rankOffset),
    nvls: graphShape(nvls, system, rankOffset),
  };
}

/**
 * What would hold if there were more nodes: a communicator of one node uses no NIC, so nothing decides about GPUDirect
 * RDMA, and yet that is what people ask of the description of one machine.
 */
import { TuttiError } from '../../../errors/tutti-error.js';
import { type Cluster, describeCluster } from '../../cluster.js';
import { because, type Explanation } from './explanation.js';
import { gdrExplanations } from './nics.js';

/** Larger machines are not described once more: that takes long. */
const MOST_GPUS = 16;

/** GPUDirect RDMA of a machine that is one node, in a cluster of two like it; none of a cluster, or without NICs. */
export function gdrOfOneNode(cluster: Cluster): Explanation[] {
  const { comm, domains, options, settings } = cluster;
  const { whole } = domains[0]!;
  if (comm.nNodes > 1 || whole.nodes.NET.length === 0) return [];
  const hint = 'All ranks are in one node, which uses no NIC.';
  const { log: _, ...others } = options;
  try {
    if (whole.nodes.GPU.length <= MOST_GPUS) {
      const twins = describeCluster({ ...others, nodes: [...options.nodes, ...options.nodes] });
      const said = gdrExplanations(twins.domains[0]!, settings);
      return said.map(({ topic, text, evidence }, at) =>
        because(topic, at === 0 ? `${hint} With a second node like it: ${text}` : text, {
          ...evidence,
          nodes: 2,
        }),
      );
    }
  } catch (error) {
    // What a single node may have, two may not: a graph file without NICs, for example.
    if (!TuttiError.is(error)) throw error;
  }
  return [because('gdr', `${hint} The description of several (--nodes 2) tells more.`, { nodes: 1 })];
}

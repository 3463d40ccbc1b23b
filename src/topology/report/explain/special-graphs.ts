/**
 * Why there is no NVLS and no CollNet.
 */
import type { Cluster, Domain } from '../../cluster.js';
import { lowestSm } from '../headroom.js';
import { countText } from '../quantities.js';
import { because, type Explanation } from './explanation.js';

/** NVLink 4 can multicast, from this compute capability (times 10). */
const MULTICAST_SM = 90;

/** Why a domain has no NVLS; none if it has. */
export function nvlsAbsence(domain: Domain): Explanation[] {
  const { system, graphs, results } = domain;
  if (graphs.nvls.nChannels > 0) return [];
  const sm = lowestSm(system);
  const no = (why: string, reason: string) => [because('nvls', `No NVLS: ${why}`, { fact: 'none', reason })];
  if (system.nodes.GPU.length < 2)
    return no('a node of one GPU has nothing to reduce in an NVSwitch.', 'one GPU');
  if (system.nodes.NVS.length === 0) return no('no NVSwitch joins the GPUs.', 'no NVSwitch');
  if (sm < MULTICAST_SM) {
    return no(
      `it takes compute capability 9.0 (Hopper) or later, and the lowest one here is ${(sm / 10).toFixed(1)}.`,
      'compute capability',
    );
  }
  if (results.nvls === undefined) return no('NVLink multicast is not available or is disabled.', 'disabled');
  return no(
    'no speed leaves room for a head on each GPU: every GPU takes the data of all heads from the NVSwitch, and that of its own twice.',
    'not found',
  );
}

/** Why a communicator has no CollNet; none if it has. */
export function collnetAbsence({ comm, domains, settings }: Cluster): Explanation[] {
  if (comm.collnetEnabled) return [];
  const no = (why: string, reason: string) => [
    because('collnet', `No CollNet: ${why}`, { fact: 'none', reason }),
  ];
  const searched = domains.some(({ results }) => results.collnetChain !== undefined);
  if (!searched) {
    return comm.nNodes > 1 ? no('no CollNet plugin (SHARP) is present and enabled.', 'no plugin') : [];
  }
  if (comm.nNodes < settings.collnetNodeThreshold) {
    return no(
      `${comm.nNodes} nodes are fewer than NCCL_COLLNET_NODE_THRESHOLD (${settings.collnetNodeThreshold}).`,
      'too few nodes',
    );
  }
  return no('the search found no chain from a NIC with CollNet through all GPUs.', 'not found');
}

/** Nodes that have NVLS although the communicator has none. */
export function nvlsNotShared({ comm, domains }: Cluster): Explanation[] {
  const without = domains.filter(({ graphs }) => graphs.nvls.nChannels === 0);
  if (comm.aligned.nvls.nChannels > 0 || without.length === domains.length) return [];
  const lack = countText(without.length, 'node has', 'nodes have');
  return [
    because('nvls', `NVLS is not used, although some nodes could: ${lack} none, and all must.`, {
      fact: 'not shared',
      without: without.length,
    }),
  ];
}

/**
 * In which order rings over connections go through the ranks of a team on GPUs: along the links that the search of the
 * machine's topology takes, where GPUs are not all joined alike. One rank decides for all.
 */

import type { AreaSizes } from '../../collectives/gpu/area.js';
import type { RankOrders } from '../../collectives/gpu/call.js';
import { errorText } from '../../errors/error-text.js';
import { ncclBusId } from '../../topology/detect/bus-id.js';
import { detectTopology } from '../../topology/detect/detect.js';
import { liveMachine } from '../../topology/detect/machine.js';
import { p2pWorks } from '../../topology/detect/nvml-facts.js';
import { type GpuRings, gpuRings } from '../../topology/gpu-rings.js';

/** Finds the orders of GPUs by their PCI addresses. */
export type FindRings = (busIds: readonly string[]) => GpuRings;

/** Looks at the machine that this process runs on. Never throws: whatever is wrong is the reason for no order. */
export const detectedRings: FindRings = (busIds) => {
  try {
    const machine = liveMachine();
    const { nvml } = machine;
    // What a topology file says counts; dumps are for `tutti topo`.
    const { NCCL_TOPO_DUMP_FILE: _, ...env } = process.env;
    const gpus = busIds.map((busId, rank) => ({ rank, busId: ncclBusId(busId) ?? busId }));
    const document = detectTopology({ machine, env, gpus, plugins: [] });
    return gpuRings(document, {
      env,
      ...(nvml === undefined ? {} : { nvmlP2p: (a: string, b: string) => p2pWorks(nvml, a, b) }),
    });
  } catch (error) {
    const text = errorText(error);
    return { reason: `the topology is not known (${text})` };
  }
};

/** Orders of ranks, and a line for people. Plain data: ranks tell each other. */
export interface RingOrder {
  /** Undefined: the order of the ranks. */
  readonly orders?: RankOrders;
  readonly text: string;
}

export interface RingOrderOptions {
  readonly sizes: AreaSizes;
  /** Data go through memory of the host, whatever joins the GPUs. */
  readonly onHost: boolean;
  readonly find?: FindRings;
}

/** The orders for ranks on these GPUs; undefined where nothing goes over connections. */
export function ringOrder(
  ofRanks: readonly { readonly pciBusId: string }[],
  { sizes, onHost, find = detectedRings }: RingOrderOptions,
): RingOrder | undefined {
  if (sizes.connectors === undefined) return undefined;
  const inOrder = (reason: string): RingOrder => ({ text: `rings in the order of the ranks: ${reason}` });
  const gpus = [...new Set(ofRanks.map(({ pciBusId }) => pciBusId))];
  if (gpus.length < 3) return inOrder(gpus.length === 1 ? 'there is one GPU' : 'there are two GPUs');
  if (onHost) return inOrder('GPUs meet in memory of the host');
  const { orders, reason } = find(gpus);
  if (orders === undefined) return inOrder(reason);
  // Ranks of one GPU follow each other.
  const ranksOf = gpus.map((gpu) =>
    ofRanks.flatMap(({ pciBusId }, rank) => (pciBusId === gpu ? [rank] : [])),
  );
  const ofTeam = orders.map((order) => order.flatMap((gpu) => ranksOf[gpu]!));
  const shown = [...new Set(ofTeam.map((order) => order.join(' ')))].join(', ');
  return { orders: ofTeam, text: `rings ${reason}: ${shown}` };
}

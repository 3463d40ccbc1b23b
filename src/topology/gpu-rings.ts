/**
 * In which order rings should go through the GPUs of one host: as the search of ring channels has it (search/), where it
 * makes a difference.
 */
import { describeDomains, ranksOf } from './domains.js';
import { pathOrNone } from './paths/path.js';
import { type Environment, topologySettings } from './settings.js';
import type { TopoSystem } from './system/node.js';
import type { XmlElement } from './xml/element.js';

export interface GpuRings {
  /**
   * Orders of the GPUs by channel, each from GPU 0 on; links with more bandwidth are in more of them. Undefined: any order
   * is as good, or nothing better is known.
   */
  readonly orders?: readonly (readonly number[])[];
  /** For people: what the orders follow, or why there are none. */
  readonly reason: string;
}

export interface GpuRingOptions {
  /** NCCL_* variables. */
  readonly env?: Environment;
  /** Whether NVML reports working peer-to-peer reads and writes between two GPUs, by their bus ids. */
  readonly nvmlP2p?: (busIdA: string, busIdB: string) => boolean;
}

/** Whether all pairs of GPUs are joined by paths of one type and bandwidth. */
function areAlike({ nodes: { GPU } }: TopoSystem): boolean {
  const kinds = new Set<string>();
  for (const a of GPU) {
    for (const b of GPU) {
      if (a === b) continue;
      const { type, bandwidth } = pathOrNone(a, b);
      kinds.add(`${type} ${bandwidth}`);
    }
  }
  return kinds.size <= 1;
}

/** The same ring, from GPU 0 on. */
function fromFirst(order: readonly number[]): number[] {
  const at = order.indexOf(0);
  return [...order.slice(at), ...order.slice(0, at)];
}

/** The orders for the GPUs of a document, whose ranks are 0, 1, 2, ... Throws a TuttiError for a document without sense. */
export function gpuRings(document: XmlElement, { env = {}, nvmlP2p }: GpuRingOptions = {}): GpuRings {
  const count = ranksOf(document, false).length;
  const domains = describeDomains(document, {
    settings: topologySettings(env),
    nRanks: count,
    nvls: false,
    collnet: false,
    mnnvl: false,
    ...(nvmlP2p === undefined ? {} : { nvmlP2p }),
  });
  const [domain, ...others] = domains;
  if (domain === undefined || others.length > 0) {
    return { reason: `the topology has ${domains.length} groups of GPUs that do not reach each other` };
  }
  if (areAlike(domain.system)) return { reason: 'all GPUs reach each other alike' };
  const { channels, nChannels } = domain.graphs.ring;
  const orders = channels.slice(0, nChannels).map(({ intra }) => fromFirst(intra));
  if (orders.length === 0) return { reason: 'the search finds no ring through all GPUs' };
  return { orders, reason: 'as the search of the topology has them' };
}

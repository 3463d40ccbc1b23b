/** Which hosts of a job send their data through TCP, and over which interfaces. */
import type { Job } from '../../model/job.js';
import type { Place } from '../../model/place.js';
import { edges, nodeCount } from '../queries.js';

export interface TcpTraffic {
  readonly host: string;
  /** Names of the interfaces that NCCL uses. */
  readonly interfaces: readonly string[];
  readonly at: Place;
}

/** One entry per host; none where all ranks are on one host. */
export function tcpTraffic(job: Job): TcpTraffic[] {
  const found = new Map<string, TcpTraffic>();
  const areSeveral = nodeCount(job) > 1;
  for (const process of job.processes) {
    const { host, network, sockets } = process;
    if (network?.value !== 'Socket' || sockets === undefined || found.has(host)) continue;
    if (!areSeveral && !edges(process).some(({ network: over }) => over === 'Socket')) continue;
    found.set(host, { host, interfaces: sockets.value.map(({ name }) => name), at: sockets.at });
  }
  return [...found.values()];
}

/** Whether something that a tool says belongs to a host; outputs without a host belong to any. */
export const isOf = (one: { readonly host: string | undefined }, host: string): boolean =>
  one.host === undefined || one.host === host;

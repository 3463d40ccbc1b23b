/** Edges of ranks over adapters, by host, with or without GPUDirect RDMA. */
import type { Connection, NcclProcess } from '../../model/process.js';
import { edges, type Processes } from '../queries.js';

export const networkEdges = (process: NcclProcess): Connection[] =>
  edges(process).filter(({ kind, network }) => kind === 'NET' && network !== 'Socket');

export interface Side {
  readonly host: string;
  readonly processes: NcclProcess[];
  readonly edges: Connection[];
}

export function networkSides(job: Processes): Side[] {
  const byHost = new Map<string, Side>();
  for (const process of job.processes) {
    const own = networkEdges(process);
    if (own.length === 0) continue;
    const side = byHost.get(process.host) ?? { host: process.host, processes: [], edges: [] };
    side.processes.push(process);
    for (const edge of own) side.edges.push(edge);
    byHost.set(process.host, side);
  }
  return [...byHost.values()];
}

/**
 * The kind of CPU that the cost model assumes for a communicator.
 *
 * (NCCL 2.30.7, init.cc.)
 */
import { type LogSink, SILENT } from '../log.js';
import { CpuArch, CpuVendor } from '../system/node.js';
import type { DomainInfo } from './domain.js';

/** Architecture or vendor of a communicator whose ranks have different ones. */
export const MIXED_CPUS = 4;

export interface CommCpu {
  /** `CpuArch`, or MIXED_CPUS. */
  readonly cpuArch: number;
  /** `CpuVendor`, or MIXED_CPUS. */
  readonly cpuVendor: number;
}

/** CPU of the ranks: that of the first CPU node of each system. */
export function commonCpu(domains: readonly DomainInfo[], log: LogSink = SILENT): CommCpu {
  const cpus = [...new Set(domains.map(({ system }) => system))].map(({ nodes: { CPU } }) => CPU[0]);
  const archs = new Set(cpus.map((cpu) => cpu?.arch ?? CpuArch.UNKNOWN));
  const vendors = new Set(cpus.map((cpu) => cpu?.vendor ?? CpuVendor.UNDEFINED));
  if (archs.size > 1) log('INFO', 'GRAPH', 'CPUs with mixed architecture were detected.');
  if (vendors.size > 1) log('INFO', 'GRAPH', 'CPUs with mixed vendors were detected.');
  return {
    cpuArch: archs.size > 1 ? MIXED_CPUS : [...archs][0]!,
    cpuVendor: vendors.size > 1 ? MIXED_CPUS : [...vendors][0]!,
  };
}

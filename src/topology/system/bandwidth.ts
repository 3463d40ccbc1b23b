/**
 * Bandwidths of links in GB/s (10^9 bytes), as NCCL assumes them from what a machine reports.
 *
 * They are what a link carries in practice, not its nominal rate. (NCCL 2.30.7, topo.h and topo.cc.)
 */
import { type Dictionary, lookUp } from '../dictionary.js';
import { type LogSink, SILENT } from '../log.js';
import { CpuArch, type CpuNode, CpuVendor } from './node.js';

/** Inside a device, to itself, and between a CPU and a virtual NIC: as good as unlimited. */
export const LOCAL_BANDWIDTH = 5000;

/** Between the two partitions of one GPU (MLOPart). */
export const PARTITION_BANDWIDTH = 2618;

/** One NVLink, by compute capability times 10. */
export function nvlinkBandwidth(sm: number): number {
  if (sm >= 100) return Math.fround(40.1);
  if (sm >= 90) return Math.fround(20.6);
  // Equality: 87 and 89 have the links of 80.
  if (sm === 86) return 12;
  if (sm >= 70) return 20;
  if (sm >= 60) return 18;
  return 20;
}

/** Between the CPU sockets (NUMA nodes) of one host. */
export function interCpuBandwidth({ arch, vendor, model }: CpuNode): number {
  if (arch === CpuArch.POWER) return 32;
  if (arch === CpuArch.ARM) return 6;
  if (arch !== CpuArch.X86) return LOCAL_BANDWIDTH;
  switch (vendor) {
    case CpuVendor.INTEL:
      return { 4: 40, 3: 22, 2: 10 }[model as number] ?? 6;
    case CpuVendor.AMD:
      return 16;
    case CpuVendor.ZHAOXIN:
      return model === 1 ? 9 : 6;
    default:
      return LOCAL_BANDWIDTH;
  }
}

/** By the text that sysfs prints: MB/s of one lane, times 8 and divided by 100, in which the width is multiplied. */
const PCI_SPEED_CODES: Dictionary<number> = [
  ['2.5 GT/s', 15],
  ['5 GT/s', 30],
  ['8 GT/s', 60],
  ['16 GT/s', 120],
  ['32 GT/s', 240],
  ['5.0 GT/s PCIe', 30],
  ['8.0 GT/s PCIe', 60],
  ['16.0 GT/s PCIe', 120],
  ['32.0 GT/s PCIe', 240],
  ['64.0 GT/s PCIe', 480],
];

/** Gen 3 counts where the text is not known, e.g. `Unknown` or nothing. */
const UNKNOWN_SPEED_CODE = 60;

/** Lanes where the width is 0 or unknown. */
const DEFAULT_WIDTH = 16;

/** A PCI link of a speed text as sysfs prints it (`16.0 GT/s PCIe`) and a number of lanes. */
export function pciBandwidth(speed: string, width: number, log: LogSink = SILENT): number {
  const code = lookUp(PCI_SPEED_CODES, speed, UNKNOWN_SPEED_CODE, log);
  return Math.fround(((width === 0 ? DEFAULT_WIDTH : width) * code) / 80);
}

/** Speed of a NIC whose speed is not known, Mbit/s. */
export const DEFAULT_NET_SPEED = 10_000;

/** A network port of a speed in Mbit/s. */
export const netBandwidth = (speed: number): number =>
  Math.fround((speed <= 0 ? DEFAULT_NET_SPEED : speed) / 8000);

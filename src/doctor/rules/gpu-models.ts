/**
 * What GPU models can do, as far as rules need it: NVLink of the whole GPU in GB/s per direction, and whether NVLS
 * exists. Sources: vendor data sheets; the usual bus bandwidth is what nccl-tests prints on intact machines.
 */

interface GpuModel {
  readonly pattern: RegExp;
  /** GB/s per direction over NVLink through a switch, or 0 without NVLink. */
  readonly nvlinkGBs: number;
}

const MODELS: readonly GpuModel[] = [
  { pattern: /\bG?B[23]00\b/, nvlinkGBs: 900 },
  // Cards with bridges (PCIe, NVL) join pairs only, and parts of GPUs (MIG) have no links.
  { pattern: /\bH(?:100|200|20)\b(?!.*(?:PCIe|NVL|MIG))|\bGH200\b(?!.*MIG)/, nvlinkGBs: 450 },
  { pattern: /\bA100\b.*SXM(?!.*MIG)/, nvlinkGBs: 300 },
  // These have eight links.
  { pattern: /\bH800\b(?!.*(?:PCIe|NVL|MIG))|\bA800\b.*SXM(?!.*MIG)/, nvlinkGBs: 200 },
  { pattern: /\bV100.*SXM/, nvlinkGBs: 150 },
];

/** NVLink bandwidth of a GPU by its product name; undefined for models without NVLink, or unknown ones. */
export function nvlinkOf(name: string): number | undefined {
  return MODELS.find(({ pattern }) => pattern.test(name))?.nvlinkGBs;
}

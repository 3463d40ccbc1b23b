/**
 * Names of processors and GPUs as people know them, from the numbers in a topology.
 *
 * Where the exact product is not known, the class that NCCL tells apart is named instead. (PCI ID repository for
 * device numbers of NVIDIA, vendor 10de; CPUID family and model numbers from the vendors' manuals.)
 */
import { CpuArch, type CpuNode, CpuVendor } from '../system/node.js';

/** PCI device numbers of NVIDIA GPUs on which NCCL is used. */
const GPUS: ReadonlyMap<number, string> = new Map([
  [0x1db1, 'V100 SXM2'],
  [0x1db4, 'V100 PCIe'],
  [0x1db5, 'V100 SXM2'],
  [0x1db6, 'V100 PCIe'],
  [0x1db8, 'V100 SXM3'],
  [0x1eb8, 'T4'],
  [0x20b0, 'A100 SXM4'],
  [0x20b2, 'A100 SXM4'],
  [0x20b5, 'A100 PCIe'],
  [0x20b7, 'A30'],
  [0x20f1, 'A100 PCIe'],
  [0x2204, 'RTX 3090'],
  [0x2230, 'RTX A6000'],
  [0x2235, 'A40'],
  [0x2236, 'A10'],
  [0x2237, 'A10G'],
  [0x2321, 'H100 NVL'],
  [0x2322, 'H800 PCIe'],
  [0x2324, 'H800 SXM5'],
  [0x2329, 'H20'],
  [0x2330, 'H100 SXM5'],
  [0x2331, 'H100 PCIe'],
  [0x2335, 'H200 SXM'],
  [0x233b, 'H200 NVL'],
  [0x2342, 'GH200'],
  [0x2684, 'RTX 4090'],
  [0x26b5, 'L40'],
  [0x26b9, 'L40S'],
  [0x26ba, 'L20'],
  [0x27b8, 'L4'],
  [0x2901, 'B200'],
  [0x2941, 'GB200'],
  [0x2b85, 'RTX 5090'],
  [0x2bb1, 'RTX PRO 6000'],
  [0x2bb5, 'RTX PRO 6000'],
  [0x2e12, 'GB10'],
  [0x3182, 'B300'],
  [0x31c2, 'GB300'],
]);

const NVIDIA = 0x10de;

/** A well-known GPU of each compute capability (times 10), for those whose number is not known. */
const CLASSES: readonly (readonly [sm: number, name: string])[] = [
  [120, 'RTX 50'],
  [110, 'Thor'],
  [103, 'B300'],
  [100, 'B200'],
  [90, 'H100'],
  [89, 'L40'],
  [87, 'Orin'],
  [86, 'A40'],
  [80, 'A100'],
  [75, 'T4'],
  [70, 'V100'],
  [60, 'P100'],
];

/** Name of a GPU by its PCI numbers (16 bits each, vendor highest), else of its class: `H100 SXM5`, `A100-class`. */
export function gpuName(device: bigint, sm: number): string {
  const vendor = Number((device >> 48n) & 0xffffn);
  const known = vendor === NVIDIA ? GPUS.get(Number((device >> 32n) & 0xffffn)) : undefined;
  if (known !== undefined) return known;
  const like = CLASSES.find(([lowest]) => sm >= lowest)?.[1];
  return like === undefined ? 'GPU' : `${like}-class GPU`;
}

/** Classes of Intel processors that NCCL tells apart, by its number. */
const INTEL_CLASSES: Readonly<Record<number, string>> = {
  1: 'Broadwell or other',
  2: 'Skylake class',
  3: 'Sapphire Rapids class',
  4: 'Emerald Rapids class',
};

/** Model numbers of Intel's family 6. */
const INTEL_MODELS: ReadonlyMap<number, string> = new Map([
  [63, 'Haswell'],
  [79, 'Broadwell'],
  [85, 'Skylake/Cascade Lake'],
  [106, 'Ice Lake'],
  [143, 'Sapphire Rapids'],
  [173, 'Granite Rapids'],
  [175, 'Sierra Forest'],
  [207, 'Emerald Rapids'],
]);

/** AMD processors by family and range of models; families also as NCCL adds them up (extended part times 16). */
const AMD_MODELS: readonly (readonly [family: readonly number[], from: number, to: number, name: string])[] =
  [
    [[23, 143], 0, 47, 'Naples'],
    [[23, 143], 48, 63, 'Rome'],
    [[25, 175], 0, 15, 'Milan'],
    [[25, 175], 16, 31, 'Genoa'],
    [[25, 175], 160, 175, 'Bergamo'],
    [[26, 191], 0, 31, 'Turin'],
  ];

/** Name of a processor; family and model as the topology file has them, undefined where it has none. */
export function cpuName(
  { arch, vendor, model }: Pick<CpuNode, 'arch' | 'vendor' | 'model'>,
  familyId?: number,
  modelId?: number,
): string {
  switch (arch) {
    case CpuArch.ARM:
      return 'Arm';
    case CpuArch.POWER:
      return 'POWER';
    case CpuArch.X86:
      break;
    default:
      return 'unknown architecture';
  }
  switch (vendor) {
    case CpuVendor.INTEL: {
      const exact = familyId === 6 && modelId !== undefined ? INTEL_MODELS.get(modelId) : undefined;
      return `Intel ${exact ?? INTEL_CLASSES[model] ?? ''}`.trimEnd();
    }
    case CpuVendor.AMD: {
      const exact = AMD_MODELS.find(
        ([families, from, to]) =>
          families.includes(familyId ?? -1) && (modelId ?? -1) >= from && (modelId ?? -1) <= to,
      );
      return `AMD ${exact?.[3] ?? ''}`.trimEnd();
    }
    case CpuVendor.ZHAOXIN:
      return `Zhaoxin ${model === 1 ? 'Yongfeng' : ''}`.trimEnd();
    default:
      return 'x86, vendor unknown';
  }
}

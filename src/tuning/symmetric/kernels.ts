/**
 * The kernels for buffers in symmetric memory, which every rank maps: what each does and needs, in NCCL's order.
 *
 * (NCCL 2.30.7, sym_kernels.cc.)
 */

export type SymmetricFunction = 'AllReduce' | 'AllGather' | 'ReduceScatter';

/** Operators that have symmetric kernels; averages are sums that are scaled on the way. */
export type SymmetricOperator = 'sum' | 'avg';

interface Properties {
  /** Data and flags in one packet: low latency, no registered buffers needed on both sides. */
  readonly ll?: true;
  /** Writes through, reduces in the NVSwitch. */
  readonly multicastStore?: true;
  readonly multicastLoad?: true;
  /** Goes on over the network by itself. */
  readonly gin?: true;
  /** Moves data by the tensor memory accelerator. */
  readonly tma?: true;
}

const TABLE = {
  AllReduce_AGxLL_R: { ll: true },
  AllReduce_AGxLLMC_R: { ll: true, multicastStore: true },
  AllReduce_RSxTmaLD_AGxTmaST: { tma: true },
  AllReduce_RSxLD_AGxST: {},
  AllReduce_RSxLDMC_AGxSTMC: { multicastStore: true, multicastLoad: true },
  AllGather_LL: { ll: true },
  AllGather_LLMC: { ll: true, multicastStore: true },
  AllGather_TmaST: { tma: true },
  AllGather_ST: {},
  AllGather_TmaSTMC: { multicastStore: true, tma: true },
  AllGather_STMC: { multicastStore: true },
  AllGather_RailRing_LsaSTMC: { multicastStore: true, gin: true },
  ReduceScatter_LL: { ll: true },
  ReduceScatter_TmaLD: { tma: true },
  ReduceScatter_LD: {},
  ReduceScatter_LDMC: { multicastStore: true, multicastLoad: true },
  ReduceScatter_RailA2A_LsaLD: { gin: true },
  ReduceScatter_RailA2A_LsaLDMC: { multicastLoad: true, gin: true },
} as const satisfies Record<string, Properties>;

/** Name of a kernel, as NCCL_SYM_KERNEL has it. */
export type SymmetricKernelName = keyof typeof TABLE;

export interface SymmetricKernel extends Properties {
  /** NCCL's number. */
  readonly id: number;
  readonly name: SymmetricKernelName;
  readonly function: SymmetricFunction;
}

/** All kernels; the position is the number, and decides ties. */
export const SYMMETRIC_KERNELS: readonly SymmetricKernel[] = Object.entries(TABLE).map(
  ([name, properties], id) => ({
    id,
    name: name as SymmetricKernelName,
    function: name.slice(0, name.indexOf('_')) as SymmetricFunction,
    ...properties,
  }),
);

/** Kernel of a name. */
export const symmetricKernel = (name: SymmetricKernelName): SymmetricKernel =>
  SYMMETRIC_KERNELS.find((kernel) => kernel.name === name)!;

/** Which buffers of a call are registered as symmetric windows. */
export type Registration = 'none' | 'receive' | 'send' | 'both';

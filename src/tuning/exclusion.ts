/** Why a candidate (an algorithm with a protocol) may not run a call, as data: explanations are made from it. */
import type { NcclAlgorithm, NcclProtocol } from './names.js';

/** Rules that exclude a candidate for a communicator, then those that do for one call. */
export const EXCLUSION_RULES = {
  'one-rank': 'a single rank needs no algorithm',
  function: 'the algorithm does not do this function',
  protocol: 'the algorithm has no kernels for this protocol',
  'nvls-channels': 'NVLS needs two channels at least',
  'pat-capability': 'PAT needs compute capability 6.0',
  'pat-variable': 'NCCL_PAT_ENABLE switches PAT off',
  'pat-local-ranks': 'PAT is for one GPU per node',
  'pat-net-device': 'PAT needs a network device that hands data over as they are',
  'algorithm-list': 'NCCL_ALGO excludes the algorithm',
  'protocol-list': 'NCCL_PROTO excludes the protocol',
  'one-node': 'an NVLS tree joins nodes',
  'collnet-off': 'CollNet is not in use',
  'collnet-chain-heads': 'a chain channel does not begin at a head of the node',
  'no-nvswitch': 'CollNet direct needs an NVSwitch',
  'collnet-scattered': 'gathering and scattering over nodes goes through CollNet, which cannot do it here',
  'll128-net-path': 'LL128 needs stores of 128 bytes to reach the NIC whole',
  'll128-gpu-path': 'LL128 needs stores of 128 bytes to reach the next GPU whole',
  'll128-mixed-gpus': 'LL128 over GPUs of different capability needs 9.0',
  'll128-capability': 'LL128 needs compute capability 7.0',
  'll128-cuda-11.8': 'LL128 rings of two GPUs fail when built by CUDA 11.8',
  'no-bandwidth': 'the graph has no channels or no bandwidth',
  'collnet-operation': 'the collective network cannot do this operator with this type',
  'collnet-local-ranks': 'CollNet serves 8 GPUs per node at most',
  'nvls-off': 'NVLS is not in use',
  'nvls-operation': 'the NVSwitch cannot do this operator with this type',
  'nvls-local-ranks': 'NVLS serves 32 GPUs per node at most for this function',
  'nvls-collnet': 'NVLS over several nodes goes through CollNet',
  'pat-scaling': 'PAT does not scale while it reduces',
  tuner: 'the tuner withdrew it',
} as const;
export type ExclusionRule = keyof typeof EXCLUSION_RULES;

/** A rule with the numbers of this case. */
export interface Why {
  readonly rule: ExclusionRule;
  /** A sentence with the values at hand. */
  readonly reason: string;
  /** The variable that made it so, or that a user can change it with. */
  readonly variable?: string;
}

export interface Exclusion extends Why {
  readonly algorithm: NcclAlgorithm;
  readonly protocol: NcclProtocol;
}

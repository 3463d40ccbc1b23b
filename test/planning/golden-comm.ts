/** The planner's view of a golden file. */
import type { PlannedCommunicator } from '#src/planning/nccl-task.js';

/** The fields of a golden file that planning reads. */
export interface PlanningFile {
  readonly oracle: { readonly nRanks: number };
  readonly comm: {
    readonly nNodes: number;
    readonly nChannels: number;
    readonly nvlsChannels: number;
    readonly buffSizes: readonly [number, number, number];
    readonly nvlsChunkSize: number;
    readonly nvlsTreeMaxChunkSize: number;
  };
  readonly channels: readonly {
    readonly collnetDirect?: readonly { readonly nHeads: number; readonly depth: number }[];
  }[];
  readonly nvlsChannelsInfo?: { readonly nHeads: number };
  readonly tuning: { readonly bandwidths: { readonly AllReduce: { readonly NVLS: readonly number[] } } };
  readonly decisions: Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>;
}

export function plannedCommunicator(file: PlanningFile): PlannedCommunicator {
  const { comm, oracle, channels, nvlsChannelsInfo, tuning } = file;
  const [LL, LL128, Simple] = comm.buffSizes;
  const direct = channels[0]?.collnetDirect?.[0];
  return {
    nRanks: oracle.nRanks,
    nNodes: comm.nNodes,
    nChannels: comm.nChannels,
    nvlsChannels: comm.nvlsChannels,
    buffers: { LL, LL128, Simple },
    directHeads: direct?.nHeads ?? 0,
    directDepth: direct?.depth ?? 0,
    nvlsHeads: nvlsChannelsInfo?.nHeads ?? 0,
    nvlsChunkSize: comm.nvlsChunkSize,
    nvlsTreeMaxChunkSize: comm.nvlsTreeMaxChunkSize,
    nvlsBandwidth: tuning.bandwidths.AllReduce.NVLS[2]!,
  };
}

/** A communicator of 8 ranks in one node, with NCCL's default buffers. */
export function plainCommunicator(change: Partial<PlannedCommunicator> = {}): PlannedCommunicator {
  return {
    nRanks: 8,
    nNodes: 1,
    nChannels: 24,
    nvlsChannels: 16,
    buffers: { LL: 524288, LL128: 4915200, Simple: 4194304 },
    directHeads: 8,
    directDepth: 2,
    nvlsHeads: 8,
    nvlsChunkSize: 131072,
    nvlsTreeMaxChunkSize: 131072,
    nvlsBandwidth: 360,
    ...change,
  };
}

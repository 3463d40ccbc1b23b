/** A communicator for tests of the planner that needs no topology. */
import type { PlannedCommunicator } from '#src/planning/nccl-task.js';

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

/**
 * What the topology part must know of a communicator: who its ranks are and what their drivers allow.
 *
 * All of it is exchanged between ranks at start-up, so that every rank reaches the same answer.
 */

/** One rank, as it tells the others. */
export interface RankInfo {
  readonly rank: number;
  /** Hash of host name and boot id: equal on one host. */
  readonly hostHash: bigint;
  /** Device number of /dev/shm: differs between containers that cannot share memory. */
  readonly shmDevice: number;
  /** NVML device index. */
  readonly dev: number;
  /** Bus id of the GPU, lower case. */
  readonly busId: string;
  /** Compute capability times 10. */
  readonly sm: number;
  /** NVLink domain, '' if none; ranks with the same one may reach each other by NVLink across hosts. */
  readonly clusterUuid: string;
  readonly cliqueId: number;
}

/** The communicator whose paths are computed. */
export interface CommInfo {
  readonly nRanks: number;
  /** By rank. */
  readonly ranks: readonly RankInfo[];
  /** Ranks of several hosts form NVLink cliques. */
  readonly mnnvl: boolean;
  /** Whether NVML reports working peer-to-peer reads and writes between two devices of the local host. */
  readonly nvmlP2p: (busIdA: string, busIdB: string) => boolean;
  /** The network plugin can relay through another rank's proxy (PXN); false for the oldest plugins. */
  readonly pxnSupported: boolean;
}

/**
 * Decides whether ranks of several hosts form one NVLink domain (multi-node NVLink, MNNVL), and which belong together.
 *
 * The GPU's driver says to which fabric (cluster UUID) and to which part of it (clique) it belongs; ranks of one
 * clique are treated as one node. (NCCL 2.30.7, mnnvl.cc and init.cc.)
 */
import { hashText } from '../hash.js';
import type { TopologySettings } from '../settings.js';
import { PathType } from '../system/path-type.js';

/** What one rank's driver says about its fabric. */
export interface FabricInfo {
  readonly hostHash: bigint;
  /** Registration with the fabric has completed. */
  readonly completed: boolean;
  /** Both halves of the cluster UUID; zeros if there is none. */
  readonly clusterUuid: readonly [bigint, bigint];
  readonly cliqueId: number;
  /** Serial number of the chassis, '' if unknown. */
  readonly chassisSerial: string;
}

/** What this rank's platform can do. */
export interface FabricSupport {
  /** Memory is managed by the driver's virtual memory calls. */
  readonly cuMem: boolean;
  /** Such memory can be exported over the fabric. */
  readonly fabricHandles: boolean;
}

export interface MnnvlGroups {
  /** Ranks of the own clique, ascending: one node. */
  readonly clique: readonly number[];
  /** Ranks of the own cluster. */
  readonly domain: readonly number[];
  /** Ranks of other cliques of the cluster are reached by P2P too. */
  readonly crossClique: boolean;
}

/** Why ranks of several hosts are not joined. */
export type MnnvlRefusal =
  | 'one host'
  | 'NCCL_MNNVL_ENABLE'
  | 'P2P level LOC'
  | 'no cuMem'
  | 'no fabric handles'
  | 'fabric not ready'
  | 'no cluster UUID'
  | 'alone in its domain';

/** Values of NCCL_MNNVL_UUID and NCCL_MNNVL_CLIQUE_ID with a meaning of their own. */
const KEEP = -1;
const HASH_OF_CHASSIS = -2;

/** Values of NCCL_MNNVL_ENABLE. */
const OFF = 0;
const ON = 1;

/** The driver's answer with what the user put in its place. */
export function withFabricSettings(info: FabricInfo, settings: TopologySettings): FabricInfo {
  const uuid = BigInt.asUintN(64, settings.mnnvlUuid);
  const clique = settings.mnnvlCliqueId;
  return {
    ...info,
    clusterUuid: settings.mnnvlUuid === BigInt(KEEP) ? info.clusterUuid : [uuid, uuid],
    cliqueId:
      clique === KEEP
        ? info.cliqueId
        : clique === HASH_OF_CHASSIS
          ? Number(BigInt.asIntN(32, hashText(info.chassisSerial)))
          : clique,
  };
}

/** A cluster UUID as one text, '' for none: what `RankInfo.clusterUuid` holds. */
export const clusterUuidText = ([low, high]: readonly [bigint, bigint]): string =>
  low === 0n && high === 0n ? '' : `${low.toString(16)}.${high.toString(16)}`;

/**
 * Groups of the rank `own`, or why there are none. `ranks` hold the settings already (`withFabricSettings`).
 */
export function mnnvlGroups(
  ranks: readonly FabricInfo[],
  own: number,
  support: FabricSupport,
  settings: TopologySettings,
): MnnvlGroups | MnnvlRefusal {
  const forced = settings.mnnvlEnable === ON;
  if (!forced) {
    if (settings.mnnvlEnable === OFF) return 'NCCL_MNNVL_ENABLE';
    if (new Set(ranks.map(({ hostHash }) => hostHash)).size === 1) return 'one host';
    if (settings.p2pLevel === PathType.LOC) return 'P2P level LOC';
  }
  if (!support.cuMem) return 'no cuMem';
  if (!support.fabricHandles) return 'no fabric handles';
  if (!ranks.every(({ completed }) => completed)) return 'fabric not ready';
  const uuids = ranks.map(({ clusterUuid }) => clusterUuidText(clusterUuid));
  if (uuids.includes('')) return 'no cluster UUID';

  const domain = [...ranks.keys()].filter((rank) => uuids[rank] === uuids[own]);
  const clique = domain.filter((rank) => ranks[rank]!.cliqueId === ranks[own]!.cliqueId);
  if (domain.length <= 1) return 'alone in its domain';
  return {
    clique,
    domain,
    crossClique: settings.mnnvlCrossClique && domain.length > clique.length,
  };
}

/** All rules, causes before what they cause. */
import {
  benchCliff,
  ibPortDown,
  ibPortFlap,
  ibRetryExceeded,
  ibvModifyQpTimeout,
  memoryRegistration,
  nicMissingOnNode,
  roceNoRoutableGid,
  rocePacketLoss,
} from './adapters.js';
import { busbwLow, slowNode } from './busbw-low.js';
import {
  collectiveHang,
  iommuFault,
  nvlinkDown,
  pcieAcsRedirect,
  pcieLinkDegraded,
  pcieLinkSlow,
  xid,
} from './buses.js';
import { envForcesProtocol } from './env-forces-protocol.js';
import { envP2pDisabled, shmInsteadOfP2p } from './env-p2p-disabled.js';
import {
  cudaFailure,
  driverTooOld,
  envDiffers,
  envGidIndex,
  envHcaPrefix,
  envIbDisabled,
  envShmDisabled,
  misuse,
  multicastFailed,
  multicastUnavailable,
  noNetwork,
  noTransport,
  sameGpu,
  tooManySockets,
  versionMismatch,
} from './environment.js';
import { envGdrLevel, gdrMissingOnNode, gdrOff, gdrOffDistance } from './gpu-direct.js';
import {
  abortMissingOnRank,
  collectiveOrderMismatch,
  collectiveSizeMismatch,
  collectiveTypeMismatch,
  deviceOrWireStuck,
  rankBehind,
  rankDied,
  ranksBehind,
  rasError,
  rasTimeout,
  watchdogTimeout,
} from './hangs.js';
import { duplicateRank, sizeMismatch, uniqueIdMismatch } from './init-mismatch.js';
import {
  bootstrapInterfaceMismatch,
  connectTimeout,
  firewall,
  ifaceVirtual,
  initWaiting,
  logBreaksOff,
  noSocketInterface,
} from './interfaces.js';
import {
  ncclTestsNotOneJob,
  nicBandwidthCeiling,
  nvlinkIslands,
  stepLatencyBound,
  wrongResults,
} from './measurements.js';
import { netPluginLoadFailed, netSocketFallback } from './net-plugin-load-failed.js';
import { peerConnectionClosed, portConflict, portsExhausted, tooManyOpenFiles } from './ports.js';
import { processFailed } from './process-failed.js';
import { envValueUnknown, invalidArgument, sizesAtRoot, wrongPeer } from './reported-by-nccl.js';
import type { Rule } from './rule.js';
import { shmNotAllowed, shmTooSmall } from './shared-memory.js';
import { topoFileIdsMismatch, topologyFileRefused, topologyFlat } from './topology-files.js';
import { unexplainedWarning } from './unexplained-warning.js';

export const RULES: readonly Rule[] = [
  // set-up
  versionMismatch,
  sameGpu,
  noSocketInterface,
  bootstrapInterfaceMismatch,
  ifaceVirtual,
  netPluginLoadFailed,
  noNetwork,
  envIbDisabled,
  envP2pDisabled,
  envShmDisabled,
  envForcesProtocol,
  envGdrLevel,
  envGidIndex,
  envDiffers,
  envHcaPrefix,
  tooManySockets,
  sizeMismatch,
  duplicateRank,
  uniqueIdMismatch,
  topoFileIdsMismatch,
  topologyFileRefused,
  ncclTestsNotOneJob,
  // resources
  shmTooSmall,
  shmNotAllowed,
  memoryRegistration,
  portsExhausted,
  portConflict,
  tooManyOpenFiles,
  // machine and network
  pcieAcsRedirect,
  pcieLinkDegraded,
  nvlinkDown,
  pcieLinkSlow,
  iommuFault,
  xid,
  multicastFailed,
  multicastUnavailable,
  gdrMissingOnNode,
  nicMissingOnNode,
  roceNoRoutableGid,
  ibPortDown,
  ibPortFlap,
  rocePacketLoss,
  // program
  rankDied,
  rankBehind,
  ranksBehind,
  collectiveSizeMismatch,
  collectiveOrderMismatch,
  collectiveTypeMismatch,
  abortMissingOnRank,
  misuse,
  noTransport,
  driverTooOld,
  cudaFailure,
  // measurements
  stepLatencyBound,
  nvlinkIslands,
  nicBandwidthCeiling,
  wrongResults,
  slowNode,
  gdrOff,
  firewall,
  deviceOrWireStuck,
  logBreaksOff,
  invalidArgument,
  envValueUnknown,
  sizesAtRoot,
  wrongPeer,
  // what is left
  processFailed,
  unexplainedWarning,
  // symptoms, each shown below its cause where one is found
  netSocketFallback,
  shmInsteadOfP2p,
  topologyFlat,
  gdrOffDistance,
  ibRetryExceeded,
  ibvModifyQpTimeout,
  connectTimeout,
  peerConnectionClosed,
  initWaiting,
  collectiveHang,
  watchdogTimeout,
  rasError,
  rasTimeout,
  benchCliff,
  busbwLow,
];

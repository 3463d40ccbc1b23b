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
import { busbwLow } from './busbw-low.js';
import { collectiveHang, nvlinkDown, pcieAcsRedirect, pcieLinkDegraded, xid } from './buses.js';
import { envForcesProtocol } from './env-forces-protocol.js';
import { envP2pDisabled, shmInsteadOfP2p } from './env-p2p-disabled.js';
import {
  cudaFailure,
  envDiffers,
  envGidIndex,
  envIbDisabled,
  envShmDisabled,
  misuse,
  multicastFailed,
  noNetwork,
  noTransport,
  sameGpu,
  versionMismatch,
} from './environment.js';
import { envGdrLevel, gdrMissingOnNode, gdrOffDistance } from './gpu-direct.js';
import {
  abortMissingOnRank,
  collectiveSizeMismatch,
  rankBehind,
  rankDied,
  ranksBehind,
  rasTimeout,
  watchdogTimeout,
} from './hangs.js';
import {
  bootstrapInterfaceMismatch,
  connectTimeout,
  ifaceVirtual,
  initWaiting,
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
import type { Rule } from './rule.js';
import { shmNotAllowed, shmTooSmall } from './shared-memory.js';
import { topoFileIdsMismatch, topologyFileRefused, topologyFlat } from './topology-files.js';

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
  xid,
  multicastFailed,
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
  abortMissingOnRank,
  misuse,
  noTransport,
  cudaFailure,
  // measurements
  stepLatencyBound,
  nvlinkIslands,
  nicBandwidthCeiling,
  wrongResults,
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
  rasTimeout,
  benchCliff,
  busbwLow,
];

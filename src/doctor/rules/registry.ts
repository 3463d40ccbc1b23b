/** All rules, causes before what they cause. */

import { adapterLinkDown } from './adapters/adapter-link-down.js';
import { adapterNotOpened } from './adapters/adapter-not-opened.js';
import { gdrMissingOnNode } from './adapters/gdr-missing-on-node.js';
import { gdrOff } from './adapters/gdr-off.js';
import { gdrOffDistance } from './adapters/gdr-off-distance.js';
import { ibCompletionFailed } from './adapters/ib-completion-failed.js';
import { ibPortDown } from './adapters/ib-port-down.js';
import { ibPortFlap } from './adapters/ib-port-flap.js';
import { ibPortSlow } from './adapters/ib-port-slow.js';
import { ibRetryExceeded } from './adapters/ib-retry-exceeded.js';
import { ibvModifyQpTimeout } from './adapters/ibv-modify-qp-timeout.js';
import { linkErrors } from './adapters/link-errors.js';
import { memlockTooLow } from './adapters/memlock-too-low.js';
import { nicMissingOnNode } from './adapters/nic-missing-on-node.js';
import { roceNoRoutableGid } from './adapters/roce-no-routable-gid.js';
import { rocePacketLoss } from './adapters/roce-packet-loss.js';
import { debugTrace } from './environment/debug-trace.js';
import { envDiffers } from './environment/env-differs.js';
import { envForcesProtocol } from './environment/env-forces-protocol.js';
import { envGdrLevel } from './environment/env-gdr-level.js';
import { envGidIndex } from './environment/env-gid-index.js';
import { envIbDisabled } from './environment/env-ib-disabled.js';
import { envIbHcaPrefix } from './environment/env-ib-hca-prefix.js';
import { envP2pDisabled } from './environment/env-p2p-disabled.js';
import { envShmDisabled } from './environment/env-shm-disabled.js';
import { envValueUnknown } from './environment/env-value-unknown.js';
import { shmInsteadOfP2p } from './environment/shm-instead-of-p2p.js';
import { socketThreadsLimit } from './environment/socket-threads-limit.js';
import { affinityDistant } from './machine/affinity-distant.js';
import { affinityNarrow } from './machine/affinity-narrow.js';
import { cudaDriverTooOld } from './machine/cuda-driver-too-old.js';
import { cudaFailure } from './machine/cuda-failure.js';
import { diagnosticFailed } from './machine/diagnostic-failed.js';
import { gpuLost } from './machine/gpu-lost.js';
import { gpuMemoryErrors } from './machine/gpu-memory-errors.js';
import { gpuThrottled } from './machine/gpu-throttled.js';
import { iommuFault } from './machine/iommu-fault.js';
import { nvlinkDown } from './machine/nvlink-down.js';
import { nvlsBindFailed } from './machine/nvls-bind-failed.js';
import { nvlsUnavailable } from './machine/nvls-unavailable.js';
import { pcieAcsRedirect } from './machine/pcie-acs-redirect.js';
import { pcieLinkDegraded } from './machine/pcie-link-degraded.js';
import { pcieLinkSlow } from './machine/pcie-link-slow.js';
import { peerAccessMissing } from './machine/peer-access-missing.js';
import { storageStalled } from './machine/storage-stalled.js';
import { topoFileIdsMismatch } from './machine/topo-file-ids-mismatch.js';
import { topoFileRefused } from './machine/topo-file-refused.js';
import { topologyFlat } from './machine/topology-flat.js';
import { xid } from './machine/xid.js';
import { benchCliff } from './measurements/bench-cliff.js';
import { busbwLow } from './measurements/busbw-low.js';
import { dataWrong } from './measurements/data-wrong.js';
import { nicBandwidthCeiling } from './measurements/nic-bandwidth-ceiling.js';
import { nvlinkIslands } from './measurements/nvlink-islands.js';
import { slowNode } from './measurements/slow-node.js';
import { stepLatencyBound } from './measurements/step-latency-bound.js';
import { bootstrapInterfaceMismatch } from './network/bootstrap-interface-mismatch.js';
import { congestionControl } from './network/congestion-control.js';
import { connectTimeout } from './network/connect-timeout.js';
import { firewall } from './network/firewall.js';
import { ifaceSlow } from './network/iface-slow.js';
import { ifaceVirtual } from './network/iface-virtual.js';
import { mtuSmall } from './network/mtu-small.js';
import { netDiffers } from './network/net-differs.js';
import { netPluginLoadFailed } from './network/net-plugin-load-failed.js';
import { netSocketFallback } from './network/net-socket-fallback.js';
import { netUnavailable } from './network/net-unavailable.js';
import { noSocketInterface } from './network/no-socket-interface.js';
import { peerConnectionClosed } from './network/peer-connection-closed.js';
import { portConflict } from './network/port-conflict.js';
import { portsExhausted } from './network/ports-exhausted.js';
import { publicNetwork } from './network/public-network.js';
import { tcpBuffersSmall } from './network/tcp-buffers-small.js';
import { tooManyOpenFiles } from './network/too-many-open-files.js';
import { abortMissingOnRank } from './program/abort-missing-on-rank.js';
import { allocatorGrowth } from './program/allocator-growth.js';
import { apiMisuse } from './program/api-misuse.js';
import { backendGloo } from './program/backend-gloo.js';
import { collectiveHang } from './program/collective-hang.js';
import { collectiveOrderMismatch } from './program/collective-order-mismatch.js';
import { collectiveSizeMismatch } from './program/collective-size-mismatch.js';
import { collectiveTypeMismatch } from './program/collective-type-mismatch.js';
import { communicatorChurn } from './program/communicator-churn.js';
import { communicatorOrder } from './program/communicator-order.js';
import { deviceOrWireStuck } from './program/device-or-wire-stuck.js';
import { errorHandlingOff } from './program/error-handling-off.js';
import { invalidArgument } from './program/invalid-argument.js';
import { messageUnmatched } from './program/message-unmatched.js';
import { rankBehind } from './program/rank-behind.js';
import { rankDied } from './program/rank-died.js';
import { rankHeldUp } from './program/rank-held-up.js';
import { ranksBehind } from './program/ranks-behind.js';
import { rasError } from './program/ras-error.js';
import { rasTimeout } from './program/ras-timeout.js';
import { watchdogStuck } from './program/watchdog-stuck.js';
import { watchdogTimeout } from './program/watchdog-timeout.js';
import type { Rule } from './rule.js';
import { duplicateGpu } from './setup/duplicate-gpu.js';
import { duplicateRank } from './setup/duplicate-rank.js';
import { initWaiting } from './setup/init-waiting.js';
import { libraryDiffers } from './setup/library-differs.js';
import { logBreaksOff } from './setup/log-breaks-off.js';
import { ncclTestsNotOneJob } from './setup/nccl-tests-not-one-job.js';
import { noTransport } from './setup/no-transport.js';
import { nranksMismatch } from './setup/nranks-mismatch.js';
import { nranksMismatchAtRoot } from './setup/nranks-mismatch-at-root.js';
import { peerOfAnotherKind } from './setup/peer-of-another-kind.js';
import { shmPermission } from './setup/shm-permission.js';
import { shmTooSmall } from './setup/shm-too-small.js';
import { uniqueIdMismatch } from './setup/unique-id-mismatch.js';
import { versionMismatch } from './setup/version-mismatch.js';
import { ncclWarningUnknown } from './unexplained/nccl-warning-unknown.js';
import { processFailed } from './unexplained/process-failed.js';

export const RULES: readonly Rule[] = [
  // set-up
  versionMismatch,
  libraryDiffers,
  duplicateGpu,
  noSocketInterface,
  bootstrapInterfaceMismatch,
  ifaceVirtual,
  netPluginLoadFailed,
  netUnavailable,
  netDiffers,
  envIbDisabled,
  envP2pDisabled,
  envShmDisabled,
  envForcesProtocol,
  envGdrLevel,
  envGidIndex,
  envDiffers,
  envIbHcaPrefix,
  socketThreadsLimit,
  debugTrace,
  nranksMismatch,
  duplicateRank,
  uniqueIdMismatch,
  topoFileIdsMismatch,
  topoFileRefused,
  ncclTestsNotOneJob,
  // resources
  shmTooSmall,
  shmPermission,
  memlockTooLow,
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
  gpuLost,
  gpuMemoryErrors,
  gpuThrottled,
  diagnosticFailed,
  storageStalled,
  nvlsBindFailed,
  nvlsUnavailable,
  gdrMissingOnNode,
  nicMissingOnNode,
  roceNoRoutableGid,
  ibPortDown,
  ibPortSlow,
  ibPortFlap,
  adapterLinkDown,
  linkErrors,
  adapterNotOpened,
  rocePacketLoss,
  affinityNarrow,
  affinityDistant,
  mtuSmall,
  tcpBuffersSmall,
  congestionControl,
  publicNetwork,
  // program
  rankDied,
  rankBehind,
  communicatorOrder,
  messageUnmatched,
  ranksBehind,
  collectiveSizeMismatch,
  collectiveOrderMismatch,
  collectiveTypeMismatch,
  abortMissingOnRank,
  apiMisuse,
  communicatorChurn,
  backendGloo,
  errorHandlingOff,
  allocatorGrowth,
  noTransport,
  cudaDriverTooOld,
  cudaFailure,
  // measurements
  stepLatencyBound,
  nvlinkIslands,
  nicBandwidthCeiling,
  dataWrong,
  slowNode,
  gdrOff,
  firewall,
  deviceOrWireStuck,
  logBreaksOff,
  invalidArgument,
  envValueUnknown,
  nranksMismatchAtRoot,
  peerOfAnotherKind,
  // what is left
  processFailed,
  ncclWarningUnknown,
  // symptoms, each shown below its cause where one is found
  netSocketFallback,
  ifaceSlow,
  shmInsteadOfP2p,
  peerAccessMissing,
  topologyFlat,
  gdrOffDistance,
  ibRetryExceeded,
  ibCompletionFailed,
  ibvModifyQpTimeout,
  connectTimeout,
  peerConnectionClosed,
  initWaiting,
  rankHeldUp,
  collectiveHang,
  watchdogTimeout,
  watchdogStuck,
  rasError,
  rasTimeout,
  benchCliff,
  busbwLow,
];

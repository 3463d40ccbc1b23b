/** The public API of tutti and nothing else. */
export { createUniqueId, formatUniqueId, parseUniqueId, type UniqueIdRoot } from './bootstrap/unique-id.js';
export type { Algorithm } from './collectives/registry.js';
export type { RingProtocol } from './collectives/ring.js';
export type { Buffer, SameClass } from './communicator/buffers.js';
export {
  type Collectives,
  Communicator,
  type CopyOptions,
  createLocalCommunicators,
  type MessageCalls,
  type Place,
  type Preparations,
  type ReduceOptions,
  type RootOptions,
  type RootReduceOptions,
} from './communicator/communicator.js';
export type { CommunicatorStatus } from './communicator/communicator-status.js';
export type { CudaCollectives, StreamOption } from './communicator/cuda/cuda-collectives.js';
export type { CudaCommunicator } from './communicator/cuda/cuda-communicator.js';
export { type CudaDeviceName, cuda } from './communicator/cuda/cuda-device-name.js';
export type { PreparedCudaOperation } from './communicator/cuda/cuda-prepared.js';
export type { DeviceBuffer } from './communicator/cuda/device-buffer.js';
export { group } from './communicator/group.js';
export type { PreparedOperation } from './communicator/prepared-operation.js';
export type { CommunicatorOptions, CudaCommunicatorOptions } from './communicator/settings.js';
export type { SwitchPortTraffic } from './communicator/switch-set-up.js';
export { type ErrorCode, TuttiError } from './errors/tutti-error.js';
export type { ElementType, ReduceOp } from './kernel/element-types.js';

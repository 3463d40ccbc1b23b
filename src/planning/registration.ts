/**
 * What registered buffers change about the channels of a decided collective.
 *
 * A registered buffer is read or written by NICs, switches and peers in place, so fewer channels keep the hardware
 * busy and more would only take processors from the computation. (NCCL 2.30.7, coll_reg.cc.)
 */
import { registeredNvlsChannels } from '../tuning/efficiency.js';
import type { TuningTables } from '../tuning/model.js';
import type { PlannedAlgorithm, PlannedFunction, PlannedProtocol } from './nccl-task.js';

/** Where the buffers of a collective are registered. */
export interface Registration {
  /** With the NVSwitch. */
  readonly nvls?: boolean;
  /** With the NIC, or the collective network. */
  readonly network?: boolean;
  /** With the other processes of the node. */
  readonly ipc?: boolean;
  /** Send and receive buffer are one, which some algorithms cannot register. */
  readonly inPlace?: boolean;
}

/** Channels between which registration with processes alone is cut to the lower. */
const IPC_CHANNELS = { above: 16, upTo: 24 } as const;

interface DecidedCall {
  readonly function: PlannedFunction;
  readonly deviceOp: string;
  readonly algorithm: PlannedAlgorithm;
  readonly protocol: PlannedProtocol;
  readonly maxChannels: number;
}

/** True if the buffers of a call cannot be used in place, however they are registered. */
function neverRegistered(
  { function: fn, algorithm, protocol }: DecidedCall,
  inPlace: boolean,
  localRanks: number,
) {
  if (protocol !== 'Simple') return true;
  if (fn === 'ReduceScatter' && algorithm !== 'CollNetDirect' && algorithm !== 'NVLS') return true;
  if (algorithm === 'Ring') return fn === 'Reduce' || (fn === 'AllReduce' && inPlace);
  if (algorithm === 'Tree') return inPlace;
  if (algorithm === 'CollNetChain') return inPlace && localRanks > 1;
  return algorithm === 'PAT';
}

export interface RegisteredChannels {
  readonly maxChannels: number;
  /** The work carries the registered pointers of the NVSwitch. */
  readonly nvlsRegistered: boolean;
}

/**
 * Channels of a call with registered buffers.
 *
 * @param minNetCount NICs of the rank that uses fewest
 */
export function registeredChannels(
  tables: TuningTables,
  call: DecidedCall,
  registration: Registration,
  minNetCount: number,
): RegisteredChannels {
  const { nNodes, localRanks, maxLocalRanks, minCtas, maxCtas } = tables.input;
  const { algorithm, function: fn, maxChannels } = call;
  const { nvls = false, network = false, ipc = false, inPlace = false } = registration;
  const as = (channels: number, nvlsRegistered = false) => ({ maxChannels: channels, nvlsRegistered });
  if (neverRegistered(call, inPlace, localRanks)) return as(maxChannels);
  if (algorithm === 'NVLS' || algorithm === 'NVLSTree') {
    if (!nvls || call.deviceOp === 'PreMulSum') return as(maxChannels);
    return as(registeredNvlsChannels(tables, fn), true);
  }
  const onePerNode = maxLocalRanks === 1;
  if (algorithm === 'CollNetDirect' || algorithm === 'CollNetChain') {
    return as(network && onePerNode ? 1 : maxChannels);
  }
  const gathers = fn === 'AllGather' || fn === 'Broadcast';
  if (algorithm === 'Ring' && network && onePerNode && gathers) {
    return as(Math.max(minCtas, Math.min(maxCtas, minNetCount)));
  }
  const { above, upTo } = IPC_CHANNELS;
  if (ipc && nNodes === 1 && maxChannels > above && maxChannels <= upTo) return as(above);
  return as(maxChannels);
}

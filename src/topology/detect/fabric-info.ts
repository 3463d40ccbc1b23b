/**
 * What a GPU's driver says about its NVLink domain, in the form in which ranks compare it.
 */
import type { FabricInfo } from '../connect/mnnvl.js';
import type { NvmlDevice } from './nvml-facts.js';

/** State of a GPU whose registration with the fabric has ended. */
const COMPLETED = 3;

/** Facts of one rank; a GPU without a fabric belongs to none. */
export function fabricInfoOf(device: NvmlDevice | undefined, hostHash: bigint): FabricInfo {
  const { state = 0, clusterUuid = '', cliqueId = 0 } = device?.fabric ?? {};
  return {
    hostHash,
    completed: state === COMPLETED,
    clusterUuid: [half(clusterUuid.slice(0, 16)), half(clusterUuid.slice(16, 32))],
    cliqueId,
    chassisSerial: device?.chassisSerial ?? '',
  };
}

/** Eight bytes, the first the lowest, as they lie in memory on all machines with NVIDIA GPUs. */
const half = (digits: string): bigint => BigInt(`0x${(digits.match(/../g) ?? []).reverse().join('') || '0'}`);

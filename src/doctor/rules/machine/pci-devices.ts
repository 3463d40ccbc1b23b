/** PCI devices as lspci lists them: what they are, and which bridge they are below. */
import type { PciDevice } from '../../model/machine.js';

const busOf = (id: string): number =>
  Number.parseInt(/([0-9a-f]{2}):[0-9a-f]{2}\.\d$/.exec(id)?.[1] ?? '', 16);

const domainOf = (id: string): string => /^([0-9a-f]{4,8}):[0-9a-f]{2}:/.exec(id)?.[1] ?? '';

export const isGpu = ({ text }: PciDevice): boolean => /^(?:3D|VGA)[^:]*: .*NVIDIA/i.test(text);

export const isAdapter = ({ text }: PciDevice): boolean =>
  /Infiniband controller|Ethernet controller: Mellanox/i.test(text);

export function isBelow(device: PciDevice, bridge: PciDevice): boolean {
  const { buses } = bridge;
  const bus = busOf(device.id);
  return (
    buses !== undefined &&
    device.host === bridge.host &&
    domainOf(device.id) === domainOf(bridge.id) &&
    bus >= buses.secondary &&
    bus <= buses.subordinate
  );
}

/** `83:00.0` as NCCL prints bus ids: `83000`. */
export const logId = (id: string): string =>
  id
    .replace(/^0+:/, '')
    .replace(/[:.]/g, '')
    .replace(/^0+(?=.)/, '');

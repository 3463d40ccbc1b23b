/** PCI devices as lspci lists them: what they are, and which bridge they are below. */
import type { Job } from '../../model/job.js';
import type { PciDevice } from '../../model/machine.js';

/** `0001:83:00.0`: the number of the bus, and the domain if it is told. */
const busOf = (id: string): number => Number.parseInt(id.slice(-7, -5), 16);
const domainOf = (id: string): string => id.slice(0, Math.max(0, id.length - 8));

/** Devices by host, in the order in which they are listed. */
export function devicesByHost(job: Pick<Job, 'pci'>): Map<string | undefined, PciDevice[]> {
  const found = new Map<string | undefined, PciDevice[]>();
  for (const device of job.pci) {
    const list = found.get(device.host);
    if (list === undefined) found.set(device.host, [device]);
    else list.push(device);
  }
  return found;
}

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

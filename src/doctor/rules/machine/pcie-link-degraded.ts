/** A link that lost lanes, as lspci states it. */
import type { PciDevice } from '../../model/machine.js';
import { example, type Finding, type Rule } from '../rule.js';
import { devicesByHost, isAdapter, isBelow, isGpu } from './pci-devices.js';

/** The port that a device is plugged into, where the list has it. */
function slotOf(device: PciDevice, devices: readonly PciDevice[]): PciDevice | undefined {
  const bus = Number.parseInt(device.id.slice(-7, -5), 16);
  return devices.find((one) => one.buses?.secondary === bus && isBelow(device, one));
}

/** The slot is as narrow, or all devices of the kind are alike: boards share the lanes of a slot among two. */
function isByDesign(device: PciDevice, devices: readonly PciDevice[], bad: readonly PciDevice[]): boolean {
  const { width } = device.linkStatus!;
  const port = slotOf(device, devices);
  if (port?.linkCapable !== undefined && port.linkCapable.width <= width) return true;
  const isSame = (one: PciDevice): boolean =>
    isGpu(one) === isGpu(device) && isAdapter(one) === isAdapter(device);
  const alike = devices.filter((one) => isSame(one) && one.linkStatus !== undefined);
  return alike.length > 1 && alike.every((one) => bad.includes(one) && one.linkStatus!.width === width);
}

export const pcieLinkDegraded: Rule = {
  id: 'pcie-link-degraded',
  causes: ['slows'],
  looksFor:
    'GPUs or adapters whose PCIe link runs at less than its width, and adapters at less than their speed',
  example: [
    example(
      'lspci.txt',
      '83:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)',
      '\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported',
      '\t\tLnkSta:\tSpeed 32GT/s, Width x4 (downgraded)',
    ),
  ],
  references: ['PCI Express: link status'],
  find: (job) =>
    [...devicesByHost(job).values()].flatMap((devices) => [...degraded(devices), ...slowAdapters(devices)]),
};

/** Generations of PCIe double the speed; an adapter this many below its own is below all usual slots. */
const SLOW = 4;

/** Adapters at less than their speed; GPUs lower theirs when they idle. */
function slowAdapters(devices: readonly PciDevice[]): Finding[] {
  const adapters = devices.filter((one) => isAdapter(one) && one.linkStatus && one.linkCapable);
  const isSlow = (device: PciDevice): boolean => {
    const { linkStatus, linkCapable } = device;
    const slot = slotOf(device, devices)?.linkCapable?.speed;
    const possible = Math.min(linkCapable!.speed, slot ?? linkCapable!.speed / (SLOW / 2));
    return linkStatus!.speed * 1.5 < possible;
  };
  const bad = adapters.filter(isSlow);
  // Where all are alike, so is the machine that they are in.
  if (bad.length === adapters.length && adapters.length > 1) return [];
  return bad.map((device): Finding => {
    const { id, host, linkStatus, linkCapable } = device;
    return {
      severity: 'warning',
      confidence: slotOf(device, devices) === undefined ? 'possible' : 'likely',
      text: `${host ?? ''} adapter ${id} runs at ${linkStatus!.speed} of ${linkCapable!.speed} GT/s per PCIe lane`.trim(),
      culprit: {
        ...(host === undefined ? {} : { host }),
        device: id,
        speed: linkStatus!.speed,
        expected: linkCapable!.speed,
      },
      evidence: [linkStatus!.at],
      repair: `See whether the slot of ${id} allows more (lspci -vvv of the port above it, settings of the firmware), and reseat or replace the card or its riser.`,
      workaround: null,
    };
  });
}

/** The devices of one host. */
function degraded(devices: readonly PciDevice[]): Finding[] {
  // Speed falls on its own when a GPU idles; width does not.
  const bad = devices.filter(
    ({ linkStatus, linkCapable, ...device }) =>
      linkStatus !== undefined &&
      linkCapable !== undefined &&
      linkStatus.width < linkCapable.width &&
      (isGpu(device as PciDevice) || isAdapter(device as PciDevice)),
  );
  return bad
    .filter((device) => !isByDesign(device, devices, bad))
    .map((device): Finding => {
      const { id, host, linkStatus, linkCapable } = device;
      return {
        severity: 'warning',
        confidence: 'certain',
        text: `${host ?? ''} ${id} runs with ${linkStatus!.width} of ${linkCapable!.width} PCIe lanes`.trim(),
        culprit: {
          ...(host === undefined ? {} : { host }),
          device: id,
          width: linkStatus!.width,
          expected: linkCapable!.width,
        },
        evidence: [linkStatus!.at],
        repair: `Reseat or replace ${id} or its riser; until then keep jobs off it.`,
        workaround: null,
      };
    });
}

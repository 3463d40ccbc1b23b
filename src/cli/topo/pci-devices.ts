/**
 * Lists the PCI devices of a machine, for one whose topology has none: they show whether a GPU or NIC is there at all.
 */
import type { MachineFiles } from '../../topology/detect/machine-files.js';
import { lineOf } from '../../topology/detect/sysfs-text.js';

const FOLDER = '/sys/bus/pci/devices';

/** Devices that are listed; more are counted. */
const MOST_DEVICES = 24;

/** Names of PCI base classes (PCI Code and ID Assignment Specification). */
const CLASSES: Readonly<Record<string, string>> = {
  '00': 'unclassified',
  '01': 'storage',
  '02': 'network',
  '03': 'display',
  '04': 'multimedia',
  '05': 'memory',
  '06': 'bridge',
  '07': 'communication',
  '08': 'system',
  '0c': 'serial bus',
  '12': 'accelerator',
  ff: 'other',
};

/** Lines such as `0000:00:03.0  network 1af4:1041, NUMA 0`; bridges, of which every machine has many, are left out. */
export function pciDeviceLines(files: MachineFiles): string[] {
  const lines: string[] = [];
  for (const busId of files.names(FOLDER)) {
    const fact = (name: string) => lineOf(files, `${FOLDER}/${busId}/${name}`)?.replace(/^0x/, '');
    const base = fact('class')?.slice(0, 2) ?? '';
    if (base === '06') continue;
    const numa = Number(fact('numa_node') ?? -1);
    const place = numa >= 0 ? `, NUMA ${numa}` : '';
    lines.push(
      `${busId}  ${CLASSES[base] ?? `class ${base}`} ${fact('vendor') ?? '?'}:${fact('device') ?? '?'}${place}`,
    );
  }
  const shown = lines.slice(0, MOST_DEVICES);
  if (lines.length > shown.length) shown.push(`... and ${lines.length - shown.length} more`);
  return shown;
}

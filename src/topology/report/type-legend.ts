/**
 * What the types of paths mean, in a few words each.
 */
import { PATH_TYPE_NAMES, PathType } from '../system/path-type.js';

const MEANINGS: Readonly<Record<PathType, string>> = {
  [PathType.LOC]: 'same device',
  [PathType.NVL]: 'NVLink',
  [PathType.NVB]: 'NVLink through another GPU',
  [PathType.C2C]: 'chip-to-chip link',
  [PathType.PIX]: 'one PCIe switch',
  [PathType.PXB]: 'several PCIe switches',
  [PathType.P2C]: 'chip-to-chip link, then PCIe',
  [PathType.PXN]: 'NVLink to the GPU next to the NIC',
  [PathType.PHB]: 'through the CPU',
  [PathType.SYS]: 'through two CPUs',
  [PathType.NET]: 'over the network',
  [PathType.DIS]: 'no path',
};

/** Name of a path type; a number that stands for none is shown as it is. */
export const pathTypeName = (type: number): string => PATH_TYPE_NAMES[type] ?? `${type}`;

/** `NVL NVLink, PIX one PCIe switch`: the types, best first, each once. */
export function legendText(types: Iterable<PathType>): string {
  return [...new Set(types)]
    .sort((a, b) => a - b)
    .map((type) => `${pathTypeName(type)} ${MEANINGS[type]}`)
    .join(', ');
}

/** What a path type means, e.g. `through the CPU`. */
export const meaningOf = (type: PathType): string => MEANINGS[type];

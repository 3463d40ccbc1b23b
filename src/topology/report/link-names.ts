/**
 * Names of links for sentences: `NVLinks from GPU 0 to the NVSwitch`, `PCIe link from GPU 3 to CPU 0`, `network link of
 * mlx5_0 for sending`.
 */
import { LinkType } from '../system/path-type.js';
import type { Labels } from './labels.js';
import type { LinkLoad } from './limits.js';
import { bandwidthText } from './quantities.js';

const KINDS: Readonly<Record<number, string>> = {
  [LinkType.LOC]: 'link inside the device',
  [LinkType.NVL]: 'NVLinks',
  [LinkType.C2C]: 'chip-to-chip link',
  [LinkType.PCI]: 'PCIe link',
  [LinkType.SYS]: 'link',
};

/** One link or port, without the. */
export function linkName({ from, to, link }: Pick<LinkLoad, 'from' | 'to' | 'link'>, labels: Labels): string {
  if (link === undefined) return `port ${labels.of(from)}`;
  // Between a card and its own port: one name is enough.
  if (link.type === LinkType.NET) {
    const [port, use] = from.type === 'NIC' ? [to, 'sending'] : [from, 'receiving'];
    return `network link of ${labels.of(port)} for ${use}`;
  }
  const end = to.type === 'NVS' ? 'the NVSwitch' : labels.of(to);
  const start = from.type === 'NVS' ? 'the NVSwitch' : labels.of(from);
  return `${KINDS[link.type] ?? 'link'} from ${start} to ${end}`;
}

/** Several links of one kind: the first, and how many others are alike. */
export function linkNames(loads: readonly LinkLoad[], labels: Labels): string {
  const [first] = loads;
  const others = loads.length - 1;
  return `${linkName(first!, labels)}${others > 0 ? ` (and ${others} like it)` : ''}`;
}

/** `360 of 370.8 GB/s` */
export const loadText = ({ load, capacity }: LinkLoad): string =>
  `${bandwidthText(load)} of ${bandwidthText(capacity)} GB/s`;

/**
 * NCCL's tree of the machine: `=== System : maxBw 12.0 totalBw 370.8 ===` and the indented lines below it.
 */
import type { NcclProcess } from '../../model/process.js';
import { type FileContext, here } from '../file-context.js';

const SYSTEM = /^=== System : maxBw ([\d.]+) totalBw ([\d.]+) ===/;
const LINK = /^( *)\+ PCI\[([\d.]+)\] - (GPU|NIC)\/(?:\d+-)?([0-9a-fA-F]+)/;

/** A tree is read once per process; later ones repeat it. */
export function readTree(process: NcclProcess, text: string, context: FileContext): boolean {
  const system = SYSTEM.exec(text);
  if (system !== null) {
    process.tree ??= {
      at: here(context),
      maxGBs: Number(system[1]),
      totalGBs: Number(system[2]),
      devices: [],
      cpus: [],
    };
    return true;
  }
  const tree = process.tree;
  if (tree === undefined) return false;
  if (text.startsWith('CPU/')) {
    tree.cpus.push(here(context));
    return true;
  }
  const found = LINK.exec(text);
  if (found === null) return text.startsWith(' ') && text.trimStart().startsWith('+ ');
  const id = found[4]!.toLowerCase();
  if (!tree.devices.some((one) => one.id === id && one.kind === found[3])) {
    tree.devices.push({
      kind: found[3] as 'GPU' | 'NIC',
      id,
      isOnCpu: found[1] === '',
      linkGBs: Number(found[2]),
      at: here(context),
    });
  }
  return true;
}

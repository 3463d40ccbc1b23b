/**
 * NCCL's tree of the machine: `=== System : maxBw 12.0 totalBw 370.8 ===` and the indented lines below it.
 */
import type { NcclProcess, SystemTree, TreeDevice } from '../../model/process.js';
import { detached } from '../detached.js';
import { type FileContext, here } from '../file-context.js';

const SYSTEM = /^=== System : maxBw ([\d.]+) totalBw ([\d.]+) ===/;
const LINK = /^( *)\+ PCI\[([\d.]+)\] - (GPU|NIC)\/(?:\d+-)?([0-9a-fA-F]+)/;

const NVLINK = /^ *\+ NVL\[([\d.]+)\] - (?:GPU|NVS|CPU)\//;

/** The device whose lines are read, where it was not in the tree before. */
const isNew = new WeakMap<SystemTree, TreeDevice>();
/** The CPU whose devices are read. */
const cpuOf = new WeakMap<SystemTree, string>();

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
    cpuOf.set(tree, detached(text.split(' ')[0]!));
    return true;
  }
  const nvlink = NVLINK.exec(text);
  if (nvlink !== null) {
    const gpu = tree.devices.at(-1);
    // Trees of later communicators repeat the lines.
    if (gpu?.kind === 'GPU' && isNew.get(tree) === gpu)
      gpu.nvlinkGBs = (gpu.nvlinkGBs ?? 0) + Number(nvlink[1]);
    return true;
  }
  const found = LINK.exec(text);
  isNew.delete(tree);
  if (found === null) return text.startsWith(' ') && text.trimStart().startsWith('+ ');
  const id = found[4]!.toLowerCase();
  if (!tree.devices.some((one) => one.id === id && one.kind === found[3])) {
    const device: TreeDevice = {
      kind: found[3] as 'GPU' | 'NIC',
      id,
      isOnCpu: found[1] === '',
      cpu: cpuOf.get(tree),
      linkGBs: Number(found[2]),
      at: here(context),
    };
    tree.devices.push(device);
    isNew.set(tree, device);
  }
  return true;
}

/**
 * The processors that NCCL's threads may use, as it prints them: in lists since 2.28
 * (`Affinity for GPU 0 is 0-31. (GPU affinity = 0-31 ; CPU affinity = 0-127).`), as a mask in hexadecimal words before
 * (`Setting affinity for GPU 4 to ffffffff`).
 */
import type { NcclProcess } from '../../model/process.js';
import { type FileContext, here } from '../file-context.js';

const LISTS =
  /^ncclTopoGetCpuAffinity: Affinity for GPU (\d+) is ([\d,-]*)\. \(GPU affinity = ([\d,-]*) ; CPU affinity = ([\d,-]*)\)/;
const MASK = /^Setting affinity for GPU (\d+) to ([0-9a-f]{1,8}(?:,[0-9a-f]{8})*)$/;

/** Processors of a list like `0-31,64`. */
export function processorsOfList(list: string): number {
  return list
    .split(',')
    .filter(Boolean)
    .reduce((sum, range) => {
      const [first = 0, last = first] = range.split('-').map(Number);
      return sum + Math.max(0, last - first + 1);
    }, 0);
}

/** Processors of a mask like `ff,000000f0`. */
export function processorsOfMask(mask: string): number {
  let bits = 0;
  for (const digit of mask.replaceAll(',', '')) {
    for (let rest = Number.parseInt(digit, 16); rest > 0; rest >>= 1) bits += rest & 1;
  }
  return bits;
}

export function readAffinity(process: NcclProcess, text: string, context: FileContext): boolean {
  const lists = LISTS.exec(text);
  if (lists !== null) {
    process.affinity ??= {
      gpu: Number(lists[1]),
      processors: processorsOfList(lists[2]!),
      near: processorsOfList(lists[3]!),
      at: here(context),
    };
    return true;
  }
  const mask = MASK.exec(text);
  if (mask === null) return false;
  process.affinity ??= {
    gpu: Number(mask[1]),
    processors: processorsOfMask(mask[2]!),
    near: undefined,
    at: here(context),
  };
  return true;
}

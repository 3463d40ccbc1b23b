/**
 * NCCL's tables of estimated latency and bandwidth (`NCCL_DEBUG_SUBSYS=TUNING`): blocks of algorithms side by side,
 * protocols below each, a row per function with cells `latency/bandwidth` in microseconds and GB/s.
 */

import type { NcclAlgorithm, NcclFunction } from '../../../tuning/names.js';
import { entryOf, NCCL_ALGORITHMS, NCCL_FUNCTIONS, NCCL_PROTOCOLS } from '../../../tuning/names.js';
import type { NcclProcess } from '../../model/process.js';
import { newTuningTable } from '../../model/tuning-table.js';
import { type FileContext, here } from '../file-context.js';

const CELL = /^(\d+(?:\.\d+)?)\/ *(\d+(?:\.\d+)?)$/;

/** Reads a line with bars. The tables of later communicators are left out. */
export function readTuningTable(process: NcclProcess, text: string, context: FileContext): void {
  if (text.length > 2000) return;
  const parts = text.split('|').map((part) => part.trim());
  const [title = '', ...cells] = parts;
  if (title === 'Algorithm') {
    const names = cells.filter((name): name is NcclAlgorithm =>
      (NCCL_ALGORITHMS as readonly string[]).includes(name),
    );
    const table = (process.tuning ??= newTuningTable(here(context), process.members.length - 1));
    // The second table of a process begins with an algorithm that the first has.
    if (names.some((name) => table.algorithms.has(name))) table.isClosed = true;
    if (table.isClosed) return;
    for (const name of names) table.algorithms.add(name);
    table.current = names;
    return;
  }
  const table = process.tuning;
  if (table === undefined || table.isClosed || !(NCCL_FUNCTIONS as readonly string[]).includes(title)) return;
  table.current.forEach((algorithm, a) => {
    NCCL_PROTOCOLS.forEach((protocol, p) => {
      const found = CELL.exec(cells[a * NCCL_PROTOCOLS.length + p] ?? '');
      if (found === null) return;
      const entry = entryOf(title as NcclFunction, algorithm, protocol);
      table.latencies[entry] = Number(found[1]);
      table.bandwidths[entry] = Number(found[2]);
    });
  });
}

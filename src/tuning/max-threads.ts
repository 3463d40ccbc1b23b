/**
 * Threads of a block at most, by algorithm and protocol.
 *
 * (NCCL 2.30.7, tuning.cc.)
 */
import { type LogSink, SILENT } from '../topology/log.js';
import { f32 } from './arithmetic.js';
import { CELLS, cellOf, type NcclAlgorithm } from './names.js';
import type { TuningSettings } from './settings.js';

/** Threads of a warp: blocks have whole ones. */
export const WARP = 32;

/** Threads that a user may ask for. */
export interface ThreadBounds {
  readonly least: number;
  readonly most: number;
}

/** Bounds of NCCL_NTHREADS, for LL and Simple. */
export const THREADS: ThreadBounds = { least: 64, most: 512 };

/** Bounds of NCCL_LL128_NTHREADS. */
export const LL128_THREADS: ThreadBounds = { least: 160, most: 640 };

/** Threads of the algorithms that do most of their work in the network or the switch. */
const OFFLOADED_THREADS = 640;

/** GB/s of a PCI link: a ring that is no faster needs no more than this many threads. */
const PCI_BANDWIDTH = 12.0;
const PCI_RING_THREADS = 256;

const OFFLOADED: readonly NcclAlgorithm[] = ['CollNetDirect', 'CollNetChain', 'NVLS', 'NVLSTree'];

/** Table of CELLS; 0 where a combination does not exist, and for PAT, which decides its threads itself. */
export function maxThreads(
  settings: TuningSettings,
  ring: { readonly bwIntra: number; readonly nChannels: number },
  log: LogSink = SILENT,
): Int32Array {
  const table = new Int32Array(CELLS);
  const slowRing = f32(ring.bwIntra * ring.nChannels) <= PCI_BANDWIDTH;
  const threads = (fallback: number) => threadsOf('NCCL_NTHREADS', settings.nThreads, THREADS, fallback, log);
  table[cellOf('Ring', 'Simple')] = threads(slowRing ? PCI_RING_THREADS : THREADS.most);
  table[cellOf('Tree', 'Simple')] = threads(THREADS.most);
  const ll = threads(THREADS.most);
  table[cellOf('Ring', 'LL')] = ll;
  table[cellOf('Tree', 'LL')] = ll;
  const ll128 = threadsOf(
    'NCCL_LL128_NTHREADS',
    settings.ll128Threads,
    LL128_THREADS,
    LL128_THREADS.most,
    log,
  );
  table[cellOf('Ring', 'LL128')] = ll128;
  table[cellOf('Tree', 'LL128')] = ll128;
  for (const algorithm of OFFLOADED) table[cellOf(algorithm, 'Simple')] = OFFLOADED_THREADS;
  return table;
}

/** What a user asked for, made usable: NCCL corrects silently in results and loudly in the log. */
function threadsOf(
  name: string,
  asked: number | undefined,
  { least, most }: ThreadBounds,
  fallback: number,
  log: LogSink,
): number {
  if (asked === undefined || asked <= 0) return fallback;
  const used = asked % WARP !== 0 ? most : Math.min(Math.max(asked, least), most);
  if (used !== asked) {
    const why = asked % WARP !== 0 ? `must be a multiple of ${WARP}` : `must be ${least} to ${most}`;
    log('INFO', 'GRAPH', `${name} ${asked} ${why}, using ${used}`);
  }
  return used;
}

/**
 * `Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/0/GDRDMA`: how two ranks are connected.
 *
 * Up to NCCL 2.12 there is no number after the channel, and the brackets hold bus ids.
 */
import type { Job } from '../../model/job.js';
import type { Connection, NcclProcess, TransportKind } from '../../model/process.js';
import { detached } from '../detached.js';
import { type FileContext, here } from '../file-context.js';

const EDGE = /: (\d+)\[[^\]]{0,20}\] -> (\d+)\[[^\]]{0,20}\] (?:\[(send|receive)\] )?via (\S+)/;
const COLLNET = /^CollNet \d+(?:\/\d+)? : (\d+) \[(send|receive)\] via (COLLNET\/\S+)/;

/** Edges that are kept of one process, and of all: some hundred bytes each. */
const MAX_OF_PROCESS = 8192;
const MAX_OF_JOB = 1_000_000;

const kept = new WeakMap<Job, number>();

/** Reads a line of a channel. False for anything else. */
export function readConnection(process: NcclProcess, text: string, context: FileContext): boolean {
  if (text.startsWith('Channel ')) {
    const via = text.indexOf(' via ');
    if (via < 0) return /^Channel \d+\/\d+ : /.test(text); // the ranks of a ring
    // The way up to the last word decides; equal edges of other channels are only counted.
    const key = text.slice(text.indexOf(' : '));
    const known = process.connections.get(key);
    if (known !== undefined) {
      known.channels++;
      return true;
    }
    const found = EDGE.exec(detached(text));
    if (found === null) return true;
    const end = found[3] === undefined ? 'both' : (found[3] as 'send' | 'receive');
    keep(process, detached(key), Number(found[1]), Number(found[2]), end, found[4]!, context);
    return true;
  }
  if (!text.startsWith('CollNet ')) return false;
  text = detached(text);
  const found = COLLNET.exec(text);
  if (found === null) return false;
  const rank = Number(found[1]);
  const known = process.connections.get(text);
  if (known !== undefined) known.channels++;
  else keep(process, text, rank, rank, found[2] as 'send' | 'receive', found[3]!, context);
  return true;
}

function keep(
  process: NcclProcess,
  key: string,
  from: number,
  to: number,
  end: Connection['end'],
  via: string,
  context: FileContext,
): void {
  const count = kept.get(context.job) ?? 0;
  if (process.connections.size >= MAX_OF_PROCESS || count >= MAX_OF_JOB) return;
  kept.set(context.job, count + 1);
  const parts = via.split('/');
  const name = parts[0]!;
  const kind: TransportKind =
    name === 'NET' || name === 'SHM' || name === 'COLLNET' ? name : name === 'P2P' ? 'P2P' : 'P2P';
  process.connections.set(key, {
    from,
    to,
    end,
    kind,
    via,
    network: kind === 'NET' ? parts[1] : undefined,
    gpuDirect: via.includes('/GDRDMA'),
    at: here(context),
    channels: 1,
  });
}

/**
 * `Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/0/GDRDMA`: how two ranks are connected.
 *
 * Up to NCCL 2.12 there is no number after the channel, and the brackets hold bus ids. Logs of large jobs consist of
 * these lines: what is said again is counted without being taken apart, and ways are kept once for all edges.
 */
import type { Job } from '../../model/job.js';
import type { Connection, NcclProcess, TransportKind } from '../../model/process.js';
import { detached } from '../detached.js';
import { type FileContext, here } from '../file-context.js';

const EDGE = /^ : (\d+)\[[^\]]{0,20}\] -> (\d+)\[[^\]]{0,20}\] (?:\[(send|receive)\] )?via (\S+)/;
const COLLNET = /^CollNet \d+(?:\/\d+)? : (\d+) \[(send|receive)\] via (COLLNET\/\S+)/;

/** Edges that are kept of one process, and of all: some hundred bytes each. */
const MAX_OF_PROCESS = 8192;
const MAX_OF_JOB = 1_000_000;

/** The edge that a process told of last: the next channels are mostly of the same one. */
interface Newest {
  readonly key: string;
  readonly edge: Connection;
}

type Way = Pick<Connection, 'kind' | 'via' | 'network' | 'gpuDirect'>;

interface Kept {
  count: number;
  readonly newest: Map<NcclProcess, Newest>;
  readonly ways: Map<string, Way>;
}

const keptOf = new WeakMap<Job, Kept>();

function kept(job: Job): Kept {
  let found = keptOf.get(job);
  if (found === undefined) {
    found = { count: 0, newest: new Map(), ways: new Map() };
    keptOf.set(job, found);
  }
  return found;
}

/** Reads a line of a channel. False for anything else. */
export function readConnection(process: NcclProcess, text: string, context: FileContext): boolean {
  if (text.startsWith('Channel ')) {
    // Behind the number of the channel, equal edges are equal to the last word.
    const start = text.indexOf(' : ');
    const own = kept(context.job);
    const last = own.newest.get(process);
    if (last !== undefined && last.key.length === text.length - start && text.endsWith(last.key)) {
      last.edge.channels++;
      return true;
    }
    if (!text.includes(' via ')) return /^Channel \d+\/\d+ : /.test(text); // the ranks of a ring
    const key = detached(text.slice(start));
    const known = process.connections.get(key);
    if (known !== undefined) {
      known.channels++;
      own.newest.set(process, { key, edge: known });
      return true;
    }
    const found = EDGE.exec(key);
    if (found === null) return true;
    const end = found[3] === undefined ? 'both' : (found[3] as 'send' | 'receive');
    const edge = keep(process, key, Number(found[1]), Number(found[2]), end, found[4]!, context);
    if (edge !== undefined) own.newest.set(process, { key, edge });
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
): Connection | undefined {
  const own = kept(context.job);
  if (process.connections.size >= MAX_OF_PROCESS || own.count >= MAX_OF_JOB) return undefined;
  own.count++;
  let way = own.ways.get(via);
  if (way === undefined) {
    way = wayOf(detached(via));
    own.ways.set(way.via, way);
  }
  const { kind, network, gpuDirect } = way;
  const edge = { from, to, end, kind, via: way.via, network, gpuDirect, at: here(context), channels: 1 };
  process.connections.set(key, edge);
  return edge;
}

function wayOf(via: string): Way {
  const [name, network] = via.split('/');
  const kind: TransportKind = name === 'NET' || name === 'SHM' || name === 'COLLNET' ? name : 'P2P';
  return {
    kind,
    via,
    network: kind === 'NET' ? network : undefined,
    gpuDirect: via.includes('/GDRDMA'),
  };
}

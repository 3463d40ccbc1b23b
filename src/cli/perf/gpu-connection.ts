/**
 * What connects the GPUs of a run, in words: NVLinks to each other or to switches, PCI Express, or nothing but the
 * host's memory.
 */
import { ncclBusId } from '../../topology/detect/bus-id.js';
import { deviceAt, type NvmlFacts, p2pWorks } from '../../topology/detect/nvml-facts.js';

/** One GPU: the driver's number and PCI address. */
export interface ConnectedGpu {
  readonly index: number;
  readonly busId: string;
}

const linkText = (count: number): string => (count === 1 ? '1 link' : `${count} links`);

/** What connects two different GPUs. */
function pairText(facts: NvmlFacts | undefined, a: ConnectedGpu, b: ConnectedGpu): string {
  const gpus = new Set((facts?.devices ?? []).map(({ busId }) => ncclBusId(busId)));
  const targets = ({ busId }: ConnectedGpu): (string | undefined)[] =>
    (deviceAt(facts, busId)?.nvlinks ?? [])
      .filter(({ p2p, active }) => p2p && active)
      .map(({ remoteBusId }) => (remoteBusId === undefined ? undefined : ncclBusId(remoteBusId)));
  const direct = targets(a).filter((target) => target === ncclBusId(b.busId)).length;
  if (direct > 0) return `NVLink, ${linkText(direct)}`;
  // Whatever is no GPU at the other end is a switch.
  const toSwitches = (gpu: ConnectedGpu) => targets(gpu).filter((target) => !gpus.has(target)).length;
  const switched = Math.min(toSwitches(a), toSwitches(b));
  if (switched > 0) return `NVLink through switches, ${linkText(switched)} each`;
  return p2pWorks(facts, a.busId, b.busId) ? 'PCI Express, peer to peer' : 'the memory of the host';
}

/** `0 1 2` as `0, 1 and 2`. */
function enumerate(items: readonly (number | string)[]): string {
  return items.length < 2 ? items.join('') : `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`;
}

/** Why data go through memory of the host. */
export function reasonForHost(env: Readonly<Record<string, string | undefined>>): string {
  return env.NCCL_P2P_DISABLE === '1'
    ? 'NCCL_P2P_DISABLE=1'
    : 'some GPUs do not reach each other, or NCCL_P2P_DISABLE=1 at some rank';
}

/**
 * One line per kind of connection among the GPUs of the ranks, in rank order; several ranks may share a GPU.
 * Undefined facts (no management library) leave what it alone knows untold. `unused`: why ranks use none of it, and go
 * through memory of the host.
 */
export function gpuConnections(
  facts: NvmlFacts | undefined,
  ofRanks: readonly ConnectedGpu[],
  unused?: string,
): string[] {
  const gpus = new Map<string, ConnectedGpu>();
  const sharing = new Map<string, number[]>();
  for (const [rank, gpu] of ofRanks.entries()) {
    gpus.set(gpu.busId, gpu);
    sharing.set(gpu.busId, [...(sharing.get(gpu.busId) ?? []), rank]);
  }
  const lines: string[] = [];
  for (const [busId, ranks] of sharing) {
    if (ranks.length > 1) lines.push(`GPU ${gpus.get(busId)!.index} is shared by ranks ${enumerate(ranks)}`);
  }
  if (facts !== undefined) lines.push(...pairLines(facts, [...gpus.values()]));
  if (unused !== undefined) {
    lines.push(`all data go through the memory of the host (${unused}); NVLink and peer access are not used`);
  }
  return lines;
}

/** What connects each two of different GPUs. */
function pairLines(facts: NvmlFacts, list: readonly ConnectedGpu[]): string[] {
  const lines: string[] = [];
  const pairs = new Map<string, string[]>();
  for (const [i, a] of list.entries()) {
    for (const b of list.slice(i + 1)) {
      const text = pairText(facts, a, b);
      pairs.set(text, [...(pairs.get(text) ?? []), `${a.index}-${b.index}`]);
    }
  }
  for (const [text, of] of pairs) {
    const who = pairs.size === 1 ? enumerate(list.map(({ index }) => index)) : of.join(' ');
    lines.push(`GPUs ${who}: ${text}`);
  }
  return lines;
}

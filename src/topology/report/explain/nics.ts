/**
 * How GPUs reach their NICs: directly (GPUDirect RDMA), through host memory, or through another GPU (PXN), and why.
 */
import type { Domain } from '../../cluster.js';
import { preferredNics } from '../../paths/local-nics.js';
import { pathOrNone } from '../../paths/path.js';
import { checkGdr, gdrLevel, type ReachContext, type Refusal, relayOf } from '../../paths/reach.js';
import type { TopologySettings } from '../../settings.js';
import type { GpuNode, NetNode } from '../../system/node.js';
import { PATH_TYPE_NAMES, PathType } from '../../system/path-type.js';
import { Labels } from '../labels.js';
import { withPlainPaths } from '../plain-paths.js';
import { bandwidthText, listText } from '../quantities.js';
import { meaningOf, pathTypeName } from '../type-legend.js';
import { because, type Explanation } from './explanation.js';
import { gpusText } from './gpu-groups.js';

/** A GPU and a NIC that it prefers. */
export interface NicUse {
  readonly gpu: GpuNode;
  readonly net: NetNode;
  readonly distance: PathType;
  readonly write: Refusal | undefined;
  readonly read: Refusal | undefined;
}

/** Each GPU with the NICs that it prefers; none where no NIC is used. */
export function nicUses(domain: Domain, settings: TopologySettings): NicUse[] {
  const { system, comm, localHost } = domain;
  if (!system.inter || system.nodes.NET.length === 0) return [];
  const plain = withPlainPaths(system, settings.nvbDisable);
  const after: ReachContext = { system, comm, settings, localHost };
  const before: ReachContext = { ...after, system: plain };
  return system.nodes.GPU.flatMap((gpu) =>
    preferredNics(system, gpu, settings.netDevsPolicy).map((net): NicUse => {
      let [context, g, n] = [after, gpu, net];
      let write = checkGdr(context, g, n, false);
      const [plainGpu, plainNet] = [plain.nodes.GPU[gpu.index]!, plain.nodes.NET[net.index]!];
      // A path that was refused leads through the CPU now: the reason is that of the path before.
      if (write.refused !== undefined && pathOrNone(plainGpu, plainNet).type < PathType.PHB) {
        [context, g, n] = [before, plainGpu, plainNet];
        write = checkGdr(context, g, n, false);
      }
      return {
        gpu,
        net,
        distance: write.distance,
        write: write.refused,
        read: checkGdr(context, g, n, true).refused,
      };
    }),
  );
}

/** GPUDirect between each GPU and the NICs that it prefers. */
export function gdrExplanations(domain: Domain, settings: TopologySettings): Explanation[] {
  const labels = new Labels(domain.system, domain.rankOffset);
  const groups = new Map<string, NicUse[]>();
  for (const use of nicUses(domain, settings)) {
    const key = `${use.write} ${use.read} ${use.write === undefined || use.write === 'path type above level' ? use.distance : ''}`;
    groups.set(key, [...(groups.get(key) ?? []), use]);
  }
  return [...groups.values()].map((alike) => {
    const { distance, write, read } = alike[0]!;
    const gpus = [...new Set(alike.map(({ gpu }) => labels.rank(gpu.rank)))];
    const nics = [...new Set(alike.map(({ net }) => labels.of(net)))];
    const who = `${gpusText(gpus)} and ${nics.length > 1 ? 'NICs' : 'NIC'} ${namesText(nics)}`;
    const evidence = {
      gpus,
      nics,
      distance: pathTypeName(distance),
      level: PATH_TYPE_NAMES[gdrLevel(settings)],
      write: write ?? 'allowed',
      read: read ?? 'allowed',
    };
    return because('gdr', gdrText(who, distance, write, read, settings), evidence);
  });
}

function gdrText(
  who: string,
  distance: PathType,
  write: Refusal | undefined,
  read: Refusal | undefined,
  settings: TopologySettings,
): string {
  const path = `${pathTypeName(distance)} (${meaningOf(distance)})`;
  const level = PATH_TYPE_NAMES[gdrLevel(settings)];
  if (write !== undefined) {
    return `${who}: refused, ${refusalText(write, path, level, settings, distance)} Data goes through host memory.`;
  }
  const allowed = `${who}: allowed, path ${path}, level ${level}`;
  if (read === undefined) return `${allowed}.`;
  return `${allowed}, for receiving; for sending refused: ${refusalText(read, path, level, settings, distance)}`;
}

function refusalText(
  refused: Refusal,
  path: string,
  level: string,
  settings: TopologySettings,
  distance: PathType,
): string {
  switch (refused) {
    case 'NIC without GPUDirect RDMA':
      return 'the NIC cannot do it (gdr=0: no nvidia-peermem or DMA-BUF support, or a plugin without it).';
    case 'GPU without GPUDirect RDMA':
      return 'the GPU cannot do it (gdr=0 in the topology).';
    case 'MLOPart partition':
      return 'the GPU is a partition (MLOPart); NCCL_NET_GDR_MLOPART=1 would allow it.';
    case 'NCCL_NET_GDR_READ':
      return 'NCCL_NET_GDR_READ=0 forbids reads from GPU memory.';
    case 'no GPUDirect read below compute capability 80 without NVLink':
      return 'NICs read the memory of GPUs below compute capability 8.0 only where NVLink connects them; NCCL_NET_GDR_READ=1 would allow it.';
    case 'path type above level': {
      const by = settings.gdrLevel === undefined ? "NCCL's default" : 'set by NCCL_NET_GDR_LEVEL';
      const type = PATH_TYPE_NAMES[Math.min(distance, PathType.SYS)];
      return `the path ${path} is beyond the level ${level} (${by}); NCCL_NET_GDR_LEVEL=${type} would allow it.`;
    }
    default:
      return `${refused}.`;
  }
}

/** Which GPUs relay for which NICs. */
export function pxnExplanations(domain: Domain, settings: TopologySettings): Explanation[] {
  const { system, rankOffset } = domain;
  const { GPU, NET } = system.nodes;
  if (!system.inter || GPU.length < 2 || NET.length === 0) return [];
  const labels = new Labels(system, rankOffset);
  const plain = withPlainPaths(system, settings.nvbDisable);
  const relays = new Map<GpuNode, { nets: Set<NetNode>; gpus: Set<GpuNode> }>();
  const own: { type: PathType; bandwidth: number; relayed: number }[] = [];
  let count = 0;
  let all = 0;
  for (const gpu of GPU) {
    for (const net of NET) {
      all += 1;
      const path = pathOrNone(gpu, net);
      if (path.type !== PathType.PXN) continue;
      count += 1;
      const relay = relayOf(system, gpu, net);
      const entry = relays.get(relay) ?? { nets: new Set(), gpus: new Set() };
      entry.nets.add(net);
      entry.gpus.add(gpu);
      relays.set(relay, entry);
      const { type, bandwidth } = pathOrNone(plain.nodes.GPU[gpu.index]!, plain.nodes.NET[net.index]!);
      own.push({ type, bandwidth, relayed: path.bandwidth });
    }
  }
  if (count === 0) {
    return settings.pxnDisable
      ? [because('pxn', 'NCCL_PXN_DISABLE=1: no GPU uses a NIC through another GPU.', { paths: 0 })]
      : [];
  }
  const types = [...new Set(own.map(({ type }) => type))].sort((a, b) => a - b);
  const worst = Math.min(...own.map(({ bandwidth }) => bandwidth));
  const relayed = [...new Set(own.map((one) => bandwidthText(one.relayed)))];
  const list = [...relays]
    .sort(([a], [b]) => a.rank - b.rank)
    .map(
      ([relay, { nets }]) =>
        `GPU ${labels.rank(relay.rank)} for ${listText([...nets].map((net) => labels.of(net)))}`,
    );
  const shown =
    list.length > MOST_RELAYS
      ? [...list.slice(0, MOST_RELAYS - 1), `${list.length - MOST_RELAYS + 1} more`]
      : list;
  return [
    because(
      'pxn',
      `${count} of ${all} ways from a GPU to a NIC lead over NVLink to the GPU next to the NIC, whose rank sends on: ` +
        `${listText(shown)}. That gives ${listText(relayed)} GB/s; the GPU's own way would be of type ` +
        `${listText(types.map(pathTypeName))}, with as little as ${bandwidthText(worst)} GB/s. ` +
        'NCCL_PXN_DISABLE=1 would forbid it.',
      {
        paths: count,
        all,
        relays: [...relays.keys()].map(({ rank }) => labels.rank(rank)),
        relayed: Math.min(...own.map((one) => one.relayed)),
        own: worst,
      },
    ),
  ];
}

/** Relays that are named. */
const MOST_RELAYS = 8;

function namesText(names: readonly string[]): string {
  return names.length <= 4 ? listText(names) : `${names[0]} .. ${names.at(-1)}`;
}

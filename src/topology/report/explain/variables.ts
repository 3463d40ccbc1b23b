/**
 * Which NCCL_* variables are set, what each of them does, and what it changes: for that the same cluster is described
 * once more without it.
 */
import { TuttiError } from '../../../errors/tutti-error.js';
import { cInt } from '../../c-integer.js';
import { type Cluster, describeCluster } from '../../cluster.js';
import { type TopologySettings, topologySettings } from '../../settings.js';
import { PATH_TYPE_NAMES } from '../../system/path-type.js';
import { DESCRIPTION_READINGS, valueNotes } from '../../variable-values.js';
import { because, type Explanation } from './explanation.js';
import { clusterChanges } from './variable-changes.js';

type Key = keyof TopologySettings;

/** Variable and effect of each setting; `{}` stands for the value. */
const EFFECTS: Readonly<Record<Key, readonly [variable: string, effect: string]>> = {
  crossNic: [
    'NCCL_CROSS_NIC',
    'whether a ring may leave by another NIC than it enters by (0 never, 1 always, 2 if better)',
  ],
  nvbDisable: ['NCCL_NVB_DISABLE', 'no NVLink path leads through a third GPU'],
  p2pLevel: [
    'NCCL_P2P_LEVEL',
    'worst path over which GPUs reach each other directly (LOC also by NCCL_P2P_DISABLE=1)',
  ],
  ignoreDisabledP2p: [
    'NCCL_IGNORE_DISABLED_P2P',
    'what to do where the driver reports no peer-to-peer access (1 no message, 2 do not ask)',
  ],
  gdrLevel: ['NCCL_NET_GDR_LEVEL', 'worst path between GPU and NIC for GPUDirect RDMA'],
  gdrRead: ['NCCL_NET_GDR_READ', 'whether NICs read GPU memory directly when sending'],
  gdrC2c: ['NCCL_NET_GDR_C2C', 'whether GPUDirect RDMA counts chip-to-chip links (P2C) as near'],
  gdrMloPart: ['NCCL_NET_GDR_MLOPART', 'whether GPU partitions may use GPUDirect RDMA'],
  forceFlush: ['NCCL_NET_FORCE_FLUSH', 'a flush after every message received with GPUDirect RDMA'],
  netDisableIntra: ['NCCL_NET_DISABLE_INTRA', 'the network is never used between GPUs of one host'],
  p2pMemcpy: [
    'NCCL_P2P_USE_CUDA_MEMCPY',
    'whether copy engines move data between GPUs, which do not relay through a third one',
  ],
  shmDisable: ['NCCL_SHM_DISABLE', 'no shared memory between ranks of one host'],
  pxnDisable: ['NCCL_PXN_DISABLE', 'no GPU uses a NIC through another GPU'],
  pxnC2c: ['NCCL_PXN_C2C', 'whether a GPU may relay to a NIC that it reaches by its chip-to-chip link'],
  p2pPxnLevel: [
    'NCCL_P2P_PXN_LEVEL',
    'whether send and receive use NICs through other GPUs (0 never, 1 where better, 2 always)',
  ],
  netDevsPolicy: ['NCCL_NETDEVS_POLICY', 'how many of its nearest NICs a GPU uses'],
  mnnvlEnable: ['NCCL_MNNVL_ENABLE', 'NVLink across hosts (0 no, 1 yes, 2 if there are several hosts)'],
  mnnvlUuid: ['NCCL_MNNVL_UUID', 'replaces the NVLink domain that the driver reports'],
  mnnvlCliqueId: ['NCCL_MNNVL_CLIQUE_ID', 'replaces the clique that the driver reports'],
  mnnvlCrossClique: ['NCCL_MNNVL_CROSS_CLIQUE', 'peer-to-peer between cliques of one NVLink domain'],
  scatterNets: [
    'NCCL_MNNVL_SCATTER_NETS_ENABLE',
    'whether channels of an NVLink domain spread over the NICs of all hosts',
  ],
  railPerHost: [
    'NCCL_MNNVL_RAIL_PER_HOST',
    'NICs of different hosts are one rail if they have the same place',
  ],
  splitMloPart: ['NCCL_TOPO_SPLIT_MLOPART', 'whether partitions of a GPU are devices of their own'],
  minChannels: ['NCCL_MIN_NCHANNELS', 'least number of channels'],
  maxChannels: ['NCCL_MAX_NCHANNELS', 'greatest number of channels'],
  minCtas: ['NCCL_MIN_CTAS', 'least number of channels'],
  maxCtas: ['NCCL_MAX_CTAS', 'greatest number of channels'],
  nvlsCtas: ['NCCL_NVLS_NCHANNELS', 'number of channels of NVLS'],
  channelsPerNetPeer: [
    'NCCL_NCHANNELS_PER_NET_PEER',
    'channels of send and receive to a peer that only the network reaches',
  ],
  workArgsBytes: ['NCCL_WORK_ARGS_BYTES', 'size of kernel arguments, which bounds the channels of a launch'],
  unpackDoubleChannels: [
    'NCCL_UNPACK_DOUBLE_NCHANNELS',
    'whether channels are doubled for network devices that unpack',
  ],
  minP2pChannels: ['NCCL_MIN_P2P_NCHANNELS', 'least number of channels for send and receive'],
  maxP2pChannels: ['NCCL_MAX_P2P_NCHANNELS', 'greatest number of channels for send and receive'],
  p2pPerChannelNetBw: [
    'NCCL_P2P_PER_CHANNEL_NET_BW',
    'GB/s of the network that one channel of send and receive is for',
  ],
  p2pMaxPeers: ['NCCL_P2P_MAX_PEERS', 'peers that a rank talks to at once'],
  nvlsChunkSize: ['NCCL_NVLS_CHUNKSIZE', 'bytes that an NVLS channel moves at a time'],
  nvlsTreeMaxChunkSize: ['NCCL_NVLSTREE_MAX_CHUNKSIZE', 'most bytes that an NVLS tree moves at a time'],
  ignoreNetMismatch: ['NCCL_IGNORE_NET_MISMATCH', 'ranks may see different numbers of network devices'],
  ignoreCollnetMismatch: [
    'NCCL_IGNORE_COLLNET_MISMATCH',
    'ranks may see different numbers of CollNet devices',
  ],
  collnetNodeThreshold: ['NCCL_COLLNET_NODE_THRESHOLD', 'nodes from which on CollNet is used'],
};

/** Further variables of a setting, beside the one that it is called by. */
const OTHER_NAMES: Readonly<Partial<Record<Key, string>>> = {
  p2pLevel: 'NCCL_P2P_DISABLE',
  minChannels: 'NCCL_MIN_NRINGS',
  maxChannels: 'NCCL_MAX_NRINGS',
};

const NVLS_VARIABLE = 'NCCL_NVLS_ENABLE';

/** A variable, or two of one setting, that counts. */
interface Effective {
  readonly variables: readonly string[];
  readonly value: string;
  readonly usual: string;
  readonly effect: string;
}

/** A sentence or two per variable that is set or setting that is not the default, then what all of them change. */
export function variableExplanations(cluster: Cluster): Explanation[] {
  const effective = effectiveVariables(cluster);
  const counted = new Set(effective.flatMap(({ variables }) => variables));
  const alone = new Set<string>();
  const said = effective.map(({ variables, value, usual, effect }) => {
    const [variable] = variables as [string];
    const { text, changes } = changesWithout(cluster, variables, 'it');
    for (const change of changes ?? []) alone.add(change);
    return because('variables', `${variable} is ${value} (default: ${usual}): ${effect}.${text}`, {
      variable,
      value,
      default: usual,
      ...(changes === undefined ? {} : { changes }),
    });
  });
  return [...said, ...together(cluster, effective, alone), ...withoutEffect(cluster, counted)];
}

function effectiveVariables({ settings, options }: Cluster): Effective[] {
  const defaults = topologySettings();
  const found = KEYS.flatMap((key): Effective[] => {
    const value = valueText(key, settings[key]);
    const usual = valueText(key, defaults[key]);
    return value === usual ? [] : [{ variables: namesOf(key), value, usual, effect: EFFECTS[key][1] }];
  });
  const nvls = options.env?.[NVLS_VARIABLE];
  if (!nvls || cInt(nvls) !== 0) return found;
  return [
    ...found,
    {
      variables: [NVLS_VARIABLE],
      value: '0',
      usual: '2',
      effect: 'no NVLink SHARP, whatever the machine has',
    },
  ];
}

const KEYS = Object.keys(EFFECTS) as Key[];

const namesOf = (key: Key): string[] => [EFFECTS[key][0], ...[OTHER_NAMES[key] ?? []].flat()];

/** What several variables change, unless it is what each of them changes alone. */
function together(
  cluster: Cluster,
  effective: readonly Effective[],
  alone: ReadonlySet<string>,
): Explanation[] {
  if (effective.length < 2) return [];
  const names = effective.map(({ variables }) => variables[0]!);
  const { text, changes } = changesWithout(
    cluster,
    effective.flatMap(({ variables }) => variables),
    'them',
  );
  if (changes === undefined) return [];
  if (changes.length === alone.size && changes.every((change) => alone.has(change))) return [];
  const all = `${names.length === 2 ? 'Both' : `All ${names.length}`} together, against none of them:`;
  return [because('variables', `${all}${text.replace(' Here they', ' they')}`, { together: names, changes })];
}

/** Variables that are set, to what counts without them as well. */
function withoutEffect({ options: { env = {} } }: Cluster, counted: ReadonlySet<string>): Explanation[] {
  const names = [...KEYS.flatMap(namesOf), NVLS_VARIABLE];
  return names
    .filter((name) => env[name] && !counted.has(name))
    .map((variable) => {
      const [note] = valueNotes({ [variable]: env[variable] }, DESCRIPTION_READINGS);
      const text = note ?? `${variable}=${env[variable]} is what NCCL does without it`;
      return because('variables', `${text}. It changes nothing here.`, {
        variable,
        value: env[variable]!,
        changes: [],
      });
    });
}

/** Larger clusters are not described once more for each variable: that can take minutes. */
const MOST_RANKS = 512;
const MOST_GPUS_OF_A_NODE = 16;

/**
 * What the variables change: a sentence with a blank before it, and the changes; undefined if nobody has looked or NCCL
 * refuses the machine without them.
 */
function changesWithout(
  cluster: Cluster,
  variables: readonly string[],
  them: 'it' | 'them',
): { readonly text: string; readonly changes: readonly string[] | undefined } {
  const { options, nRanks, domains } = cluster;
  const largest = Math.max(...domains.map(({ whole }) => whole.nodes.GPU.length));
  if (nRanks > MOST_RANKS || largest > MOST_GPUS_OF_A_NODE) {
    const text = ` (What ${them === 'it' ? 'it changes' : 'they change'} is said up to ${MOST_RANKS} ranks, ${MOST_GPUS_OF_A_NODE} in one machine.)`;
    return { text, changes: undefined };
  }
  const env = Object.fromEntries(
    Object.entries(options.env ?? {}).filter(([name]) => !variables.includes(name)),
  );
  const { log: _, nvls, ...others } = options;
  const usualNvls = variables.includes(NVLS_VARIABLE) ? {} : { nvls: nvls ?? true };
  let usual: Cluster;
  try {
    usual = describeCluster({ ...others, ...usualNvls, env });
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    const text = ` Without ${them} NCCL refuses this machine: ${error.message.replace(/\.$/, '')}.`;
    return { text, changes: undefined };
  }
  const changes = clusterChanges(usual, cluster);
  const change = them === 'it' ? 'it changes' : 'they change';
  const text =
    changes.length === 0
      ? ` Here ${change} no path, no graph and no number of channels.`
      : ` Here ${change} ${changes.join('; ')}.`;
  return { text, changes };
}

function valueText(key: Key, value: TopologySettings[Key]): string {
  if (value === undefined) return 'by the machine';
  if (key === 'p2pLevel' || key === 'gdrLevel') return PATH_TYPE_NAMES[value as number] ?? `${value}`;
  if (typeof value === 'boolean') return value ? '1' : '0';
  if (typeof value !== 'object') return `${value}`;
  return value.kind === 'MAX' ? `MAX:${value.limit}` : value.kind;
}

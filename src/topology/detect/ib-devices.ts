/**
 * The network devices of the InfiniBand and RoCE transport, from /sys/class/infiniband: one per active port.
 *
 * NCCL asks the verbs library; the kernel shows the same facts in sysfs. Two are not there, and the caller may know them:
 * how many queue pairs a device can have (`maxconn`), else the usual number stands, and whether it registers DMA-BUF
 * memory. (NCCL 2.30.7, transport/net_ib.)
 */
import { MAX_IB_FILTER_ITEMS, parseInterfaceFilter } from '../../system/interface-filter.js';
import { cHex, cInteger } from '../c-integer.js';
import { type LogSink, SILENT } from '../log.js';
import type { NetDevice, NetPlugin } from '../net-device.js';
import { mostMembers } from '../nic-fusion/fuse-nics.js';
import { ibVirtualDevice } from '../nic-fusion/ib-virtual-device.js';
import type { Environment } from '../settings.js';
import type { MachineFiles } from './machine-files.js';
import { lineOf } from './sysfs-text.js';

const CLASS_FOLDER = '/sys/class/infiniband';

/** Devices that NCCL uses at most. */
const MAX_DEVICES = 32;

/** Queue pairs of most adapters of the mlx5 family. */
const USUAL_QUEUE_PAIRS = 131_072;

/** `4: ACTIVE`: the state in which a port carries traffic. */
const ACTIVE = /^4:/;

/** Link layers that NCCL uses; others (EFA's `Unspecified`) belong to plugins. */
const LINK_LAYERS = new Set(['InfiniBand', 'Ethernet']);

/** One of these files exists when the kernel lets an adapter reach GPU memory without DMA-BUF. */
const PEER_MEMORY_FILES = [
  '/sys/module/nvidia_peermem/version',
  '/sys/kernel/mm/memory_peers/nv_mem/version',
  '/sys/kernel/mm/memory_peers/nv_mem_nc/version',
];

/** Characters of a path that name the device and function (`00.0`), and the function alone. */
const DEVICE_AND_FUNCTION = 4;
const FUNCTION = 1;

export interface IbOptions {
  /** GPU memory can be registered through DMA-BUF, by adapter and GPU driver; false by default. */
  readonly dmaBuf?: boolean;
  /** Queue pairs that a device can have, by name. */
  readonly queuePairs?: ReadonlyMap<string, number>;
}

interface Port {
  readonly name: string;
  readonly pciPath: string | undefined;
  readonly port: number;
  readonly speed: number;
  readonly guid: bigint;
  readonly linkLayer: string;
  readonly rail: number | undefined;
  readonly plane: number | undefined;
}

/** The version of NCCL's network plugin interface that its own plugins have. */
const PLUGIN_VERSION = 12;

/** The plugin with its devices in NCCL's order; it has none where NCCL_IB_DISABLE says so. */
export function ibPlugin(
  files: MachineFiles,
  env: Environment,
  log: LogSink = SILENT,
  options: IbOptions = {},
): NetPlugin {
  const ports = isOn(env.NCCL_IB_DISABLE, false) ? [] : portsInUse(files, env);
  if (ports.length === 0) log('INFO', 'NET', 'NET/IB : No device found.');
  const devices = devicesOf(ports, reachesGpus(files, options), options.queuePairs ?? new Map());
  const mayJoin = isOn(env.NCCL_IB_MERGE_NICS, true);
  return {
    kind: 'net',
    name: 'IB',
    devices,
    join: (members) => {
      const layers = new Set(members.map((member) => ports[member]?.linkLayer));
      const [first, ...others] = members.flatMap((member) => devices[member] ?? []);
      if (first === undefined || layers.size !== 1 || members.length > mostMembers(PLUGIN_VERSION)) {
        return undefined;
      }
      return others.length > 0 && !mayJoin ? undefined : ibVirtualDevice([first, ...others], members);
    },
  };
}

function portsInUse(files: MachineFiles, env: Environment): Port[] {
  const mergesFunctions = isOn(env.NCCL_IB_MERGE_VFS, true);
  const found = files
    .names(CLASS_FOLDER)
    .toSorted(naturally)
    .flatMap((name) => portsOf(files, name, env, mergesFunctions));
  const ports = isOn(env.NCCL_IB_DEVICE_PCI_ORDER, true) ? found.toSorted(byPath) : found;
  return ports.slice(0, MAX_DEVICES);
}

function reachesGpus(files: MachineFiles, { dmaBuf = false }: IbOptions): boolean {
  return dmaBuf || PEER_MEMORY_FILES.some((path) => files.realPath(path) !== undefined);
}

function devicesOf(
  ports: readonly Port[],
  gdr: boolean,
  queuePairs: ReadonlyMap<string, number>,
): NetDevice[] {
  // NCCL compares the paths without device and function where both are replaced: the same as comparing them whole.
  const isOnCardOf = (one: Port) => (other: Port) =>
    one.pciPath !== undefined && other.pciPath === one.pciPath;
  return ports.map((one, index) => ({
    name: one.name,
    ...(one.pciPath === undefined ? {} : { pciPath: one.pciPath }),
    speed: one.speed,
    port: one.port + ports.slice(0, index).filter(isOnCardOf(one)).length,
    latency: 0,
    guid: one.guid,
    maxConnections: queuePairs.get(one.name) ?? USUAL_QUEUE_PAIRS,
    gdr,
    ...(one.rail === undefined ? {} : { rail: one.rail }),
    ...(one.plane === undefined ? {} : { plane: one.plane }),
  }));
}

function isOn(text: string | undefined, otherwise: boolean): boolean {
  return text === undefined || text === '' ? otherwise : cInteger(text) !== 0n;
}

/** mlx5_2 before mlx5_10: the order in which the kernel makes them. */
const naturally = (a: string, b: string): number => a.localeCompare(b, 'en', { numeric: true });

function byPath({ pciPath: a = '' }: Port, { pciPath: b = '' }: Port): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function portsOf(files: MachineFiles, name: string, env: Environment, mergesFunctions: boolean): Port[] {
  const folder = `${CLASS_FOLDER}/${name}`;
  const pciPath = mergedPath(files.realPath(`${folder}/device`), mergesFunctions);
  return files
    .names(`${folder}/ports`)
    .filter((text) => /^[1-9]\d{0,2}$/.test(text))
    .map(Number)
    .sort((a, b) => a - b)
    .flatMap((port): Port[] => {
      const read = (file: string) => lineOf(files, `${folder}/ports/${port}/${file}`) ?? '';
      const linkLayer = read('link_layer');
      if (!ACTIVE.test(read('state')) || !LINK_LAYERS.has(linkLayer)) return [];
      const choice = chosen(env.NCCL_IB_HCA, name, port);
      if (choice === undefined) return [];
      const guid = guidOf(lineOf(files, `${folder}/sys_image_guid`));
      return [{ name, pciPath, port, speed: speedOf(read('rate')), guid, linkLayer, ...choice }];
    });
}

/**
 * The path of function 0, so that the ports of a card are one device; with merging of virtual functions that of
 * function 0 of device 0.
 */
function mergedPath(path: string | undefined, mergesFunctions: boolean): string | undefined {
  if (path === undefined) return undefined;
  const device = path.slice(-DEVICE_AND_FUNCTION, -DEVICE_AND_FUNCTION + 2);
  const merged = mergesFunctions ? device.replace(/./g, '0') : device;
  return `${path.slice(0, -DEVICE_AND_FUNCTION)}${merged}${path.slice(-2, -FUNCTION)}0`;
}

/** Rail and plane that NCCL_IB_HCA gives the port, or undefined where it excludes it. */
function chosen(
  text: string | undefined,
  name: string,
  port: number,
): Pick<Port, 'rail' | 'plane'> | undefined {
  const nothing = { rail: undefined, plane: undefined };
  if (text === undefined || text === '') return nothing;
  const filter = parseInterfaceFilter(text, MAX_IB_FILTER_ITEMS);
  const item = filter.items.find(
    (one) =>
      (filter.exact ? name === one.name : name.startsWith(one.name)) &&
      (one.port === undefined || one.port === port),
  );
  const isListed = filter.items.length === 0 || item !== undefined;
  if (isListed === filter.exclude) return undefined;
  return filter.exclude || item === undefined ? nothing : { rail: item.rail, plane: item.plane };
}

/** Mbit/s of `400 Gb/sec (4X NDR)`: the kernel has multiplied the rate of a lane by the lanes already. */
function speedOf(rate: string): number {
  const [, number] = /^(\d{1,6}(?:\.\d{1,3})?) Gb\/sec/.exec(rate) ?? [];
  return number === undefined ? 0 : Math.round(Number(number) * 1000);
}

/** `0c42:a103:0051:9378` holds the bytes in order; NCCL prints them as a little-endian number. */
function guidOf(text: string | undefined): bigint {
  const digits = text?.replace(/:/g, '') ?? '';
  if (!/^[0-9a-fA-F]{16}$/.test(digits)) return 0n;
  return cHex(digits.match(/../g)!.reverse().join(''));
}

/**
 * Records a machine into one small file that a user can send: everything that detection looks at, nothing else.
 *
 * The file is a compressed tar archive: everybody can list, read and check it with `tar tzf` before sending it, links of
 * sysfs stay links, and a copy of /sys that somebody made with tar is read by the same code. Beside files and links it
 * holds `tutti-machine.json` with the facts that are no files: those of NVML, of the verbs library, the processor, the
 * interfaces.
 *
 * Left out or replaced, so that it identifies neither owner nor parts: host name, boot id and NCCL's hash of both (by a
 * hash that random bytes of the recording go into), addresses of interfaces (by addresses reserved for documentation),
 * names of devices that somebody chose, identities of network cards, clusters and chassis (by hashes), comments in a
 * topology file, words in variables that NCCL does not know. Files that are not listed here are never read.
 */
import { createHash, randomBytes } from 'node:crypto';
import { TuttiError } from '../../errors/tutti-error.js';
import type { NetworkInterface } from '../../system/interfaces.js';
import { cInteger } from '../c-integer.js';
import type { Environment } from '../settings.js';
import { DEFAULT_FILE, detectTopology } from './detect.js';
import { DeviceNames } from './device-names.js';
import { ibPlugin } from './ib-devices.js';
import { liveMachine, type Machine } from './machine.js';
import { MachineFiles } from './machine-files.js';
import type { NvmlDevice, NvmlFacts } from './nvml-facts.js';
import { writeWhole } from './output-file.js';
import { pciPath } from './pci-tree.js';
import { FACTS_FILE, FACTS_VERSION, replacementAddress } from './recorded-machine.js';
import { type ArchiveEntry, writeArchive } from './tar.js';
import { type TracedNode, traceTree } from './tracing-tree.js';

/** Values of a PCI device. */
const PCI_FILES = [
  'class',
  'vendor',
  'device',
  'subsystem_vendor',
  'subsystem_device',
  'numa_node',
  'max_link_speed',
  'max_link_width',
  'current_link_speed',
  'current_link_width',
  'local_cpulist',
];

/** Values that tell what a PCI device is that no topology holds: a machine without GPUs lists all it has. */
const OTHER_PCI_FILES = ['vendor', 'device', 'numa_node'];

/** Links of a PCI device. */
const PCI_LINKS = ['subsystem', 'physfn'];

/** Classes of PCI devices that a topology may hold: networks, displays, bridges, accelerators. */
const PCI_CLASSES = /^0x(?:02|03|06|12)/;

const NET_FILES = ['speed', 'flags', 'operstate', 'ifindex', 'type', 'mtu', 'device/vendor'];
const IB_FILES = ['node_type', 'hca_type', 'fw_ver', 'sys_image_guid', 'node_guid'];
const IB_PORT_FILES = ['state', 'phys_state', 'rate', 'link_layer'];
const NODE_FILES = ['cpumap', 'cpulist', 'distance'];

/** Lines of /proc/cpuinfo that say which processor it is; others (a serial number on some boards) are left out. */
const CPU_LINES = /^(?:vendor_id|cpu family|model|model name|stepping|cpu|CPU implementer|CPU part)\s*:/;

/** Devices that a variable may name. */
interface PresentDevices {
  readonly names: DeviceNames;
  readonly interfaces: readonly string[];
  readonly infiniband: readonly string[];
}

/** What stands for the value of a variable: the same to detection; undefined leaves it out. */
type ValueMask = (text: string, present: PresentDevices) => string | undefined;

const flag: ValueMask = (text) => (text === '' ? undefined : `${cInteger(text)}`);

/** Words that NCCL knows stay; `otherwise` means the same to it as any other. */
const words =
  (known: RegExp, otherwise?: string): ValueMask =>
  (text) =>
    known.exec(text)?.[0] ?? otherwise;

/** Variables that change what detection finds, apart from names of files. */
const VARIABLES: ReadonlyMap<string, ValueMask> = new Map<string, ValueMask>([
  ['NCCL_NET', words(/^(?:ib|socket|)$/i, 'unknown')],
  [
    'NCCL_SOCKET_IFNAME',
    // NCCL takes a single character for unset.
    (text, { names, interfaces }) => (text.length > 1 ? names.filter(text, interfaces) : undefined),
  ],
  ['NCCL_SOCKET_FAMILY', words(/^AF_INET6?$/)],
  ['NCCL_IB_DISABLE', flag],
  ['NCCL_IB_HCA', (text, { names, infiniband }) => names.filter(text, infiniband)],
  ['NCCL_IB_MERGE_VFS', flag],
  ['NCCL_IB_MERGE_NICS', flag],
  ['NCCL_IB_DEVICE_PCI_ORDER', flag],
  ['NCCL_NET_MERGE_LEVEL', words(/^(?:LOC|PORT|PIX|PXB|P2C|PXN|PHB|SYS)/, 'unknown')],
  ['NCCL_NET_MERGE_POLICY', words(/^(?:ALL|RAIL)$/i, 'unknown')],
  [
    'NCCL_NET_FORCE_MERGE',
    (text, { names, interfaces, infiniband }) => names.groups(text, [...interfaces, ...infiniband]),
  ],
]);

/** Their names, for the documentation. */
export const RECORDED_VARIABLES: readonly string[] = [...VARIABLES.keys()];

/** Digits of a hash that stand for an identity of as many bits. */
const HASH_DIGITS = 16;
const GUID_DIGITS = 16;
const UUID_DIGITS = 32;

/**
 * Writes a recording of `machine` (default: this one) to `path` and returns its size in bytes.
 *
 * @throws TuttiError systemError where the file cannot be written.
 */
export function recordMachine(
  path: string,
  machine: Machine = liveMachine(),
  env: Environment = process.env,
): number {
  const bytes = machineRecord(machine, env);
  try {
    writeWhole(path, bytes);
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new TuttiError('systemError', `cannot write the recording ${path}: ${text}`, { cause });
  }
  return bytes.length;
}

/** The recording as bytes. */
export function machineRecord(machine: Machine, env: Environment = {}): Uint8Array {
  const asked = Object.fromEntries(
    [...VARIABLES.keys()].flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]] as const])),
  );
  const trace = traceTree(machine.tree);
  const files = new MachineFiles(trace.tree);
  look(files);
  detectAll({ ...machine, tree: trace.tree, files }, asked);
  const mask = maskOf(randomBytes(32));
  const interfaces = [...new Set(machine.interfaces.map(({ name }) => name))];
  const infiniband = files.names('/sys/class/infiniband');
  const names = new DeviceNames(interfaces, infiniband);
  const facts = {
    format: 'tutti machine',
    version: FACTS_VERSION,
    hostHash: maskedHash(machine.hostHash, mask),
    cpu: machine.cpu,
    interfaces: withoutIdentity(machine.interfaces, names),
    queuePairs: machine.queuePairs.size === 0 ? undefined : maskedKeys(machine.queuePairs, names),
    environment: maskedVariables(asked, { names, interfaces, infiniband }),
    nvml: machine.nvml === undefined ? undefined : maskedNvml(machine.nvml, mask),
    // Reasons that name a place on this machine stay here.
    nvmlProblem: /[/\\]/.test(machine.nvmlProblem) ? undefined : machine.nvmlProblem || undefined,
  };
  const topologyFile = machine.files.text(DEFAULT_FILE);
  const entries: ArchiveEntry[] = [
    { kind: 'file', path: FACTS_FILE, bytes: Buffer.from(`${JSON.stringify(facts, undefined, 1)}\n`) },
    ...[...trace.seen].flatMap(([path, node]) => entryOf(path, node, names, mask)),
    ...(topologyFile === undefined
      ? []
      : [fileEntry(DEFAULT_FILE, maskedTopology(topologyFile, names, mask))]),
  ];
  return writeArchive(entries.sort((a, b) => (a.path < b.path ? -1 : 1)));
}

const maskedHash = (hash: bigint, mask: Mask): string => `0x${mask(hash.toString(16), HASH_DIGITS)}`;

function maskedVariables(asked: Environment, present: PresentDevices): Record<string, string> {
  const masked = Object.entries(asked).map(
    ([name, text]) => [name, VARIABLES.get(name)!(text!, present)] as const,
  );
  return Object.fromEntries(masked.flatMap(([name, text]) => (text === undefined ? [] : [[name, text]])));
}

const maskedKeys = (values: ReadonlyMap<string, number>, names: DeviceNames): Record<string, number> =>
  Object.fromEntries([...values].map(([name, value]) => [names.of(name), value]));

/** Looks at everything that any detection on this machine could look at. */
function look(files: MachineFiles): void {
  const readAll = (folder: string, names: readonly string[]) => {
    for (const name of names) files.text(`${folder}/${name}`);
  };
  for (const device of files.names('/sys/bus/pci/devices')) {
    const folder = `/sys/bus/pci/devices/${device}`;
    readAll(folder, OTHER_PCI_FILES);
    if (!PCI_CLASSES.test(files.text(`${folder}/class`) ?? '')) continue;
    readAll(folder, PCI_FILES);
    for (const link of PCI_LINKS) files.linkTarget(`${folder}/${link}`);
    pciPath({ files, log: () => {} }, device);
  }
  for (const name of files.names('/sys/class/net')) {
    readAll(`/sys/class/net/${name}`, NET_FILES);
    files.linkTarget(`/sys/class/net/${name}/device/subsystem`);
  }
  for (const name of files.names('/sys/class/infiniband')) {
    const folder = `/sys/class/infiniband/${name}`;
    readAll(folder, IB_FILES);
    files.linkTarget(`${folder}/device/subsystem`);
    for (const port of files.names(`${folder}/ports`)) readAll(`${folder}/ports/${port}`, IB_PORT_FILES);
  }
  readAll('/sys/devices/system/node', ['online', 'possible']);
  for (const node of files.names('/sys/devices/system/node')) {
    if (/^node\d+$/.test(node)) readAll(`/sys/devices/system/node/${node}`, NODE_FILES);
  }
  files.text('/proc/cpuinfo');
}

/** Runs detection in all its forms, so that whatever it reads is seen. */
function detectAll(machine: Machine, env: Environment): void {
  for (const one of [env, {}]) {
    for (const options of [{}, { gpus: [] }]) {
      try {
        detectTopology({ machine, env: one, ...options });
      } catch (error) {
        // A machine that detection refuses is the one that most needs recording.
        if (!TuttiError.is(error)) throw error;
      }
    }
    ibPlugin(machine.files, one);
  }
}

type Mask = (text: string, digits: number) => string;

/** Hashes that are equal for equal texts of one recording and tell nothing about them. */
function maskOf(salt: Uint8Array): Mask {
  return (text, digits) => createHash('sha256').update(salt).update(text).digest('hex').slice(0, digits);
}

const fileEntry = (path: string, text: string): ArchiveEntry => ({
  kind: 'file',
  path: path.slice(1),
  bytes: Buffer.from(text, 'latin1'),
});

function entryOf(path: string, node: TracedNode, names: DeviceNames, mask: Mask): ArchiveEntry[] {
  if (path === '/proc/cpuinfo')
    return node.kind === 'file' ? [fileEntry(path, cpuLines(node.text ?? ''))] : [];
  if (!/^\/sys(?:\/|$)/.test(path)) return [];
  const place = names.path(path);
  if (node.kind === 'link') {
    return [{ kind: 'link', path: place.slice(1), target: names.path(node.target) }];
  }
  if (node.kind === 'directory') return [{ kind: 'directory', path: place.slice(1) }];
  const name = path.split('/').at(-1)!;
  const text = node.text ?? '';
  return [fileEntry(place, name.endsWith('_guid') ? maskedGuid(text, mask) : text)];
}

/** The first processor's lines. */
function cpuLines(text: string): string {
  const first = text.split(/\n\s*\n/, 1)[0]!;
  const lines = first.split('\n').filter((line) => CPU_LINES.test(line));
  return lines.map((line) => `${line}\n`).join('');
}

function maskedGuid(text: string, mask: Mask): string {
  if (text.trim() === '') return text;
  return `${mask(text.trim(), GUID_DIGITS).match(/..../g)!.join(':')}\n`;
}

/** Attributes of topology files that mean something to NCCL; others may say anything. */
const ATTRIBUTES = new Set(
  (
    'version numaid affinity arch vendor familyid modelid host_hash busid class device subsystem_vendor ' +
    'subsystem_device link_speed link_width dev sm rank gdr mlopart count tclass target bw name port speed guid ' +
    'maxconn latency coll net gin rma keep rail plane'
  ).split(' '),
);

/** A user's topology file without comments and whatever else it says, identities and names that somebody chose. */
function maskedTopology(text: string, names: DeviceNames, mask: Mask): string {
  return text
    .replace(/<!--[\s\S]*?-->/g, '')
    .replace(/\s([\w:.-]+)=(["'])[^"']*\2/g, (whole, key: string) => (ATTRIBUTES.has(key) ? whole : ''))
    .replace(/>[^<>]*[^<>\s][^<>]*</g, '>\n<')
    .replace(/\b(guid|host_hash)=(["'])([^"']*)/g, (_, key: string, quote: string, value: string) => {
      return `${key}=${quote}0x${mask(value, GUID_DIGITS)}`;
    })
    .replace(/(<net\b[^>]*?\bname=["'])([^"']*)/g, (_, start: string, name: string) => start + names.of(name))
    .replace(/(<system\b[^>]*?\bname=["'])([^"']*)/g, '$1system');
}

/** Equal addresses stay equal, because only the first interface of an address is used. */
function withoutIdentity(interfaces: readonly NetworkInterface[], names: DeviceNames): NetworkInterface[] {
  const known = [...new Set(interfaces.map(({ address }) => address))];
  return interfaces.map((one) => ({
    ...one,
    name: names.of(one.name),
    ...replacementAddress(known.indexOf(one.address), one.family),
    prefixLength: one.prefixLength,
  }));
}

function maskedNvml(facts: NvmlFacts, mask: Mask): NvmlFacts {
  return { ...facts, devices: facts.devices.map((device) => maskedDevice(device, mask)) };
}

/**
 * Hosts of one NVLink domain must still be recognised as such when each was recorded for itself, so the identity of the
 * domain, which is random and cannot be guessed, is hashed without salt, and a chassis number with it as salt.
 */
function maskedDevice(device: NvmlDevice, mask: Mask): NvmlDevice {
  const { fabric, chassisSerial } = device;
  const isDomain = fabric !== undefined && !/^0*$/.test(fabric.clusterUuid);
  const domainMask = isDomain ? maskOf(Buffer.from(fabric.clusterUuid)) : mask;
  return {
    ...device,
    ...(isDomain ? { fabric: { ...fabric, clusterUuid: domainMask('cluster', UUID_DIGITS) } } : {}),
    ...(chassisSerial === undefined ? {} : { chassisSerial: domainMask(chassisSerial, GUID_DIGITS) }),
  };
}

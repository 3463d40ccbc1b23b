/**
 * Records a machine into one small file that a user can send: everything that detection looks at, nothing else.
 *
 * The file is a compressed tar archive: everybody can list, read and check it with `tar tzf` before sending it, links of
 * sysfs stay links, and a copy of /sys that somebody made with tar is read by the same code. Beside files and links it
 * holds `tutti-machine.json` with the facts that are no files: those of NVML, of the verbs library, the processor, the
 * interfaces.
 *
 * Left out or replaced, so that it identifies neither owner nor parts: host name and boot id (only NCCL's hash of both
 * stays, which tells hosts apart), addresses of interfaces (by addresses reserved for documentation), identities of
 * network cards, clusters and chassis (by hashes). Files that are not listed here are never read.
 */
import { createHash, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { TuttiError } from '../../errors/tutti-error.js';
import type { NetworkInterface } from '../../system/interfaces.js';
import type { Environment } from '../settings.js';
import { DEFAULT_FILE, detectTopology } from './detect.js';
import { ibPlugin } from './ib-devices.js';
import { liveMachine, type Machine } from './machine.js';
import { MachineFiles } from './machine-files.js';
import type { NvmlDevice, NvmlFacts } from './nvml-facts.js';
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

/** Variables that change what detection finds, apart from names of files. */
const VARIABLES = [
  'NCCL_NET',
  'NCCL_SOCKET_IFNAME',
  'NCCL_SOCKET_FAMILY',
  'NCCL_IB_DISABLE',
  'NCCL_IB_HCA',
  'NCCL_IB_MERGE_VFS',
  'NCCL_IB_MERGE_NICS',
  'NCCL_IB_DEVICE_PCI_ORDER',
  'NCCL_NET_MERGE_LEVEL',
  'NCCL_NET_MERGE_POLICY',
  'NCCL_NET_FORCE_MERGE',
];

/** Digits of a hash that stand for an identity of as many bits. */
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
    writeFileSync(path, bytes);
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new TuttiError('systemError', `cannot write the recording ${path}: ${text}`, { cause });
  }
  return bytes.length;
}

/** The recording as bytes. */
export function machineRecord(machine: Machine, env: Environment = {}): Uint8Array {
  const environment = Object.fromEntries(
    VARIABLES.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]] as const])),
  );
  const trace = traceTree(machine.tree);
  const files = new MachineFiles(trace.tree);
  look(files);
  detectAll({ ...machine, tree: trace.tree, files }, environment);
  const mask = maskOf(randomBytes(32));
  const facts = {
    format: 'tutti machine',
    version: FACTS_VERSION,
    hostHash: `0x${machine.hostHash.toString(16)}`,
    cpu: machine.cpu,
    interfaces: withoutAddresses(machine.interfaces),
    queuePairs: machine.queuePairs.size === 0 ? undefined : Object.fromEntries(machine.queuePairs),
    environment,
    nvml: machine.nvml === undefined ? undefined : maskedNvml(machine.nvml, mask),
  };
  const topologyFile = machine.files.text(DEFAULT_FILE);
  const entries: ArchiveEntry[] = [
    { kind: 'file', path: FACTS_FILE, bytes: Buffer.from(`${JSON.stringify(facts, undefined, 1)}\n`) },
    ...[...trace.seen].flatMap(([path, node]) => entryOf(path, node, mask)),
    ...(topologyFile === undefined ? [] : [fileEntry(DEFAULT_FILE, maskedTopology(topologyFile, mask))]),
  ];
  return writeArchive(entries.sort((a, b) => (a.path < b.path ? -1 : 1)));
}

/** Looks at everything that any detection on this machine could look at. */
function look(files: MachineFiles): void {
  const readAll = (folder: string, names: readonly string[]) => {
    for (const name of names) files.text(`${folder}/${name}`);
  };
  for (const device of files.names('/sys/bus/pci/devices')) {
    const folder = `/sys/bus/pci/devices/${device}`;
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

function entryOf(path: string, node: TracedNode, mask: Mask): ArchiveEntry[] {
  if (path === '/proc/cpuinfo')
    return node.kind === 'file' ? [fileEntry(path, cpuLines(node.text ?? ''))] : [];
  if (!/^\/sys(?:\/|$)/.test(path)) return [];
  if (node.kind === 'link') return [{ kind: 'link', path: path.slice(1), target: node.target }];
  if (node.kind === 'directory') return [{ kind: 'directory', path: path.slice(1) }];
  const name = path.split('/').at(-1)!;
  const text = node.text ?? '';
  return [fileEntry(path, name.endsWith('_guid') ? maskedGuid(text, mask) : text)];
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

/** Identities of cards in a user's topology file. */
function maskedTopology(text: string, mask: Mask): string {
  return text.replace(/(\bguid=["'])([^"']*)/g, (_, start: string, guid: string) => {
    return `${start}0x${mask(guid, GUID_DIGITS)}`;
  });
}

/** Equal addresses stay equal, because only the first interface of an address is used. */
function withoutAddresses(interfaces: readonly NetworkInterface[]): NetworkInterface[] {
  const known = [...new Set(interfaces.map(({ address }) => address))];
  return interfaces.map((one) => ({
    ...one,
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

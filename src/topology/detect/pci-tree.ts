/**
 * Climbs from a device up the PCI tree to its processor and adds every element on the way to the document.
 *
 * A switch has two levels in sysfs, an upstream port and the downstream ports below it; the document names a switch by
 * its upstream port, so every second level is left out. Attributes that a user's file gave stay, except the class,
 * which the machine knows best. (NCCL 2.30.7, topo.cc and xml.cc.)
 */
import { cInteger } from '../c-integer.js';
import type { LogSink } from '../log.js';
import type { XmlElement } from '../xml/element.js';
import { isBusId } from './bus-id.js';
import type { CpuFacts } from './cpu-facts.js';
import { setIfAbsent, type TopologyDocument } from './document.js';
import type { MachineFiles } from './machine-files.js';
import { deviceAt, type NvmlDevice, type NvmlFacts } from './nvml-facts.js';
import { sysfsText } from './sysfs-text.js';

/** What detection is done with and on. */
export interface Detection {
  readonly document: TopologyDocument;
  readonly files: MachineFiles;
  readonly nvml: NvmlFacts | undefined;
  readonly cpu: CpuFacts | undefined;
  readonly hostHash: bigint;
  readonly log: LogSink;
}

/** Texts of the generations of PCI Express, from 1. */
const GENERATIONS = ['2.5', '5.0', '8.0', '16.0', '32.0', '64.0'].map((speed) => `${speed} GT/s PCIe`);

/** NCCL's text for a GPU that does not tell its generation; it is in no table and counts as generation 3. */
const UNKNOWN_GENERATION = '16.0 GT/s';

/** Lanes of a GPU that does not tell. */
const DEFAULT_WIDTH = 16;

/** Vendor of switches whose ports may be one switch behind the scenes. */
const BROADCOM = '0x1000';

const SWITCH_LINKS = '/sys/kernel/pci_switch_link/virtual_switch_links';

/** Characters of `0000:00` and of `0000:00:00.0`: NCCL cuts an address there to make a path of it. */
const BUS_LENGTH = 7;
const BUS_ID_LENGTH = 12;

/** What `%#lx` prints. */
export const hostHashText = (hash: bigint): string => (hash === 0n ? '0' : `0x${hash.toString(16)}`);

/** Real path of a PCI device in sysfs, undefined where it has none. */
export function pciPath({ files, log }: Pick<Detection, 'files' | 'log'>, busId: string): string | undefined {
  const lower = busId.toLowerCase();
  const path = `/sys/class/pci_bus/${lower.slice(0, BUS_LENGTH)}/../../${lower.slice(0, BUS_ID_LENGTH)}`;
  const real = files.realPath(path);
  if (real === undefined) log('INFO', 'GRAPH', `Could not find real path of ${path}`);
  return real;
}

/** The pci element with a bus id, made if there is none; `pciClass` is for a device that has no class yet. */
export function pciElement(detection: Detection, busId: string, pciClass: string): XmlElement {
  const { document } = detection;
  const found = document.find('pci', { busid: busId }) ?? document.create('pci', { busid: busId });
  setIfAbsent(found, 'class', pciClass);
  return found;
}

/** Completes a pci element and everything above it. */
export function climb(detection: Detection, device: XmlElement): void {
  let pci = device;
  for (;;) {
    const path = pciPath(detection, pci.attributes.get('busid') ?? '');
    describePci(detection, pci, path);
    let parent = detection.document.parentOf(pci);
    if (parent === undefined) {
      parent = parentFor(detection, pci, path);
      detection.document.insert(parent, pci);
    }
    if (parent.name === 'cpu') fillCpu(detection, parent);
    if (parent.name !== 'pci') return;
    pci = parent;
  }
}

function describePci(detection: Detection, pci: XmlElement, path: string | undefined): void {
  const { files, log } = detection;
  const { attributes } = pci;
  const read = (file: string): string => (path === undefined ? '' : sysfsText(files, path, file, log));
  const fromSysfs = (key: string): void => {
    const value = read(key);
    if (value !== '') attributes.set(key, value);
  };
  fromSysfs('class');
  const pciClass = attributes.get('class') ?? '';
  const gpu =
    pciClass === '' || pciClass.startsWith('0x03')
      ? deviceAt(detection.nvml, attributes.get('busid') ?? '')
      : undefined;
  setIds(pci, gpu, fromSysfs);
  if (!attributes.has('link_speed')) setLinkSpeed(pci, gpu, path, read);
  if (!attributes.has('link_width')) setLinkWidth(pci, gpu, path, read);
  if (attributes.get('vendor') === BROADCOM) addPciLinks(detection, pci);
}

function setIds(pci: XmlElement, gpu: NvmlDevice | undefined, fromSysfs: (key: string) => void): void {
  const pairs = [
    ['vendor', 'device', gpu?.pciDeviceId],
    ['subsystem_vendor', 'subsystem_device', gpu?.pciSubSystemId],
  ] as const;
  for (const [lower, upper, id] of pairs) {
    for (const [key, value] of [
      [lower, id === undefined ? undefined : id & 0xffff],
      [upper, id === undefined ? undefined : id >>> 16],
    ] as const) {
      if (pci.attributes.has(key)) continue;
      if (value === undefined) fromSysfs(key);
      else pci.attributes.set(key, `0x${value.toString(16)}`);
    }
  }
}

/** The number before ` GT/s`; infinity for other texts. */
function gigatransfers(text: string): number {
  const [, number] = /^\s*(\d+(?:\.\d*)?|\.\d+) GT\/s/.exec(text) ?? [];
  return number === undefined ? Number.POSITIVE_INFINITY : Number(number);
}

function setLinkSpeed(
  pci: XmlElement,
  gpu: NvmlDevice | undefined,
  path: string | undefined,
  read: (file: string) => string,
): void {
  let speed: string | undefined = '';
  if (gpu !== undefined) {
    const generation = gpu.pcieGeneration ?? 0;
    speed = generation === 0 ? UNKNOWN_GENERATION : GENERATIONS[generation - 1];
  } else if (path !== undefined) {
    const [device, port] = [read('max_link_speed'), read('../max_link_speed')];
    speed = gigatransfers(port) < gigatransfers(device) ? port : device;
  }
  if (speed !== undefined) pci.attributes.set('link_speed', speed);
}

function setLinkWidth(
  pci: XmlElement,
  gpu: NvmlDevice | undefined,
  path: string | undefined,
  read: (file: string) => string,
): void {
  let width: string | number = '';
  if (gpu !== undefined) {
    width = gpu.pcieWidth || DEFAULT_WIDTH;
  } else if (path !== undefined) {
    const lanes = (file: string) => Number(BigInt.asIntN(32, cInteger(read(file))));
    width = Math.min(lanes('max_link_width'), lanes('../max_link_width'));
  }
  pci.attributes.set('link_width', String(width));
}

/** Ports of other switches that the same Broadcom fabric joins with this one. */
function addPciLinks(detection: Detection, pci: XmlElement): void {
  const { document, files } = detection;
  for (const target of files.names(`${SWITCH_LINKS}/${pci.attributes.get('busid')}`)) {
    if (target.length !== BUS_ID_LENGTH || pciPath(detection, target) === undefined) continue;
    if (document.childOf(pci, 'pcilink', { target }) === undefined) {
      document.append(pci, 'pcilink', { target });
    }
  }
}

function parentFor(detection: Detection, pci: XmlElement, path: string | undefined): XmlElement {
  const { document, files, log } = detection;
  if (path === undefined) return cpuElement(detection, UNKNOWN_NODE);
  const numaNode = sysfsText(files, path, 'numa_node', log);
  const parts = path.split('/');
  // Up one level; if that is a device too, it is the downstream port of a switch, whose name is one level higher.
  if (isBusId(parts.at(-2) ?? '') && isBusId(parts.at(-3) ?? '')) {
    const busid = parts.at(-3)!;
    const parent = document.find('pci', { busid }) ?? document.create('pci', { busid });
    // Only files that contradict each other can lead round in a circle.
    if (!document.isWithin(parent, pci)) return parent;
    log('INFO', 'GRAPH', `Topology detection : ${path} lies below itself, ignoring its place`);
    return cpuElement(detection, UNKNOWN_NODE);
  }
  return cpuElement(detection, numaNode);
}

/** NUMA number of a processor that the system does not name. */
const UNKNOWN_NODE = '-1';

/** The cpu element with a NUMA number, made if there is none. */
export function cpuElement({ document, hostHash }: Detection, numaId: string): XmlElement {
  return (
    document.find('cpu', { numaid: numaId }) ??
    document.append(document.root, 'cpu', { host_hash: hostHashText(hostHash), numaid: numaId })
  );
}

/** Adds what the system knows about a processor. */
export function fillCpu({ files, cpu, log }: Detection, one: XmlElement): void {
  const { attributes } = one;
  if (!attributes.has('affinity')) {
    const directory = `/sys/devices/system/node/node${attributes.get('numaid') ?? ''}`;
    const mask = sysfsText(files, directory, 'cpumap', log);
    if (mask !== '') attributes.set('affinity', mask);
  }
  if (cpu === undefined) return;
  setIfAbsent(one, 'arch', cpu.arch);
  if (cpu.arch !== 'x86_64') return;
  if (cpu.vendor !== undefined) setIfAbsent(one, 'vendor', cpu.vendor);
  if (!attributes.has('familyid')) {
    if (cpu.family !== undefined) attributes.set('familyid', String(cpu.family));
    if (cpu.model !== undefined) attributes.set('modelid', String(cpu.model));
  }
}

/**
 * From topology XML to the graph of the machine.
 *
 * Nodes are created in document order (their index is their order in every later decision); then come the links that
 * need both ends: NVLink, chip-to-chip, links between switches; two-level Broadcom switches are made one; CPUs are
 * connected; and below each CPU the link upwards is put last. (NCCL 2.30.7, topo.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { cHex, cInt } from '../c-integer.js';
import { type Dictionary, lookUp } from '../dictionary.js';
import { hashId, hashText } from '../hash.js';
import { type LogSink, SILENT } from '../log.js';
import { placeOf, type XmlElement } from '../xml/element.js';
import { shown } from '../xml/notes.js';
import {
  interCpuBandwidth,
  LOCAL_BANDWIDTH,
  netBandwidth,
  nvlinkBandwidth,
  PARTITION_BANDWIDTH,
  pciBandwidth,
} from './bandwidth.js';
import { flattenSwitches } from './broadcom.js';
import { addLink, addNode, connect, emptySystem, findNode } from './edit.js';
import {
  CpuArch,
  type CpuModel,
  type CpuNode,
  CpuVendor,
  type DevNode,
  hostOf,
  LOCAL_ID_MASK,
  type NicNode,
  type NodeType,
  type TopoNode,
  type TopoSystem,
} from './node.js';
import { LinkType } from './path-type.js';

export interface BuildOptions {
  /** Hash of the host that asks; it must be in the document. Absent: not checked. */
  readonly localHost?: bigint;
  /** NCCL_TOPO_SPLIT_MLOPART: partitions of one GPU are separate devices. */
  readonly splitMloPart?: boolean;
  readonly log?: LogSink;
}

/**
 * Builds the graph of a `<system>` element.
 *
 * @throws TuttiError internalError or invalidArgument naming the element, the attribute and what is wrong.
 */
export function buildSystem(root: XmlElement, options: BuildOptions = {}): TopoSystem {
  return new Builder(options).build(root);
}

/** What an element with a PCI class is. */
const PciKind = { SWITCH: 0, NVS: 1, CPU: 2, GPU: 3, NIC: 4 } as const;
type PciKind = (typeof PciKind)[keyof typeof PciKind];

const PCI_CLASSES: Dictionary<PciKind> = [
  ['0x060400', PciKind.SWITCH],
  // Data direct interface of a ConnectX-8.
  ['0x080100', PciKind.SWITCH],
  ['0x068000', PciKind.NVS],
  ['0x068001', PciKind.CPU],
  ['0x03', PciKind.GPU],
  ['0x02', PciKind.NIC],
];

const CPU_ARCHS: Dictionary<CpuArch> = [
  ['x86_64', CpuArch.X86],
  ['arm64', CpuArch.ARM],
  ['ppc64', CpuArch.POWER],
];

const CPU_VENDORS: Dictionary<CpuVendor> = [
  ['GenuineIntel', CpuVendor.INTEL],
  ['AuthenticAMD', CpuVendor.AMD],
  ['CentaurHauls', CpuVendor.ZHAOXIN],
  ['  Shanghai  ', CpuVendor.ZHAOXIN],
];

/** Function bits of a bus id that hold the partition; a GPU must have them clear. */
const PARTITION_MASK = 3n;

/** Position of the number of a rank on its device within the id of its GPU node. */
const RANK_ON_DEVICE_SHIFT = 40n;

/** Where in the document an element stands. */
interface Place {
  readonly cpu: CpuNode;
  readonly host: bigint;
}

/** The first gpu element of a device in the pci element that holds it: its links are those of the device. */
interface GpuElement extends Place {
  readonly busId: string;
  readonly gpu: XmlElement;
}

/** The number of a bus id: its hexadecimal digits, at most 16. */
export function busIdNumber(busId: string): bigint {
  let digits = '';
  for (const character of busId) {
    if (character === ':' || character === '.') continue;
    if (!/[0-9a-fA-F]/.test(character) || digits.length === 16) break;
    digits += character;
  }
  return digits === '' ? 0n : BigInt(`0x${digits}`);
}

class Builder {
  readonly #system = emptySystem();
  readonly #options: BuildOptions;
  readonly #log: LogSink;
  readonly #gpus: GpuElement[] = [];
  readonly #pciLinks: { host: bigint; busId: string; target: string; element: XmlElement }[] = [];

  constructor(options: BuildOptions) {
    this.#options = options;
    this.#log = options.log ?? SILENT;
  }

  build(root: XmlElement): TopoSystem {
    const system = this.#system;
    const name = root.attributes.get('name');
    this.#log('INFO', 'GRAPH', name === undefined ? 'Loading unnamed topology' : `Loading topology ${name}`);
    for (const child of root.children) {
      if (child.name === 'cpu') this.#addCpu(child);
      else this.#ignore(child);
    }
    const { localHost } = this.#options;
    if (localHost !== undefined && !system.hosts.includes(localHost)) {
      throw new TuttiError(
        'invalidArgument',
        `localHostHash = 0x${localHost.toString(16)} not found in the list of system hostHashes (${system.hosts
          .map((hash) => `0x${hash.toString(16)}`)
          .join(', ')}); the topology does not describe this host`,
      );
    }
    for (const gpu of this.#gpus) this.#addNvlinks(gpu);
    for (const gpu of this.#gpus) this.#addC2c(gpu);
    for (const { host, busId, target, element } of this.#pciLinks) {
      const from = findNode(system, 'PCI', idOf(host, busIdNumber(busId)));
      if (from === undefined) {
        throw broken(element, `could not find PCI SW ${busId}, which holds it`);
      }
      const to = findNode(system, 'PCI', idOf(host, busIdNumber(target)));
      if (to !== undefined) addLink(from, to, LinkType.LOC, LOCAL_BANDWIDTH);
    }
    flattenSwitches(system);
    this.#connectCpus();
    for (const cpu of system.nodes.CPU) putUpLinksLast(cpu, undefined);
    return system;
  }

  #ignore(element: XmlElement): void {
    this.#log('INFO', 'GRAPH', `Ignoring element ${element.name}`);
  }

  #addCpu(element: XmlElement): void {
    const system = this.#system;
    const numaId = cInt(required(element, 'numaid'));
    const hash = cHex(element.attributes.get('host_hash') ?? '');
    let host = system.hosts.indexOf(hash);
    if (host < 0) {
      host = system.hosts.length;
      system.hosts.push(hash);
    }
    const arch = lookUp<CpuArch>(CPU_ARCHS, required(element, 'arch'), CpuArch.UNKNOWN, this.#log);
    let vendor: CpuVendor = CpuVendor.UNDEFINED;
    let model: CpuModel = -1;
    if (arch === CpuArch.X86) {
      vendor = lookUp<CpuVendor>(CPU_VENDORS, required(element, 'vendor'), CpuVendor.UNKNOWN, this.#log);
      if (vendor === CpuVendor.INTEL || vendor === CpuVendor.ZHAOXIN) {
        const family = cInt(required(element, 'familyid'));
        model = cpuModel(vendor, family, cInt(required(element, 'modelid')));
      }
    }
    const cpu = addNode(system, {
      type: 'CPU',
      id: idOf(BigInt(host), BigInt(numaId)),
      arch,
      vendor,
      model,
      affinity: element.attributes.get('affinity') ?? '',
      numaId,
    });
    const place: Place = { cpu, host: BigInt(host) };
    for (const child of element.children) {
      if (child.name === 'pci') this.#addPci(child, cpu, place);
      else if (child.name === 'nic') this.#addVirtualNic(child, place);
      else this.#ignore(child);
    }
  }

  /** All interfaces without a PCI device share the node of the first CPU that has one. */
  #addVirtualNic(element: XmlElement, { cpu, host }: Place): void {
    let nic = findNode(this.#system, 'NIC', idOf(host, 0n));
    if (nic === undefined) {
      nic = addNode(this.#system, { type: 'NIC', id: idOf(host, 0n), busId: '' });
      connect(cpu, nic, LinkType.PCI, LOCAL_BANDWIDTH);
    }
    this.#addNets(element, nic, host, undefined);
  }

  #addPci(element: XmlElement, parent: TopoNode, place: Place): void {
    const system = this.#system;
    const { host } = place;
    const busId = required(element, 'busid');
    const kind = this.#kindOf(required(element, 'class'));
    const id = idOf(host, busIdNumber(busId));
    const speed = required(element, 'link_speed');
    const bandwidth = pciBandwidth(speed, cInt(required(element, 'link_width')), this.#log);
    const gpus = element.children.filter((child) => child.name === 'gpu');
    const spoken = new Set<DevNode>();
    for (const gpu of gpus) {
      if (!gpu.attributes.has('rank')) return;
      const device = this.#addGpu(gpu, element, parent, place, bandwidth);
      if (!spoken.has(device)) this.#gpus.push({ ...place, busId, gpu });
      spoken.add(device);
    }
    const nicElement = element.children.find((child) => child.name === 'nic');
    if (nicElement !== undefined) {
      const known = findNode(system, 'NIC', id);
      const nic = known ?? addNode(system, { type: 'NIC', id, busId });
      this.#addNets(nicElement, nic, host, busId);
      if (known === undefined) connect(nic, parent, LinkType.PCI, bandwidth);
    } else if (kind === PciKind.SWITCH) {
      const node = addNode(system, { type: 'PCI', id, device: deviceId(element), busId });
      for (const child of element.children) {
        if (child.name === 'pcilink') {
          const target = required(child, 'target');
          this.#pciLinks.push({ host, busId, target, element: child });
        } else if (child.name === 'gpu' && !child.attributes.has('busid')) {
          throw broken(
            child,
            `attribute busid is missing: NCCL takes it for a device, because the <pci> around it is a switch by its ` +
              `class ${shown(required(element, 'class'))}; a GPU has class 0x030200 or 0x030000`,
          );
        } else {
          this.#addPci(child, node, place);
        }
      }
      connect(node, parent, LinkType.PCI, bandwidth);
    }
  }

  #kindOf(pciClass: string): PciKind {
    return lookUp<PciKind>(PCI_CLASSES, pciClass, PciKind.SWITCH, this.#log);
  }

  #addGpu(element: XmlElement, pci: XmlElement, parent: TopoNode, place: Place, bandwidth: number): DevNode {
    const system = this.#system;
    const busId = required(pci, 'busid');
    const bus = busIdNumber(busId);
    if ((bus & PARTITION_MASK) !== 0n) {
      throw broken(
        element,
        `bus id ${busId} has non-zero bits in the MLOPart mask 0x3, so the partition index cannot be encoded; ` +
          'NCCL uses GPUs on PCI function 0 or 4 only',
      );
    }
    const sm = cInt(required(element, 'sm'));
    const dev = cInt(required(element, 'dev'));
    const mloPart = this.#partitionOf(element);
    const id = idOf(place.host, partitionBus(bus, mloPart));
    let device = findNode(system, 'DEV', id);
    if (device === undefined) {
      const siblings = this.#devicesOf(place.host, bus);
      device = addNode(system, {
        type: 'DEV',
        id,
        dev,
        sm,
        gpuCount: 0,
        device: deviceId(pci),
        mloPart,
        busId,
      });
      connect(device, parent, LinkType.PCI, bandwidth);
      for (const sibling of siblings) connect(device, sibling, LinkType.LOC, PARTITION_BANDWIDTH);
    }
    const gpu = addNode(system, {
      type: 'GPU',
      id: id | (BigInt(device.gpuCount) << RANK_ON_DEVICE_SHIFT),
      dev,
      rank: cInt(required(element, 'rank')),
      sm,
      gdr: cInt(required(element, 'gdr')) !== 0,
      mloPart: cInt(element.attributes.get('mlopart') ?? '-1'),
      parent: device,
    });
    device.gpuCount += 1;
    connect(gpu, device, LinkType.LOC, LOCAL_BANDWIDTH);
    return device;
  }

  /** Partition that is a device of its own, -1 for a whole GPU. */
  #partitionOf(element: XmlElement): number {
    const part = cInt(element.attributes.get('mlopart') ?? '-1');
    if (part > 1) throw broken(element, `MLOPart index ${part} out of range (max 1)`);
    return (this.#options.splitMloPart ?? true) ? part : -1;
  }

  #addNets(nicElement: XmlElement, nic: NicNode, host: bigint, pciBusId: string | undefined): void {
    for (const net of nicElement.children) {
      if (net.name !== 'net') {
        this.#ignore(net);
        continue;
      }
      const { attributes } = net;
      const devText = attributes.get('dev');
      if (devText === undefined) continue;
      const dev = cInt(devText);
      const id = idOf(host, BigInt(dev));
      const guid = attributes.get('guid');
      const asic = guid === undefined ? id : cHex(guid);
      const number = (name: string, fallback: number) => {
        const text = attributes.get(name);
        return text === undefined ? fallback : cInt(text);
      };
      const bandwidth = netBandwidth(number('speed', 0));
      const latency = Number.parseFloat(attributes.get('latency') ?? '0');
      const port = (type: 'NET' | 'GIN' | 'RMA') => ({
        type,
        id,
        name: attributes.get('name') ?? '',
        dev,
        asic,
        port: number('port', 0),
        bandwidth,
        latency: Number.isNaN(latency) ? 0 : Math.fround(latency),
        gdr: number('gdr', 0) !== 0,
        coll: number('coll', 0) !== 0,
        maxConnections: number('maxconn', 64),
        rail: number('rail', -1),
        plane: number('plane', -1),
        pciId: pciBusId === undefined ? hashId(asic) : hashText(pciBusId),
        localGpu: -1,
      });
      const uses: readonly ['NET' | 'GIN' | 'RMA', boolean][] = [
        ['NET', number('net', 1) !== 0],
        ['GIN', number('gin', 0) !== 0],
        ['RMA', number('rma', 0) !== 0],
      ];
      for (const [type, used] of uses) {
        if (!used) continue;
        const node = addNode<NodeType>(this.#system, port(type)) as TopoNode;
        connect(nic, node, LinkType.NET, bandwidth);
      }
    }
  }

  /** Devices of one physical GPU: one, or one per partition. */
  #devicesOf(host: bigint, bus: bigint): DevNode[] {
    return this.#system.nodes.DEV.filter(
      (dev) => BigInt(hostOf(dev)) === host && (dev.id & LOCAL_ID_MASK & ~PARTITION_MASK) === bus,
    );
  }

  #deviceOf({ host, busId, gpu }: GpuElement): DevNode {
    const id = idOf(host, partitionBus(busIdNumber(busId), this.#partitionOf(gpu)));
    const device = findNode(this.#system, 'DEV', id);
    if (device === undefined) throw broken(gpu, `could not find the device of GPU ${busId}`);
    return device;
  }

  #addNvlinks(source: GpuElement): void {
    const system = this.#system;
    for (const nvlink of source.gpu.children) {
      if (nvlink.name !== 'nvlink') continue;
      const device = this.#deviceOf(source);
      const count = cInt(required(nvlink, 'count'));
      const kind = this.#kindOf(required(nvlink, 'tclass'));
      const partitions = this.#devicesOf(source.host, busIdNumber(source.busId)).length;
      const bandwidth = Math.fround(count * nvlinkBandwidth(device.sm));
      if (kind === PciKind.GPU) {
        const peers = this.#devicesOf(source.host, busIdNumber(required(nvlink, 'target')));
        const share = Math.fround(Math.fround(bandwidth / peers.length) / partitions);
        for (const peer of peers) addLink(device, peer, LinkType.NVL, share);
      } else if (kind === PciKind.CPU) {
        const cpu = cpuAbove(device);
        if (cpu !== undefined) connect(device, cpu, LinkType.NVL, Math.fround(bandwidth / partitions));
      } else {
        const nvs = system.nodes.NVS[0] ?? addNode(system, { type: 'NVS', id: 0n });
        connect(device, nvs, LinkType.NVL, Math.fround(bandwidth / partitions));
      }
    }
  }

  #addC2c(source: GpuElement): void {
    const system = this.#system;
    for (const c2c of source.gpu.children) {
      if (c2c.name !== 'c2c') continue;
      const device = this.#deviceOf(source);
      const total = Math.imul(cInt(required(c2c, 'bw')), cInt(required(c2c, 'count')));
      const bandwidth = Math.fround(total / 1000);
      const cpu = cpuAbove(device);
      if (cpu === undefined) continue;
      const bus = busIdNumber(source.busId);
      if (this.#devicesOf(source.host, bus).length === 1) {
        connect(device, cpu, LinkType.C2C, bandwidth);
        continue;
      }
      const id = idOf(source.host, bus);
      let bridge = findNode(system, 'CXB', id);
      if (bridge === undefined) {
        bridge = addNode(system, { type: 'CXB', id });
        connect(bridge, cpu, LinkType.C2C, bandwidth);
      }
      connect(device, bridge, LinkType.C2C, bandwidth);
    }
  }

  #connectCpus(): void {
    const { CPU } = this.#system.nodes;
    for (const from of CPU) {
      for (const to of CPU) {
        if (from !== to && hostOf(from) === hostOf(to))
          addLink(from, to, LinkType.SYS, interCpuBandwidth(from));
      }
    }
  }
}

/** The CPU that a device hangs below, following PCI links upwards through switches. */
export function cpuAbove(device: TopoNode): CpuNode | undefined {
  const seen = new Set<TopoNode>([device]);
  const queue: TopoNode[] = [device];
  for (const node of queue) {
    for (const { type, to } of node.links) {
      if (type !== LinkType.PCI || seen.has(to)) continue;
      if (to.type === 'CPU') return to;
      if (to.type !== 'PCI') continue;
      seen.add(to);
      queue.push(to);
    }
  }
  return undefined;
}

/** In each node below a CPU the link upwards becomes the last. */
function putUpLinksLast(node: TopoNode, up: TopoNode | undefined): void {
  if (up !== undefined) {
    const at = node.links.findIndex((link) => link.to === up);
    if (at >= 0) node.links.push(...node.links.splice(at, 1));
  }
  for (const { type, to } of [...node.links]) {
    if (type === LinkType.PCI && to !== up) putUpLinksLast(to, node);
  }
}

function cpuModel(vendor: CpuVendor, family: number, model: number): CpuModel {
  if (vendor === CpuVendor.ZHAOXIN) return family === 7 && model === 0x5b ? 1 : -1;
  if (family !== 6) return 1;
  if (model >= 0xcf) return 4;
  if (model >= 0x8f) return 3;
  return model >= 0x55 ? 2 : 1;
}

/** Id of a node: host number above, local id (cut to its bits) below. */
function idOf(host: bigint, local: bigint): bigint {
  return (host << 56n) | (local & LOCAL_ID_MASK);
}

/** Bus id of the device of a partition: the first is marked 1, the second 3. */
function partitionBus(bus: bigint, mloPart: number): bigint {
  return mloPart < 0 ? bus : bus | (mloPart === 0 ? 1n : 3n);
}

/** Vendor, device, subsystem vendor and subsystem device of a pci element, 16 bits each. */
function deviceId(pci: XmlElement): bigint {
  const part = (name: string) => cHex(pci.attributes.get(name) ?? '');
  const id =
    (part('vendor') << 48n) +
    (part('device') << 32n) +
    (part('subsystem_vendor') << 16n) +
    part('subsystem_device');
  return BigInt.asUintN(64, id);
}

function required(element: XmlElement, name: string): string {
  const text = element.attributes.get(name);
  if (text === undefined) throw broken(element, `attribute ${name} is missing`);
  return text;
}

function broken(element: XmlElement, text: string): TuttiError {
  return new TuttiError('internalError', `${placeOf(element)}: ${text}`);
}

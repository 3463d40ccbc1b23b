/**
 * A machine as people look at it: hosts, their CPUs (NUMA nodes), and below each the switches, GPUs and NICs.
 *
 * It is read off the graph that decisions are made on, so that it shows what counts: switches that were joined are one,
 * devices that were left out are missing, speeds are the ones that NCCL assumes. The document adds what the graph does
 * not keep: lanes, processor models.
 */
import { cInt } from '../c-integer.js';
import { nvlinkBandwidth } from '../system/bandwidth.js';
import {
  type CpuNode,
  type DevNode,
  type GpuNode,
  hostOf,
  type NicNode,
  type NvsNode,
  type PciNode,
  type PortNode,
  type TopoNode,
  type TopoSystem,
} from '../system/node.js';
import { LinkType } from '../system/path-type.js';
import type { XmlElement } from '../xml/element.js';
import { cpuName, gpuName } from './product-names.js';
import { affinityText, bandwidthText } from './quantities.js';

/** A PCI Express link, upwards from a device. */
export interface PciFacts {
  /** GB/s that NCCL counts with. */
  readonly bandwidth: number;
  /** Generation that this bandwidth stands for; undefined if it stands for none. */
  readonly generation: number | undefined;
  /** Lanes; undefined if the document does not tell. */
  readonly lanes: number | undefined;
}

/** `Gen5 x16 48 GB/s` */
export function pcieText({ bandwidth, generation, lanes }: PciFacts): string {
  const gen = generation === undefined ? '' : `Gen${generation} `;
  const width = lanes === undefined ? '' : `x${lanes} `;
  return `${gen}${width}${bandwidthText(bandwidth)} GB/s`;
}

/** NVLinks from one GPU to one other end. */
export interface NvlinkFacts {
  readonly to: DevNode | NvsNode | CpuNode;
  /** GB/s of all of them. */
  readonly bandwidth: number;
  /** Undefined if the bandwidth is no multiple of a link's (partitions of one GPU share its links). */
  readonly count: number | undefined;
}

export interface GpuFacts {
  readonly kind: 'gpu';
  readonly node: DevNode;
  /** Ranks on this device; several if a GPU is shared. */
  readonly gpus: readonly GpuNode[];
  readonly name: string;
  readonly pci: PciFacts;
  readonly nvlinks: readonly NvlinkFacts[];
  /** GB/s of the chip-to-chip link to the CPU; 0 for none. */
  readonly c2c: number;
}

export interface NicFacts {
  readonly kind: 'nic';
  readonly node: NicNode;
  /** Undefined for a virtual interface, which hangs at the CPU itself. */
  readonly pci: PciFacts | undefined;
  readonly ports: readonly PortNode[];
}

export interface SwitchFacts {
  readonly kind: 'switch';
  readonly node: PciNode;
  readonly pci: PciFacts;
  /** Switches that this one reaches by a link of its own. */
  readonly peers: readonly PciNode[];
  readonly devices: readonly DeviceFacts[];
}

export type DeviceFacts = GpuFacts | NicFacts | SwitchFacts;

export interface CpuFacts {
  readonly node: CpuNode;
  readonly name: string;
  /** CPU numbers (`0-47,96-143`), '' if unknown. */
  readonly cores: string;
  /** Other CPUs of the host that this one is linked to. */
  readonly links: readonly { readonly to: CpuNode; readonly bandwidth: number }[];
  readonly devices: readonly DeviceFacts[];
}

export interface HostFacts {
  readonly number: number;
  readonly cpus: readonly CpuFacts[];
}

export interface MachineFacts {
  readonly hosts: readonly HostFacts[];
  /** An NVSwitch joins GPUs. */
  readonly hasNvSwitch: boolean;
}

/** PCI generation by the bandwidth of 16 lanes, GB/s. */
const GENERATIONS: ReadonlyMap<number, number> = new Map([
  [3, 1],
  [6, 2],
  [12, 3],
  [24, 4],
  [48, 5],
  [96, 6],
]);

/** Lanes that count where a document says 0. */
const DEFAULT_LANES = 16;

/** Describes a system; `document` is the one that it was built from. */
export function machineFacts(system: TopoSystem, document: XmlElement): MachineFacts {
  const details = new Details(document);
  const seen = new Set<TopoNode>();
  const hosts = system.hosts.map((_, number) => ({
    number,
    cpus: system.nodes.CPU.filter((cpu) => hostOf(cpu) === number).map((cpu) => describeCpu(cpu)),
  }));
  return { hosts, hasNvSwitch: system.nodes.NVS.length > 0 };

  function describeCpu(node: CpuNode): CpuFacts {
    const element = details.cpu(node);
    const number = (name: string) => {
      const text = element?.attributes.get(name);
      return text === undefined ? undefined : cInt(text);
    };
    return {
      node,
      name: cpuName(node, number('familyid'), number('modelid')),
      cores: affinityText(node.affinity),
      links: node.links.flatMap(({ type, to, bandwidth }) =>
        type === LinkType.SYS && to.type === 'CPU' ? [{ to, bandwidth }] : [],
      ),
      devices: devicesBelow(node),
    };
  }

  function devicesBelow(parent: TopoNode): DeviceFacts[] {
    seen.add(parent);
    const below = parent.links.filter(
      ({ type, to }) => type === LinkType.PCI && to.type !== 'CPU' && !seen.has(to),
    );
    // Links stand by bandwidth; people expect the order of the document.
    const order = (node: TopoNode) => details.place(node);
    below.sort((a, b) => order(a.to) - order(b.to));
    return below.flatMap(({ to, bandwidth }): DeviceFacts[] => {
      if (seen.has(to)) return [];
      seen.add(to);
      const pci = pciFacts(to, bandwidth);
      if (to.type === 'PCI') {
        const peers = to.links.flatMap(({ type, to: peer }) =>
          type === LinkType.LOC && peer.type === 'PCI' ? [peer] : [],
        );
        return [{ kind: 'switch' as const, node: to, pci, peers, devices: devicesBelow(to) }];
      }
      if (to.type === 'DEV') return [describeGpu(to, pci)];
      if (to.type === 'NIC') {
        const ports = to.links.flatMap(({ to: port }) => (isPort(port) ? [port] : []));
        ports.sort((a, b) => a.dev - b.dev);
        return [{ kind: 'nic' as const, node: to, pci: to.busId === '' ? undefined : pci, ports }];
      }
      return [];
    });
  }

  function pciFacts(node: TopoNode, bandwidth: number): PciFacts {
    const busId = 'busId' in node ? node.busId : '';
    const width = details.pci(hostOf(node), busId)?.attributes.get('link_width');
    const written = width === undefined ? undefined : cInt(width);
    const lanes = written === 0 ? DEFAULT_LANES : written;
    const generation = lanes === undefined ? undefined : GENERATIONS.get((bandwidth / lanes) * 16);
    return { bandwidth, generation, lanes };
  }
}

function describeGpu(node: DevNode, pci: PciFacts): GpuFacts {
  const nvlinks: NvlinkFacts[] = [];
  let c2c = 0;
  for (const { type, to, bandwidth } of node.links) {
    if (type === LinkType.C2C) c2c = bandwidth;
    if (type !== LinkType.NVL || (to.type !== 'DEV' && to.type !== 'NVS' && to.type !== 'CPU')) continue;
    const count = Math.round(bandwidth / nvlinkBandwidth(node.sm));
    const whole = Math.abs(count * nvlinkBandwidth(node.sm) - bandwidth) < 0.01;
    nvlinks.push({ to, bandwidth, count: whole ? count : undefined });
  }
  const gpus = node.links.flatMap(({ to }) => (to.type === 'GPU' ? [to] : []));
  return { kind: 'gpu', node, gpus, name: gpuName(node.device, node.sm), pci, nvlinks, c2c };
}

const isPort = (node: TopoNode): node is PortNode =>
  node.type === 'NET' || node.type === 'GIN' || node.type === 'RMA';

/** Finds the elements that nodes were made from. */
class Details {
  readonly #cpus: XmlElement[] = [];
  readonly #pci = new Map<string, { element: XmlElement; place: number }>();

  constructor(document: XmlElement) {
    const hosts: string[] = [];
    for (const cpu of document.children) {
      if (cpu.name !== 'cpu') continue;
      this.#cpus.push(cpu);
      const hash = cpu.attributes.get('host_hash') ?? '';
      if (!hosts.includes(hash)) hosts.push(hash);
      this.#visit(cpu, hosts.indexOf(hash));
    }
  }

  #visit(parent: XmlElement, host: number): void {
    for (const child of parent.children) {
      if (child.name !== 'pci') continue;
      const key = keyOf(host, child.attributes.get('busid') ?? '');
      if (!this.#pci.has(key)) this.#pci.set(key, { element: child, place: this.#pci.size });
      this.#visit(child, host);
    }
  }

  /** CPU nodes are made one per element, in order. */
  cpu({ index }: CpuNode): XmlElement | undefined {
    return this.#cpus[index];
  }

  pci(host: number, busId: string): XmlElement | undefined {
    return this.#pci.get(keyOf(host, busId))?.element;
  }

  /** Position of a device in the document; virtual ones last. */
  place(node: TopoNode): number {
    const busId = 'busId' in node ? node.busId : '';
    return this.#pci.get(keyOf(hostOf(node), busId))?.place ?? Number.MAX_SAFE_INTEGER;
  }
}

const keyOf = (host: number, busId: string): string => `${host} ${busId.toLowerCase()}`;

/** All devices of a machine of one kind, in the order of the tree. */
export function devicesOf<K extends DeviceFacts['kind']>(
  machine: MachineFacts,
  kind: K,
): Extract<DeviceFacts, { kind: K }>[] {
  const found: DeviceFacts[] = [];
  const visit = (devices: readonly DeviceFacts[]) => {
    for (const device of devices) {
      if (device.kind === kind) found.push(device);
      if (device.kind === 'switch') visit(device.devices);
    }
  };
  for (const host of machine.hosts) for (const cpu of host.cpus) visit(cpu.devices);
  return found as Extract<DeviceFacts, { kind: K }>[];
}

/**
 * Random machines for property tests: hosts that no vendor would build, as NCCL's topology XML.
 *
 * A machine is a function of its seed alone. Most have 1 to 8 GPUs on 1 to 4 sockets below nested switches, NVLink as
 * pairs, meshes or a switch, and 1 to 8 NICs; each oddity (see `Oddity`) comes with a chance of its own.
 */
import { element, type XmlElement } from '#src/topology/xml/element.js';

/** What is not as in an ordinary server. */
export const ODDITIES = [
  'no NIC',
  'one GPU',
  'virtual NICs',
  'pcilink',
  'mixed compute capabilities',
  'two-port NICs',
  'rails',
  'planes',
  'no GPUDirect',
  'chip-to-chip links',
  'NVLink to the CPU',
  'partitioned GPU',
  'two ranks on a GPU',
  'Broadcom switches',
  'unknown link speed',
  'ranks not in document order',
  'CollNet NICs',
  'one-way NVLink counts',
] as const;
export type Oddity = (typeof ODDITIES)[number];

/** How NVLinks run. */
export type NvlinkShape = 'none' | 'pairs' | 'mesh' | 'switch';

export interface RandomMachine {
  readonly seed: number;
  /** One line for messages. */
  readonly text: string;
  /** The `<system>` element: one host with hash 0x1000; ranks 0 to `nRanks` - 1. */
  readonly xml: XmlElement;
  readonly nRanks: number;
  /** `<net>` elements; a virtual NIC that stands under several CPUs counts once for each. */
  readonly nNets: number;
  readonly nvlink: NvlinkShape;
  readonly oddities: ReadonlySet<Oddity>;
}

/** A machine; `without` leaves out oddities that a test cannot have. */
export function randomMachine(seed: number, without: readonly Oddity[] = []): RandomMachine {
  return new Generator(seed, without).machine();
}

/** Draws numbers from a seed (mulberry32, 32 bits of state, public domain). */
class Draw {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** 0 up to, but not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  chance = (probability: number): boolean => this.next() < probability;

  /** A whole number, both ends included. */
  between = (low: number, high: number): number => low + Math.floor(this.next() * (high - low + 1));

  pick = <T>(values: readonly T[]): T => values[Math.floor(this.next() * values.length)]!;

  shuffle<T>(values: T[]): void {
    for (let i = values.length - 1; i > 0; i--) {
      const j = this.between(0, i);
      [values[i], values[j]] = [values[j]!, values[i]!];
    }
  }
}

/** Attributes of a CPU by kind; x86 kinds have one model of each of NCCL's classes. */
const CPUS: readonly Readonly<Record<string, string>>[] = [
  ...['79', '85', '106', '143', '173', '207'].map((modelid) => ({
    arch: 'x86_64',
    vendor: 'GenuineIntel',
    familyid: '6',
    modelid,
  })),
  ...['1', '17', '49'].map((modelid) => ({
    arch: 'x86_64',
    vendor: 'AuthenticAMD',
    familyid: '175',
    modelid,
  })),
  { arch: 'x86_64', vendor: '  Shanghai  ', familyid: '7', modelid: '91' },
  { arch: 'arm64' },
  { arch: 'arm64' },
  { arch: 'ppc64' },
];

const GPU_PCI = {
  class: '0x030200',
  vendor: '0x10de',
  device: '0x2330',
  subsystem_vendor: '0x10de',
  subsystem_device: '0x16c1',
};
const NIC_PCI = {
  class: '0x020700',
  vendor: '0x15b3',
  device: '0x1021',
  subsystem_vendor: '0x15b3',
  subsystem_device: '0x0041',
};
const SWITCH_PCI = {
  class: '0x060400',
  vendor: '0x10b5',
  device: '0x8796',
  subsystem_vendor: '0x10b5',
  subsystem_device: '0x8796',
};
/** Fourth generation: a switch and the switches directly below it become one. */
const BROADCOM_PCI = {
  class: '0x060400',
  vendor: '0x1000',
  device: '0xc010',
  subsystem_vendor: '0x1000',
  subsystem_device: '0xa123',
};

const SPEEDS = [
  '2.5 GT/s PCIe',
  '8.0 GT/s PCIe',
  '16.0 GT/s PCIe',
  '16.0 GT/s PCIe',
  '32.0 GT/s PCIe',
  '32.0 GT/s PCIe',
  '64.0 GT/s PCIe',
];
const ODD_SPEEDS = ['', 'Unknown', '16.0 GT/s', '8 GT/s', '16 GT/s'];
const WIDTHS = [16, 16, 16, 16, 8, 4, 1, 0];

/** Switches above each other, at most. */
const MAX_DEPTH = 3;

/** A place for devices: a CPU, or a switch `depth` levels below one. */
interface Container {
  readonly node: XmlElement;
  readonly depth: number;
}

interface Gpu {
  readonly pci: XmlElement;
  /** One, or two where ranks share the device. */
  readonly gpus: XmlElement[];
  readonly sm: number;
}

class Generator {
  readonly #draw: Draw;
  readonly #without: readonly Oddity[];
  readonly #seed: number;
  readonly #oddities = new Set<Oddity>();
  readonly #sockets: Container[][] = [];
  readonly #gpus: Gpu[] = [];
  #bus = 0x10;
  #speed = '';
  #nRanks = 0;
  #nNets = 0;

  constructor(seed: number, without: readonly Oddity[]) {
    this.#seed = seed;
    this.#draw = new Draw(seed);
    this.#without = without;
  }

  machine(): RandomMachine {
    const { pick, chance, between } = this.#draw;
    const cpu = pick(CPUS);
    const sm = pick([60, 70, 75, 80, 80, 86, 89, 90, 90, 90, 100, 100, 120]);
    this.#speed = pick(SPEEDS);
    const xml = element('system', { version: 1 });
    const sockets = pick([1, 1, 2, 2, 2, 3, 4]);
    for (let numa = 0; numa < sockets; numa++) {
      const node = element('cpu', { host_hash: '0x1000', numaid: numa, affinity: 'ffffffff', ...cpu });
      xml.children.push(node);
      this.#sockets.push([{ node, depth: 0 }]);
    }
    const nGpus = this.#odd('one GPU', 0.08) ? 1 : between(2, 8);
    this.#addGpus(nGpus, sm);
    const nvlink = this.#addNvlinks(sm);
    if (cpu.arch === 'arm64' && sm >= 90 && this.#odd('chip-to-chip links', 0.4)) {
      for (const { gpus } of this.#gpus) gpus[0]!.children.push(element('c2c', { bw: 44712, count: 5 }));
    }
    if (cpu.arch === 'ppc64' && this.#odd('NVLink to the CPU', 0.5)) {
      const link = { target: 'fffffff:ff:ff.0', count: 2, tclass: '0x068001' };
      for (const { gpus } of this.#gpus) gpus[0]!.children.push(element('nvlink', link));
    }
    if (!this.#odd('no NIC', 0.08)) {
      if (this.#odd('virtual NICs', 0.12)) this.#addVirtualNics(xml);
      else this.#addNics();
    }
    this.#addPciLinks();
    if (chance(0.3)) this.#shuffleChildren(xml);
    this.#numberRanks(xml);
    const text =
      `machine of seed ${this.#seed}: ${this.#gpus.length} GPUs (sm ${sm}, NVLink ${nvlink}), ` +
      `${this.#sockets.length} sockets (${cpu.vendor ?? cpu.arch}), ${this.#nNets} NICs` +
      [...this.#oddities].map((oddity) => `, ${oddity}`).join('');
    return {
      seed: this.#seed,
      text,
      xml,
      nRanks: this.#nRanks,
      nNets: this.#nNets,
      nvlink,
      oddities: this.#oddities,
    };
  }

  #odd(oddity: Oddity, probability: number): boolean {
    if (!this.#draw.chance(probability) || this.#without.includes(oddity)) return false;
    this.#oddities.add(oddity);
    return true;
  }

  #busId(): string {
    const number = this.#bus++;
    return `${hex(number >> 8, 4)}:${hex(number & 0xff, 2)}:00.0`;
  }

  #pci(kind: Readonly<Record<string, string>>, speed: string, width: number): XmlElement {
    return element('pci', { busid: this.#busId(), ...kind, link_speed: speed, link_width: width });
  }

  /** A CPU or switch of a socket; now and then a new switch. */
  #container(socket: number): Container {
    const { chance, pick } = this.#draw;
    const containers = this.#sockets[socket]!;
    const place = pick(containers);
    if (place.depth === MAX_DEPTH || !chance(containers.length === 1 ? 0.6 : 0.3)) return place;
    const kind = this.#odd('Broadcom switches', 0.1) ? BROADCOM_PCI : SWITCH_PCI;
    const node = this.#pci(kind, this.#speed, 16);
    place.node.children.push(node);
    const added = { node, depth: place.depth + 1 };
    containers.push(added);
    return added;
  }

  #addGpus(count: number, sm: number): void {
    const { chance, between, pick } = this.#draw;
    const mixed = this.#odd('mixed compute capabilities', 0.1);
    const gdr = this.#odd('no GPUDirect', 0.2) ? 0 : 1;
    const width = pick(WIDTHS);
    const spread = chance(0.7);
    for (let dev = 0; dev < count; dev++) {
      const last = this.#sockets.length - 1;
      const socket = spread ? Math.floor((dev * (last + 1)) / count) : between(0, last);
      const { node } = this.#container(socket);
      const speed = this.#odd('unknown link speed', 0.03) ? pick(ODD_SPEEDS) : this.#speed;
      const pci = this.#pci(GPU_PCI, speed, width);
      const own = mixed ? pick([70, 80, 86, 90, 100]) : sm;
      const gpu = (part: number) => element('gpu', { dev, sm: own, rank: 0, gdr, mlopart: part });
      const gpus = this.#odd('partitioned GPU', 0.02)
        ? [gpu(0), gpu(1)]
        : this.#odd('two ranks on a GPU', 0.02)
          ? [gpu(-1), gpu(-1)]
          : [gpu(-1)];
      if (gpus.length === 1) gpus[0]!.attributes.delete('mlopart');
      pci.children.push(...gpus);
      node.children.push(pci);
      this.#gpus.push({ pci, gpus, sm: own });
    }
  }

  #addNvlinks(sm: number): NvlinkShape {
    const { chance, between, pick } = this.#draw;
    const shape = pick<NvlinkShape>(['none', 'pairs', 'mesh', 'switch', 'switch']);
    const perGpu = sm >= 90 ? 18 : sm >= 80 ? 12 : sm >= 70 ? 6 : 4;
    if (shape === 'switch') {
      const count = this.#gpus.length > 1 && chance(0.2) ? between(1, perGpu) : perGpu;
      for (const { gpus } of this.#gpus) addNvlink(gpus, 'fffffff:ff:ff.0', count, '0x068000');
    }
    const uneven = shape === 'mesh' && this.#odd('one-way NVLink counts', 0.05);
    for (const [a, one] of this.#gpus.entries()) {
      for (const [b, other] of this.#gpus.entries()) {
        if (b <= a) continue;
        const joined = shape === 'pairs' ? a % 2 === 0 && b === a + 1 : shape === 'mesh' && chance(0.6);
        if (!joined) continue;
        const count = between(1, 4);
        addNvlink(one.gpus, busIdOf(other.pci), count, '0x030200');
        addNvlink(other.gpus, busIdOf(one.pci), uneven ? between(1, 4) : count, '0x030200');
      }
    }
    return shape;
  }

  #addNics(): void {
    const { chance, between, pick } = this.#draw;
    const speed = pick([1000, 10000, 25000, 100000, 200000, 400000, 800000]);
    const twoPorts = this.#odd('two-port NICs', 0.15);
    const rails = this.#odd('rails', 0.1);
    const planes = this.#odd('planes', 0.06);
    const coll = this.#odd('CollNet NICs', 0.2);
    const gdr = chance(0.85) ? 1 : 0;
    for (let card = 0, cards = between(1, twoPorts ? 4 : 8); card < cards; card++) {
      const { node } = this.#container(between(0, this.#sockets.length - 1));
      const pci = this.#pci(NIC_PCI, pick(SPEEDS.slice(1)), pick(WIDTHS.slice(0, -2)));
      const nic = element('nic');
      for (let port = 1; port <= (twoPorts ? 2 : 1); port++) {
        const dev = this.#nNets++;
        const net = element('net', { name: `mlx5_${dev}`, dev, latency: 0, speed, port });
        net.attributes.set('guid', `0x${(0xa0000 + card).toString(16)}`);
        net.attributes.set('maxconn', '131072').set('gdr', String(gdr));
        if (coll) net.attributes.set('coll', '1');
        if (rails) net.attributes.set('rail', String(card % 4));
        if (planes) net.attributes.set('plane', String(dev % 2));
        nic.children.push(net);
      }
      pci.children.push(nic);
      node.children.push(pci);
    }
  }

  /** Interfaces without a PCI device; the same ones under every CPU, or under the first only. */
  #addVirtualNics(system: XmlElement): void {
    const { chance, between } = this.#draw;
    const count = between(1, 3);
    const cpus = chance(0.5) ? system.children : system.children.slice(0, 1);
    for (const cpu of cpus) {
      const nic = element('nic');
      for (let dev = 0; dev < count; dev++) {
        const net = { name: `tunl${dev}`, dev, latency: 0, speed: 10000, port: 0 };
        nic.children.push(
          element('net', { ...net, guid: `0x${(dev + 1).toString(16)}`, maxconn: 65536, gdr: 0 }),
        );
        this.#nNets++;
      }
      cpu.children.push(nic);
    }
  }

  /** Both ways between two switches. */
  #addPciLinks(): void {
    const switches = this.#sockets.flat().filter(({ depth }) => depth > 0);
    if (switches.length < 2 || !this.#odd('pcilink', 0.15)) return;
    const [a, b] = [switches[0]!.node, switches.at(-1)!.node];
    a.children.push(element('pcilink', { target: busIdOf(b) }));
    b.children.push(element('pcilink', { target: busIdOf(a) }));
  }

  #shuffleChildren(parent: XmlElement): void {
    if (parent.children.some(({ name }) => name === 'gpu')) return;
    this.#draw.shuffle(parent.children);
    for (const child of parent.children) this.#shuffleChildren(child);
  }

  #numberRanks(system: XmlElement): void {
    const gpus: XmlElement[] = [];
    const visit = (node: XmlElement) => {
      if (node.name === 'gpu') gpus.push(node);
      else for (const child of node.children) visit(child);
    };
    visit(system);
    if (gpus.length > 1 && this.#odd('ranks not in document order', 0.15)) this.#draw.shuffle(gpus);
    for (const [rank, gpu] of gpus.entries()) gpu.attributes.set('rank', String(rank));
    this.#nRanks = gpus.length;
  }
}

function addNvlink(gpus: readonly XmlElement[], target: string, count: number, tclass: string): void {
  for (const gpu of gpus) gpu.children.push(element('nvlink', { target, count, tclass }));
}

const busIdOf = (pci: XmlElement): string => pci.attributes.get('busid')!;

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, '0');

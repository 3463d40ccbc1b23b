/**
 * Small machines for tests, written down as one would draw them: CPUs hold switches, switches hold GPUs and NICs.
 *
 *     system(cpu(SAPPHIRE_RAPIDS, pciSwitch('01:00.0', gpu('02:00.0', 0), nic('03:00.0', 0))))
 *
 * Every function gives an element of NCCL's topology XML with all attributes that NCCL asks for. Unless a test says
 * otherwise: one host (hash 0x1000), PCI links of 16 lanes of the fourth generation (24 GB/s), GPUs of compute
 * capability 9.0 with GPUDirect RDMA whose rank is their NVML number, NICs of 200 Gbit/s (25 GB/s) with GPUDirect
 * RDMA, each a card of its own.
 */
import { element, type XmlElement } from '#src/topology/xml/element.js';

export type Attributes = Readonly<Record<string, string | number>>;

/** The `<system>` of these CPUs. */
export const system = (...cpus: XmlElement[]): XmlElement => element('system', { version: 1 }, cpus);

/** Hash of the host that `cpu` puts a CPU on. */
export const HOST = 0x1000n;

export const SAPPHIRE_RAPIDS = { arch: 'x86_64', vendor: 'GenuineIntel', familyid: 6, modelid: 143 };
export const SKYLAKE = { arch: 'x86_64', vendor: 'GenuineIntel', familyid: 6, modelid: 85 };
export const MILAN = { arch: 'x86_64', vendor: 'AuthenticAMD', familyid: 175, modelid: 1 };
export const ARM = { arch: 'arm64' };
export const POWER = { arch: 'ppc64' };

/** A CPU (NUMA node) with what hangs below it. `kind` is one of the above, with further attributes if need be. */
export const cpu = (kind: Attributes, ...below: XmlElement[]): XmlElement =>
  element('cpu', { host_hash: '0x1000', numaid: 0, affinity: '', ...kind }, below);

const GEN = ['', '2.5', '5.0', '8.0', '16.0', '32.0', '64.0'];

/** Attributes of a PCI link: generation 1 to 6, lanes. */
export const link = (generation: number, width = 16): Attributes => ({
  link_speed: `${GEN[generation]} GT/s PCIe`,
  link_width: width,
});

/** Full bus id of a short one: `02:00.0` is `0000:02:00.0`. */
export const busId = (short: string): string => (short.length === 7 ? `0000:${short}` : short);

/** A `<pci>` of a class. */
export function pci(bus: string, kind: string, attributes: Attributes, ...below: XmlElement[]): XmlElement {
  const ids = { vendor: '0x1', device: '0x2', subsystem_vendor: '0x3', subsystem_device: '0x4' };
  return element('pci', { busid: busId(bus), class: kind, ...ids, ...link(4), ...attributes }, below);
}

/** A PCI switch; attributes may come first. */
export function pciSwitch(bus: string, ...below: (XmlElement | Attributes)[]): XmlElement {
  const isElement = (one: XmlElement | Attributes): one is XmlElement => 'children' in one;
  const attributes = Object.assign({}, ...below.filter((one) => !isElement(one))) as Attributes;
  return pci(bus, '0x060400', attributes, ...below.filter(isElement));
}

/** A one-way link from the switch that holds it to another. */
export const pciLink = (target: string): XmlElement => element('pcilink', { target: busId(target) });

export interface GpuOptions {
  readonly rank?: number;
  readonly sm?: number;
  readonly gdr?: 0 | 1;
  readonly mlopart?: number;
  /** Of its PCI link. */
  readonly pci?: Attributes;
  /** NVLinks and chip-to-chip links. */
  readonly links?: readonly XmlElement[];
}

/** The `<gpu>` without the `<pci>` that holds it. */
export function gpuElement(dev: number, options: GpuOptions = {}): XmlElement {
  const { rank = dev, sm = 90, gdr = 1, mlopart, links = [] } = options;
  const part = mlopart === undefined ? {} : { mlopart };
  return element('gpu', { dev, sm, rank, gdr, ...part }, [...links]);
}

/** A GPU with one rank. */
export const gpu = (bus: string, dev: number, options: GpuOptions = {}): XmlElement =>
  pci(bus, '0x030200', options.pci ?? {}, gpuElement(dev, options));

/** NVLinks to the NVSwitches. */
export const nvswitch = (count: number): XmlElement => nvlink('fffffff:ff:ff.0', count, '0x068000');

/** NVLinks to the GPU on a bus, one way: the other GPU needs its own. */
export const nvlinkTo = (bus: string, count: number): XmlElement => nvlink(busId(bus), count, '0x030200');

/** NVLinks to the CPU. */
export const nvlinkToCpu = (count: number): XmlElement => nvlink('fffffff:ff:ff.0', count, '0x068001');

const nvlink = (target: string, count: number, tclass: string): XmlElement =>
  element('nvlink', { target, count, tclass });

/** Chip-to-chip links: MB/s of one, and how many. */
export const c2c = (bw: number, count: number): XmlElement => element('c2c', { bw, count });

/** A `<net>`. */
export function net(dev: number, attributes: Attributes = {}): XmlElement {
  const own = {
    name: `mlx5_${dev}`,
    dev,
    latency: 0,
    speed: 200_000,
    port: 1,
    guid: `0x${(0xa0 + dev).toString(16)}`,
  };
  return element('net', { ...own, maxconn: 131_072, gdr: 1, ...attributes });
}

/** A card with several ports. */
export const nicOf = (bus: string, pciAttributes: Attributes, ...nets: XmlElement[]): XmlElement =>
  pci(bus, '0x020700', pciAttributes, element('nic', {}, nets));

/** A card with one port. */
export const nic = (
  bus: string,
  dev: number,
  attributes: Attributes = {},
  pciAttributes: Attributes = {},
): XmlElement => nicOf(bus, pciAttributes, net(dev, attributes));

/** Two digits of bus number for the parts of box `k`, from 1: switch k0, GPU k1, NIC k2. */
const digits = (k: number, part: number): string => `${k.toString(16)}${part}:00.0`;

export interface BoxOptions {
  readonly cpu: Attributes;
  readonly sm: number;
  /** NVLinks of each GPU to the NVSwitches; 0 for none. */
  readonly nvlinks: number;
  /** Generation of all PCI links. */
  readonly generation: number;
  /** Of each NIC, Mbit/s; 0 for no NICs. */
  readonly speed: number;
  readonly gpus?: number;
}

/**
 * A server of eight GPUs on two sockets: per GPU one switch (0000:K0:00.0, K = 1..8) that holds GPU 0000:K1:00.0 and
 * the NIC next to it.
 */
export function eightGpuBox(options: BoxOptions): XmlElement {
  const { gpus = 8, sm, nvlinks, generation, speed } = options;
  const links = nvlinks === 0 ? [] : [nvswitch(nvlinks)];
  const pciOptions = link(generation);
  const branch = (dev: number) => {
    const k = dev + 1;
    const parts = [gpu(digits(k, 1), dev, { sm, links, pci: pciOptions })];
    if (speed > 0) parts.push(nic(digits(k, 2), dev, { speed }, pciOptions));
    return pciSwitch(digits(k, 0), pciOptions, ...parts);
  };
  const branches = Array.from({ length: gpus }, (_, dev) => branch(dev));
  return system(
    cpu({ ...options.cpu, numaid: 0 }, ...branches.slice(0, gpus / 2)),
    cpu({ ...options.cpu, numaid: 1 }, ...branches.slice(gpus / 2)),
  );
}

/** Eight H100 on two Sapphire Rapids, a 400 Gbit/s NIC next to each. */
export const H100: BoxOptions = {
  cpu: SAPPHIRE_RAPIDS,
  sm: 90,
  nvlinks: 18,
  generation: 5,
  speed: 400_000,
};

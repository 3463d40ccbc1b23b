/**
 * Draws a machine: CPUs, below them the PCIe switches, then GPUs and NICs side by side, then NVLinks.
 *
 * Of hosts that form one NVLink domain the first is drawn.
 */
import type { TopoNode } from '../../system/node.js';
import { type Labels, shortBusId } from '../labels.js';
import {
  type CpuFacts,
  type DeviceFacts,
  devicesOf,
  type GpuFacts,
  type HostFacts,
  type MachineFacts,
  type NicFacts,
  type SwitchFacts,
} from '../machine.js';
import { bandwidthText, countText, netSpeedText, rangesText } from '../quantities.js';
import { type Canvas, textWidth } from './canvas.js';

/** Pixels. */
const LEAF_WIDTH = 98;
const LEAF_HEIGHT = 66;
const GAP = 10;
const CPU_GAP = 86;
const CPU_HEIGHT = 40;
const SWITCH_HEIGHT = 34;
const LEVEL_GAP = 24;
const SMALL = 10.5;
const TITLE_SIZE = 12;
const MOST_LEAF_WIDTH = 340;

/** A device with its place. */
interface Placed {
  readonly device: DeviceFacts;
  readonly x: number;
  readonly width: number;
  readonly children: readonly Placed[];
}

/** Draws a machine from (left, top) on; returns the height that it took. */
export function drawMachine(
  canvas: Canvas,
  machine: MachineFacts,
  labels: Labels,
  nodeOf: (rank: number) => string,
  left: number,
  top: number,
): number {
  const [host] = machine.hosts;
  if (host === undefined) return 0;
  const picture = new MachinePicture(canvas, labels, nodeOf, left, top);
  let bottom = picture.draw(host);
  const others = machine.hosts.length - 1;
  if (others > 0) {
    canvas.text(left, bottom + 18, `and ${countText(others, 'more host')} of the same NVLink domain`, {
      className: 'faint',
    });
    bottom += 24;
  }
  return bottom - top;
}

class MachinePicture {
  readonly #canvas: Canvas;
  readonly #labels: Labels;
  readonly #nodeOf: (rank: number) => string;
  readonly #left: number;
  readonly #top: number;
  /** Middle and bottom of each GPU. */
  readonly #gpus = new Map<TopoNode, number>();
  #leafTop = 0;

  constructor(canvas: Canvas, labels: Labels, nodeOf: (rank: number) => string, left: number, top: number) {
    this.#canvas = canvas;
    this.#labels = labels;
    this.#nodeOf = nodeOf;
    this.#left = left;
    this.#top = top;
  }

  draw(host: HostFacts): number {
    const depth = Math.max(0, ...host.cpus.map(({ devices }) => switchDepth(devices)));
    const levels = this.#top + CPU_HEIGHT + LEVEL_GAP;
    this.#leafTop = levels + depth * (SWITCH_HEIGHT + LEVEL_GAP);
    let x = this.#left;
    let previous: { cpu: CpuFacts; right: number } | undefined;
    for (const cpu of host.cpus) {
      const placed = this.#placeAll(cpu.devices, x);
      const inner = placed.length === 0 ? 0 : placed.at(-1)!.x + placed.at(-1)!.width - x;
      const width = Math.max(inner, 2 * LEAF_WIDTH);
      this.#cpu(cpu, x, width);
      if (previous !== undefined) this.#cpuLink(previous.cpu, cpu, previous.right, x);
      for (const one of placed) this.#device(one, x, width, this.#top + CPU_HEIGHT, levels);
      previous = { cpu, right: x + width };
      x += width + CPU_GAP;
    }
    return this.#nvlinks(host, this.#leafTop + LEAF_HEIGHT) + this.#mesh(host, x);
  }

  /** Side by side from x on. A switch is as wide as what hangs below it, a card as wide as the names of its ports. */
  #placeAll(devices: readonly DeviceFacts[], x: number): Placed[] {
    const placed: Placed[] = [];
    let at = x;
    for (const device of devices) {
      const children = device.kind === 'switch' ? this.#placeAll(device.devices, at) : [];
      const last = children.at(-1);
      const inner = last === undefined ? 0 : last.x + last.width - at;
      const name = device.kind === 'nic' ? textWidth(this.#nicName(device), TITLE_SIZE, true) + 8 : 0;
      const width = Math.max(LEAF_WIDTH, inner, Math.min(name, MOST_LEAF_WIDTH));
      placed.push({ device, x: at, width, children });
      at += width + GAP;
    }
    return placed;
  }

  #nicName({ node, ports }: NicFacts): string {
    const names = netPorts(ports).map((port) => this.#labels.port(port));
    return names.length > 0 ? names.join(' ') : `NIC ${shortBusId(node.busId)}`;
  }

  #cpu({ node, name }: CpuFacts, x: number, width: number): void {
    this.#canvas.box(x, this.#top, width, CPU_HEIGHT, 'cpu');
    const middle = x + width / 2;
    const number = `CPU ${node.numaId < 0 ? node.index : node.numaId}`;
    this.#canvas.text(middle, this.#top + 17, number, { anchor: 'middle', className: 'text strong' });
    this.#canvas.text(middle, this.#top + 32, name, {
      anchor: 'middle',
      size: SMALL,
      className: 'faint',
      maxWidth: width - 12,
    });
  }

  #cpuLink(from: CpuFacts, to: CpuFacts, x1: number, x2: number): void {
    const link = from.links.find((one) => one.to === to.node);
    if (link === undefined) return;
    const y = this.#top + CPU_HEIGHT / 2;
    this.#canvas.line(
      [
        [x1, y],
        [x2, y],
      ],
      'wire',
    );
    this.#canvas.text((x1 + x2) / 2, y - 6, `${bandwidthText(link.bandwidth)} GB/s`, {
      anchor: 'middle',
      size: SMALL,
      className: 'faint',
    });
  }

  /** Links between CPUs that are not neighbours in the picture are said in words. */
  #mesh({ cpus }: HostFacts, right: number): number {
    const links = cpus.reduce((sum, { links: own }) => sum + own.length, 0);
    if (cpus.length < 3 || links <= 2 * (cpus.length - 1)) return 0;
    const text =
      links === cpus.length * (cpus.length - 1)
        ? 'every CPU is linked to every other'
        : 'some CPUs have links that are not drawn';
    this.#canvas.text(right - CPU_GAP, this.#top - 6, text, {
      anchor: 'end',
      size: SMALL,
      className: 'faint',
    });
    return 0;
  }

  #device(placed: Placed, parentX: number, parentWidth: number, parentBottom: number, top: number): void {
    const { device, x, width, children } = placed;
    const middle = x + width / 2;
    const isLeaf = device.kind !== 'switch';
    const ownTop = isLeaf ? this.#leafTop : top;
    // Straight down where the parent is wide enough to be above.
    const start = Math.min(Math.max(middle, parentX + 6), parentX + parentWidth - 6);
    this.#canvas.line(
      start === middle
        ? [
            [middle, parentBottom],
            [middle, ownTop],
          ]
        : [
            [start, parentBottom],
            [start, parentBottom + LEVEL_GAP / 2],
            [middle, parentBottom + LEVEL_GAP / 2],
            [middle, ownTop],
          ],
      'wire',
    );
    switch (device.kind) {
      case 'switch': {
        this.#switch(device, x, width, ownTop);
        for (const child of children) {
          this.#device(child, x, width, ownTop + SWITCH_HEIGHT, ownTop + SWITCH_HEIGHT + LEVEL_GAP);
        }
        break;
      }
      case 'gpu':
        this.#gpu(device, x);
        break;
      case 'nic':
        this.#nic(device, x, width);
        break;
    }
  }

  #switch({ node, pci, peers }: SwitchFacts, x: number, width: number, top: number): void {
    this.#canvas.box(x, top, width, SWITCH_HEIGHT, 'pci');
    const middle = x + width / 2;
    const peerText = peers.length > 0 ? ` to ${peers.map(({ busId }) => shortBusId(busId)).join(' ')}` : '';
    this.#leafLine(middle, top + 14, `switch ${shortBusId(node.busId)}${peerText}`, width, 'text');
    this.#leafLine(
      middle,
      top + 28,
      `${pci.lanes !== undefined && width > LEAF_WIDTH ? 'PCIe ' : ''}${pciText(pci)}`,
      width,
      'faint',
    );
  }

  #gpu(device: GpuFacts, x: number): void {
    const { node, gpus, name, pci, c2c } = device;
    const top = this.#leafTop;
    this.#canvas.box(x, top, LEAF_WIDTH, LEAF_HEIGHT, 'gpu');
    const middle = x + LEAF_WIDTH / 2;
    this.#gpus.set(node, middle);
    const ranks = gpus.map(({ rank }) => this.#labels.rank(rank));
    const title = ranks.length > 0 ? `GPU ${rangesText(ranks)}` : 'GPU unused';
    const nodes = [...new Set(ranks.map((rank) => this.#nodeOf(rank)))].join(' ');
    this.#canvas.text(middle, top + 17, title, {
      anchor: 'middle',
      className: 'text strong',
      maxWidth: LEAF_WIDTH - 4,
    });
    this.#leafLine(middle, top + 32, name, LEAF_WIDTH, 'faint');
    const link = c2c > 0 ? `C2C ${bandwidthText(c2c)} GB/s` : pciText(pci);
    this.#leafLine(middle, top + 46, link, LEAF_WIDTH, 'faint');
    this.#leafLine(middle, top + 59, nodes, LEAF_WIDTH, 'faint');
  }

  #nic(device: NicFacts, x: number, width: number): void {
    const { node, ports, pci } = device;
    const top = this.#leafTop;
    this.#canvas.box(x, top, width, LEAF_HEIGHT, 'nic');
    const middle = x + width / 2;
    this.#canvas.text(middle, top + 17, this.#nicName(device), {
      anchor: 'middle',
      className: 'text strong',
      maxWidth: width - 4,
    });
    const nets = netPorts(ports);
    const speed = [...new Set(nets.map(({ bandwidth }) => bandwidth))]
      .map((bandwidth) => {
        const count = nets.filter((port) => port.bandwidth === bandwidth).length;
        return `${nets.length > 1 ? `${count} x ` : ''}${netSpeedText(bandwidth * 8000)}`;
      })
      .join(', ');
    this.#leafLine(middle, top + 32, speed, width, 'faint');
    const isVirtual = node.busId === '' || pci === undefined;
    this.#leafLine(middle, top + 46, isVirtual ? 'virtual' : pciText(pci), width, 'faint');
    const isDirect = nets.length === 0 || nets.every(({ gdr }) => gdr);
    this.#leafLine(middle, top + 59, isDirect ? '' : 'no GPUDirect', width, 'faint');
  }

  #leafLine(x: number, y: number, text: string, width: number, className: string): void {
    if (text === '') return;
    this.#canvas.text(x, y, text, { anchor: 'middle', size: SMALL, className, maxWidth: width - 6 });
  }

  /** NVSwitch as a bar, links between GPUs as curves; returns the bottom. */
  #nvlinks(host: HostFacts, bottom: number): number {
    const gpus = devicesOf({ hosts: [host], hasNvSwitch: false }, 'gpu').filter(({ node }) =>
      this.#gpus.has(node),
    );
    let low = bottom;
    const switched = gpus.filter(({ nvlinks }) => nvlinks.some(({ to }) => to.type === 'NVS'));
    if (switched.length > 0) low = this.#nvSwitch(switched, bottom);
    const direct: { a: number; b: number; bandwidth: number; count: number | undefined; text: string }[] = [];
    for (const gpu of gpus) {
      for (const { to, bandwidth, count } of gpu.nvlinks) {
        const a = this.#gpus.get(gpu.node)!;
        const b = to.type === 'DEV' ? this.#gpus.get(to) : undefined;
        if (b === undefined || b <= a) continue;
        direct.push({ a, b, bandwidth, count, text: `${this.#number(gpu.node)}-${this.#number(to)}` });
      }
    }
    return direct.length > 0 ? this.#curves(direct, bottom, low) : low;
  }

  #number = (node: TopoNode): string => this.#labels.of(node).replace(/^GPU /, '');

  #nvSwitch(gpus: readonly GpuFacts[], bottom: number): number {
    const places = gpus.map(({ node }) => this.#gpus.get(node)!);
    const top = bottom + LEVEL_GAP;
    const widths = gpus.map(({ nvlinks }) => nvlinks.find(({ to }) => to.type === 'NVS')!);
    const kinds = [...new Set(widths.map(({ bandwidth, count }) => linksText(bandwidth, count)))];
    const text = `NVSwitch: ${kinds.join(' or ')} to each GPU`;
    const left = Math.min(...places) - LEAF_WIDTH / 2;
    const width = Math.max(Math.max(...places) + LEAF_WIDTH / 2 - left, textWidth(text) + 16);
    for (const x of places) {
      this.#canvas.line(
        [
          [x, bottom],
          [x, top],
        ],
        'nvlink w3',
      );
    }
    this.#canvas.box(left, top, width, 26, 'fabric');
    this.#canvas.text(left + width / 2, top + 17, text, { anchor: 'middle', className: 'text' });
    return top + 26;
  }

  #curves(
    links: readonly { a: number; b: number; bandwidth: number; count: number | undefined; text: string }[],
    bottom: number,
    low: number,
  ): number {
    const longest = Math.max(...links.map(({ a, b }) => b - a));
    const steps = Math.min(70, 16 + longest / 12);
    const speeds = [...new Set(links.map(({ bandwidth }) => bandwidth))].sort((a, b) => a - b);
    for (const { a, b, bandwidth } of links) {
      const depth = 10 + ((b - a) / longest) * steps;
      const weight = Math.min(3, speeds.indexOf(bandwidth) + 1);
      this.#canvas.arc(a, b, bottom, depth, `nvlink w${weight}`);
    }
    let y = Math.max(low, bottom + 10 + steps) + 18;
    for (const speed of speeds) {
      const alike = links.filter(({ bandwidth }) => bandwidth === speed);
      const text = `${linksText(speed, alike[0]!.count)}: GPUs ${alike.map((one) => one.text).join(', ')}`;
      this.#canvas.text(this.#left, y, text, { size: SMALL, className: 'faint' });
      y += 15;
    }
    return y - 10;
  }
}

const linksText = (bandwidth: number, count: number | undefined): string =>
  `${count === undefined ? 'NVLink' : countText(count, 'NVLink')}, ${bandwidthText(bandwidth)} GB/s`;

const pciText = ({ bandwidth, lanes }: { bandwidth: number; lanes: number | undefined }): string =>
  `${lanes === undefined ? 'PCIe' : `x${lanes}`} ${bandwidthText(bandwidth)} GB/s`;

/** Levels of switches. */
function switchDepth(devices: readonly DeviceFacts[]): number {
  return Math.max(
    0,
    ...devices.map((device) => (device.kind === 'switch' ? 1 + switchDepth(device.devices) : 0)),
  );
}

/** Ports for ordinary traffic; several nodes with one id are one port. */
const netPorts = (ports: NicFacts['ports']): NicFacts['ports'] =>
  ports.filter(
    ({ type, id }, at) => type === 'NET' && ports.findIndex((p) => p.type === 'NET' && p.id === id) === at,
  );

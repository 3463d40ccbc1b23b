/**
 * Draws a machine as a tree of text, as lstopo does, with the links that nvidia-smi shows.
 *
 * Machines that would fill more than a screen are folded: devices that look alike, with all that hangs below them,
 * share one line that names them all.
 */
import type { CpuNode, PortNode, TopoSystem } from '../system/node.js';
import { Labels, shortBusId } from './labels.js';
import {
  type CpuFacts,
  type DeviceFacts,
  type GpuFacts,
  type HostFacts,
  type MachineFacts,
  type NicFacts,
  pcieText,
} from './machine.js';
import { bandwidthText, countText, listText, netSpeedText, rangesText } from './quantities.js';
import { padEnd, type Style, visibleLength, wrap } from './style.js';

/** Lines that fit on a screen; longer trees are folded. */
const SCREEN_LINES = 44;

/** Runs of ranks in a label. */
const MOST_RUNS = 4;

/** One line: a label at its depth and what is said about it in columns. */
interface Row {
  readonly prefix: string;
  readonly label: string;
  readonly busId: string;
  readonly pcie: string;
  readonly notes: string;
}

/** Devices that share a line, and what hangs below them. */
interface Item {
  readonly label: string;
  readonly busId: string;
  readonly pcie: string;
  readonly notes: string;
  readonly children: readonly Item[];
}

/** Lines of the tree. `rankOffset` is added to all ranks. */
export function machineTree(
  machine: MachineFacts,
  system: TopoSystem,
  style: Style,
  rankOffset = 0,
): string[] {
  const draw = (folds: boolean) => new Drawing(machine, system, style, rankOffset, folds).rows();
  let rows = draw(false);
  if (rows.length > SCREEN_LINES) rows = draw(true);
  return align(rows, style);
}

class Drawing {
  readonly #machine: MachineFacts;
  readonly #labels: Labels;
  readonly #style: Style;
  readonly #folds: boolean;

  constructor(machine: MachineFacts, system: TopoSystem, style: Style, rankOffset: number, folds: boolean) {
    this.#machine = machine;
    this.#labels = new Labels(system, rankOffset);
    this.#style = style;
    this.#folds = folds;
  }

  rows(): Row[] {
    const { hosts } = this.#machine;
    const rows: Row[] = [];
    if (hosts.length === 1) this.#list(this.#cpus([hosts[0]!]), '', rows, true);
    else this.#list(this.#hosts(hosts), '', rows, true);
    return rows;
  }

  #list(items: readonly Item[], indent: string, rows: Row[], top = false): void {
    for (const [at, item] of items.entries()) {
      const last = at === items.length - 1;
      const branch = top ? '' : last ? '└─ ' : '├─ ';
      rows.push({ ...item, prefix: indent + branch });
      this.#list(item.children, top ? indent : indent + (last ? '   ' : '│  '), rows);
    }
  }

  #hosts(hosts: readonly HostFacts[]): Item[] {
    return groups(hosts, hostShape, this.#folds).map((group) => ({
      label:
        this.#style.strong(
          `Host${group.length > 1 ? 's' : ''} ${rangesText(group.map(({ number }) => number))}`,
        ) + (group.length > 1 ? ', all alike' : ''),
      busId: '',
      pcie: '',
      notes: '',
      children: this.#cpus(group),
    }));
  }

  /** CPUs of hosts that look alike: the same CPU of each shares a line. */
  #cpus(hosts: readonly HostFacts[]): Item[] {
    return hosts[0]!.cpus.map((first, at) => {
      const alike = hosts.map(({ cpus }) => cpus[at]!);
      const { name, cores, node } = first;
      const facts = [
        name,
        ...(node.numaId < 0 ? ['NUMA unknown'] : [`NUMA ${node.numaId}`]),
        ...(cores === '' ? [] : [`cores ${cores}`]),
        ...interCpu(first),
      ];
      const label = `CPU ${node.numaId < 0 ? node.index : node.numaId}`;
      return {
        label: `${this.#style.cpu(label)}  ${facts.join(', ')}`,
        busId: '',
        pcie: '',
        notes: '',
        children: this.#devices(alike.map(({ devices }) => devices)),
      };
    });
  }

  /** Devices below parents that look alike; `lists` has one list per parent. */
  #devices(lists: readonly (readonly DeviceFacts[])[]): Item[] {
    const [first = []] = lists;
    if (lists.length === 1) {
      return groups(first, deviceShape, this.#folds).map((group) => this.#item(group));
    }
    // Alike means that sorting by shape brings together what belongs together.
    const sorted = lists.map((list) => byShape(list));
    return groups([...sorted[0]!.keys()], (at) => deviceShape(sorted[0]![at]!), this.#folds).map((places) =>
      this.#item(sorted.flatMap((list) => places.map((at) => list[at]!))),
    );
  }

  #item(group: readonly DeviceFacts[]): Item {
    const [device] = group;
    switch (device!.kind) {
      case 'switch': {
        const switches = group as readonly Extract<DeviceFacts, { kind: 'switch' }>[];
        const peers = device!.peers.map((peer) => shortBusId(peer.busId));
        return {
          label: group.length > 1 ? `${group.length} PCIe switches` : 'PCIe switch',
          busId: busIds(switches.map(({ node }) => node.busId)),
          pcie: pcieText(device!.pci),
          notes: peers.length > 0 && group.length === 1 ? `linked to ${listText(peers)}` : '',
          children: this.#devices(switches.map(({ devices }) => devices)),
        };
      }
      case 'gpu':
        return this.#gpus(group as readonly GpuFacts[]);
      case 'nic':
        return this.#nics(group as readonly NicFacts[]);
    }
  }

  #gpus(group: readonly GpuFacts[]): Item {
    const [first] = group;
    const ranks = group.flatMap(({ gpus }) => gpus.map(({ rank }) => this.#labels.rank(rank)));
    const { node, gpus, name, pci } = first!;
    const part = node.mloPart >= 0 ? `, partition ${node.mloPart}` : '';
    // In a clique of several hosts the numbers differ always.
    const isOther = this.#machine.hosts.length === 1 && gpus.some(({ dev, rank }) => dev !== rank);
    const dev = group.length === 1 && isOther ? `, NVML ${node.dev}` : '';
    const shared = gpus.length > 1 ? `, ${gpus.length} ranks each` : '';
    const label = ranks.length > 0 ? `GPU ${shortRanges(ranks)}` : 'GPU of no rank';
    const gdr = gpus.length > 0 && gpus.every((gpu) => !gpu.gdr) ? ['no GPUDirect'] : [];
    return {
      label: `${this.#style.gpu(label)} ${name}${part}${shared}${dev}`,
      busId: busIds(group.map((gpu) => gpu.node.busId)),
      pcie: pcieText(pci),
      notes: [...this.#nvlinks(group), ...c2cText(first!), ...gdr].join('; '),
      children: [],
    };
  }

  #nvlinks(group: readonly GpuFacts[]): string[] {
    const [first] = group;
    // Links to the same kind of end with the same bandwidth are said together.
    const said = new Map<string, { to: string[]; text: string }>();
    for (const { to, bandwidth, count } of first!.nvlinks) {
      const links = count === undefined ? 'NVLink' : countText(count, 'NVLink');
      const text = `${links} (${bandwidthText(bandwidth)})`;
      const entry = said.get(`${to.type} ${text}`) ?? { to: [], text };
      entry.to.push(group.length > 1 && to.type === 'DEV' ? '' : this.#labels.of(to));
      said.set(`${to.type} ${text}`, entry);
    }
    return [...said.values()].map(({ to, text }) => {
      const each = to.length > 1 ? ' each' : '';
      if (to[0] === '') return `${text}${each} to ${countText(to.length, 'other GPU')}`;
      return `${text}${each} to ${this.#style.fabric(gpuList(to))}`;
    });
  }

  #nics(group: readonly NicFacts[]): Item {
    const [first] = group;
    const names = group.flatMap((nic) => netPorts(nic).map((port) => this.#labels.port(port)));
    const ports = netPorts(first!);
    const speeds = new Set(ports.map((port) => netSpeedText(port.bandwidth * 8000)));
    const notes = [
      ...(ports.length > 1 && group.length === 1 ? [`${ports.length} ports`] : []),
      ...(ports.length === 0 ? [] : [[...speeds].join(', ')]),
      ...(ports.length === 0 ? [] : [ports.every(({ gdr }) => gdr) ? 'GPUDirect' : 'no GPUDirect']),
      ...(ports.some(({ coll }) => coll) ? ['CollNet'] : []),
      ...[...new Set(first!.ports.map(({ type }) => type).filter((type) => type !== 'NET'))],
    ];
    return {
      label: `NIC ${this.#style.nic(namesText(names))}`,
      busId: first!.pci === undefined ? 'virtual' : busIds(group.map(({ node }) => node.busId)),
      pcie: first!.pci === undefined ? '' : pcieText(first!.pci),
      notes: notes.join(', '),
      children: [],
    };
  }
}

/** Ports for ordinary traffic; a virtual card may stand under several CPUs and then has each port several times. */
const netPorts = ({ ports }: NicFacts): PortNode[] =>
  ports.filter(
    ({ type, id }, at) => type === 'NET' && ports.findIndex((p) => p.type === 'NET' && p.id === id) === at,
  );

const c2cText = ({ c2c }: GpuFacts): string[] => (c2c > 0 ? [`C2C to its CPU (${bandwidthText(c2c)})`] : []);

/** `22 GB/s to CPU 1`: what other CPUs are reached with. */
function interCpu({ links }: CpuFacts): string[] {
  const byBandwidth = new Map<number, CpuNode[]>();
  for (const { to, bandwidth } of links) {
    const group = byBandwidth.get(bandwidth) ?? [];
    group.push(to);
    byBandwidth.set(bandwidth, group);
  }
  return [...byBandwidth].map(([bandwidth, cpus]) => {
    const whom =
      cpus.length > 3
        ? `${cpus.length} other CPUs`
        : `CPU ${rangesText(cpus.map(({ numaId, index }) => (numaId < 0 ? index : numaId)))}`;
    return `${bandwidthText(bandwidth)} GB/s to ${whom}`;
  });
}

/** `GPU 1, 2 and 3`, `NVSwitch`. */
function gpuList(names: readonly string[]): string {
  const numbers = names.flatMap((name) => /^GPU (\d+)$/.exec(name)?.[1] ?? []);
  if (numbers.length !== names.length) return listText([...new Set(names)]);
  return `GPU ${rangesText(numbers.map(Number))}`;
}

/** The first and the last of several names; hosts that are alike use the same ones: `mlx5_0 .. mlx5_7`. */
function namesText(names: readonly string[]): string {
  const different = [...new Set(names)];
  return different.length <= 2 ? different.join(', ') : `${different[0]} .. ${different.at(-1)}`;
}

/** Ranks with runs joined; of many runs the first and the last: `0-1 .. 68-69`. */
function shortRanges(ranks: readonly number[]): string {
  const runs = rangesText(ranks).split(' ');
  return runs.length <= MOST_RUNS ? runs.join(' ') : `${runs[0]} .. ${runs.at(-1)}`;
}

const busIds = (ids: readonly string[]): string =>
  ids.length === 1 ? shortBusId(ids[0]!) : ids.length === 0 ? '' : `${shortBusId(ids[0]!)} ..`;

/** Items that look alike, in the order of their first; one group per item if nothing is folded. */
function groups<T>(items: readonly T[], shape: (item: T) => string, folds: boolean): T[][] {
  if (!folds) return items.map((item) => [item]);
  const found = new Map<string, T[]>();
  for (const item of items) {
    const key = shape(item);
    const group = found.get(key);
    if (group === undefined) found.set(key, [item]);
    else group.push(item);
  }
  return [...found.values()];
}

const byShape = (devices: readonly DeviceFacts[]): DeviceFacts[] =>
  devices
    .map((device) => [deviceShape(device), device] as const)
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    .map(([, device]) => device);

/** Shapes that are known: every level of switches asks for those of all levels below it, more than once. */
const shapes = new WeakMap<DeviceFacts, string>();

/** Equal for devices that look alike, with all that hangs below. */
function deviceShape(device: DeviceFacts): string {
  const known = shapes.get(device) ?? newShape(device);
  shapes.set(device, known);
  return known;
}

function newShape(device: DeviceFacts): string {
  const pci = device.pci === undefined ? 'virtual' : pcieText(device.pci);
  switch (device.kind) {
    case 'switch':
      return `switch ${pci} ${device.peers.length} [${byShape(device.devices).map(deviceShape).join(' ')}]`;
    case 'gpu': {
      const links = device.nvlinks.map(({ to, bandwidth }) => `${to.type}${bandwidth}`).sort();
      const gdr = device.gpus.map((gpu) => gpu.gdr).join();
      return `gpu ${device.name} ${pci} ${links} ${device.c2c} ${gdr} ${device.node.mloPart}`;
    }
    case 'nic':
      return `nic ${pci} ${device.ports.map((port) => `${port.type}${port.bandwidth}${port.gdr}${port.coll}`)}`;
  }
}

const hostShape = ({ cpus }: HostFacts): string =>
  cpus
    .map(({ name, links, devices }) => `${name} ${links.length} [${byShape(devices).map(deviceShape)}]`)
    .join();

/** Puts the columns below each other; where the terminal is too narrow, bus ids go first, then notes are wrapped. */
function align(rows: readonly Row[], { width, dim }: Style): string[] {
  const isTable = ({ busId, pcie, notes }: Row) => busId !== '' || pcie !== '' || notes !== '';
  const table = rows.filter(isTable);
  const widest = (column: (row: Row) => string) =>
    Math.max(0, ...table.map((row) => visibleLength(column(row))));
  const first = widest(({ prefix, label }) => prefix + label);
  const bus = widest(({ busId }) => busId);
  const pcie = widest((row) => row.pcie);
  const notes = widest((row) => row.notes);
  const showsBus = first + bus + pcie + notes + 3 * GAP.length <= width || notes === 0;
  const before = first + GAP.length + (showsBus ? bus + GAP.length : 0) + pcie + GAP.length;
  return rows.flatMap(({ prefix, label, ...row }, at) => {
    const start = dimmed(prefix) + label;
    if (!isTable({ prefix, label, ...row })) return [start];
    const columns = [padEnd(start, first)];
    if (showsBus) columns.push(dim(padEnd(row.busId, bus)));
    columns.push(padEnd(row.pcie, pcie));
    const [note = '', ...more] = wrap(row.notes, Math.max(LEAST_NOTES_WIDTH, width - before));
    // The line of the tree goes on beside a wrapped note, also to what hangs below.
    const below = rows[at + 1]?.prefix ?? '';
    const guide = prefix.replace('├─ ', '│  ').replace('└─ ', '   ');
    const isParent = below.length > prefix.length;
    const beside = dimmed(isParent ? `${guide}│` : guide);
    return [[...columns, note].join(GAP).trimEnd(), ...more.map((line) => padEnd(beside, before) + line)];
  });

  function dimmed(text: string): string {
    return text === '' ? '' : dim(text);
  }
}

/** Between columns. */
const GAP = '  ';

/** Columns that notes get however narrow the terminal is. */
const LEAST_NOTES_WIDTH = 24;

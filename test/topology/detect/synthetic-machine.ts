/** Machines made up for tests: trees of files as the kernel would show them, in memory or in a temporary folder. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { archiveTree } from '#src/topology/detect/archive-tree.js';
import { readCpuFacts } from '#src/topology/detect/cpu-facts.js';
import type { Machine } from '#src/topology/detect/machine.js';
import { type FileTree, MachineFiles } from '#src/topology/detect/machine-files.js';
import type { NvmlDevice, NvmlFacts } from '#src/topology/detect/nvml-facts.js';
import type { ArchiveEntry } from '#src/topology/detect/tar.js';

export const SKYLAKE = `processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz
`;

/** Values of a PCI device; `undefined` leaves a usual file out. */
export type PciValues = Readonly<Record<string, string | undefined>>;

const USUAL: PciValues = {
  class: '0x060400',
  vendor: '0x10b5',
  device: '0x8747',
  subsystem_vendor: '0x10b5',
  subsystem_device: '0x8747',
  numa_node: '0',
  max_link_speed: '8.0 GT/s PCIe',
  max_link_width: '16',
};

export class SyntheticMachine {
  readonly #entries = new Map<string, ArchiveEntry>();

  /** A file with a line; the kernel ends it with a line break. */
  file(path: string, text: string): this {
    return this.raw(path, `${text}\n`);
  }

  raw(path: string, text: string): this {
    const bytes = Buffer.from(text, 'latin1');
    this.#entries.set(path, { kind: 'file', path: path.slice(1), bytes });
    return this;
  }

  link(path: string, target: string): this {
    this.#entries.set(path, { kind: 'link', path: path.slice(1), target });
    return this;
  }

  directory(path: string): this {
    this.#entries.set(path, { kind: 'directory', path: path.slice(1) });
    return this;
  }

  without(path: string): this {
    for (const known of this.#entries.keys()) {
      if (known === path || known.startsWith(`${path}/`)) this.#entries.delete(known);
    }
    return this;
  }

  /** A NUMA node; `cpumap` undefined leaves the mask out. */
  node(number: number, cpumap?: string): this {
    const folder = `/sys/devices/system/node/node${number}`;
    return cpumap === undefined ? this.directory(folder) : this.file(`${folder}/cpumap`, cpumap);
  }

  /**
   * A PCI device below others: `pci(['0000:00:01.0', '0000:02:00.0'])` is bus 2, device 0, behind root port 1 of
   * bus 0. Values that are not given are those of a bridge.
   */
  pci(chain: readonly string[], values: PciValues = {}): this {
    const id = chain.at(-1)!;
    const root = `/sys/devices/pci${chain[0]!.slice(0, 7)}`;
    const above = [root, ...chain.slice(0, -1)].join('/');
    const folder = `${above}/${id}`;
    for (const [file, text] of Object.entries({ ...USUAL, ...values })) {
      if (text !== undefined) this.file(`${folder}/${file}`, text);
    }
    const bus = id.slice(0, id.lastIndexOf(':'));
    const up = '../'.repeat(folder.split('/').length - 2);
    this.link(`${folder}/subsystem`, `${up}bus/pci`);
    this.link(`/sys/bus/pci/devices/${id}`, `../../..${folder.slice('/sys'.length)}`);
    this.directory(`${above}/pci_bus/${bus}`);
    return this.link(`/sys/class/pci_bus/${bus}`, `../..${above.slice('/sys'.length)}/pci_bus/${bus}`);
  }

  /** A network interface of the device at `folder` (absolute), or of none. */
  interface(name: string, folder?: string, speed?: string): this {
    const place = folder === undefined ? `/sys/devices/virtual/net/${name}` : `${folder}/net/${name}`;
    this.link(`/sys/class/net/${name}`, `../..${place.slice('/sys'.length)}`);
    this.file(`${place}/flags`, '0x1003');
    if (speed !== undefined) this.file(`${place}/speed`, speed);
    return folder === undefined ? this : this.link(`${place}/device`, '../..');
  }

  /** An InfiniBand device of the PCI device at `folder`. */
  infiniband(name: string, folder: string, ports: readonly PciValues[], guid = '0c42:a103:0051:9378'): this {
    const place = `${folder}/infiniband/${name}`;
    this.link(`/sys/class/infiniband/${name}`, `../..${place.slice('/sys'.length)}`);
    this.link(`${place}/device`, '../..');
    this.file(`${place}/sys_image_guid`, guid);
    for (const [index, values] of ports.entries()) {
      const usual = { state: '4: ACTIVE', rate: '200 Gb/sec (4X HDR)', link_layer: 'InfiniBand' };
      for (const [file, text] of Object.entries({ ...usual, ...values })) {
        if (text !== undefined) this.file(`${place}/ports/${index + 1}/${file}`, text);
      }
    }
    return this;
  }

  get entries(): ArchiveEntry[] {
    return [...this.#entries.values()];
  }

  /** The machine in memory. */
  machine(more: Partial<Machine> = {}): Machine {
    return machineOf(archiveTree(this.entries), more);
  }

  /** Writes the tree into a folder, as tar would. */
  unpack(folder: string): void {
    for (const entry of this.entries) {
      const path = join(folder, entry.path);
      mkdirSync(dirname(path), { recursive: true });
      if (entry.kind === 'directory') mkdirSync(path, { recursive: true });
      else if (entry.kind === 'link') symlinkSync(entry.target, path);
      else writeFileSync(path, entry.bytes);
    }
  }
}

/** A machine with these files and, unless told otherwise, one interface. */
export function machineOf(tree: FileTree, more: Partial<Machine> = {}): Machine {
  const files = new MachineFiles(tree);
  return {
    source: 'made up',
    tree,
    files,
    cpu: readCpuFacts(files),
    nvml: undefined,
    nvmlProblem: '',
    queuePairs: new Map(),
    interfaces: [{ name: 'eth0', address: '192.0.2.1', family: 'IPv4', prefixLength: 24, internal: false }],
    hostHash: 0xabcn,
    environment: {},
    ...more,
  };
}

/** Facts of one GPU; an A100 without links unless told otherwise. */
export function gpuFacts(busIds: readonly string[], more: Partial<NvmlDevice> = {}): NvmlFacts {
  return {
    devices: busIds.map((busId, index) => ({
      index,
      busId: `0000${busId.toUpperCase()}`,
      computeCapability: { major: 8, minor: 0 },
      pciDeviceId: 0x20b010de,
      pciSubSystemId: 0x134f10de,
      pcieGeneration: 4,
      pcieWidth: 16,
      nvlinks: [],
      c2cLinks: [],
      p2p: busIds.map(() => ({ read: 0, write: 0 })),
      ...more,
    })),
  };
}

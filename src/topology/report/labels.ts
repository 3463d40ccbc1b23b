/**
 * Short names for the nodes of a system: GPUs by rank, NICs by the name of their device, CPUs by NUMA number.
 */
import { hostOf, type PortNode, type TopoNode, type TopoSystem } from '../system/node.js';

export class Labels {
  readonly #rankOffset: number;
  readonly #hosts: number;
  readonly #ambiguous: ReadonlySet<string>;

  /** @param rankOffset to be added to the ranks of the system */
  constructor(system: TopoSystem, rankOffset = 0) {
    this.#rankOffset = rankOffset;
    this.#hosts = system.hosts.length;
    const ids = new Map<string, bigint>();
    const ambiguous = new Set<string>();
    for (const { name, id } of system.nodes.NET) {
      if (name === '') continue;
      // Several nodes with one id are one device that stands under several CPUs.
      if (this.#hosts === 1 && ids.has(name) && ids.get(name) !== id) ambiguous.add(name);
      ids.set(name, id);
    }
    this.#ambiguous = ambiguous;
  }

  /** The number that users know: the rank. */
  rank(local: number): number {
    return local + this.#rankOffset;
  }

  /** Name of a network port within its host. */
  port({ name, dev }: PortNode): string {
    return name === '' || this.#ambiguous.has(name) ? `NIC ${dev}` : name;
  }

  /** ` of host 2`, '' where there is one host only. */
  #host(node: TopoNode): string {
    return this.#hosts > 1 ? ` of host ${hostOf(node)}` : '';
  }

  of(node: TopoNode): string {
    switch (node.type) {
      case 'GPU':
        return `GPU ${this.rank(node.rank)}`;
      case 'DEV': {
        const ranks = node.links.flatMap(({ to }) => (to.type === 'GPU' ? [this.rank(to.rank)] : []));
        return ranks.length > 0 ? `GPU ${ranks.join('+')}` : `GPU at ${node.busId}`;
      }
      case 'NVS':
        return 'NVSwitch';
      case 'CPU':
        return `CPU ${node.numaId < 0 ? node.index : node.numaId}${this.#host(node)}`;
      case 'PCI':
        return `PCIe switch ${shortBusId(node.busId)}${this.#host(node)}`;
      case 'NIC': {
        // A port that stands under several CPUs has several nodes with one name.
        const ports = new Set(node.links.flatMap(({ to }) => (to.type === 'NET' ? [this.of(to)] : [])));
        return ports.size > 0 ? `NIC ${[...ports].join('+')}` : `NIC at ${shortBusId(node.busId)}`;
      }
      case 'NET':
      case 'GIN':
      case 'RMA':
        return this.port(node) + this.#host(node);
      case 'CXB':
        return 'C2C bridge';
    }
  }
}

/** A bus id without a domain of zeros. */
export const shortBusId = (busId: string): string => busId.replace(/^0000:/, '');

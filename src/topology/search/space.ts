/**
 * The machine as the search uses it: link bandwidths in one array that is consumed and given back, and the paths
 * between GPUs, NICs and the NVSwitch as lists of link numbers.
 *
 * One space serves all searches of a system, one after the other: giving back rounds to a thousandth, so a link whose
 * bandwidth is no multiple of that is slightly changed for the next search. (NCCL 2.30.7, search.cc.)
 */
import { preferredNic } from '../paths/local-nics.js';
import { localNodes, pathBetween } from '../paths/path.js';
import { MAX_CHANNELS, type TopologySettings } from '../settings.js';
import {
  CpuArch,
  CpuVendor,
  hostOf,
  type NetNode,
  NODE_TYPES,
  type TopoLink,
  type TopoNode,
  type TopoSystem,
} from '../system/node.js';
import { LinkType, PathType } from '../system/path-type.js';

/** A path ready to be consumed. */
export interface SearchPath {
  readonly type: PathType;
  /** Type of the way back: trees use both directions. */
  readonly backType: PathType;
  /** Both ends are GPUs or the NVSwitch: the bandwidth and type limit inside the system count. */
  readonly intra: boolean;
  /** A GPU's way through an Intel CPU takes a fifth more of the PCI links. */
  readonly intelCpu: boolean;
  /** GB/s and hops, for the order of candidates. */
  readonly bandwidth: number;
  readonly hopCount: number;
  /** Numbers of the links. */
  readonly links: Int32Array;
  /** Per hop the link in the other direction that is also used, -1 for none. */
  readonly reverseLinks: Int32Array;
  /** Per hop the share of the bandwidth that the other direction takes. */
  readonly reverseShares: Float32Array;
}

/** NICs in a list at most. */
const MAX_NICS = 640;

/** NICs that are looked at by path type. */
const MAX_NICS_BY_TYPE = 64;

/** Unit of a GPU's PCI bandwidth in a score: above the number of GPUs. */
export const PCI_WEIGHT = 2 ** 10;

/** Unit of the bandwidth from a NIC in a score: above any PCI bandwidth in whole GB/s. */
const NET_WEIGHT = PCI_WEIGHT * 2 ** 13;

/** Part of the bandwidth that old GPUs send back for what they receive. */
const OLD_GPU_REVERSE_SHARE = 1 / 8;

/** More than there are types of paths. */
const TYPES = 16;

/** Is a path, and the way back where that counts too, of a type within a limit? */
export function isOfType({ type, backType }: SearchPath, limit: PathType, isBothWays: boolean): boolean {
  return type !== PathType.DIS && type <= limit && !(isBothWays && backType > limit);
}

/** Rounds the difference to a thousandth, halves away from zero, in 32-bit floats. */
function difference(a: number, b: number): number {
  const thousandths = Math.fround(Math.fround(a - b) * 1000);
  const rounded = thousandths < 0 ? -Math.round(-thousandths) : Math.round(thousandths);
  return Math.fround(rounded / 1000);
}

export class SearchSpace {
  readonly system: TopoSystem;
  readonly settings: TopologySettings;
  readonly gpuCount: number;
  readonly netCount: number;
  readonly hasNvs: boolean;
  /** Remaining GB/s of each link. */
  readonly linkBandwidth: Float32Array;
  readonly #pciLink: Uint8Array;
  /** Remaining GB/s of each port. */
  readonly netBandwidth: Float32Array;
  /** Index of the first NIC with the same id. */
  readonly firstNet: Int32Array;
  /** Ports of the same card and port number, per port. */
  readonly #samePort: readonly (readonly number[])[];
  readonly #numbers = new Map<TopoLink, number>();
  readonly #gpuToGpu: (SearchPath | undefined)[];
  readonly #gpuToNet: (SearchPath | undefined)[];
  readonly #netToGpu: (SearchPath | undefined)[];
  readonly #nvsToGpu: (SearchPath | undefined)[];
  readonly #gpuToNvs: (SearchPath | undefined)[];
  /** First PCI link of each GPU's device and the one back, -1 for none. */
  readonly #pciUp: Int32Array;
  readonly #pciDown: Int32Array;
  readonly #nicLists = new Map<number, Int32Array>();
  readonly #scores: (Float64Array | undefined)[] = [];
  readonly #rankings: (Int32Array | undefined)[] = [];
  readonly #nearGpus: (readonly number[] | undefined)[] = [];

  constructor(system: TopoSystem, settings: TopologySettings) {
    this.system = system;
    this.settings = settings;
    const { GPU, NET, NVS } = system.nodes;
    this.gpuCount = GPU.length;
    this.netCount = NET.length;
    this.hasNvs = NVS.length > 0;
    const links: TopoLink[] = [];
    for (const type of NODE_TYPES) for (const node of system.nodes[type]) links.push(...node.links);
    for (const [number, link] of links.entries()) this.#numbers.set(link, number);
    this.linkBandwidth = Float32Array.from(links, ({ bandwidth }) => bandwidth);
    this.#pciLink = Uint8Array.from(links, ({ type }) => (type === LinkType.PCI ? 1 : 0));
    this.netBandwidth = Float32Array.from(NET, ({ bandwidth }) => bandwidth);
    this.firstNet = Int32Array.from(NET, ({ id }) => NET.findIndex((net) => net.id === id));
    this.#samePort = NET.map((net) =>
      NET.filter(({ asic, port }) => asic === net.asic && port === net.port).map(({ index }) => index),
    );
    this.#gpuToGpu = GPU.flatMap((from) => GPU.map((to) => this.#compile(from, to)));
    this.#gpuToNet = GPU.flatMap((from) => NET.map((to) => this.#compile(from, to)));
    this.#netToGpu = NET.flatMap((from) => GPU.map((to) => this.#compile(from, to)));
    const [nvs] = NVS;
    this.#nvsToGpu = nvs === undefined ? [] : GPU.map((gpu) => this.#compile(nvs, gpu));
    this.#gpuToNvs = nvs === undefined ? [] : GPU.map((gpu) => this.#compile(gpu, nvs));
    const pci = GPU.map(({ parent }) => {
      const up = parent.links.find(({ type }) => type === LinkType.PCI);
      const down = up?.to.links.find(({ type, to }) => type === LinkType.PCI && to === parent);
      return { up: this.#numberOf(up), down: this.#numberOf(down) };
    });
    this.#pciUp = Int32Array.from(pci, ({ up }) => up);
    this.#pciDown = Int32Array.from(pci, ({ down }) => down);
  }

  gpuToGpu(from: number, to: number): SearchPath | undefined {
    return this.#gpuToGpu[from * this.gpuCount + to];
  }

  gpuToNet(from: number, to: number): SearchPath | undefined {
    return this.#gpuToNet[from * this.netCount + to];
  }

  netToGpu(from: number, to: number): SearchPath | undefined {
    return this.#netToGpu[from * this.gpuCount + to];
  }

  nvsToGpu(to: number): SearchPath | undefined {
    return this.#nvsToGpu[to];
  }

  gpuToNvs(from: number): SearchPath | undefined {
    return this.#gpuToNvs[from];
  }

  /** What is left of a GPU's own PCI link, the lower of both directions, whole GB/s; -1 if it has none. */
  pciLeft(gpu: number): number {
    const up = this.#pciUp[gpu]!;
    const down = this.#pciDown[gpu]!;
    if (up < 0 || down < 0) return -1;
    return Math.trunc(Math.min(this.linkBandwidth[up]!, this.linkBandwidth[down]!));
  }

  /**
   * Takes `bandwidth` (given back if negative) from every link of a path; false, with nothing changed, if a link has
   * not enough left.
   */
  take(path: SearchPath, bandwidth: number): boolean {
    const { links, reverseLinks, reverseShares } = path;
    const left = this.linkBandwidth;
    const pciBandwidth = path.intelCpu ? Math.fround(Math.fround(bandwidth * 6) / 5) : bandwidth;
    for (let hop = 0; hop < links.length; hop++) {
      const link = links[hop]!;
      const need = this.#pciLink[link] === 1 ? pciBandwidth : bandwidth;
      const reverse = reverseLinks[hop]!;
      const reverseNeed = reverse < 0 ? 0 : Math.fround(need * reverseShares[hop]!);
      if (left[link]! < need || (reverseNeed !== 0 && left[reverse]! < reverseNeed)) {
        this.#giveBack(path, hop, -bandwidth);
        return false;
      }
      left[link] = difference(left[link]!, need);
      if (reverseNeed !== 0) left[reverse] = difference(left[reverse]!, reverseNeed);
    }
    return true;
  }

  /** Undoes the first hops of a path that could not be taken whole. */
  #giveBack(path: SearchPath, hops: number, bandwidth: number): void {
    const left = this.linkBandwidth;
    const pciBandwidth = path.intelCpu ? Math.fround(Math.fround(bandwidth * 6) / 5) : bandwidth;
    for (let hop = 0; hop < hops; hop++) {
      const link = path.links[hop]!;
      const need = this.#pciLink[link] === 1 ? pciBandwidth : bandwidth;
      left[link] = difference(left[link]!, need);
      const reverse = path.reverseLinks[hop]!;
      if (reverse < 0) continue;
      left[reverse] = difference(left[reverse]!, Math.fround(need * path.reverseShares[hop]!));
    }
  }

  /** Takes (negative: gives back) whole GB/s of a port, and of the ports that are the same hardware. */
  takeNet(net: number, bandwidth: number): void {
    for (const same of this.#samePort[net]!) this.netBandwidth[same] = this.netBandwidth[same]! - bandwidth;
  }

  /**
   * How good each GPU is as the next one after `from` in a channel that began at a NIC (-1: whose NICs do not matter
   * any more), higher is better: bandwidth from the NIC, room for what is left of the GPU's PCI link (in units of
   * PCI_WEIGHT, to be added), hops from the NIC, bandwidth and hops from the GPU before, and the next index.
   */
  scores(from: number, nic: number): Float64Array {
    const key = from * (this.netCount + 1) + nic + 1;
    this.#scores[key] ??= this.#listScores(from, nic);
    return this.#scores[key];
  }

  /**
   * The GPUs that may follow `from` by the types of the ways there (and back), best first where NICs do not matter. What
   * a slow type of way leads to would be refused at every step of a large host.
   */
  ranking(from: number, typeLimit: PathType, isBothWays: boolean): Int32Array {
    const key = (from * TYPES + typeLimit) * 2 + (isBothWays ? 1 : 0);
    let ranking = this.#rankings[key];
    if (ranking === undefined) {
      const scores = this.scores(from, -1);
      const able = [...scores.keys()].filter((gpu) => {
        const path = this.gpuToGpu(from, gpu);
        return path !== undefined && path.hopCount > 0 && isOfType(path, typeLimit, isBothWays);
      });
      ranking = Int32Array.from(able.sort((a, b) => scores[b]! - scores[a]!));
      this.#rankings[key] = ranking;
    }
    return ranking;
  }

  #listScores(from: number, nic: number): Float64Array {
    const n = this.gpuCount;
    const candidates = Array.from({ length: n }, (_, gpu) => {
      const own = this.gpuToGpu(from, gpu);
      const net = nic < 0 ? undefined : this.netToGpu(nic, gpu);
      return {
        gpu,
        position: (gpu - from + n) % n,
        intraBandwidth: Math.trunc(own?.bandwidth ?? 0),
        intraHops: own?.hopCount ?? 0,
        interBandwidth: Math.trunc(net?.bandwidth ?? 0),
        interHops: net?.hopCount ?? 0,
      };
    });
    candidates.sort(
      (a, b) =>
        a.interHops - b.interHops ||
        b.intraBandwidth - a.intraBandwidth ||
        a.intraHops - b.intraHops ||
        a.position - b.position,
    );
    const scores = new Float64Array(n);
    for (const [place, { gpu, interBandwidth }] of candidates.entries()) {
      scores[gpu] = interBandwidth * NET_WEIGHT + (n - place);
    }
    return scores;
  }

  /** GPUs nearest to a NIC. */
  nearGpus(net: number): readonly number[] {
    this.#nearGpus[net] ??= localNodes(this.system.nodes.NET[net]!, 'GPU').indices;
    return this.#nearGpus[net];
  }

  /**
   * NICs to be tried by a GPU (-1: by any), preferred ones first, then by type of path up to a limit (-1: preferred
   * ones only).
   */
  nics(gpu: number, typeLimit: number): Int32Array {
    const key = (gpu + 1) * TYPES + typeLimit + 1;
    let list = this.#nicLists.get(key);
    if (list === undefined) {
      list = Int32Array.from(this.#listNics(gpu, typeLimit));
      this.#nicLists.set(key, list);
    }
    return list;
  }

  #listNics(gpu: number, typeLimit: number): number[] {
    const { system, settings } = this;
    const policy = settings.netDevsPolicy;
    const gpus = gpu < 0 ? system.nodes.GPU : [system.nodes.GPU[gpu]!];
    const list = new Set<number>();
    const nicOf = (at: number, channel: number): NetNode => preferredNic(system, gpus[at]!, channel, policy);
    if (system.hosts.length > 1 && settings.scatterNets) {
      const first: NetNode[] = [];
      const active = new Set(gpus.keys());
      for (let channel = 0; channel < MAX_CHANNELS; channel++) {
        for (const at of active) {
          const nic = nicOf(at, channel);
          if (channel === 0) first.push(nic);
          else if (nic === first[at]) active.delete(at);
          list.add(nic.index);
        }
      }
    } else {
      for (const at of gpus.keys()) {
        const first = nicOf(at, 0);
        list.add(first.index);
        for (let channel = 1; channel < MAX_CHANNELS; channel++) {
          const nic = nicOf(at, channel);
          if (nic === first) break;
          list.add(nic.index);
        }
      }
    }
    const limit = policy.kind === 'MAX' ? policy.limit * gpus.length : MAX_NICS;
    for (let type = 0; type <= typeLimit; type++) {
      for (const from of gpus) {
        for (const net of system.nodes.NET.slice(0, MAX_NICS_BY_TYPE)) {
          if (list.size >= limit) return [...list];
          if (pathBetween(from, net)?.type === type) list.add(net.index);
        }
      }
    }
    return [...list];
  }

  #numberOf(link: TopoLink | undefined): number {
    return link === undefined ? -1 : (this.#numbers.get(link) ?? -1);
  }

  #compile(from: TopoNode, to: TopoNode): SearchPath | undefined {
    const path = pathBetween(from, to);
    if (path === undefined) return undefined;
    const { hops, type, bandwidth } = path;
    const reverseLinks = new Int32Array(hops.length).fill(-1);
    const reverseShares = new Float32Array(hops.length);
    let intel = false;
    let near: TopoNode = from;
    for (const [hop, link] of hops.entries()) {
      const far = link.to;
      const start = near;
      let share = far.type === 'DEV' && far.sm < 80 && from.type !== 'GPU' ? OLD_GPU_REVERSE_SHARE : 0;
      if (link.type === LinkType.NVL && far.type === 'CPU' && far.arch === CpuArch.POWER) share += 1;
      if (far.type === 'CPU' && far.arch === CpuArch.X86 && far.vendor === CpuVendor.INTEL) intel = true;
      if (share > 0) {
        const back = far.links.find((other) => other.type === link.type && other.to === start);
        reverseLinks[hop] = this.#numberOf(back);
        reverseShares[hop] = share;
      }
      near = far;
    }
    const isInside = (node: TopoNode) => node.type === 'GPU' || node.type === 'NVS';
    return {
      type,
      backType: pathBetween(to, from)?.type ?? PathType.DIS,
      intra: isInside(from) && isInside(to),
      intelCpu: type === PathType.PHB && from.type === 'GPU' && intel,
      bandwidth,
      hopCount: hops.length,
      links: Int32Array.from(hops, (link) => this.#numberOf(link)),
      reverseLinks,
      reverseShares,
    };
  }

  /** Both NICs are in one host. */
  sameHost(a: number, b: number): boolean {
    const { NET } = this.system.nodes;
    return hostOf(NET[a]!) === hostOf(NET[b]!);
  }
}

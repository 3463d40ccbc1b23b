/**
 * One search: runs with ever weaker demands until a graph is found that nothing better can follow, then runs that
 * raise its bandwidth as far as it goes.
 *
 * Demands are relaxed from the inside out: equal channels, a simpler tree, worse paths inside, worse paths to NICs,
 * crossing NICs, less bandwidth per channel. Whenever an outer demand is relaxed, the inner ones start anew.
 * (NCCL 2.30.7, search.cc.)
 */

import { type LogSink, SILENT } from '../log.js';
import { pathOrNone } from '../paths/path.js';
import { hasSplitNvlink } from '../paths/trim.js';
import { CpuArch, CpuVendor, type TopoSystem } from '../system/node.js';
import { PathType } from '../system/path-type.js';
import { type GraphChannel, type GraphId, NO_NIC, Pattern, startGraph, type TopoGraph } from './graph.js';
import type { SearchSpace } from './space.js';
import { channelSpeeds } from './speeds.js';
import { NO_NET, Trial } from './trial.js';
import { Walk } from './walk.js';

/** Steps of all runs of the first pass together. */
export const GLOBAL_STEPS = 2 ** 19;

/** Steps of one run whose channels are all equal. */
export const SAME_CHANNELS_STEPS = 2 ** 8;

/** Steps of any other run. */
export const RUN_STEPS = 2 ** 14;

/** What is asked of a search. */
export interface SearchRequest {
  readonly id: GraphId;
  readonly pattern: Pattern;
  readonly collNet: boolean;
  readonly minChannels: number;
  readonly maxChannels: number;
}

/** One run of a search, for explanations. */
export interface SearchRun {
  readonly pass: 1 | 2;
  readonly pattern: Pattern;
  readonly sameChannels: boolean;
  readonly typeIntra: PathType;
  readonly typeInter: PathType;
  readonly crossNic: number;
  readonly bwIntra: number;
  readonly bwInter: number;
  /** Channels and bandwidth inside the system of the best graph after the run. */
  readonly bestChannels: number;
  readonly bestBwIntra: number;
  readonly bestBwInter: number;
  /** `full`: the most channels; `steps`: the budget ended; `all`: every possibility was seen. */
  readonly end: 'full' | 'steps' | 'all';
  readonly steps: number;
}

export interface SearchResult {
  readonly graph: TopoGraph;
  /** Every run in order; empty if nothing had to be searched. */
  readonly runs: readonly SearchRun[];
  /** Nothing was found and the GPUs were taken in simple order. */
  readonly fallback: boolean;
}

/** Searches a system for the channels of a pattern. */
export function computeGraph(
  space: SearchSpace,
  request: SearchRequest,
  log: LogSink = SILENT,
): SearchResult {
  return new Search(space, request).result(log);
}

class Search {
  readonly #space: SearchSpace;
  readonly #system: TopoSystem;
  readonly #request: SearchRequest;
  readonly #best: Trial;
  readonly #trial: Trial;
  readonly #walk: Walk;
  readonly #runs: SearchRun[] = [];
  /** NCCL_CROSS_NIC where it applies, else 0. */
  readonly #crossNic: number;
  readonly #speeds: readonly number[];
  readonly #sm: number;
  readonly #minIntra: PathType;
  /** Counts inside one system only; across systems the limit is the present type to NICs. */
  readonly #maxIntra: PathType;
  readonly #minInter: PathType;
  readonly #maxInter: PathType;

  constructor(space: SearchSpace, request: SearchRequest) {
    const { system } = space;
    this.#space = space;
    this.#system = system;
    this.#request = request;
    const { GPU, DEV, NET } = system.nodes;
    const n = GPU.length;
    const crossing: readonly Pattern[] = [Pattern.RING, Pattern.BALANCED_TREE, Pattern.SPLIT_TREE];
    this.#crossNic = NET.length > 1 && crossing.includes(request.pattern) ? space.settings.crossNic : 0;
    this.#sm = Math.min(...DEV.map(({ sm }) => sm));
    this.#speeds = channelSpeeds(this.#sm, system.inter);
    [this.#minIntra, this.#maxIntra] = n > 1 ? intraTypes(system) : [PathType.LOC, PathType.SYS];
    [this.#minInter, this.#maxInter] = system.inter ? interTypes(system) : [PathType.PIX, PathType.SYS];
    if (this.#sm < 90) this.#maxInter = PathType.SYS;

    let { minChannels, maxChannels, pattern } = request;
    if (pattern === Pattern.NVLS && this.#possible()) maxChannels = Math.min(MAX_NVLS_HEADS, n);
    if (pattern === Pattern.COLLNET_DIRECT) maxChannels = Math.min(MAX_DIRECT_HEADS, n);
    if (!system.inter && pattern === Pattern.NVLS && this.#possible()) minChannels = maxChannels;
    if (n === 1 && pattern !== Pattern.RING && this.#possible()) pattern = Pattern.TREE;
    const channels = Math.max(maxChannels, 1);
    this.#best = new Trial(pattern, minChannels, maxChannels, n, channels);
    this.#trial = new Trial(pattern, minChannels, maxChannels, n, channels);
    this.#best.crossNic = this.#crossNic === 1 ? 1 : 0;
    this.#best.typeIntra = this.#minIntra;
    this.#best.typeInter = this.#minInter;
    this.#best.sameChannels = this.#startsSame;
    this.#walk = new Walk(space, this.#trial, this.#best, request.collNet);
  }

  /** NVLS needs an NVSwitch and GPUs that can multicast. */
  #possible(): boolean {
    return this.#request.pattern !== Pattern.NVLS || (this.#space.hasNvs && this.#sm >= 90);
  }

  get #startsSame(): boolean {
    return this.#request.pattern !== Pattern.NVLS;
  }

  result(log: LogSink): SearchResult {
    if (this.#possible()) this.#search();
    const best = this.#best;
    const fallback = best.nChannels === 0 && !this.#request.collNet && best.pattern !== Pattern.NVLS;
    if (fallback) {
      log('INFO', 'GRAPH', `Could not find a path for pattern ${best.pattern}, falling back to simple order`);
      this.#fallBack();
    }
    return { graph: this.#graph(), runs: this.#runs, fallback };
  }

  #search(): void {
    const best = this.#best;
    const trial = this.#trial;
    const { maxBw, totalBw, nodes } = this.#system;
    const speeds = this.#speeds;
    const last = speeds.length - 1;
    if (best.pattern === Pattern.RING && best.maxChannels >= 2 && best.minChannels === 1) {
      if (hasSplitNvlink(this.#system)) best.minChannels = 2;
    }
    const devices = nodes.DEV.length;
    const ceiling =
      devices > 1 && best.pattern !== Pattern.RING
        ? Math.fround(totalBw * (devices / (devices - 1)))
        : totalBw;
    trial.copyFrom(best);
    let at = 0;
    while (at < last && (speeds[at]! > maxBw || Math.fround(speeds[at]! * best.minChannels) > ceiling)) at++;
    const setSpeeds = () => {
      trial.bwIntra = speeds[at]!;
      trial.bwInter = speeds[at]!;
    };
    setSpeeds();

    let left = GLOBAL_STEPS;
    let pass: 1 | 2 = 1;
    for (;;) {
      const budget = trial.sameChannels ? SAME_CHANNELS_STEPS : RUN_STEPS;
      left -= budget;
      let time = this.#run(pass, budget);
      const done = time === -1 || Math.fround(best.nChannels * best.bwInter) >= totalBw;
      if (pass === 1 && !done) {
        // The first demand that can be relaxed.
        if (this.#relaxEqualChannels()) continue;
        left += time;
        if (!(left < 0 && best.nChannels > 0)) {
          if (this.#relaxTree() || this.#relaxIntra() || this.#relaxInter() || this.#relaxCrossNic())
            continue;
          const slower = speeds[at + 1];
          if (slower !== undefined && (best.nChannels === 0 || Math.fround(slower / best.bwInter) > 0.49)) {
            at += 1;
            setSpeeds();
            continue;
          }
        }
      }
      if (pass === 1) {
        time = -1;
        this.#duplicateChannels();
        trial.copyFrom(best);
        at = 0;
        while (at < last && speeds[at]! > best.bwInter) at++;
        setSpeeds();
        trial.minChannels = best.nChannels;
        pass = 2;
      }
      if (time === 0 || at === 0) return;
      if (best.pattern === Pattern.RING) {
        at -= 1;
        setSpeeds();
      } else if (
        best.pattern === Pattern.NVLS &&
        trial.bwInter === best.bwInter &&
        trial.bwInter < trial.bwIntra * 2
      ) {
        trial.minChannels = best.nChannels;
        trial.maxChannels = best.nChannels;
        at -= 1;
        trial.bwInter = speeds[at]!;
      } else if (trial.bwIntra === best.bwIntra && trial.bwIntra < trial.bwInter * 2) {
        at -= 1;
        trial.bwIntra = speeds[at]!;
      } else return;
    }
  }

  #run(pass: 1 | 2, budget: number): number {
    const trial = this.#trial;
    const best = this.#best;
    const before = this.#walk.steps;
    const time = this.#walk.run(budget);
    this.#runs.push({
      pass,
      pattern: trial.pattern,
      sameChannels: trial.sameChannels,
      typeIntra: trial.typeIntra,
      typeInter: trial.typeInter,
      crossNic: trial.crossNic,
      bwIntra: trial.bwIntra,
      bwInter: trial.bwInter,
      bestChannels: best.nChannels,
      bestBwIntra: best.bwIntra,
      bestBwInter: best.bwInter,
      end: time === -1 ? 'full' : time === 0 ? 'steps' : 'all',
      steps: this.#walk.steps - before,
    });
    return time;
  }

  // Relaxations. Each either changes the trial for a new run, or puts its own demand back to the start.

  #relaxEqualChannels(): boolean {
    const trial = this.#trial;
    const [cpu] = this.#system.nodes.CPU;
    const amd = cpu?.arch === CpuArch.X86 && cpu.vendor === CpuVendor.AMD;
    if (trial.sameChannels && !(amd && trial.typeIntra === PathType.SYS)) {
      trial.sameChannels = false;
      return true;
    }
    trial.sameChannels = this.#startsSame;
    return false;
  }

  #relaxTree(): boolean {
    const trial = this.#trial;
    if (this.#sm >= 90 && trial.pattern === Pattern.BALANCED_TREE) {
      trial.pattern = Pattern.TREE;
      return true;
    }
    trial.pattern = this.#best.pattern;
    return false;
  }

  #relaxIntra(): boolean {
    const trial = this.#trial;
    const best = this.#best;
    const limit = this.#system.inter ? trial.typeInter : this.#maxIntra;
    if (trial.typeIntra < limit && (best.nChannels === 0 || trial.typeIntra < best.typeIntra)) {
      trial.typeIntra = (trial.typeIntra + 1) as PathType;
      if (trial.typeIntra < PathType.DIS) return true;
    }
    trial.typeIntra = this.#minIntra;
    return false;
  }

  #relaxInter(): boolean {
    const trial = this.#trial;
    const best = this.#best;
    const useful = best.nChannels === 0 || trial.typeInter < best.typeInter || trial.typeInter < PathType.PXN;
    if (this.#system.inter && trial.typeInter < this.#maxInter && useful) {
      trial.typeInter = (trial.typeInter + 1) as PathType;
      if (trial.typeInter < PathType.DIS) return true;
    }
    trial.typeInter = this.#minInter;
    return false;
  }

  #relaxCrossNic(): boolean {
    const trial = this.#trial;
    const { pattern } = this.#best;
    const pairs = pattern === Pattern.RING || pattern === Pattern.BALANCED_TREE;
    if (this.#crossNic === 2 && trial.crossNic === 0 && pairs) {
      trial.crossNic = 2;
      return true;
    }
    trial.crossNic = this.#crossNic === 1 ? 1 : 0;
    return false;
  }

  /** Twice the channels with half the bandwidth each use the machine better, where a channel is fast. */
  #duplicateChannels(): void {
    const best = this.#best;
    const { nChannels } = best;
    if (nChannels === 0 || best.pattern === Pattern.NVLS || best.bwIntra < 25) return;
    if (this.#sm > 80 && best.bwIntra < 50 && nChannels > 4) return;
    const doubled = Math.min(nChannels * 2, best.maxChannels);
    const n = best.gpuCount;
    for (let channel = nChannels; channel < doubled; channel++) {
      const from = channel - nChannels;
      best.intra.copyWithin(channel * n, from * n, (from + 1) * n);
      best.inter.copyWithin(channel * 2, from * 2, from * 2 + 2);
    }
    const parts = Math.ceil(doubled / nChannels);
    best.bwIntra = Math.fround(best.bwIntra / parts);
    best.bwInter = Math.fround(best.bwInter / parts);
    best.nChannels = doubled;
  }

  /** One slow channel by index, when nothing was found. */
  #fallBack(): void {
    const best = this.#best;
    const n = best.gpuCount;
    for (let gpu = 0; gpu < n; gpu++) best.intra[gpu] = gpu;
    best.bwIntra = Math.fround(0.1);
    best.typeIntra = PathType.SYS;
    best.nChannels = 1;
    const [first = NO_NET] = this.#space.nics(0, -1);
    const [end = NO_NET] = this.#space.nics(n - 1, -1);
    const both = first !== NO_NET && end !== NO_NET;
    best.inter[0] = both ? first : NO_NET;
    best.inter[1] = both ? end : NO_NET;
    best.bwInter = both ? Math.fround(0.1) : 0;
    best.typeInter = both ? PathType.SYS : PathType.DIS;
  }

  #graph(): TopoGraph {
    const best = this.#best;
    const { id, collNet } = this.#request;
    const { GPU, NET } = this.#system.nodes;
    const nicId = (net: number) => (net === NO_NET ? NO_NIC : NET[net]!.id);
    const positions = best.pattern === Pattern.NVLS ? 1 : best.gpuCount;
    const channels: GraphChannel[] = [];
    for (let channel = 0; channel < best.nChannels; channel++) {
      const start = channel * best.gpuCount;
      channels.push({
        intra: Array.from(best.intra.subarray(start, start + positions), (gpu) => GPU[gpu]!.rank),
        inter: this.#system.inter
          ? [nicId(best.inter[channel * 2]!), nicId(best.inter[channel * 2 + 1]!)]
          : null,
      });
    }
    return {
      ...startGraph(id, best.pattern, collNet, best.minChannels, best.maxChannels),
      crossNic: best.crossNic,
      nChannels: best.nChannels,
      bwIntra: best.bwIntra,
      bwInter: best.bwInter,
      latencyInter: best.latencyInter,
      typeIntra: best.typeIntra,
      typeInter: best.typeInter,
      sameChannels: best.sameChannels,
      nHops: best.nHops,
      channels,
    };
  }
}

/** NVLS heads at most. */
const MAX_NVLS_HEADS = 32;

/** CollNet direct heads at most: 7 peers and the head itself. */
const MAX_DIRECT_HEADS = 8;

/** Best and worst path type between different GPUs. */
function intraTypes({ nodes: { GPU } }: TopoSystem): [PathType, PathType] {
  let min: PathType = PathType.SYS;
  let max: PathType = PathType.LOC;
  for (const from of GPU) {
    for (const to of GPU) {
      if (from === to) continue;
      const { type } = pathOrNone(from, to);
      min = Math.min(min, type) as PathType;
      max = Math.max(max, type) as PathType;
    }
  }
  return [min, max];
}

/** Best and worst path type from a GPU to a NIC. */
function interTypes({ nodes: { GPU } }: TopoSystem): [PathType, PathType] {
  let min: PathType = PathType.SYS;
  let max: PathType = PathType.LOC;
  for (const gpu of GPU) {
    for (const { type } of gpu.paths.NET ?? []) {
      min = Math.min(min, type) as PathType;
      max = Math.max(max, type) as PathType;
    }
  }
  return [min, max];
}

/**
 * The search of one run: channels are laid one after the other, each GPU after the other, consuming link bandwidth and
 * giving it back, until the step budget ends, every possibility was seen or nothing better can come.
 *
 * It is a depth-first walk with an explicit stack, because 32 channels of 72 GPUs are deeper than a JavaScript stack.
 * Which candidate comes first decides the result wherever the budget ends the walk, so all orders here are NCCL's.
 * (NCCL 2.30.7, search.cc.)
 */
import { PathType } from '../system/path-type.js';
import { Pattern } from './graph.js';
import { isOfType, PCI_WEIGHT, type SearchPath, type SearchSpace } from './space.js';
import type { Trial } from './trial.js';

/** Steps for the attempt in PCI order that is made before everything else. */
const PCI_ORDER_STEPS = 1024;

/** No such step. */
const NONE = -1;

/** How the GPUs of a channel are chosen. */
const Order = {
  FREE: 0,
  /** By index. */
  PCI: 1,
  /** As in the channel before. */
  REPLAY: 2,
} as const;
type Order = (typeof Order)[keyof typeof Order];

/** What a frame of the stack is choosing. */
const Kind = {
  /** First GPU of a channel, inside one system. */
  START_INTRA: 0,
  /** First NIC and GPU of a channel. */
  START_INTER: 1,
  /** Next GPU. */
  GPU: 2,
  /** NIC at the end of the channel. */
  NIC: 3,
  /** The way back to the first GPU. */
  CLOSE: 4,
  /** All GPUs to and from the head. */
  STAR: 5,
  /** The channel is complete; the next one is below. */
  COMPLETE: 6,
} as const;
type Kind = (typeof Kind)[keyof typeof Kind];

/** A choice that is under way; frames are used again, so the walk allocates nothing. */
class Frame {
  kind: Kind = Kind.GPU;
  /** GPU and step at which the choice is made. */
  gpu = NONE;
  step = 0;
  /** Step at which the channel goes to its last NIC, or at which the ring closes. */
  back = NONE;
  loop = NONE;
  order: Order = Order.FREE;
  /** GPUs or NICs to try, their number, and the next one. */
  choices: Int32Array;
  count = 0;
  at = 0;
  /** START: order that each first GPU begins. */
  readonly orders: Uint8Array;
  /** The frame's own list; `choices` may be another one. */
  readonly list: Int32Array;
  /** GPU: choices may be taken meanwhile, and are passed over then. */
  areAll = false;
  /** GPU: choices are a heap by these keys, of which the greatest comes next. */
  isHeap = false;
  readonly keys: Float64Array;
  /** What the present choice has taken: a path at a bandwidth, a GPU's mark. */
  open = false;
  path: SearchPath | undefined;
  bandwidth = 0;
  marked = NONE;
  /** START_INTER: list of NICs, the next one, and the present one. */
  nics: Int32Array;
  nicAt = 0;
  nic = NONE;
  tried = false;
  /** Budget that waits while an attempt has its own; NONE if none waits. */
  waiting = NONE;
  hasOwnBudget = false;

  constructor(gpuCount: number) {
    // First GPUs: each once in free order, and one in PCI order.
    this.list = new Int32Array(gpuCount + 1);
    this.orders = new Uint8Array(gpuCount + 1);
    this.keys = new Float64Array(gpuCount);
    this.choices = this.list;
    this.nics = this.list;
  }
}

export class Walk {
  readonly #space: SearchSpace;
  readonly #collNet: boolean;
  readonly #trial: Trial;
  readonly #best: Trial;
  readonly #used: Uint8Array;
  readonly #frames: Frame[] = [];
  readonly #channels: number;
  /** Trees use both directions of a path. */
  readonly #isBothWays: boolean;
  #depth = 0;
  #time = 0;
  /** Steps that were taken, for people who ask. */
  steps = 0;

  constructor(space: SearchSpace, trial: Trial, best: Trial, collNet: boolean) {
    this.#space = space;
    this.#trial = trial;
    this.#best = best;
    this.#collNet = collNet;
    this.#channels = trial.inter.length / 2;
    this.#isBothWays = trial.pattern <= Pattern.TREE;
    this.#used = new Uint8Array(space.gpuCount * this.#channels);
  }

  /** Searches within a budget of steps; returns what is left: -1 nothing better can come, 0 the budget ended. */
  run(budget: number): number {
    this.#time = budget;
    this.#trial.nChannels = 0;
    this.#startChannel();
    while (this.#depth > 0) {
      const frame = this.#frames[this.#depth - 1]!;
      this.#undo(frame);
      if (!this.#next(frame)) this.#depth -= 1;
    }
    return this.#time;
  }

  #push(kind: Kind): Frame {
    let frame = this.#frames[this.#depth];
    if (frame === undefined) {
      frame = new Frame(this.#space.gpuCount);
      this.#frames.push(frame);
    }
    this.#depth += 1;
    frame.kind = kind;
    frame.choices = frame.list;
    frame.count = 0;
    frame.at = 0;
    frame.open = false;
    frame.hasOwnBudget = false;
    frame.areAll = false;
    frame.isHeap = false;
    return frame;
  }

  /** Makes the next choice of a frame and goes below it; false if there is none. */
  #next(frame: Frame): boolean {
    switch (frame.kind) {
      case Kind.START_INTRA:
        return this.#nextStart(frame, NONE);
      case Kind.START_INTER:
        return this.#nextNic(frame);
      case Kind.GPU:
        return this.#nextGpu(frame);
      case Kind.NIC:
        return this.#nextEnd(frame);
      case Kind.CLOSE:
        return this.#close(frame);
      case Kind.STAR:
        return this.#star(frame);
      case Kind.COMPLETE:
        this.#trial.nChannels -= 1;
        return false;
    }
  }

  /** Gives back what the present choice of a frame has taken. */
  #undo(frame: Frame): void {
    if (!frame.open) return;
    frame.open = false;
    if (frame.marked !== NONE) this.#toggle(frame.marked);
    if (frame.path !== undefined) this.#giveBack(frame.path, 1, frame.bandwidth);
    if (frame.kind === Kind.STAR) this.#giveBackStar(frame.gpu, 2 * this.#space.gpuCount);
    if (frame.hasOwnBudget) {
      frame.hasOwnBudget = false;
      this.#time = this.#time === -1 ? -1 : frame.waiting;
    }
  }

  // Channels

  #startChannel(): void {
    const { pattern, nChannels: channel, sameChannels } = this.#trial;
    const { system, gpuCount } = this.#space;
    if (system.inter) {
      const frame = this.#push(Kind.START_INTER);
      frame.nics = this.#space.nics(-1, this.#trial.typeInter);
      frame.nicAt = 0;
      frame.nic = NONE;
      frame.tried = false;
      frame.back = pattern === Pattern.RING ? gpuCount - 1 : pattern === Pattern.SPLIT_TREE ? 1 : 0;
      frame.loop = NONE;
      return;
    }
    const frame = this.#push(Kind.START_INTRA);
    frame.back = NONE;
    frame.loop = pattern === Pattern.RING ? gpuCount - 1 : NONE;
    if (pattern === Pattern.NVLS) {
      addStart(frame, channel, Order.FREE);
      return;
    }
    if (channel === 0) addStart(frame, 0, Order.PCI);
    else addStart(frame, this.#trial.firstGpu(channel - 1), Order.REPLAY);
    if (!sameChannels || channel === 0) {
      for (let gpu = 0; gpu < gpuCount; gpu++) addStart(frame, gpu, Order.FREE);
    }
  }

  /** Tries the next first GPU, reached from a NIC or from nowhere. */
  #nextStart(frame: Frame, nic: number): boolean {
    while (frame.at < frame.count) {
      const gpu = frame.choices[frame.at]!;
      const order = frame.orders[frame.at]! as Order;
      frame.at += 1;
      const path = nic === NONE ? undefined : this.#space.netToGpu(nic, gpu);
      if (nic !== NONE && (path === undefined || !this.#take(path, 1, this.#trial.bwInter))) continue;
      // Only the attempt in PCI order from a NIC has a budget of its own.
      const ownBudget = nic !== NONE && order === Order.PCI;
      if (ownBudget) {
        frame.waiting = this.#time;
        this.#time = PCI_ORDER_STEPS;
      }
      frame.hasOwnBudget = ownBudget;
      this.#open(frame, path, this.#trial.bwInter, gpu);
      this.#enter(gpu, 0, frame.back, frame.loop, order);
      return true;
    }
    return false;
  }

  /** Goes on with the present first NIC, or takes the next one that has bandwidth left. */
  #nextNic(frame: Frame): boolean {
    const trial = this.#trial;
    const space = this.#space;
    const { nics } = frame;
    const channel = trial.nChannels;
    const star = trial.pattern === Pattern.NVLS || trial.pattern === Pattern.COLLNET_DIRECT;
    const bandwidth = Math.trunc(trial.bwInter);
    for (;;) {
      if (frame.nic !== NONE) {
        if (this.#nextStart(frame, frame.nic)) return true;
        space.takeNet(frame.nic, -bandwidth);
        frame.nic = NONE;
      }
      if (frame.nicAt >= nics.length || (star && frame.tried)) return false;
      const nic = nics[(channel + frame.nicAt) % nics.length]!;
      frame.nicAt += 1;
      const first = space.firstNet[nic]!;
      const net = space.system.nodes.NET[nic]!;
      if (this.#collNet && !net.coll) continue;
      if (space.netBandwidth[nic]! < bandwidth) continue;
      const paired = trial.pattern === Pattern.RING && trial.crossNic === 2 && channel % 2 === 1;
      if (paired && first !== trial.inter[(channel - 1) * 2 + 1]) continue;
      frame.nic = nic;
      frame.count = 0;
      frame.at = 0;
      trial.inter[channel * 2] = first;
      trial.latencyInter = net.latency;
      space.takeNet(nic, bandwidth);
      if (star) this.#addHead(frame, net.localGpu, channel);
      else this.#addStarts(frame, nic, net.localGpu, channel);
    }
  }

  #addHead(frame: Frame, gpu: number, channel: number): void {
    if (channel >= frame.nics.length || gpu < 0) return;
    for (let earlier = 0; earlier < channel; earlier++) {
      if (this.#trial.firstGpu(earlier) === gpu) return;
    }
    frame.tried = true;
    addStart(frame, gpu, Order.FREE);
  }

  #addStarts(frame: Frame, nic: number, localGpu: number, channel: number): void {
    if (channel > 0 && this.#trial.sameChannels) {
      addStart(frame, this.#trial.firstGpu(channel - 1), Order.REPLAY);
      return;
    }
    if (channel === 0 && !this.#space.hasNvs) addStart(frame, 0, Order.PCI);
    if (localGpu >= 0) addStart(frame, localGpu, Order.FREE);
    for (const gpu of this.#space.nearGpus(nic)) {
      if (gpu !== localGpu) addStart(frame, gpu, Order.FREE);
    }
  }

  /** One step: the channel has reached a GPU; decides what is to be chosen next. */
  #enter(gpu: number, step: number, back: number, loop: number, order: Order): void {
    if (this.#time <= 0) return;
    this.#time -= 1;
    this.steps += 1;
    const trial = this.#trial;
    const n = this.#space.gpuCount;
    if (step === n) {
      this.#complete();
      return;
    }
    trial.intra[trial.nChannels * n + step] = gpu;
    const kind = this.#kindOfStep(step, back);
    const frame = this.#push(kind);
    frame.gpu = gpu;
    frame.step = step;
    frame.back = back;
    frame.loop = loop;
    frame.order = order;
    if (kind === Kind.NIC) {
      frame.choices = this.#space.nics(gpu, trial.typeInter);
      frame.count = frame.choices.length;
    } else if (kind === Kind.GPU) this.#listGpus(frame);
  }

  #kindOfStep(step: number, back: number): Kind {
    const { pattern } = this.#trial;
    const n = this.#space.gpuCount;
    if (step === back) return Kind.NIC;
    if (pattern === Pattern.NVLS || pattern === Pattern.COLLNET_DIRECT) return Kind.STAR;
    return step < n - 1 ? Kind.GPU : Kind.CLOSE;
  }

  #complete(): void {
    const trial = this.#trial;
    trial.nChannels += 1;
    this.#push(Kind.COMPLETE);
    if (this.#isBetter()) {
      this.#best.copyFrom(trial);
      if (trial.nChannels === trial.maxChannels) this.#time = -1;
    }
    if (trial.nChannels < trial.maxChannels) this.#startChannel();
  }

  /** Is the trial better than the best so far? */
  #isBetter(): boolean {
    const trial = this.#trial;
    const best = this.#best;
    if (trial.nChannels < trial.minChannels) return false;
    if (trial.pattern === Pattern.NVLS) {
      if (trial.nChannels > best.nChannels && trial.nChannels <= this.#space.gpuCount) return true;
      return Math.fround(trial.nChannels * trial.bwInter) > Math.fround(best.nChannels * best.bwInter);
    }
    const own = Math.fround(trial.nChannels * trial.bwIntra);
    const other = Math.fround(best.nChannels * best.bwIntra);
    if (own !== other) return own > other;
    return trial.pattern === best.pattern && trial.crossNic === best.crossNic && trial.nHops < best.nHops;
  }

  // GPUs

  #nextGpu(frame: Frame): boolean {
    const { gpu, step, back, loop, order } = frame;
    const { bwIntra } = this.#trial;
    while (frame.at < frame.count) {
      const next = frame.isHeap ? takeGreatest(frame) : frame.choices[frame.at++]!;
      if (frame.areAll && !this.#isCandidate(gpu, next)) continue;
      const path = this.#space.gpuToGpu(gpu, next);
      if (path === undefined || !this.#take(path, 1, bwIntra)) continue;
      this.#open(frame, path, bwIntra, next);
      this.#enter(next, step + 1, back, loop, order);
      return true;
    }
    return false;
  }

  #listGpus(frame: Frame): void {
    const { gpu, step, order } = frame;
    const trial = this.#trial;
    if (order === Order.PCI) addChoice(frame, step + 1);
    else if (order === Order.REPLAY) {
      addChoice(frame, trial.intra[(trial.nChannels - 1) * this.#space.gpuCount + step + 1]!);
    } else if (this.#space.hasNvs) this.#listNeighbours(frame, gpu);
    else this.#listByScore(frame);
  }

  #isCandidate(from: number, gpu: number): boolean {
    const path = this.#space.gpuToGpu(from, gpu);
    if (path === undefined || path.hopCount === 0) return false;
    return this.#used[gpu * this.#channels + this.#trial.nChannels] === 0;
  }

  /** Behind an NVSwitch all GPUs are equal: only the neighbours by index are tried. */
  #listNeighbours(frame: Frame, from: number): void {
    const n = this.#space.gpuCount;
    const { pattern } = this.#trial;
    const next = (from + 1) % n;
    const previous = (from - 1 + n) % n;
    if (pattern === Pattern.RING && this.#isCandidate(from, previous)) addChoice(frame, previous);
    if (this.#isCandidate(from, next) && (frame.count === 0 || next !== previous)) addChoice(frame, next);
    const tree = pattern === Pattern.BALANCED_TREE || pattern === Pattern.SPLIT_TREE;
    if (tree && next !== previous && this.#isCandidate(from, previous)) addChoice(frame, previous);
  }

  /** All free GPUs, best first: near the NIC of the channel (if one is still to be reached), then near this GPU. */
  #listByScore(frame: Frame): void {
    const { gpu: from, step, back, list, keys } = frame;
    const space = this.#space;
    const n = space.gpuCount;
    if (back === NONE) {
      // Nothing of this order changes during a search, so only what is taken has to be passed over.
      frame.choices = space.ranking(from, this.#trial.typeIntra, this.#isBothWays);
      frame.count = frame.choices.length;
      frame.areAll = true;
      return;
    }
    const scores = space.scores(from, this.#trial.inter[this.#trial.nChannels * 2]!);
    let count = 0;
    let greatest = 0;
    for (let gpu = 0; gpu < n; gpu++) {
      if (!this.#isCandidate(from, gpu)) continue;
      // The only part of the order that changes during a search.
      keys[count] = scores[gpu]! + (space.pciLeft(gpu) + 1) * PCI_WEIGHT;
      list[count] = gpu;
      if (keys[count]! > keys[greatest]!) greatest = count;
      count += 1;
    }
    frame.isHeap = true;
    const isReversed = back !== step + 1 && this.#areEqual(from, list, count, list[greatest]!);
    const { typeIntra } = this.#trial;
    let able = 0;
    for (let i = 0; i < count; i++) {
      if (!isOfType(space.gpuToGpu(from, list[i]!)!, typeIntra, this.#isBothWays)) continue;
      list[able] = list[i]!;
      keys[able] = isReversed ? -keys[i]! : keys[i]!;
      able += 1;
    }
    frame.count = able;
    // Nearly always the first or none of the choices is taken: a heap has it without all others in order.
    makeHeap(frame);
  }

  /** Are all GPUs of a list as near to `from` as the first one? */
  #areEqual(from: number, list: Int32Array, count: number, first: number): boolean {
    const { bandwidth, hopCount } = this.#space.gpuToGpu(from, first)!;
    for (let i = 0; i < count; i++) {
      const path = this.#space.gpuToGpu(from, list[i]!)!;
      if (Math.trunc(path.bandwidth) !== Math.trunc(bandwidth) || path.hopCount !== hopCount) return false;
    }
    return true;
  }

  #close(frame: Frame): boolean {
    const { gpu, step, loop, order } = frame;
    if (frame.at > 0) return false;
    frame.at = 1;
    const n = this.#space.gpuCount;
    let path: SearchPath | undefined;
    if (step === loop) {
      path = this.#space.gpuToGpu(gpu, this.#trial.firstGpu(this.#trial.nChannels));
      if (path === undefined || !this.#take(path, 1, this.#trial.bwIntra)) return false;
    }
    this.#open(frame, path, this.#trial.bwIntra, NONE);
    this.#enter(gpu, n, NONE, NONE, order);
    return true;
  }

  // NICs

  #nextEnd(frame: Frame): boolean {
    const { gpu, step, loop, order } = frame;
    const trial = this.#trial;
    const balanced = trial.pattern === Pattern.BALANCED_TREE;
    const bandwidth = balanced ? trial.bwInter / 2 : trial.bwInter;
    while (frame.at < frame.count) {
      const nic = frame.choices[frame.at]!;
      frame.at += 1;
      if (!this.#mayEnd(nic, step)) continue;
      const path = this.#space.gpuToNet(gpu, nic);
      if (path === undefined || !this.#take(path, 1, bandwidth)) continue;
      trial.inter[trial.nChannels * 2 + 1] = this.#space.firstNet[nic]!;
      this.#open(frame, path, bandwidth, NONE);
      this.#enter(gpu, step, balanced && step === 0 ? 1 : NONE, loop, order);
      return true;
    }
    return false;
  }

  /** May a NIC end the present channel? */
  #mayEnd(nic: number, step: number): boolean {
    const { pattern, crossNic, nChannels: channel, inter } = this.#trial;
    const space = this.#space;
    const { NET } = space.system.nodes;
    const first = inter[channel * 2]!;
    const start = NET[first]!;
    const end = NET[nic]!;
    const same = space.firstNet[nic] === first;
    if (start.plane !== NONE && end.plane !== NONE && start.plane !== end.plane) return false;
    if (pattern === Pattern.TREE && !same) return false;
    if (pattern === Pattern.RING && crossNic === 2) {
      if (channel % 2 === 1 && space.firstNet[nic] !== inter[(channel - 1) * 2]) return false;
    } else if (crossNic === 0) {
      if (start.rail !== NONE && end.rail !== NONE) {
        if (start.rail !== end.rail) return false;
      } else if (space.settings.railPerHost && !space.sameHost(first, nic)) {
        if (start.pciId !== end.pciId || start.port !== end.port) return false;
      } else if (start.asic !== end.asic || start.port !== end.port) return false;
    }
    if (pattern === Pattern.BALANCED_TREE && step !== 0) {
      return space.firstNet[nic] === inter[channel * 2 + 1];
    }
    return true;
  }

  // Heads

  /** NVLS and CollNet direct: takes the ways of all GPUs to and from the head at once. */
  #star(frame: Frame): boolean {
    if (frame.at > 0) return false;
    frame.at = 1;
    const n = this.#space.gpuCount;
    const trial = this.#trial;
    for (let i = 0; i < 2 * n; i++) {
      const path = this.#starPath(frame.gpu, i);
      if (path === undefined || !this.#take(path, this.#starFactor(frame.gpu, i), trial.bwIntra)) {
        this.#giveBackStar(frame.gpu, i);
        return false;
      }
    }
    if (trial.pattern === Pattern.COLLNET_DIRECT) {
      for (let gpu = 0, at = 1; gpu < n; gpu++) {
        if (gpu !== frame.gpu) trial.intra[trial.nChannels * n + at++] = gpu;
      }
    }
    this.#open(frame, undefined, 0, NONE);
    this.#enter(frame.gpu, n, NONE, NONE, Order.FREE);
    return true;
  }

  #giveBackStar(head: number, count: number): void {
    for (let i = count - 1; i >= 0; i--) {
      this.#giveBack(this.#starPath(head, i)!, this.#starFactor(head, i), this.#trial.bwIntra);
    }
  }

  /** The i-th path of a head: first those to every GPU, then those from every GPU. */
  #starPath(head: number, i: number): SearchPath | undefined {
    const n = this.#space.gpuCount;
    if (this.#trial.pattern === Pattern.NVLS) {
      return i < n ? this.#space.nvsToGpu(i) : this.#space.gpuToNvs(i - n);
    }
    return i < n ? this.#space.gpuToGpu(head, i) : this.#space.gpuToGpu(i - n, head);
  }

  #starFactor(head: number, i: number): number {
    const n = this.#space.gpuCount;
    if (this.#trial.pattern === Pattern.NVLS) return i % n === head ? 2 : 1;
    return Math.fround(1 / (n - 1));
  }

  // Accounting

  #open(frame: Frame, path: SearchPath | undefined, bandwidth: number, marked: number): void {
    frame.open = true;
    frame.path = path;
    frame.bandwidth = bandwidth;
    frame.marked = marked;
    if (marked !== NONE) this.#toggle(marked);
  }

  #toggle(gpu: number): void {
    this.#used[gpu * this.#channels + this.#trial.nChannels]! ^= 1;
  }

  /** Takes `factor` times a bandwidth from a path, if its type is allowed and its links have enough left. */
  #take(path: SearchPath, factor: number, bandwidth: number): boolean {
    const trial = this.#trial;
    if (path.type === PathType.DIS) return false;
    if (factor === 1) {
      const limit = path.intra ? trial.typeIntra : trial.typeInter;
      if (!isOfType(path, limit, this.#isBothWays)) return false;
    }
    if (!this.#space.take(path, Math.fround(bandwidth * factor))) return false;
    this.#countHops(path, factor);
    return true;
  }

  #giveBack(path: SearchPath, factor: number, bandwidth: number): void {
    this.#space.take(path, -Math.fround(bandwidth * factor));
    this.#countHops(path, -factor);
  }

  #countHops(path: SearchPath, factor: number): void {
    const trial = this.#trial;
    trial.nHops = Math.trunc(Math.fround(trial.nHops + Math.fround(factor * path.hopCount)));
  }
}

function addStart(frame: Frame, gpu: number, order: Order): void {
  frame.orders[frame.count] = order;
  addChoice(frame, gpu);
}

function addChoice(frame: Frame, choice: number): void {
  frame.list[frame.count] = choice;
  frame.count += 1;
}

/** Puts the choices of a frame into the order of a heap: none has a greater key than the one at half its place. */
function makeHeap(frame: Frame): void {
  for (let at = (frame.count >> 1) - 1; at >= 0; at--) siftDown(frame, at);
}

/** The choice with the greatest key, which leaves the heap. */
function takeGreatest(frame: Frame): number {
  const { list, keys } = frame;
  const choice = list[0]!;
  frame.count -= 1;
  list[0] = list[frame.count]!;
  keys[0] = keys[frame.count]!;
  siftDown(frame, 0);
  return choice;
}

function siftDown({ list, keys, count }: Frame, start: number): void {
  const choice = list[start]!;
  const key = keys[start]!;
  let at = start;
  for (;;) {
    let below = 2 * at + 1;
    if (below >= count) break;
    if (below + 1 < count && keys[below + 1]! > keys[below]!) below += 1;
    if (keys[below]! <= key) break;
    list[at] = list[below]!;
    keys[at] = keys[below]!;
    at = below;
  }
  list[at] = choice;
  keys[at] = key;
}

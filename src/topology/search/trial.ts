/**
 * A graph in the making: the parameters of a run and the channels that are chosen so far, by GPU and NIC index.
 */
import type { PathType } from '../system/path-type.js';
import type { Pattern } from './graph.js';

/** Marks a channel end without a NIC. */
export const NO_NET = -1;

/** One state of a search; the best one so far is a copy of another. Bandwidths in GB/s, 32-bit floats. */
export class Trial {
  pattern: Pattern;
  crossNic = 0;
  minChannels: number;
  maxChannels: number;
  nChannels = 0;
  bwIntra = 0;
  bwInter = 0;
  latencyInter = 0;
  typeIntra: PathType = 0;
  typeInter: PathType = 0;
  sameChannels = false;
  nHops = 0;
  /** GPU index by channel and position. */
  readonly intra: Int32Array;
  /** First and last NIC by channel; the NIC is the first one with its id. */
  readonly inter: Int32Array;
  readonly gpuCount: number;

  constructor(
    pattern: Pattern,
    minChannels: number,
    maxChannels: number,
    gpuCount: number,
    channels: number,
  ) {
    this.pattern = pattern;
    this.minChannels = minChannels;
    this.maxChannels = maxChannels;
    this.gpuCount = gpuCount;
    this.intra = new Int32Array(channels * gpuCount);
    this.inter = new Int32Array(channels * 2).fill(NO_NET);
  }

  copyFrom(other: Trial): void {
    this.pattern = other.pattern;
    this.crossNic = other.crossNic;
    this.minChannels = other.minChannels;
    this.maxChannels = other.maxChannels;
    this.nChannels = other.nChannels;
    this.bwIntra = other.bwIntra;
    this.bwInter = other.bwInter;
    this.latencyInter = other.latencyInter;
    this.typeIntra = other.typeIntra;
    this.typeInter = other.typeInter;
    this.sameChannels = other.sameChannels;
    this.nHops = other.nHops;
    this.intra.set(other.intra);
    this.inter.set(other.inter);
  }

  firstGpu(channel: number): number {
    return this.intra[channel * this.gpuCount]!;
  }
}

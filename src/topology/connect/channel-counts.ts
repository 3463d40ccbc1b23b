/**
 * How many channels a communicator gets, and which channel of the search each of them repeats.
 *
 * The search finds C channels; there are 2C, because both trees need one each. Then channels are copied where more
 * of them carry more, and cut where the user wants fewer. (NCCL 2.30.7, connect.cc.)
 */
import { MAX_CHANNELS, type TopologySettings } from '../settings.js';
import { argumentChannels, type ConnectConfig, ctaBounds } from './config.js';

export interface ChannelFacts {
  /** Channels that all ranks found for ring and tree. */
  readonly searchChannels: number;
  readonly nNodes: number;
  readonly nRanks: number;
  /** Lowest compute capability of all GPUs, times 10. */
  readonly minSm: number;
  /** GB/s per channel of the aligned ring. */
  readonly ringBwIntra: number;
  /** GB/s per channel of the aligned CollNet chain; undefined without CollNet. */
  readonly collnet: { readonly bwIntra: number; readonly bwInter: number } | undefined;
}

/** Hopper and later fill faster rings than this only with twice the channels, below the next limit. */
const FAST_RING_BW = 45;
const FEW_CHANNELS = 16;
const HOPPER = 90;

/** Channels that the two trees of C search channels make. */
export const bothTrees = (searchChannels: number): number => Math.min(MAX_CHANNELS, 2 * searchChannels);

/**
 * For each channel of the communicator the channel 0..min(64, 2C)-1 whose rings and trees it has.
 */
export function channelSources(
  facts: ChannelFacts,
  settings: TopologySettings,
  config: ConnectConfig = {},
): number[] {
  const { searchChannels, nNodes, nRanks, minSm, ringBwIntra, collnet } = facts;
  const sources = Array.from({ length: bothTrees(searchChannels) }, (_, channel) => channel);
  const copyUpTo = (end: number) => {
    const start = sources.length;
    for (let channel = start; channel < end; channel++) sources.push(sources[channel - start]!);
  };
  const copyAll = () => copyUpTo(2 * sources.length);

  if (collnet !== undefined && collnet.bwIntra > collnet.bwInter && nRanks > nNodes) {
    copyUpTo(Math.min(MAX_CHANNELS, sources.length + Math.trunc(sources.length / 2)));
  }
  if (minSm >= HOPPER && nNodes > 1 && ringBwIntra > FAST_RING_BW && sources.length < FEW_CHANNELS) copyAll();
  const unpack = config.unpackNetDevice === true && settings.unpackDoubleChannels;
  if (unpack && nNodes > 1 && sources.length < FEW_CHANNELS) copyAll();

  const ctas = ctaBounds(settings, config);
  const parent = config.parent?.nChannels ?? MAX_CHANNELS;
  const most = Math.max(1, Math.min(settings.maxChannels, argumentChannels(settings)));
  sources.length = Math.min(sources.length, most, ctas.max, parent);
  copyUpTo(Math.min(Math.max(settings.minChannels, ctas.min), parent));
  return sources;
}

/** Per-channel values of the communicator from those of the search: `width` values for each channel. */
export function copyChannels(values: Int32Array, sources: readonly number[], width: number): Int32Array {
  if (sources.every((source, channel) => source === channel)) {
    return values.length === sources.length * width ? values : values.slice(0, sources.length * width);
  }
  const copies = new Int32Array(sources.length * width);
  for (const [channel, source] of sources.entries()) {
    copies.set(values.subarray(source * width, (source + 1) * width), channel * width);
  }
  return copies;
}

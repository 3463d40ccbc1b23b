/**
 * What a communicator's configuration asks of its channels, and how the environment overrides it. (NCCL 2.30.7, init.cc.)
 */
import { MAX_CHANNELS, type TopologySettings } from '../settings.js';

export interface ConnectConfig {
  /** Channels (thread blocks) of a collective: at least, at most; 1 and 64 if undefined. */
  readonly minCtas?: number | undefined;
  readonly maxCtas?: number | undefined;
  /** Channels of NVLS; undefined leaves them to the machine. */
  readonly nvlsCtas?: number | undefined;
  /** P2P channels to a peer that only the network reaches; undefined: as many as its bandwidth needs. */
  readonly nChannelsPerNetPeer?: number | undefined;
  /** Peers that a rank sends to and receives from at once; all ranks if undefined. */
  readonly maxP2pPeers?: number | undefined;
  /** The network device unpacks what it received by itself. */
  readonly unpackNetDevice?: boolean | undefined;
  /** Counts of the communicator that owns the resources this one shares. */
  readonly parent?:
    | { readonly nChannels: number; readonly nvlsChannels: number; readonly p2pnChannels: number }
    | undefined;
}

/** Least and most channels of a collective that environment and configuration allow. */
export function ctaBounds(settings: TopologySettings, config: ConnectConfig): { min: number; max: number } {
  const max = settings.maxCtas ?? config.maxCtas ?? MAX_CHANNELS;
  const min = settings.minCtas ?? config.minCtas ?? 1;
  return { min: Math.min(min, max), max };
}

/** Channels of NVLS that environment or configuration ask for; undefined leaves them to the machine. */
export function nvlsCtas(settings: TopologySettings, config: ConnectConfig): number | undefined {
  const wanted = settings.nvlsCtas ?? config.nvlsCtas ?? 0;
  return wanted > 0 ? wanted : undefined;
}

/** P2P channels to a peer that only the network reaches, as environment or configuration ask for them. */
export const channelsPerNetPeer = (settings: TopologySettings, config: ConnectConfig): number | undefined =>
  settings.channelsPerNetPeer ?? config.nChannelsPerNetPeer;

/** Bytes of kernel arguments before the first channel, and per channel. */
const ARGUMENT_HEADER_BYTES = 32n;
const ARGUMENT_CHANNEL_BYTES = 16n;

/** Channels that fit into the arguments of one launch; 64-bit unsigned arithmetic as in NCCL. */
export function argumentChannels({ workArgsBytes }: TopologySettings): number {
  const channels = BigInt.asUintN(64, workArgsBytes - ARGUMENT_HEADER_BYTES) / ARGUMENT_CHANNEL_BYTES;
  return channels < BigInt(MAX_CHANNELS) ? Number(channels) : MAX_CHANNELS;
}

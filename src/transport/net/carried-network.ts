/** Where a rank's connections and their state lie, as words that travel to every thread that runs its programs. */
import { CarrierState } from './carrier-state.js';
import { LinkDriver } from './link-driver.js';
import type { RingChannelAddresses, RingLayout } from './ring-memory.js';

export interface CarriedNetwork {
  /** Address of the CarrierState in the heap, and links in it. */
  readonly state: number;
  readonly links: number;
  readonly layout: RingLayout;
  /** There are two ranks. */
  readonly pair: boolean;
  readonly channels: readonly RingChannelAddresses[];
  /** Doorbell of the proxy, which programs ring when they have published something. */
  readonly doorbell: number;
}

export function carrierStateOf(network: CarriedNetwork, buffer: SharedArrayBuffer): CarrierState {
  const { state, links, channels } = network;
  return new CarrierState(buffer, state, { channels: channels.length, links });
}

/** The calling thread's driver; undefined where the C library cannot be reached. */
export function createDriver(
  network: CarriedNetwork,
  buffer: SharedArrayBuffer,
  baseAddress: number,
  ring: () => void,
): LinkDriver | undefined {
  const { layout, channels, pair } = network;
  const state = carrierStateOf(network, buffer);
  return LinkDriver.create({ buffer, baseAddress, state, layout, channels, pair, ring });
}

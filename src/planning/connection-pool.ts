/**
 * Where the control structures and buffers of an algorithm's connections lie in a rank's pool (connected-work.ts).
 *
 * Every rank computes this for every peer, so it depends on nothing but the algorithm and the settings that all ranks
 * share: first a page for each connection that the rank sends on, then, for each that it receives on, a page and the
 * slots, and last the counters of the ports of the switches whose work the rank does (switch-ports.ts).
 */

import { CONTROL_BYTES, STEPS } from '../collectives/ring-connection.js';
import { PortCounters } from '../collectives/switch-ports.js';
import { TuttiError } from '../errors/tutti-error.js';

/** A connection as one side sees it: there is one at most for each channel, peer and direction. */
export interface PoolConnection {
  readonly channel: number;
  readonly peer: number;
}

/** All connections of one rank, of all its channels. */
export interface RankConnections {
  readonly sends: readonly PoolConnection[];
  readonly receives: readonly PoolConnection[];
  /** Ports that this rank counts for, in the order of the rows. */
  readonly ports?: readonly SwitchPort[];
}

/** A port of an emulated switch. */
export interface SwitchPort {
  /** Inside a node (NVLS), or between the nodes (CollNet, SHARP). */
  readonly level: 'node' | 'network';
  /** The rank that is joined to it. */
  readonly rank: number;
}

export class ConnectionPool {
  readonly #connections: RankConnections;
  readonly #receiverBytes: number;

  /** `slotBytes` must be a multiple of 512, so that pages stay aligned to what they hold. */
  constructor(connections: RankConnections, slotBytes: number) {
    this.#connections = connections;
    this.#receiverBytes = CONTROL_BYTES + STEPS * slotBytes;
  }

  get bytes(): number {
    const { ports = [] } = this.#connections;
    return this.ports(ports.length);
  }

  /** Offset of a row of port counters. */
  ports(row: number): number {
    const { sends, receives } = this.#connections;
    // A pool is never empty: its address tells that the rank is there.
    const before = Math.max(1, sends.length) * CONTROL_BYTES + receives.length * this.#receiverBytes;
    return before + row * PortCounters.size;
  }

  /** Offset of the SenderControl of a connection to a peer. */
  sender(channel: number, peer: number): number {
    return this.#index('sends', channel, peer) * CONTROL_BYTES;
  }

  /** Offset of the ReceiverControl of a connection from a peer; its slots follow. */
  receiver(channel: number, peer: number): number {
    const before = Math.max(1, this.#connections.sends.length) * CONTROL_BYTES;
    return before + this.#index('receives', channel, peer) * this.#receiverBytes;
  }

  #index(side: 'sends' | 'receives', channel: number, peer: number): number {
    const index = this.#connections[side].findIndex((one) => one.channel === channel && one.peer === peer);
    if (index >= 0) return index;
    throw new TuttiError('internalError', `no connection in channel ${channel} with rank ${peer} (${side})`);
  }
}

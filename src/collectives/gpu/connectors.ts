/**
 * Connections between ranks on GPUs, for rings, trees and PAT: where their control structures and buffers lie in the
 * areas of the ranks.
 *
 * A connection of a channel has a number that is the same at both of its ends: the only one of a ring; those of a tree's
 * parent with its first and second child, upwards and downwards; those of PAT by collective and dimension. Every rank
 * has room for both ends of every number, so that the place of a peer's end follows from its area alone:
 *
 * ```
 * [kind][channel][number]   SenderControl | ReceiverControl | LL, LL128, Simple slots
 * ```
 *
 * Areas have connectors only where a user asks for algorithms that need them.
 */

import type { KernelBuilder, Value } from '../../kernel/builder.js';
import type { ConnectionProtocol } from '../connection-protocol.js';
import type { Ends, ReceiveEnd, SendEnd } from '../ends.js';
import { CONTROL_BYTES, STEPS } from '../ring-connection.js';

/** Algorithms over connections. */
export type ConnectorKind = 'Ring' | 'Tree' | 'PAT';

/** Most children of a rank in a tree: every rank is a node of its own. */
export const GPU_TREE_CHILDREN = 2;

/** Numbers of a tree's connections: with child 0 and 1 upwards, then downwards. */
export const TREE_UP = 0;
export const TREE_DOWN = GPU_TREE_CHILDREN;

export interface ConnectorSizes {
  /** Channels of each algorithm; 0 or absent: it has no connections. */
  readonly channels: Readonly<Partial<Record<ConnectorKind, number>>>;
  /**
   * Bytes of a slot by protocol, multiples of 512, and of 2048 for LL128; half of those of an LL slot are data, and 15/16
   * of those of an LL128 slot. 0 where nothing will use the protocol.
   */
  readonly llSlot: number;
  readonly ll128Slot: number;
  readonly simpleSlot: number;
}

/** Bytes of a slot. */
export function slotBytes(sizes: ConnectorSizes, protocol: ConnectionProtocol): number {
  return { LL: sizes.llSlot, LL128: sizes.ll128Slot, Simple: sizes.simpleSlot }[protocol];
}

/** Connectors of one algorithm in an area. */
interface KindLayout {
  readonly start: number;
  readonly channels: number;
  /** Numbers of a channel's connections. */
  readonly numbers: number;
  /** From one number to the next. */
  readonly stride: number;
  /** Bytes from a ReceiverControl to the slots of a protocol. */
  readonly slots: Readonly<Record<ConnectionProtocol, number>>;
}

export type ConnectorLayout = Readonly<Record<ConnectorKind, KindLayout>> & { readonly end: number };

/** Dimensions of PAT: connected ranks are 1, 2, 4, ... apart. */
export function patDimensionsOf(ranks: number): number {
  return Math.ceil(Math.log2(Math.max(2, ranks)));
}

/** Where connectors lie in areas of a team, from byte `start` on, a multiple of 128. */
export function connectorLayout(
  ranks: number,
  sizes: ConnectorSizes | undefined,
  start: number,
): ConnectorLayout {
  let at = start;
  const kind = (name: ConnectorKind, numbers: number, hasLines: boolean): KindLayout => {
    const { channels = {}, llSlot = 0, ll128Slot = 0, simpleSlot = 0 } = sizes ?? {};
    const LL128 = CONTROL_BYTES + (hasLines ? STEPS * llSlot : 0);
    const Simple = LL128 + (hasLines ? STEPS * ll128Slot : 0);
    const stride = CONTROL_BYTES + Simple + STEPS * simpleSlot;
    const slots = { LL: CONTROL_BYTES, LL128, Simple };
    const layout = { start: at, channels: channels[name] ?? 0, numbers, stride, slots };
    at += layout.channels * numbers * stride;
    return layout;
  };
  const Ring = kind('Ring', 1, true);
  const Tree = kind('Tree', 2 * GPU_TREE_CHILDREN, true);
  const PAT = kind('PAT', 2 * patDimensionsOf(ranks), false);
  return { Ring, Tree, PAT, end: at };
}

/** The connections of one channel of an algorithm, as a program sees them. */
export class Connectors {
  readonly #k: KernelBuilder;
  readonly #layout: KindLayout;
  readonly #channel: Value<'u32'>;
  readonly #own: Value<'ptr'>;
  readonly slot: Value<'u64'>;
  /** Bytes from a ReceiverControl to the slots of the program's protocol. */
  readonly buffers: number;

  constructor(
    k: KernelBuilder,
    layout: KindLayout,
    sizes: ConnectorSizes,
    protocol: ConnectionProtocol,
    own: Value<'ptr'>,
    channel: Value<'u32'>,
  ) {
    this.#k = k;
    this.#layout = layout;
    this.#channel = channel;
    this.#own = own;
    this.slot = k.u64(slotBytes(sizes, protocol));
    this.buffers = layout.slots[protocol];
  }

  /** The SenderControl of a connection in an area. */
  sender(area: Value<'ptr'>, number: Value<'u32'> | number): Value<'ptr'> {
    const { start, numbers, stride } = this.#layout;
    const index = this.#channel.mul(numbers).add(number).cast('u64');
    return area.offset(index.mul(stride).add(start));
  }

  /** The ReceiverControl of a connection in an area. */
  receiver(area: Value<'ptr'>, number: Value<'u32'> | number): Value<'ptr'> {
    return this.sender(area, number).offset(CONTROL_BYTES);
  }

  receiveEnd(peer: Value<'ptr'>, number: Value<'u32'> | number): ReceiveEnd {
    const own = this.#own;
    return { own: this.receiver(own, number), sender: this.sender(peer, number), doorbell: own };
  }

  sendEnd(peer: Value<'ptr'>, number: Value<'u32'> | number): SendEnd {
    const own = this.#own;
    return { own: this.sender(own, number), receiver: this.receiver(peer, number), doorbell: own };
  }

  ends(receives: readonly ReceiveEnd[], sends: readonly SendEnd[]): Ends {
    return { receives, sends, slot: this.slot, buffers: this.#k.u64(this.buffers), withoutProxy: true };
  }
}

/**
 * Plans of algorithms over connections of their own (connected-work.ts): what the blocks of a rank do, with whom, and
 * on which elements; and the bytes of the descriptor that tells the program.
 */

import { BlockWork, ConnectedWork, Link } from '../collectives/connected-work.js';
import type { Collective } from '../collectives/control-block.js';
import { ConnectionPool, type PoolConnection, type RankConnections } from './connection-pool.js';

/** What all ranks agree on. */
export interface ConnectedSetting {
  readonly ranks: number;
  /** Ranks of an emulated node. */
  readonly perNode: number;
  readonly channels: number;
  readonly protocol: 'LL' | 'Simple';
  /** Bytes of a slot of a connection; LL fills half of them with data. */
  readonly slotBytes: number;
}

export interface ConnectedCall {
  readonly collective: Collective;
  readonly elementBytes: number;
  /** Elements as the API counts them. */
  readonly count: number;
}

/** The other end of a link: a rank in the block's channel, or a connection in a channel of its own. */
export type LinkPeer = number | PoolConnection;

/** One block of a rank. */
export interface BlockPlan {
  readonly role: string;
  readonly channel: number;
  /** Peers in the order of the role's links. */
  readonly receives: readonly LinkPeer[];
  readonly sends: readonly LinkPeer[];
  /** Elements. */
  readonly offset: number;
  readonly count: number;
  readonly chunk: number;
  readonly window: number;
  /** 32-bit words of a table that the role reads. */
  readonly table?: readonly number[];
  /** First of the pool's rows of port counters that the block writes. */
  readonly portRow?: number;
}

/** An algorithm as the host sees it. */
export interface ConnectedAlgorithm {
  /** Which connections a rank has, whatever is called. */
  connections(setting: ConnectedSetting, rank: number): RankConnections;
  plan(setting: ConnectedSetting, call: ConnectedCall, rank: number): BlockPlan[];
  /**
   * Elements after which a rank that moves ordinary arrays in pieces may cut each block's share, without the others
   * noticing.
   */
  cut(setting: ConnectedSetting, call: ConnectedCall): number;
}

/** Elements that one call moves through one slot. */
export function slotElements({ protocol, slotBytes }: ConnectedSetting, elementBytes: number): number {
  return Math.max(1, Math.floor((protocol === 'LL' ? slotBytes / 2 : slotBytes) / elementBytes));
}

/** Different roles of the blocks, in order of their names: what a rank's program holds. */
export function rolesOf(blocks: readonly BlockPlan[]): string[] {
  return [...new Set(blocks.map(({ role }) => role))].sort();
}

/** Where the ranks' memory is, in this rank's address space. */
export interface PoolAddresses {
  /** Own pool. */
  readonly pool: number;
  /** Control block and segment of every rank. */
  readonly controls: readonly number[];
  readonly segments: readonly number[];
}

export interface WorkValues {
  readonly poolWord: number;
  readonly rank: number;
  readonly root: number;
  readonly send: number;
  readonly recv: number;
  readonly sendStride: number;
  readonly recvStride: number;
  readonly argument: bigint;
}

/** Bytes of the descriptor of these blocks. */
export function connectedWorkBytes(blocks: readonly BlockPlan[]): number {
  const links = blocks.reduce((sum, { receives, sends }) => sum + receives.length + sends.length, 0);
  const words = blocks.reduce((sum, { table = [] }) => sum + table.length, 0);
  return ConnectedWork.size + blocks.length * BlockWork.size + links * Link.size + 4 * words;
}

/** Offset of a block's descriptor. */
export function blockOffset(block: number): number {
  return ConnectedWork.size + block * BlockWork.size;
}

/** The descriptor as it must lie at address `base`. */
export function encodeConnectedWork(
  base: number,
  algorithm: ConnectedAlgorithm,
  setting: ConnectedSetting,
  blocks: readonly BlockPlan[],
  { pool, controls, segments }: PoolAddresses,
  values: WorkValues,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(connectedWorkBytes(blocks));
  const view = new DataView(bytes.buffer);
  const pools = new Map<number, ConnectionPool>();
  const poolOf = (rank: number): ConnectionPool => {
    let layout = pools.get(rank);
    if (layout === undefined) {
      layout = new ConnectionPool(algorithm.connections(setting, rank), setting.slotBytes);
      pools.set(rank, layout);
    }
    return layout;
  };
  const { rank } = values;
  const connection = (channel: number, peer: LinkPeer): PoolConnection =>
    typeof peer === 'number' ? { channel, peer } : peer;
  ConnectedWork.at(view, 0)
    .set('control', controls[rank]!)
    .set('blocks', base + blockOffset(0))
    .set('poolWord', values.poolWord)
    .set('self', rank)
    .set('ranks', setting.ranks)
    .set('root', values.root)
    .set('send', values.send)
    .set('recv', values.recv)
    .set('sendStride', values.sendStride)
    .set('recvStride', values.recvStride)
    .set('argument', values.argument)
    .set('slot', setting.slotBytes);
  const roles = rolesOf(blocks);
  let at = blockOffset(blocks.length);
  const link = (peer: number, own: number, peerOffset: number): void => {
    Link.at(view, at)
      .set('own', pool + own)
      .set('peerControl', controls[peer]!)
      .set('peerSegment', segments[peer]!)
      .set('peerOffset', peerOffset);
    at += Link.size;
  };
  for (const [index, block] of blocks.entries()) {
    const { channel, receives, sends } = block;
    const into = at;
    for (const one of receives) {
      const { channel: own, peer } = connection(channel, one);
      link(peer, poolOf(rank).receiver(own, peer), poolOf(peer).sender(own, rank));
    }
    const out = at;
    for (const one of sends) {
      const { channel: own, peer } = connection(channel, one);
      link(peer, poolOf(rank).sender(own, peer), poolOf(peer).receiver(own, rank));
    }
    BlockWork.at(view, blockOffset(index))
      .set('role', roles.indexOf(block.role))
      .set('channel', channel)
      .set('receives', base + into)
      .set('sends', base + out)
      .set('receiveLinks', receives.length)
      .set('sendLinks', sends.length)
      .set('offset', block.offset)
      .set('count', block.count)
      .set('chunk', block.chunk)
      .set('window', block.window)
      .set('ports', pool + poolOf(rank).ports(block.portRow ?? 0));
  }
  for (const [index, { table = [] }] of blocks.entries()) {
    BlockWork.at(view, blockOffset(index))
      .set('table', base + at)
      .set('tableLength', table.length);
    for (const word of table) {
      view.setUint32(at, word, true);
      at += 4;
    }
  }
  return bytes;
}

/**
 * This rank's part of the memory for messages (collectives/message-memory.ts): taken when the rank first sends or
 * receives, and announced in its control block. It also tells, from what stands there, who waits for whom.
 */

import { POOL_STATE } from '../collectives/connected-work.js';
import { ControlBlock, MAX_POOLS } from '../collectives/control-block.js';
import {
  Inbox,
  inboxOffset,
  MESSAGE_SLOTS,
  type MessageLayout,
  messageLayout,
  messagePoolBytes,
  Outbox,
  outboxOffset,
  Slot,
  slotStride,
} from '../collectives/message-memory.js';
import { wakeDoorbell } from '../device/host/doorbell.js';
import type { MessagePlaces } from '../planning/message-plan.js';
import type { MessageLinkLayout } from '../transport/net/message-memory.js';
import type { Team } from './team.js';

/** Pools are aligned to pages: the low bits of their offsets carry the state. */
const PAGE = 4096;

/** The last of all pool words; the others belong to algorithms. */
const POOL_WORD = ControlBlock.fields.pools.offset + 4 * (MAX_POOLS - 1);

/** A fragment that has come and was not taken. */
export interface Arrival {
  readonly total: number;
  readonly purpose: number;
  /** The sender waits until it is taken. */
  readonly keepsSender: boolean;
}

function linkLayout(layout: MessageLayout): MessageLinkLayout {
  const { number, purpose, total, bytes } = Slot.fields;
  return {
    slots: MESSAGE_SLOTS,
    slotStride: slotStride(layout),
    slotBytes: layout.slotBytes,
    number: number.offset,
    purpose: purpose.offset,
    total: total.offset,
    bytes: bytes.offset,
    data: Slot.size,
  };
}

export class MessagePool {
  readonly #team: Team;
  readonly layout: MessageLayout;
  #places: MessagePlaces | undefined;

  constructor(team: Team) {
    this.#team = team;
    this.layout = messageLayout(team.size, team.shared);
  }

  /** Where this rank finds its peers. Throws `systemError` when there is no memory for the pool. */
  places(): MessagePlaces {
    this.#places ??= this.#open();
    return this.#places;
  }

  #open(): MessagePlaces {
    const { layout } = this;
    const { device, rank, area, areas, segments, shared, extend } = this.#team;
    if (!shared) return this.#openMirrors();
    const pool = extend(messagePoolBytes(layout), PAGE);
    Atomics.store(device.i32, (area + POOL_WORD) >>> 2, (pool - device.segmentBase) | POOL_STATE.ready);
    for (const other of areas) if (other !== area) wakeDoorbell(device, other);
    return {
      layout,
      rank,
      control: area,
      segment: device.segmentBase,
      pool,
      poolWord: POOL_WORD,
      direct: true,
      base: device.baseAddress,
      indexAt: () => rank,
      peer: (peer) => ({
        control: areas[peer]!,
        segment: segments[peer]!,
        doorbell: areas[peer]!,
        process: this.#team.processes?.[peer] ?? 0,
      }),
    };
  }

  /**
   * Where ranks share no memory, one more pool plays those of all peers: its part for a peer is what the peer has for
   * this rank. Somebody carries what appears there (Team.carryMessages).
   */
  #openMirrors(): MessagePlaces {
    const { layout } = this;
    const team = this.#team;
    const { device, rank, area, extend } = team;
    const pool = extend(messagePoolBytes(layout), PAGE);
    const mirror = extend(messagePoolBytes(layout), PAGE);
    // A control block of which nothing is used but the word that says where the pool is.
    const control = extend(POOL_WORD + 4, PAGE);
    Atomics.store(device.i32, (control + POOL_WORD) >>> 2, (mirror - device.segmentBase) | POOL_STATE.ready);
    const known = new Set<number>();
    const join = (peer: number) => {
      known.add(peer);
      const inbox = inboxOffset(layout, peer);
      const outbox = outboxOffset(layout, peer);
      team.carryMessages?.(peer, linkLayout(layout), {
        sent: pool + outbox + Outbox.fields.sent.offset,
        credit: pool + outbox + Outbox.fields.credit.offset,
        slots: pool + inbox + Inbox.size,
        mirrorSlots: mirror + inbox + Inbox.size,
        mirrorCredit: mirror + outbox + Outbox.fields.credit.offset,
      });
    };
    return {
      layout,
      rank,
      control: area,
      segment: device.segmentBase,
      pool,
      poolWord: POOL_WORD,
      direct: false,
      base: device.baseAddress,
      indexAt: (peer) => peer,
      peer: (peer) => {
        if (!known.has(peer)) join(peer);
        return { control, segment: device.segmentBase, doorbell: team.carrier ?? 0, process: 0 };
      },
    };
  }

  /** Address of the pool of a rank; undefined as long as it has none, or where its memory is not seen. */
  #poolOf(rank: number): number | undefined {
    const { areas, segments, device, shared } = this.#team;
    if (!shared) return rank === this.#team.rank ? this.#places?.pool : undefined;
    const word = Atomics.load(device.i32, (areas[rank]! + POOL_WORD) >>> 2) >>> 0;
    return word === POOL_STATE.none ? undefined : segments[rank]! + (word & ~(PAGE - 1));
  }

  /** The Inbox of a rank for messages from another one. */
  #inbox(rank: number, from: number) {
    const pool = this.#poolOf(rank);
    if (pool === undefined) return undefined;
    return Inbox.at(this.#team.device.dataView, pool + inboxOffset(this.layout, from));
  }

  /** Whether this rank waits for a message from or to a peer. */
  isBusy(kind: 'send' | 'receive', peer: number): boolean {
    const pool = this.#places?.pool;
    if (pool === undefined) return false;
    const view = this.#team.device.dataView;
    return kind === 'send'
      ? Outbox.at(view, pool + outboxOffset(this.layout, peer)).get('busy') !== 0
      : Inbox.at(view, pool + inboxOffset(this.layout, peer)).get('busy') !== 0;
  }

  /** Messages from one rank to another that each has begun to send or receive, as 32-bit counters. */
  begun(
    from: number,
    to: number,
  ): { readonly sends: number | undefined; readonly receives: number | undefined } {
    const pool = this.#poolOf(from);
    const view = this.#team.device.dataView;
    const sends =
      pool === undefined ? undefined : Outbox.at(view, pool + outboxOffset(this.layout, to)).get('begun');
    return { sends, receives: this.#inbox(to, from)?.get('begun') };
  }

  /** The next fragment from one rank to another, if it has come. */
  arrival(from: number, to: number): Arrival | undefined {
    const inbox = this.#inbox(to, from);
    if (inbox === undefined) return undefined;
    const received = inbox.get('received');
    const index = received & (MESSAGE_SLOTS - 1);
    const at = inbox.base + Inbox.size + index * slotStride(this.layout);
    const word = (at + Slot.fields.number.offset) >>> 2;
    if (Atomics.load(this.#team.device.i32, word) >>> 0 !== (received + 1) >>> 0) return undefined;
    const slot = Slot.at(this.#team.device.dataView, at);
    const keepsSender = slot.get('bytes') > this.layout.slotBytes;
    return { total: slot.get('total'), purpose: slot.get('purpose'), keepsSender };
  }

  /** What a rank was to receive from another one when something else came; undefined when that has not happened. */
  wrongMessage(from: number, to: number): { readonly bytes: number; readonly purpose: number } | undefined {
    const inbox = this.#inbox(to, from);
    if (inbox === undefined || inbox.get('fault') === 0) return undefined;
    return { bytes: inbox.get('wantedBytes'), purpose: inbox.get('wantedPurpose') };
  }

  /** Whether a rank has sent this one something and cannot go on. */
  #keepsWaiting(peer: number): boolean {
    const { rank } = this.#team;
    // Without a pool of this rank nobody could put anything anywhere.
    if (this.#places === undefined) return (this.begun(peer, rank).sends ?? 0) > 0;
    return this.arrival(peer, rank)?.keepsSender === true;
  }

  /** Another rank that waits for a message of this one, or for this one to take a message. */
  waitingPeer(): number | undefined {
    const { rank, size } = this.#team;
    for (let peer = 0; peer < size; peer++) {
      if (peer === rank) continue;
      const { sends = 0, receives = 0 } = this.begun(rank, peer);
      if (((receives - sends) | 0) > 0 || this.#keepsWaiting(peer)) return peer;
    }
    return undefined;
  }
}

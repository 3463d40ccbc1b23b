/**
 * The memory through which two ranks of one host send each other messages.
 *
 * Each rank has a *pool* with a part for every peer, which it announces in its control block when it first sends or
 * receives (see connected-work.ts for pools of other kinds). The part of a peer holds an outbox, what this rank must know
 * to send to it, and an inbox, the slots into which the peer writes:
 *
 * ```
 * Outbox   credit (written by the peer: fragments it has taken), fragments and messages sent so far
 * Inbox    fragments and messages received so far, what is being waited for
 *   slots  a fragment each: header, then its bytes, or where they are
 * ```
 *
 * A message travels as one or more *fragments*, in order. Small ones lie in the slot itself; of a large one the slot says
 * where it is, and it is copied from buffer to buffer. Fragments are counted from 1 and never start anew; fragment n
 * uses slot n mod SLOTS, and is written when fragment n - SLOTS has been taken.
 */

import { array, struct } from '../kernel/layout.js';

/**
 * Fragments that may be under way between two ranks, in one direction; a power of two. A sender that is ahead by all of
 * them waits for credit that has to come from another core, so there are several times as many as come back at once.
 */
export const MESSAGE_SLOTS = 32;

/**
 * Small fragments that a receiver takes before it returns credit for them: fewer than there are slots, so that a sender
 * never waits for credit that nobody will return.
 */
export const CREDIT_BATCH = 8;

/** Cache lines come in pairs. */
const LINE = 128;

export const Outbox = struct(
  'Outbox',
  {
    /** Number of the last fragment that the peer has taken. */
    credit: 'u32',
    gap0: array('u8', LINE - 4),
    /** Number of the last fragment that was published. */
    sent: 'u32',
    /** Messages that this rank has begun to send. */
    begun: 'u32',
    /** 1 while one of them is under way. */
    busy: 'u32',
    /** The credit that was read last: the peer's line is only looked at when that is used up. */
    seen: 'u32',
    gap1: array('u8', LINE - 16),
  },
  LINE,
);

export const Inbox = struct(
  'Inbox',
  {
    /** Number of the last fragment that was taken as a whole. */
    received: 'u32',
    /** Messages that this rank has begun to receive. */
    begun: 'u32',
    /** Bytes that have been taken of the fragment after that. */
    taken: 'u64',
    /** When another message has come than the one that was due: bytes of that, and its purpose. */
    wantedBytes: 'u64',
    wantedPurpose: 'u32',
    /** 1 when another one has come. */
    fault: 'u32',
    /** 1 while a message that was begun has not come. */
    busy: 'u32',
    gap0: array('u8', LINE - 36),
  },
  LINE,
);

/** A fragment's header; its bytes follow at once, if they are in the slot. */
export const Slot = struct('Slot', {
  /** Number of the fragment; written last. */
  number: 'u32',
  /** MESSAGE_PURPOSES. */
  purpose: 'u32',
  /** Bytes of the whole message. */
  total: 'u64',
  /** Bytes of this fragment. They are in the slot where they fit there. */
  bytes: 'u64',
  /** Else: offset in the sender's segment, or an address in the sender's process. */
  source: 'u64',
});

/** Behind the header of a fragment whose bytes are not in the slot: how both ends copy it together. */
export const SharedCopy = struct('SharedCopy', {
  header: array('u8', 32),
  /** 1 where the source is an address in the sender's process: the receiver copies alone then. */
  isForeign: 'u32',
  gap: array('u8', 28),
  /** Offset in the receiver's segment. */
  target: 'u64',
  /** Number of the fragment, once the target is there. */
  accepted: 'u32',
  gap0: array('u8', 52),
  /** Chunks that somebody has taken on, and chunks that are copied. */
  claimed: 'u32',
  gap1: array('u8', 60),
  copied: 'u32',
  gap2: array('u8', 60),
});

/** What a message is part of: both ends must mean the same. */
export const MESSAGE_PURPOSES = { send: 0, gather: 1, scatter: 2 } as const;

export type MessagePurpose = keyof typeof MESSAGE_PURPOSES;

/** How the pools of a communicator are laid out; the same at all ranks. */
export interface MessageLayout {
  readonly ranks: number;
  /** Bytes that a slot holds besides the header. */
  readonly slotBytes: number;
}

/** Most and least bytes of a slot: what is larger is worth being copied from buffer to buffer. */
const SLOT_BYTES = { most: 2048, least: SharedCopy.size - Slot.size } as const;

/** Bytes that the slots of one rank take in all, unless there are so many ranks that slots would get too small. */
const RANK_BYTES = 2 ** 20;

/**
 * The same where everything goes through slots and over a network: a slot is what is written at once, and as many bytes
 * as the slots must be under way to fill the network.
 */
const NETWORK_SLOT_BYTES = { most: 131072, least: 4096 } as const;
const NETWORK_RANK_BYTES = 2 ** 24;

/** The layout for so many ranks, which reach each other's memory or do not. */
export function messageLayout(ranks: number, shared = true): MessageLayout {
  const bounds = shared ? SLOT_BYTES : NETWORK_SLOT_BYTES;
  const all = shared ? RANK_BYTES : NETWORK_RANK_BYTES;
  const share = 2 ** Math.floor(Math.log2(all / MESSAGE_SLOTS / ranks));
  return { ranks, slotBytes: Math.max(bounds.least, Math.min(bounds.most, share)) };
}

/** Bytes from one slot to the next. */
export function slotStride({ slotBytes }: MessageLayout): number {
  return Math.ceil((Slot.size + slotBytes) / LINE) * LINE;
}

function pairBytes(layout: MessageLayout): number {
  return Outbox.size + Inbox.size + MESSAGE_SLOTS * slotStride(layout);
}

/** Offset of the outbox to a peer in a pool. */
export function outboxOffset(layout: MessageLayout, peer: number): number {
  return peer * pairBytes(layout);
}

/** Offset of the inbox from a peer in a pool; the slots follow it. */
export function inboxOffset(layout: MessageLayout, peer: number): number {
  return outboxOffset(layout, peer) + Outbox.size;
}

export function messagePoolBytes(layout: MessageLayout): number {
  return layout.ranks * pairBytes(layout);
}

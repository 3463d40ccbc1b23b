/**
 * A team: the ranks of one communicator as one of them sees them, however they were brought together. It says
 * where everybody's memory is, carries the few control messages, and knows how to tell the others of a failure.
 */

import type { HostDevice } from '../device/host/host-device.js';
import type { WaitPeer } from '../device/host/waiting.js';
import type { CarriedNetwork } from '../transport/net/carried-network.js';
import type { MessageLinkAddresses, MessageLinkLayout } from '../transport/net/message-memory.js';
import type { Suspicion } from '../transport/net/roll-call.js';
import type { HostModel } from '../tuning/host/host-model.js';
import type { RankAreaShape } from './rank-area.js';

/** Where a rank writes for its successor and reads credits of it, and the same towards its predecessor. */
export interface RingLinks {
  /** ReceiverControl and buffers that this rank fills for the next one. */
  readonly nextReceiver: number;
  /** SenderControl in which this rank returns credits to the previous one. */
  readonly prevSender: number;
  readonly nextDoorbell: number;
  readonly prevDoorbell: number;
}

export interface Team {
  readonly rank: number;
  readonly size: number;
  readonly device: HostDevice;
  /** Ranks of this team on this host. */
  readonly localSize: number;
  /** All ranks reach each other's memory. */
  readonly shared: boolean;
  /** Other ranks of this team run their JavaScript in this very thread: blocking it would block them. */
  readonly sharesThread: boolean;
  /** One line for people: how the ranks are connected. */
  readonly description: string;
  readonly shape: RankAreaShape;
  /** Of what algorithms take on this host; the same at all ranks. */
  readonly model: HostModel;
  /** Address of this rank's own area (its control block comes first). */
  readonly area: number;
  /** Addresses of all ranks' areas and segments here; meaningful when `shared`. */
  readonly areas: readonly number[];
  readonly segments: readonly number[];
  /** Numbers of the ranks' processes, where each of them may read the memory of the others' processes. */
  readonly processes?: readonly number[];
  links(channel: number): RingLinks;
  /** More zeroed memory of the own segment that lives as long as the area does. Throws `systemError` if there is none. */
  extend(bytes: number, align: number): number;
  /** Processes whose death ends every wait. */
  readonly peers: readonly WaitPeer[];
  /** Who keeps this rank waiting, where that has been found out without sharing memory. */
  suspect?(): Suspicion | undefined;
  /** For ranks that share no memory: has messages with a peer carried between these places. */
  carryMessages?(peer: number, layout: MessageLinkLayout, places: MessageLinkAddresses): void;
  /** Doorbell of whoever carries them. */
  readonly carrier?: number;
  /** The connections, where waiting programs carry them too. */
  readonly network?: CarriedNetwork;
  /** Everybody contributes bytes, everybody gets all, in rank order. */
  allGather(bytes: Uint8Array, label: string): Promise<Uint8Array[]>;
  barrier(label: string): Promise<void>;
  /** A rank that has closed, where that can be known without asking: nothing can be done together any more. */
  departed?(): number | undefined;
  /** Where ranks share a thread: all have left, and their memory is gone. */
  readonly isOver?: boolean;
  /** Called when the team learns that a rank is gone or has given up, with the culprit and the reason. */
  onTrouble(listener: (trouble: Trouble, detail?: string) => void): void;
  /** Tells the others that this rank has given up. */
  tell(trouble: Trouble): void;
  /** Ends the team's connections; with `graceful` after a last meeting with the others. */
  close(graceful: boolean): Promise<void>;
}

export type TroubleKind =
  | 'aborted'
  | 'peerDied'
  | 'timeout'
  | 'stalled'
  | 'mismatch'
  | 'corrupt'
  | 'left'
  | 'outOfMemory';

export const TROUBLE_KINDS: readonly TroubleKind[] = [
  'aborted',
  'peerDied',
  'timeout',
  'mismatch',
  'corrupt',
  'left',
  'outOfMemory',
  'stalled',
];

export interface Trouble {
  readonly kind: TroubleKind;
  /** The rank that is to blame; where nobody is known, the one that gave up. */
  readonly culprit: number;
}

/** Trouble as the abort word of a control block: kind in the low byte, culprit above; never 0. */
export function encodeTrouble({ kind, culprit }: Trouble): number {
  return (TROUBLE_KINDS.indexOf(kind) + 1) | (culprit << 8);
}

export function decodeTrouble(word: number): Trouble | undefined {
  const kind = TROUBLE_KINDS[(word & 255) - 1];
  return kind === undefined ? undefined : { kind, culprit: word >>> 8 };
}

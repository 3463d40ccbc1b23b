/**
 * Frames between the proxies of neighbouring ranks: a header of 24 bytes, for `data` followed by the bytes of
 * one slice.
 *
 *     byte  0  kind               1
 *           1  mark, 0x54         1    a stream that lost its place is noticed at once
 *           2  channel            2
 *           4  bytes of a slice, or what the kind says     4
 *           8  first step of a slice, or credit             8
 *          16  tail after the slice                         8
 *
 * Little endian. A header has one size for all kinds, so that a reader can ask the system for exactly the next
 * header, and then for exactly the bytes of the slice.
 */
import { TuttiError } from '../../errors/tutti-error.js';

/** Which neighbour in the ring a connection leads to. */
export type Side = 'next' | 'prev';

export const FRAME_BYTES = 24;

const MARK = 0x54;
const TWO_32 = 2 ** 32;

export const FRAME_KINDS = {
  /** A slice: `bytes` of payload for slot `step`; the tail is `tail` when they have arrived. */
  data: 1,
  /** The receiver has emptied all slots before step `step`. */
  credit: 2,
  /** A rank is lost or has given up: `bytes` is the abort word. */
  trouble: 3,
  /** The sender of this frame closes its communicator; nothing follows. */
  goodbye: 4,
  /** Questions and answers about who keeps a rank waiting, see roll-call.ts. */
  probe: 5,
  /** `bytes` is the counter of ring operations, `step` 1 when the rank waits. */
  state: 6,
  /** `bytes` is a rank, `step` 1 when it is silent, 2 when it is absent. */
  suspect: 7,
} as const;

export type FrameKind = keyof typeof FRAME_KINDS;

export interface LinkFrame {
  readonly kind: FrameKind;
  readonly channel: number;
  readonly bytes: number;
  readonly step: number;
  readonly tail: number;
}

function setStep(view: DataView, at: number, step: number): void {
  view.setUint32(at, step >>> 0, true);
  view.setUint32(at + 4, Math.floor(step / TWO_32), true);
}

function getStep(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getUint32(at + 4, true) * TWO_32;
}

/** Writes a header into memory. Steps are exact up to 2^53. */
export function writeLinkFrame(
  view: DataView,
  at: number,
  kind: FrameKind,
  channel = 0,
  bytes = 0,
  step = 0,
  tail = 0,
): void {
  view.setUint8(at, FRAME_KINDS[kind]);
  view.setUint8(at + 1, MARK);
  view.setUint16(at + 2, channel, true);
  view.setUint32(at + 4, bytes, true);
  setStep(view, at + 8, step);
  setStep(view, at + 16, tail);
}

/** A header of its own. */
export function encodeLinkFrame(kind: FrameKind, channel = 0, bytes = 0, step = 0, tail = 0): Uint8Array {
  const header = Buffer.allocUnsafe(FRAME_BYTES);
  const view = new DataView(header.buffer, header.byteOffset, FRAME_BYTES);
  writeLinkFrame(view, 0, kind, channel, bytes, step, tail);
  return header;
}

const KINDS = new Map<number, FrameKind>(
  Object.entries(FRAME_KINDS).map(([kind, code]) => [code, kind as FrameKind]),
);

/** @throws TuttiError remoteError when the bytes are no header */
export function decodeLinkFrame(header: Uint8Array): LinkFrame {
  const view = new DataView(header.buffer, header.byteOffset, FRAME_BYTES);
  const kind = KINDS.get(view.getUint8(0));
  if (kind === undefined || view.getUint8(1) !== MARK) {
    const start = Buffer.from(header.subarray(0, 8)).toString('hex');
    throw new TuttiError('remoteError', `no frame begins with the bytes ${start}`);
  }
  return {
    kind,
    channel: view.getUint16(2, true),
    bytes: view.getUint32(4, true),
    step: getStep(view, 8),
    tail: getStep(view, 16),
  };
}

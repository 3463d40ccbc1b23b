/**
 * Messages that go together may not meet in memory: what one receives must not be what another one sends or receives,
 * since all of them move at the same time. Sends may share what they read.
 */
import { TuttiError } from '../errors/tutti-error.js';

/** Where a message's elements lie: bytes [from, from + bytes) of some memory. */
export interface PlacedMessage {
  readonly kind: 'send' | 'recv';
  readonly peer: number;
  readonly memory: unknown;
  readonly from: number;
  readonly bytes: number;
}

const inWords = ({ kind, peer }: PlacedMessage) => `${kind} ${kind === 'send' ? 'to' : 'from'} rank ${peer}`;

/** A copy of a rank to itself that stays where it is. */
const staysInPlace = (a: PlacedMessage, b: PlacedMessage, rank: number) =>
  a.kind !== b.kind && a.peer === rank && b.peer === rank && a.from === b.from && a.bytes === b.bytes;

/** Throws `invalidArgument` where two messages of a group meet in memory. */
export function refuseOverlaps(rank: number, messages: readonly PlacedMessage[]): void {
  if (messages.length < 2) return;
  const byMemory = new Map<unknown, PlacedMessage[]>();
  for (const one of messages) {
    if (one.bytes === 0) continue;
    const list = byMemory.get(one.memory);
    if (list === undefined) byMemory.set(one.memory, [one]);
    else list.push(one);
  }
  for (const list of byMemory.values()) {
    list.sort((a, b) => a.from - b.from);
    // Of the messages so far: the one that reaches furthest, and of those that receive.
    let furthest: PlacedMessage | undefined;
    let received: PlacedMessage | undefined;
    for (const one of list) {
      const before = one.kind === 'recv' ? furthest : received;
      if (before !== undefined && one.from < end(before) && !staysInPlace(before, one, rank)) {
        throw new TuttiError(
          'invalidArgument',
          `${inWords(before)} (${before.bytes} bytes) and ${inWords(one)} (${one.bytes} bytes), which begins ${one.from - before.from} bytes after it, overlap; give what is received memory of its own`,
          { rank },
        );
      }
      if (furthest === undefined || end(one) > end(furthest)) furthest = one;
      if (one.kind === 'recv' && (received === undefined || end(one) > end(received))) received = one;
    }
  }
}

const end = (message: PlacedMessage) => message.from + message.bytes;

/** All collectives of one rank: its own data, moved where they belong. */

import { TuttiError } from '../errors/tutti-error.js';
import { ELEMENT_TYPES } from '../kernel/element-types.js';
import type { Buffer, CheckedCall } from './buffers.js';
import type { Message } from './message-batch.js';

export function copyAlone({ collective, type, count, send, recv }: CheckedCall): void {
  if (send === null || recv === null) return;
  const bytes = count * ELEMENT_TYPES[type].size;
  copyBytes(collective, send, recv, bytes);
}

/** Messages of the rank with itself. */
export function exchangeAlone(messages: readonly Message[]): void {
  const [sends, recvs] = (['send', 'recv'] as const).map((kind) =>
    messages.filter((one) => one.kind === kind),
  );
  sends!.forEach(({ buffer }, i) => {
    copyBytes('send', buffer, recvs![i]!.buffer, buffer.byteLength);
  });
}

function copyBytes(call: string, send: Buffer, recv: Buffer, bytes: number): void {
  for (const { byteLength } of [send, recv]) {
    if (byteLength === bytes) continue;
    throw new TuttiError(
      'invalidUsage',
      `${call}: an array of ${bytes} bytes now has ${byteLength}: its buffer was transferred or resized after the call was prepared`,
      { rank: 0 },
    );
  }
  if (send.buffer === recv.buffer && send.byteOffset === recv.byteOffset) return;
  // As bytes: two classes of array may hold the same element type.
  const target = new Uint8Array(recv.buffer, recv.byteOffset, bytes);
  target.set(new Uint8Array(send.buffer, send.byteOffset, bytes));
}

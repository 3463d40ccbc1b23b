/** Gather and scatter as messages between the root and everybody else. */

import type { Buffer } from './buffers.js';
import type { CheckedCallOf } from './call-check.js';
import type { Message } from './message-batch.js';

export type MessageCollective = 'gather' | 'scatter';

function isSame(a: Buffer, b: Buffer): boolean {
  return a.buffer === b.buffer && a.byteOffset === b.byteOffset;
}

/** The messages of one rank. The root copies its own block by a message to itself, unless it is in place already. */
export function messagesOf(
  { collective, root, count, send, recv }: CheckedCallOf<Buffer, MessageCollective>,
  { rank, size }: { readonly rank: number; readonly size: number },
): Message[] {
  if (rank !== root) {
    return collective === 'gather'
      ? [{ kind: 'send', peer: root, buffer: send! }]
      : [{ kind: 'recv', peer: root, buffer: recv! }];
  }
  const all = collective === 'gather' ? recv! : send!;
  const own = collective === 'gather' ? send! : recv!;
  return Array.from({ length: size }, (_, peer): Message[] => {
    const block = all.subarray(peer * count, (peer + 1) * count) as Buffer;
    if (peer !== rank) return [{ kind: collective === 'gather' ? 'recv' : 'send', peer, buffer: block }];
    if (isSame(block, own)) return [];
    const [from, to] = collective === 'gather' ? [own, block] : [block, own];
    return [
      { kind: 'send', peer, buffer: from },
      { kind: 'recv', peer, buffer: to },
    ];
  }).flat();
}

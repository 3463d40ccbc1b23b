/**
 * Control messages between ranks that are processes: what the bootstrap carries, whatever device they use.
 */

import type { Bootstrap } from '../bootstrap/bootstrap.js';
import type { Control } from './local-control.js';
import { TROUBLE_KINDS, type Trouble } from './team.js';

/** Twenty-four days, the longest time of a timer in Node, ms. */
const LONGEST_WAIT_MS = 2 ** 31 - 1;

/** Forwards losses and aborts that the bootstrap reports. */
function troubleListener(bootstrap: Bootstrap): Pick<Control, 'onTrouble' | 'tell'> {
  return {
    onTrouble: (listener) => {
      bootstrap.onPeerLost((rank, reason) => listener({ kind: 'peerDied', culprit: rank }, reason));
      bootstrap.onAbort((rank, reason) => {
        const [, word, culprit, detail] = /^(\w+):(\d+)(?: (.*))?$/s.exec(reason) ?? [];
        const kind = TROUBLE_KINDS.find((one) => one === word);
        const trouble: Trouble =
          kind === undefined ? { kind: 'aborted', culprit: rank } : { kind, culprit: Number(culprit) };
        listener(trouble, detail);
      });
    },
    tell: ({ kind, culprit }, detail) => {
      const reason = detail === undefined ? '' : ` ${detail}`;
      void bootstrap.abort(`${kind}:${culprit}${reason}`).catch(() => {});
    },
  };
}

/** The control of this rank; every meeting is limited by the time of an operation (0: no limit). */
export function processControl(bootstrap: Bootstrap, timeoutMs: number): Control {
  // The bootstrap has no way to wait for ever.
  const limit = { timeoutMs: timeoutMs > 0 ? timeoutMs : LONGEST_WAIT_MS };
  return {
    allGather: (bytes, label) => bootstrap.allGather(bytes, label, limit),
    barrier: (label) => bootstrap.barrier(label, limit),
    ...troubleListener(bootstrap),
  };
}

/** Everybody's value, in rank order; values are plain JSON. */
export async function exchange<T>(bootstrap: Bootstrap, label: string, own: T): Promise<T[]> {
  const all = await bootstrap.allGather(new TextEncoder().encode(JSON.stringify(own)), label);
  return all.map((bytes) => JSON.parse(new TextDecoder().decode(bytes)) as T);
}

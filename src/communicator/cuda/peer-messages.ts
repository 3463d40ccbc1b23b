/**
 * Messages between the ranks of a team of processes, each pair over a connection of its own: lines of JSON, in order.
 *
 * Connections keep no process alive, except while an answer is waited for.
 */
import type { Socket } from 'node:net';
import type { Bootstrap } from '../../bootstrap/bootstrap.js';

export type PeerMessage =
  /** The sender's allocation `slot` can be opened, at `offset` bytes from what the handle opens. */
  | { readonly type: 'map'; readonly slot: number; readonly handle: string; readonly address: number }
  /** The same of virtual memory: sizes of its pieces, and the token of their descriptors, which have come already. */
  | {
      readonly type: 'mapPieces';
      readonly slot: number;
      readonly sizes: readonly number[];
      readonly token: string;
    }
  /** It is open here; `refusal`: it is not, and is not needed; `problem`: it is not, and nothing can go on. */
  | { readonly type: 'mapped'; readonly slot: number; readonly problem?: string; readonly refusal?: string }
  /** The sender wants to give the allocation back. */
  | { readonly type: 'unmap'; readonly slot: number }
  | { readonly type: 'unmapped'; readonly slot: number }
  /** The sender has begun so many operations and will begin no more. */
  | { readonly type: 'leaving'; readonly operations: number };

/** A message is far shorter; more without a line's end is garbage. */
const MAX_LINE_BYTES = 65536;

export class PeerMessages {
  readonly #sockets: ReadonlyMap<number, Socket>;
  #awaited = 0;

  private constructor(sockets: ReadonlyMap<number, Socket>) {
    this.#sockets = sockets;
  }

  /** Connects all ranks; all of them call it. Messages may come before `onMessage` returns to its caller's caller. */
  static async connect(
    bootstrap: Bootstrap,
    onMessage: (rank: number, message: PeerMessage) => void,
    onGarbage: (rank: number) => void,
  ): Promise<PeerMessages> {
    const peers = Array.from({ length: bootstrap.size }, (_, peer) => peer).filter(
      (peer) => peer !== bootstrap.rank,
    );
    const made = await Promise.all(
      peers.map(async (peer) => [peer, await bootstrap.peerConnection(peer, 'cuda')] as const),
    );
    for (const [peer, socket] of made) {
      let rest = '';
      socket.setEncoding('utf8');
      socket.setNoDelay(true);
      socket.on('data', (text: string) => {
        const lines = (rest + text).split('\n');
        rest = lines.pop()!;
        try {
          if (rest.length > MAX_LINE_BYTES) throw new Error('no end of line');
          for (const line of lines) onMessage(peer, JSON.parse(line) as PeerMessage);
        } catch {
          socket.destroy();
          onGarbage(peer);
        }
      });
      socket.resume();
    }
    return new PeerMessages(new Map(made));
  }

  get peers(): number[] {
    return [...this.#sockets.keys()];
  }

  send(peer: number, message: PeerMessage): void {
    const socket = this.#sockets.get(peer);
    // A peer that is gone is reported by the bootstrap.
    if (socket?.writable) socket.write(`${JSON.stringify(message)}\n`);
  }

  sendAll(message: PeerMessage): void {
    for (const peer of this.#sockets.keys()) this.send(peer, message);
  }

  /** Keeps the process alive from the first answer that is waited for to the last that has come. */
  awaitAnswers(change: 1 | -1): void {
    this.#awaited += change;
    for (const socket of this.#sockets.values()) {
      if (this.#awaited > 0) socket.ref();
      else socket.unref();
    }
  }

  close(): void {
    for (const socket of this.#sockets.values()) {
      socket.end();
      socket.unref();
    }
  }
}

/**
 * How the proxies of neighbouring ranks find each other: every proxy listens for its successor and connects to
 * its predecessor. Both ends prove that they know the key, which is derived from the communicator's secret.
 */
import type { Socket } from 'node:net';
import { AuthenticatedListener } from '../../bootstrap/authenticated-listener.js';
import { ByteReader, ByteWriter } from '../../bootstrap/byte-codec.js';
import { Deadline, formatDuration, startTimer } from '../../bootstrap/deadline.js';
import { dial, type RetryRule } from '../../bootstrap/dial.js';
import { proveToListener, ROLE_PEER } from '../../bootstrap/handshake.js';
import type { SocketAddress } from '../../bootstrap/socket-address.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { LinkSocket } from './link-socket.js';

export interface ProxyPlace {
  /** Key of 32 bytes that only this communicator's ranks know. */
  readonly key: Uint8Array;
  readonly rank: number;
}

/** Where the successor connects to. */
export class ProxyListener {
  readonly #rank: number;
  readonly #next: number;
  #listener: AuthenticatedListener | undefined;
  #socket: Socket | undefined;
  #onSocket: () => void = () => {};

  private constructor(rank: number, next: number) {
    this.#rank = rank;
    this.#next = next;
  }

  /** @throws TuttiError systemError when the address cannot be used */
  static async open(place: ProxyPlace & { next: number; host: string }): Promise<ProxyListener> {
    const { key, rank, next, host } = place;
    const made = new ProxyListener(rank, next);
    made.#listener = await AuthenticatedListener.listen({
      host,
      port: 0,
      secret: key,
      role: ROLE_PEER,
      onAdmitted: (identity, socket) => made.#admit(identity, socket),
    });
    return made;
  }

  get address(): SocketAddress {
    return this.#listener!.address;
  }

  #admit(identity: Uint8Array, socket: Socket): void {
    if (!isIdentity(identity, this.#next, this.#rank)) {
      socket.destroy();
      return;
    }
    // A second connection means that the successor saw the first one break.
    this.#socket?.destroy();
    this.#socket = socket;
    this.#onSocket();
  }

  /** Resolves when the successor has connected. Throws `timeout` naming it. */
  async arrived(timeoutMs: number): Promise<void> {
    if (this.#socket !== undefined) return;
    await new Promise<void>((resolve, reject) => {
      const cancel = startTimer(timeoutMs, () => {
        const limit = formatDuration(timeoutMs);
        reject(
          new TuttiError(
            'timeout',
            `Rank ${this.#next} did not open its data connection to rank ${this.#rank} within ${limit}.`,
            { rank: this.#next },
          ),
        );
      });
      this.#onSocket = () => {
        cancel();
        resolve();
      };
    });
  }

  /** The successor's connection, once it has arrived; it belongs to the caller. */
  take(): LinkSocket {
    const socket = this.#socket;
    if (socket === undefined) throw new TuttiError('internalError', 'the successor has not connected');
    this.#socket = undefined;
    return LinkSocket.accepted(socket);
  }

  /** Stops listening and drops a connection that was not taken. */
  close(): void {
    void this.#listener?.close();
    this.#socket?.destroy();
  }
}

function isIdentity(identity: Uint8Array, from: number, to: number): boolean {
  try {
    const reader = new ByteReader(identity);
    const matches = reader.u32() === from && reader.u32() === to;
    reader.finish();
    return matches;
  } catch {
    return false;
  }
}

/**
 * Opens the connection on which the predecessor's slices come.
 * @throws TuttiError as `dial`
 */
export async function connectToPredecessor(
  place: ProxyPlace & { prev: number; address: SocketAddress; timeoutMs: number; retry: RetryRule },
): Promise<LinkSocket> {
  const { key, rank, prev, address, timeoutMs, retry } = place;
  const deadline = new Deadline(timeoutMs);
  const identity = new ByteWriter().u32(rank).u32(prev).finish();
  let link: LinkSocket | undefined;
  const dialing = {
    address,
    name: `rank ${prev}`,
    deadline,
    retry,
    signal: new AbortController().signal,
    open: (to: SocketAddress) => {
      link = LinkSocket.connect(to);
      return link.socket;
    },
  };
  await dial(dialing, (socket) =>
    proveToListener(socket, identity, { secret: key, role: ROLE_PEER, timeoutMs: deadline.leftMs }),
  );
  return link!;
}

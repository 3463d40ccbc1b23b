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

/** What a connection is for. Both ends of a pair of ranks agree on it. */
const PURPOSES = { ring: 0, messages: 1 } as const;

type Purpose = keyof typeof PURPOSES;

/** Where the successor connects to, and peers with messages. */
export class ProxyListener {
  readonly #rank: number;
  readonly #next: number;
  #listener: AuthenticatedListener | undefined;
  #socket: Socket | undefined;
  #onSocket: () => void = () => {};
  /** Connections for messages that nobody has asked for yet, by peer, and who has asked for others. */
  readonly #early = new Map<number, Socket>();
  readonly #awaited = new Map<number, (link: LinkSocket) => void>();

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
    const who = readIdentity(identity);
    if (who?.purpose === PURPOSES.messages && who.to === this.#rank) {
      this.#admitMessages(who.from, socket);
      return;
    }
    if (who?.purpose !== PURPOSES.ring || who.from !== this.#next || who.to !== this.#rank) {
      socket.destroy();
      return;
    }
    // A second connection means that the successor saw the first one break.
    this.#socket?.destroy();
    this.#socket = socket;
    this.#onSocket();
  }

  #admitMessages(peer: number, socket: Socket): void {
    const take = this.#awaited.get(peer);
    this.#awaited.delete(peer);
    if (take !== undefined) {
      take(LinkSocket.accepted(socket));
      return;
    }
    this.#early.get(peer)?.destroy();
    this.#early.set(peer, socket);
    // A peer that is gone before anybody asks for it is reported by others.
    socket.on('error', () => {});
  }

  /** Calls `take` with the connection that a peer opens for its messages, once it has. */
  awaitMessages(peer: number, take: (link: LinkSocket) => void): void {
    const socket = this.#early.get(peer);
    this.#early.delete(peer);
    if (socket === undefined) this.#awaited.set(peer, take);
    else take(LinkSocket.accepted(socket));
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
    for (const socket of this.#early.values()) socket.destroy();
  }
}

interface Identity {
  readonly from: number;
  readonly to: number;
  readonly purpose: number;
}

function readIdentity(identity: Uint8Array): Identity | undefined {
  try {
    const reader = new ByteReader(identity);
    const read = { from: reader.u32(), to: reader.u32(), purpose: reader.u32() };
    reader.finish();
    return read;
  } catch {
    return undefined;
  }
}

export interface PeerPlace extends ProxyPlace {
  readonly peer: number;
  readonly address: SocketAddress;
  readonly timeoutMs: number;
  readonly retry: RetryRule;
}

/**
 * Opens the connection on which the predecessor's slices come.
 * @throws TuttiError as `dial`
 */
export function connectToPredecessor(place: PeerPlace): Promise<LinkSocket> {
  return connectTo(place, 'ring');
}

/**
 * Opens the connection for messages with a peer.
 * @throws TuttiError as `dial`
 */
export function connectForMessages(place: PeerPlace): Promise<LinkSocket> {
  return connectTo(place, 'messages');
}

async function connectTo(place: PeerPlace, purpose: Purpose): Promise<LinkSocket> {
  const { key, rank, peer, address, timeoutMs, retry } = place;
  const deadline = new Deadline(timeoutMs);
  const identity = new ByteWriter().u32(rank).u32(peer).u32(PURPOSES[purpose]).finish();
  let link: LinkSocket | undefined;
  const dialing = {
    address,
    name: `rank ${peer}`,
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

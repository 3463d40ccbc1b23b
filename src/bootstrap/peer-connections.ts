/**
 * Authenticated TCP connections between two ranks, for transports.
 *
 * Both ranks ask for the other with the same purpose; the lower rank listens, the higher one connects, so no
 * order of calls can deadlock. A connection that arrives before its rank asks for it waits in a list: refusing
 * it would fail the peer, waiting for it would block others. Several requests of one pair with one purpose are
 * matched in order. Proofs use a key derived from the communicator's secret and generation, so a late
 * connection of an earlier communicator is a stranger here.
 */
import { createHmac } from 'node:crypto';
import type { Socket } from 'node:net';
import { TuttiError } from '../errors/tutti-error.js';
import { AuthenticatedListener } from './authenticated-listener.js';
import { ByteReader, ByteWriter } from './byte-codec.js';
import type { Member } from './control-message.js';
import { Deadline, formatDuration, startTimer } from './deadline.js';
import { dial, type RetryRule } from './dial.js';
import { proveToListener, ROLE_PEER } from './handshake.js';
import type { SocketAddress } from './socket-address.js';

/** Connections that wait to be asked for, per rank; more means that the ranks do not agree on what they do. */
const MAX_UNCLAIMED = 4096;

interface Waiter {
  resolve(socket: Socket): void;
}

export interface PeerConnectionsOptions {
  rank: number;
  size: number;
  secret: Uint8Array;
  generation: number;
  listenHost: string;
  retry: RetryRule;
}

export class PeerConnections {
  readonly #options: PeerConnectionsOptions;
  readonly #key: Uint8Array;
  readonly #unclaimed = new Map<string, Socket[]>();
  readonly #waiters = new Map<string, Waiter[]>();
  /** Per peer: ends the requests to it. */
  readonly #requests = new Map<AbortController, number>();
  readonly #gone = new Map<number, TuttiError>();
  #failure: TuttiError | undefined;
  #listener: AuthenticatedListener | undefined;
  #unclaimedCount = 0;

  private constructor(options: PeerConnectionsOptions) {
    this.#options = options;
    this.#key = createHmac('sha256', options.secret)
      .update(`tutti peer connections ${options.generation}`)
      .digest();
  }

  static async open(options: PeerConnectionsOptions): Promise<PeerConnections> {
    const connections = new PeerConnections(options);
    connections.#listener = await AuthenticatedListener.listen({
      host: options.listenHost,
      port: 0,
      secret: connections.#key,
      role: ROLE_PEER,
      onAdmitted: (identity, socket) => connections.#admit(identity, socket),
    });
    return connections;
  }

  get address(): SocketAddress {
    return this.#listener!.address;
  }

  #admit(identity: Uint8Array, socket: Socket): void {
    let from: number;
    let to: number;
    let purpose: string;
    try {
      const reader = new ByteReader(identity);
      from = reader.u32();
      to = reader.u32();
      purpose = reader.text();
      reader.finish();
    } catch {
      socket.destroy();
      return;
    }
    const { rank, size } = this.#options;
    if (to !== rank || from <= rank || from >= size || this.#failure !== undefined) {
      socket.destroy();
      return;
    }
    const key = `${from} ${purpose}`;
    const waiter = this.#waiters.get(key)?.shift();
    if (waiter !== undefined) {
      waiter.resolve(socket);
      return;
    }
    if (this.#unclaimedCount >= MAX_UNCLAIMED) {
      socket.destroy();
      return;
    }
    this.#unclaimedCount++;
    const parked = this.#unclaimed.get(key);
    if (parked === undefined) this.#unclaimed.set(key, [socket]);
    else parked.push(socket);
  }

  /** The connection with `peer` for `purpose`; see `Bootstrap.peerConnection`. */
  async request(peer: Member, purpose: string, timeoutMs: number): Promise<Socket> {
    const gone = this.#failure ?? this.#gone.get(peer.rank);
    if (gone !== undefined) throw gone;
    const controller = new AbortController();
    this.#requests.set(controller, peer.rank);
    try {
      return peer.rank > this.#options.rank
        ? await this.#accept(peer.rank, purpose, timeoutMs, controller.signal)
        : await this.#connect(peer, purpose, timeoutMs, controller.signal);
    } finally {
      this.#requests.delete(controller);
    }
  }

  async #connect(peer: Member, purpose: string, timeoutMs: number, signal: AbortSignal): Promise<Socket> {
    const deadline = new Deadline(timeoutMs);
    const identity = new ByteWriter().u32(this.#options.rank).u32(peer.rank).text(purpose).finish();
    const address = { host: peer.listenHost, port: peer.listenPort };
    const name = `rank ${peer.rank}`;
    const socket = await dial({ address, name, deadline, retry: this.#options.retry, signal }, (fresh) =>
      proveToListener(fresh, identity, { secret: this.#key, role: ROLE_PEER, timeoutMs: deadline.leftMs }),
    );
    socket.unref();
    return socket;
  }

  #accept(peer: number, purpose: string, timeoutMs: number, signal: AbortSignal): Promise<Socket> {
    const key = `${peer} ${purpose}`;
    const parked = this.#unclaimed.get(key);
    const ready = parked?.shift();
    if (ready !== undefined) {
      this.#unclaimedCount--;
      if (parked!.length === 0) this.#unclaimed.delete(key);
      return Promise.resolve(ready);
    }
    return new Promise((resolve, reject) => {
      const waiters = this.#waiters.get(key) ?? [];
      this.#waiters.set(key, waiters);
      const leave = (): void => {
        cancelTimer();
        signal.removeEventListener('abort', onAbort);
        const index = waiters.indexOf(waiter);
        if (index >= 0) waiters.splice(index, 1);
        if (waiters.length === 0 && this.#waiters.get(key) === waiters) this.#waiters.delete(key);
      };
      const waiter: Waiter = {
        resolve: (socket) => {
          leave();
          resolve(socket);
        },
      };
      const onAbort = (): void => {
        leave();
        reject(signal.reason);
      };
      // The timer also keeps the process alive while it waits.
      const cancelTimer = startTimer(timeoutMs, () => {
        leave();
        reject(
          new TuttiError(
            'timeout',
            `Rank ${peer} did not open its connection for '${purpose}' to rank ${this.#options.rank} within ${formatDuration(timeoutMs)}.`,
            { rank: peer },
          ),
        );
      });
      signal.addEventListener('abort', onAbort);
      waiters.push(waiter);
    });
  }

  /** Requests to a rank that is gone fail now and later. */
  peerGone(rank: number, error: TuttiError): void {
    this.#gone.set(rank, error);
    for (const [controller, peer] of this.#requests) if (peer === rank) controller.abort(error);
  }

  /** Ends the listener, pending requests and unclaimed connections. Connections handed out live on. */
  close(error: TuttiError): void {
    this.#failure ??= error;
    for (const controller of this.#requests.keys()) controller.abort(error);
    for (const sockets of this.#unclaimed.values()) for (const socket of sockets) socket.destroy();
    this.#unclaimed.clear();
    this.#unclaimedCount = 0;
    void this.#listener?.close();
  }
}

/**
 * Descriptors of virtual memory between the ranks of a team of processes: sent ahead of the message that tells of them,
 * later and again while the socket of a peer is full.
 */
import { errorText } from '../../errors/error-text.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { DescriptorSocket } from '../../system/descriptor-socket.js';

/** How long a full socket is left alone, ms: its owner empties it when it reads its messages. */
const RETRY_MS = 1;

/** What becomes of what is sent. */
export interface Delivery {
  /** A peer has all of it, with this token. */
  sent(peer: number, token: string): void;
  failed(peer: number, error: unknown): void;
}

/** What could not be sent at once. */
interface Parcel {
  readonly descriptors: readonly number[];
  readonly delivery: Delivery;
  /** How many of the descriptors a peer has, and their token. */
  readonly due: Map<number, { readonly token: string; done: number }>;
}

export class HandlePost {
  readonly #socket: DescriptorSocket | undefined;
  /** Why there is no socket. */
  readonly #problem: string = '';
  /** Sockets of all ranks; undefined for who has none. */
  #names: readonly (string | undefined)[] = [];
  readonly #parcels = new Map<object, Parcel>();
  #timer: NodeJS.Timeout | undefined;

  constructor() {
    try {
      this.#socket = new DescriptorSocket();
    } catch (error) {
      this.#problem = errorText(error);
    }
  }

  /** Where peers send to; undefined where nothing can be received here. */
  get name(): string | undefined {
    return this.#socket?.name;
  }

  /** From here on peers can be sent to. */
  connect(names: readonly (string | undefined)[]): void {
    this.#names = names;
  }

  /** Throws `systemError` where descriptors cannot go to all these peers. */
  checkOpen(peers: readonly number[]): void {
    if (this.#socket === undefined) throw new TuttiError('systemError', this.#problem);
    const deaf = peers.find((peer) => this.#names[peer] === undefined);
    if (deaf !== undefined)
      throw new TuttiError('systemError', `rank ${deaf} cannot receive file descriptors`);
  }

  /** Sends descriptors to peers, and closes them. `whose` names them for `cancel`. */
  send(whose: object, descriptors: readonly number[], peers: readonly number[], delivery: Delivery): void {
    const due = new Map(peers.map((peer) => [peer, { token: DescriptorSocket.token(), done: 0 }]));
    this.#parcels.set(whose, { descriptors, delivery, due });
    this.#sendDue();
  }

  #sendDue(): void {
    this.#timer = undefined;
    for (const [whose, { descriptors, delivery, due }] of this.#parcels) {
      for (const [peer, state] of due) {
        try {
          state.done = this.#socket!.send(this.#names[peer]!, state.token, descriptors, state.done);
          if (state.done < descriptors.length) continue;
          due.delete(peer);
          delivery.sent(peer, state.token);
        } catch (error) {
          due.delete(peer);
          delivery.failed(peer, error);
        }
      }
      if (due.size === 0) this.cancel(whose);
    }
    if (this.#parcels.size > 0) this.#timer ??= setTimeout(() => this.#sendDue(), RETRY_MS);
  }

  /** Gives up what is still to be sent, and tells to whom. */
  cancel(whose: object): number[] {
    const parcel = this.#parcels.get(whose);
    if (parcel === undefined) return [];
    this.#parcels.delete(whose);
    for (const descriptor of parcel.descriptors) DescriptorSocket.closeDescriptor(descriptor);
    return [...parcel.due.keys()];
  }

  /** Calls back with descriptors that have come, and closes them. Throws `systemError` when some lack. */
  receive<T>(token: string, count: number, use: (descriptors: readonly number[]) => T): T {
    if (this.#socket === undefined) throw new TuttiError('systemError', this.#problem);
    return this.#socket.receive(token, count, use);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const whose of [...this.#parcels.keys()]) this.cancel(whose);
    this.#socket?.close();
  }
}

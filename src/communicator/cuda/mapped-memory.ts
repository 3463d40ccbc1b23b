/**
 * Memory of GPUs that ranks of different processes reach: each announces its allocations, each opens those of the
 * others (`PeerTable`).
 *
 * A call may name an allocation when all peers have answered that they have it. Virtual memory of other libraries, which a
 * peer may be unable to map, is named when all peers have mapped it, and copied through the areas otherwise.
 */

import { MAP_SLOTS, mappedName, STAGED } from '../../collectives/gpu/names.js';
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { ipcHandle, pointerFacts } from '../../device/cuda/device-memory.js';
import { HeldRange } from '../../device/cuda/virtual-memory.js';
import { errorText } from '../../errors/error-text.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { DescriptorSocket } from '../../system/descriptor-socket.js';
import type { HandlePost } from './handle-post.js';
import type { PeerMessage, PeerMessages } from './peer-messages.js';
import { PeerTable } from './peer-table.js';

/** An allocation of this rank that peers open. */
interface Announced {
  readonly slot: number;
  readonly start: number;
  readonly bytes: number;
  /** Buffers and chunks that need it. */
  users: number;
  /** Peers that have not answered that they have it. */
  readonly opening: Set<number>;
  /** Peers that may have it still, while it is taken back. */
  readonly closing: Set<number>;
  /** Called when peers do not have it any more. */
  gone?: () => void;
  /** Of virtual memory. */
  readonly range?: HeldRange;
  /** Why a peer could not map it: then it has no name. */
  refusal?: string;
}

/** Where a buffer lies. */
interface Extent {
  readonly address: number;
  readonly bytes: number;
}

/** Memory of another library, as far as peers reach it. */
type Adopted = Announced | { readonly refusal: string };

export class MappedMemory {
  readonly #device: CudaDevice;
  readonly #rank: number;
  /** Whether a rank lives in this process: its addresses are those here. */
  readonly #isLocal: (rank: number) => boolean;
  readonly #table: PeerTable;
  /** Allocations of the driver, by where they start. */
  readonly #announced = new Map<number, Announced>();
  /** Virtual memory. */
  readonly #ranges = new Set<Announced>();
  /** Memory of other libraries, by address and bytes: once for each buffer there. */
  readonly #adopted = new Map<string, Adopted[]>();
  readonly #post: HandlePost;
  /** By slot, also those that are being taken back: their slots are not free yet. */
  readonly #slotsTaken = new Map<number, Announced>();
  readonly #freeSlots: number[] = [];
  #slots = 0;
  #messages: PeerMessages | undefined;
  #ready: { promise: Promise<void>; resolve: () => void } | undefined;
  #onProblem: (rank: number, problem: string) => void = () => {};

  constructor(
    device: CudaDevice,
    rank: number,
    ranks: number,
    isLocal: (rank: number) => boolean,
    post: HandlePost,
  ) {
    this.#device = device;
    this.#post = post;
    this.#rank = rank;
    this.#isLocal = isLocal;
    this.#table = new PeerTable(device, rank, ranks, isLocal, post);
  }

  /** Address of the table in which kernels look names up. */
  get table(): number {
    return this.#table.address;
  }

  /** From here on announcements are sent; `onProblem` is told of a peer that cannot open one. */
  connect(messages: PeerMessages, onProblem: (rank: number, problem: string) => void): void {
    this.#messages = messages;
    this.#onProblem = onProblem;
  }

  /** Undefined when peers have everything that was announced; else settles when they have. */
  get settled(): Promise<void> | undefined {
    return this.#ready?.promise;
  }

  /** Peers whose answers are due: that they have what was announced. */
  get unanswered(): number[] {
    const peers = [...this.#slotsTaken.values()].flatMap(({ opening }) => [...opening]);
    return [...new Set(peers)].sort((a, b) => a - b);
  }

  #expect(): void {
    if (this.#ready !== undefined) return;
    let resolve!: () => void;
    const promise = new Promise<void>((done) => {
      resolve = done;
    });
    this.#ready = { promise, resolve };
    this.#messages?.awaitAnswers(1);
  }

  /** Nobody waits for answers any more. */
  giveUp(): void {
    if (this.#ready === undefined) return;
    this.#messages?.awaitAnswers(-1);
    this.#ready.resolve();
    this.#ready = undefined;
  }

  /** Announces an allocation of this rank to the peers. */
  announce(start: number, bytes: number): Announced {
    const known = this.#announced.get(start);
    if (known !== undefined) {
      known.users += 1;
      return known;
    }
    const peers = this.#peers;
    const handle = peers.every((peer) => this.#isLocal(peer)) ? '' : ipcHandle(this.#device, start);
    const entry = this.#enter(start, bytes);
    this.#announced.set(start, entry);
    this.#messages?.sendAll({ type: 'map', slot: entry.slot, handle, address: start });
    return entry;
  }

  /** The other ranks. */
  get #peers(): number[] {
    return this.#messages?.peers ?? [];
  }

  /** Takes a slot, for peers to answer. */
  #enter(start: number, bytes: number, range?: HeldRange): Announced {
    const peers = this.#peers;
    const slot = this.#freeSlots.pop() ?? this.#slots++;
    if (slot >= MAP_SLOTS) {
      this.#slots = MAP_SLOTS;
      throw new TuttiError(
        'invalidUsage',
        `peers can open ${MAP_SLOTS} allocations of a rank at most; free some, or take fewer and larger ones`,
        { rank: this.#rank },
      );
    }
    const entry: Announced = {
      slot,
      start,
      bytes,
      users: 1,
      opening: new Set(peers),
      closing: new Set(),
      ...(range === undefined ? {} : { range }),
    };
    this.#slotsTaken.set(slot, entry);
    if (peers.length > 0) this.#expect();
    return entry;
  }

  /** Announces virtual memory. Throws a TuttiError that says why peers cannot have it. */
  #announceRange(address: number, bytes: number): Announced {
    const peers = this.#peers;
    const range = new HeldRange(this.#device, address, bytes);
    let entry: Announced;
    let descriptors: number[];
    try {
      for (const known of this.#ranges) {
        if (!known.range!.holds(range)) continue;
        known.users += 1;
        range.release();
        return known;
      }
      this.#post.checkOpen(peers);
      descriptors = range.export(DescriptorSocket.closeDescriptor);
      try {
        entry = this.#enter(range.start, range.bytes, range);
      } catch (error) {
        for (const descriptor of descriptors) DescriptorSocket.closeDescriptor(descriptor);
        throw error;
      }
    } catch (error) {
      range.release();
      throw error;
    }
    this.#ranges.add(entry);
    const sizes = range.pieces.map((piece) => piece.bytes);
    const { slot } = entry;
    this.#post.send(entry, descriptors, peers, {
      sent: (peer, token) => this.#messages!.send(peer, { type: 'mapPieces', slot, sizes, token }),
      failed: (peer, error) => this.#answered(peer, { slot, refusal: errorText(error) }),
    });
    return entry;
  }

  /** Lets peers reach memory of another library, if they can, until `release` is called as often. */
  adopt(address: number, bytes: number): void {
    const { start, bytes: all, shareable } = pointerFacts(this.#device, address, 'the pointer');
    let adopted: Adopted;
    if (shareable && all > 0) {
      adopted = this.announce(start, all);
    } else {
      try {
        adopted = this.#announceRange(address, bytes);
      } catch (error) {
        adopted = { refusal: errorText(error) };
      }
    }
    const key = `${address} ${bytes}`;
    const known = this.#adopted.get(key);
    if (known === undefined) this.#adopted.set(key, [adopted]);
    else known.push(adopted);
  }

  release(address: number, bytes: number): void {
    const key = `${address} ${bytes}`;
    const list = this.#adopted.get(key);
    const adopted = list?.shift();
    if (list?.length === 0) this.#adopted.delete(key);
    if (adopted !== undefined && 'slot' in adopted) void this.#withdraw(adopted);
  }

  /** Takes an announcement back; resolves when peers do not use the allocation any more. */
  withdraw(start: number): Promise<void> | undefined {
    const entry = this.#announced.get(start);
    return entry === undefined ? undefined : this.#withdraw(entry);
  }

  #withdraw(entry: Announced): Promise<void> | undefined {
    entry.users -= 1;
    if (entry.users > 0) return undefined;
    if (entry.range === undefined) this.#announced.delete(entry.start);
    else {
      this.#ranges.delete(entry);
      entry.range.release();
    }
    // Who was never told has nothing to give back.
    const untold = this.#post.cancel(entry);
    for (const peer of untold) entry.opening.delete(peer);
    const peers = this.#peers.filter((peer) => !untold.includes(peer));
    if (untold.length > 0 && this.unanswered.length === 0) this.giveUp();
    if (peers.length === 0) {
      this.#release(entry);
      return undefined;
    }
    for (const peer of peers) entry.closing.add(peer);
    const gone = new Promise<void>((resolve) => {
      entry.gone = resolve;
    });
    for (const peer of peers) this.#messages!.send(peer, { type: 'unmap', slot: entry.slot });
    return gone;
  }

  #release(entry: Announced): void {
    this.#slotsTaken.delete(entry.slot);
    this.#freeSlots.push(entry.slot);
    entry.gone?.();
  }

  /** The name of an address for the peers, in an allocation of this library. */
  nameOf(address: number): bigint {
    for (const { slot, start, bytes } of this.#announced.values()) {
      if (address >= start && address < start + bytes) return mappedName(slot, address - start);
    }
    return STAGED;
  }

  /** The name of an address in memory of another library. */
  nameOfAdopted({ address: from, bytes }: Extent, address: number): bigint {
    const adopted = this.#adopted.get(`${from} ${bytes}`)?.[0];
    if (adopted === undefined || adopted.refusal !== undefined || !('slot' in adopted)) return STAGED;
    return mappedName(adopted.slot, address - adopted.start);
  }

  /** Why peers do not reach memory of another library; undefined where they do. */
  refusalOf({ address, bytes }: Extent): string | undefined {
    const adopted = this.#adopted.get(`${address} ${bytes}`)?.[0];
    return adopted === undefined ? 'it was wrapped by another communicator' : adopted.refusal;
  }

  /** A message of a peer about allocations. */
  handle(peer: number, message: PeerMessage): void {
    switch (message.type) {
      case 'map':
        this.#messages?.send(peer, this.#table.open(peer, message));
        return;
      case 'mapPieces':
        this.#messages?.send(peer, this.#table.openPieces(peer, message));
        return;
      case 'unmap':
        this.#table.close(peer, message, (answer) => this.#messages?.send(peer, answer));
        return;
      case 'mapped':
        if (message.problem !== undefined) this.#onProblem(peer, message.problem);
        this.#answered(peer, message);
        return;
      case 'unmapped': {
        const entry = this.#slotsTaken.get(message.slot);
        if (entry?.closing.delete(peer) === true && entry.closing.size === 0) this.#release(entry);
        return;
      }
      default:
    }
  }

  /** A peer has opened what is in a slot, or cannot. It may be on its way back already: the answer is due all the same. */
  #answered(peer: number, { slot, refusal }: { slot: number; refusal?: string }): void {
    const entry = this.#slotsTaken.get(slot);
    entry?.opening.delete(peer);
    if (entry?.range !== undefined && refusal !== undefined) entry.refusal ??= `rank ${peer}: ${refusal}`;
    if (this.unanswered.length === 0) this.giveUp();
  }

  /** Closes what was opened of the peers. */
  closeOpened(): void {
    this.#table.closeAll();
    this.giveUp();
    for (const { range } of this.#ranges) range!.release();
    this.#ranges.clear();
    this.#adopted.clear();
    for (const { gone } of this.#slotsTaken.values()) gone?.();
    this.#slotsTaken.clear();
  }

  close(): void {
    this.closeOpened();
    this.#table.destroy();
  }
}

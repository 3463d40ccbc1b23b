/**
 * Memory of GPUs that ranks of different processes reach: each announces its allocations, each opens those of the
 * others and notes their addresses in a table in its GPU's memory, where kernels look names up.
 *
 * A call may name an allocation when all peers have answered that they have it.
 */
import { MAP_SLOTS, mappedName, mapTableBytes, STAGED } from '../../collectives/gpu/names.js';
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { DeviceMemory, ipcHandle, OpenedMemory, pointerFacts } from '../../device/cuda/device-memory.js';
import { Stream } from '../../device/cuda/stream.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { whenIdle } from './device-work.js';
import type { PeerMessage, PeerMessages } from './peer-messages.js';

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
}

/** What an opened allocation of a peer is here. */
interface Opened {
  readonly memory: OpenedMemory | undefined;
}

export class MappedMemory {
  readonly #device: CudaDevice;
  readonly #rank: number;
  /** Whether a rank lives in this process: its addresses are those here. */
  readonly #isLocal: (rank: number) => boolean;
  readonly #table: DeviceMemory;
  readonly #uploads: Stream;
  /** By where they start. */
  readonly #announced = new Map<number, Announced>();
  /** By slot, also those that are being taken back: their slots are not free yet. */
  readonly #slotsTaken = new Map<number, Announced>();
  readonly #freeSlots: number[] = [];
  #slots = 0;
  readonly #opened = new Map<string, Opened>();
  /** What peers take back, until it can be closed. */
  readonly #closing = new Set<OpenedMemory>();
  #messages: PeerMessages | undefined;
  #ready: { promise: Promise<void>; resolve: () => void } | undefined;
  #onProblem: (rank: number, problem: string) => void = () => {};

  constructor(device: CudaDevice, rank: number, ranks: number, isLocal: (rank: number) => boolean) {
    this.#device = device;
    this.#rank = rank;
    this.#isLocal = isLocal;
    this.#table = new DeviceMemory(device, mapTableBytes(ranks));
    try {
      this.#uploads = new Stream(device);
    } catch (error) {
      this.#table.free();
      throw error;
    }
    this.#uploads.fill(this.#table.address, 0, this.#table.bytes);
    this.#uploads.synchronize();
  }

  /** Address of the table of names. */
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
  announce(start: number, bytes: number): void {
    const known = this.#announced.get(start);
    if (known !== undefined) {
      known.users += 1;
      return;
    }
    const peers = this.#messages?.peers ?? [];
    const handle = peers.every((peer) => this.#isLocal(peer)) ? '' : ipcHandle(this.#device, start);
    const slot = this.#freeSlots.pop() ?? this.#slots++;
    if (slot >= MAP_SLOTS) {
      this.#slots = MAP_SLOTS;
      throw new TuttiError(
        'invalidUsage',
        `peers can open ${MAP_SLOTS} allocations of a rank at most; free some, or take fewer and larger ones`,
        { rank: this.#rank },
      );
    }
    const entry: Announced = { slot, start, bytes, users: 1, opening: new Set(peers), closing: new Set() };
    this.#announced.set(start, entry);
    this.#slotsTaken.set(slot, entry);
    if (peers.length > 0) this.#expect();
    this.#messages?.sendAll({ type: 'map', slot, handle, address: start });
  }

  /** Takes an announcement back; resolves when peers do not use the allocation any more. */
  withdraw(start: number): Promise<void> | undefined {
    const entry = this.#announced.get(start);
    if (entry === undefined) return undefined;
    entry.users -= 1;
    if (entry.users > 0) return undefined;
    this.#announced.delete(start);
    const peers = this.#messages?.peers ?? [];
    if (peers.length === 0) {
      this.#release(entry);
      return undefined;
    }
    for (const peer of peers) entry.closing.add(peer);
    const gone = new Promise<void>((resolve) => {
      entry.gone = resolve;
    });
    this.#messages!.sendAll({ type: 'unmap', slot: entry.slot });
    return gone;
  }

  #release(entry: Announced): void {
    this.#slotsTaken.delete(entry.slot);
    this.#freeSlots.push(entry.slot);
    entry.gone?.();
  }

  /** The name of an address for the peers. */
  nameOf(address: number): bigint {
    for (const { slot, start, bytes } of this.#announced.values()) {
      if (address >= start && address < start + bytes) return mappedName(slot, address - start);
    }
    return STAGED;
  }

  /** The allocation of another library that an address lies in, where peers can open it. */
  exportable(address: number): { start: number; bytes: number } | undefined {
    const { start, bytes, shareable } = pointerFacts(this.#device, address, 'the pointer');
    return shareable && bytes > 0 ? { start, bytes } : undefined;
  }

  /** A message of a peer about allocations. */
  handle(peer: number, message: PeerMessage): void {
    switch (message.type) {
      case 'map':
        this.#open(peer, message);
        return;
      case 'unmap':
        this.#close(peer, message.slot);
        return;
      case 'mapped': {
        if (message.problem !== undefined) this.#onProblem(peer, message.problem);
        // It may be on its way back already: the answer is due all the same.
        this.#slotsTaken.get(message.slot)?.opening.delete(peer);
        if (this.unanswered.length === 0) this.giveUp();
        return;
      }
      case 'unmapped': {
        const entry = this.#slotsTaken.get(message.slot);
        if (entry?.closing.delete(peer) === true && entry.closing.size === 0) this.#release(entry);
        return;
      }
      default:
    }
  }

  /**
   * Lets go of a peer's allocation. The driver waits for the GPU to do so, and kernels there may wait for calls that the
   * peer makes only when its own memory is taken over: so it is done when nothing is under way.
   */
  #close(peer: number, slot: number): void {
    const key = `${peer} ${slot}`;
    const opened = this.#opened.get(key);
    this.#opened.delete(key);
    if (opened?.memory !== undefined) this.#closing.add(opened.memory);
    const answer = () => this.#messages?.send(peer, { type: 'unmapped', slot });
    whenIdle([this.#device], () => {
      if (opened?.memory !== undefined && this.#closing.delete(opened.memory)) opened.memory.close();
    }).then(answer, answer);
  }

  #open(peer: number, { slot, handle, address }: Extract<PeerMessage, { type: 'map' }>): void {
    try {
      if (!Number.isInteger(slot) || slot < 0 || slot >= MAP_SLOTS) {
        throw new TuttiError('internalError', `there is no slot ${String(slot)}`, { rank: this.#rank });
      }
      const local = this.#isLocal(peer);
      const memory = local
        ? undefined
        : new OpenedMemory(this.#device, Buffer.from(handle, 'base64'), `rank ${peer}`);
      this.#opened.set(`${peer} ${slot}`, { memory });
      const entry = BigUint64Array.of(BigInt(memory?.address ?? address));
      this.#uploads.copyIn(this.#table.address + 8 * (peer * MAP_SLOTS + slot), entry);
      this.#uploads.synchronize();
      this.#messages?.send(peer, { type: 'mapped', slot });
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      this.#messages?.send(peer, { type: 'mapped', slot, problem });
    }
  }

  /** Closes what was opened of the peers. */
  closeOpened(): void {
    for (const { memory } of this.#opened.values()) memory?.close();
    this.#opened.clear();
    for (const memory of this.#closing) memory.close();
    this.#closing.clear();
    this.giveUp();
    for (const { gone } of this.#slotsTaken.values()) gone?.();
    this.#slotsTaken.clear();
  }

  close(): void {
    this.closeOpened();
    this.#uploads.destroy();
    this.#table.free();
  }
}

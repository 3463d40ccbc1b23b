/**
 * Memory of peers that a rank has opened, and the table in its GPU's memory where kernels look its addresses up.
 *
 * Each question of a peer is answered: what cannot be opened with the reason, what is taken back when it is closed.
 */

import { MAP_SLOTS, mapTableBytes } from '../../collectives/gpu/names.js';
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { DeviceMemory, OpenedMemory } from '../../device/cuda/device-memory.js';
import { Stream } from '../../device/cuda/stream.js';
import { ImportedMemory } from '../../device/cuda/virtual-memory.js';
import { errorText } from '../../errors/error-text.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { whenIdle } from './device-work.js';
import type { HandlePost } from './handle-post.js';
import type { PeerMessage } from './peer-messages.js';

/** An allocation of a peer, unless it lives in this process. */
type Opened = OpenedMemory | ImportedMemory | undefined;

type Message<Type extends PeerMessage['type']> = Extract<PeerMessage, { type: Type }>;

export class PeerTable {
  readonly #device: CudaDevice;
  readonly #rank: number;
  /** Whether a rank lives in this process: its addresses are those here. */
  readonly #isLocal: (rank: number) => boolean;
  readonly #post: HandlePost;
  readonly #table: DeviceMemory;
  readonly #uploads: Stream;
  /** By peer and slot. */
  readonly #opened = new Map<string, Opened>();
  /** What peers take back, until it can be closed. */
  readonly #closing = new Set<OpenedMemory | ImportedMemory>();

  constructor(
    device: CudaDevice,
    rank: number,
    ranks: number,
    isLocal: (rank: number) => boolean,
    post: HandlePost,
  ) {
    this.#device = device;
    this.#rank = rank;
    this.#isLocal = isLocal;
    this.#post = post;
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

  get address(): number {
    return this.#table.address;
  }

  /** Opens an allocation of the driver. */
  open(peer: number, { slot, handle, address }: Message<'map'>): PeerMessage {
    try {
      this.#checkSlot(slot);
      const memory = this.#isLocal(peer)
        ? undefined
        : new OpenedMemory(this.#device, Buffer.from(handle, 'base64'), `rank ${peer}`);
      this.#note(peer, slot, memory, memory?.address ?? address);
      return { type: 'mapped', slot };
    } catch (error) {
      return { type: 'mapped', slot, problem: errorText(error) };
    }
  }

  /** Opens virtual memory, whose descriptors have come already. */
  openPieces(peer: number, { slot, sizes, token }: Message<'mapPieces'>): PeerMessage {
    try {
      this.#checkSlot(slot);
      const memory = this.#post.receive(
        token,
        sizes.length,
        (descriptors) => new ImportedMemory(this.#device, descriptors, sizes, `rank ${peer}`),
      );
      this.#note(peer, slot, memory, memory.address);
      return { type: 'mapped', slot };
    } catch (error) {
      return { type: 'mapped', slot, refusal: errorText(error) };
    }
  }

  #checkSlot(slot: number): void {
    if (Number.isInteger(slot) && slot >= 0 && slot < MAP_SLOTS) return;
    throw new TuttiError('internalError', `there is no slot ${String(slot)}`, { rank: this.#rank });
  }

  /** Notes where an allocation of a peer is, for kernels to look up. */
  #note(peer: number, slot: number, memory: Opened, address: number): void {
    this.#opened.set(`${peer} ${slot}`, memory);
    const place = this.#table.address + 8 * (peer * MAP_SLOTS + slot);
    this.#uploads.copyIn(place, BigUint64Array.of(BigInt(address)));
    this.#uploads.synchronize();
  }

  /**
   * Lets go of a peer's allocation, and answers. The driver waits for the GPU to do so, and kernels there may wait for
   * calls that the peer makes only when its own memory is taken over: so it is done when nothing is under way.
   */
  close(peer: number, { slot }: Message<'unmap'>, answer: (message: PeerMessage) => void): void {
    const key = `${peer} ${slot}`;
    const memory = this.#opened.get(key);
    this.#opened.delete(key);
    if (memory !== undefined) this.#closing.add(memory);
    const done = () => answer({ type: 'unmapped', slot });
    whenIdle([this.#device], () => {
      if (memory !== undefined && this.#closing.delete(memory)) memory.close();
    }).then(done, done);
  }

  /** Closes what was opened. */
  closeAll(): void {
    for (const memory of this.#opened.values()) memory?.close();
    this.#opened.clear();
    for (const memory of this.#closing) memory.close();
    this.#closing.clear();
  }

  /** Gives back the table too. */
  destroy(): void {
    this.closeAll();
    this.#uploads.destroy();
    this.#table.free();
  }
}

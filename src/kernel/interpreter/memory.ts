/**
 * The simulated memory of all ranks: addresses, checks of every access, and what each load may see.
 *
 * Bytes always hold the newest store. A weak load must be ordered after the last store of every byte that it
 * reads, so it always sees the newest; a synchronising load may see an older message of its cell in weak mode
 * (see messages.ts). The compiled program first calls a method here, which checks and marks the access and
 * leaves the place of the bytes in `view` and its result, and then moves the bytes itself.
 *
 * Rules of the checks: synchronising accesses (relaxed, volatile, acquire, release, atomic) never conflict
 * with each other. Any other two accesses of one byte by two threads, at least one of them a store, must be
 * ordered: by the program order, release and acquire of sufficient scope, fences, barriers, launches of one
 * stream. A fence of both orders is not sequentially consistent.
 */

import type { AtomicOp } from '../ir.js';
import { NOTHING, type Publication, publishing, reaches } from './clock.js';
import type { FaultKind } from './fault.js';
import { History, type Message, REMEMBERED_MESSAGES } from './messages.js';
import { type Packet, setHalfAt } from './packet.js';
import type { Random } from './random.js';
import { ReaderSets } from './readers.js';
import { REGION_SPAN, REMEMBERED, type Region, STORED, SYNCHRONISED, WATCHED } from './region.js';
import type { Thread } from './thread.js';

export interface MemoryOptions {
  weak: boolean;
  random: Random;
  /** Weak mode: how often a load takes an older message where it may. */
  staleness: number;
  /** Weak mode: steps after which a store is visible to everybody. */
  delay: number;
  fault: (thread: Thread, kind: FaultKind, what: string) => never;
  /** A watched cell of a waiting thread was stored to. */
  wake: (thread: Thread) => void;
}

/** Listens to accesses; see trace.ts. `late` is true for an older value than the newest. */
export interface AccessListener {
  access(thread: Thread, verb: string, region: Region, at: number, bytes: number, late: boolean): void;
}

export class Memory {
  /** Where the bytes of the access lie that was just allowed. */
  view: DataView;
  /** Accesses, fences and turns so far. */
  steps = 0;
  listener: AccessListener | undefined;
  readonly regions: (Region | undefined)[] = [undefined];
  readonly #options: MemoryOptions;
  #readers = new ReaderSets();
  /** Number of the last synchronising store. */
  #order = 0;
  /** Watching threads by region and cell. */
  readonly #watchers = new Map<number, Thread[]>();
  /** Composed content of an older message. */
  readonly #older = new DataView(new ArrayBuffer(8));

  constructor(options: MemoryOptions) {
    this.#options = options;
    this.view = this.#older;
  }

  // ---- addresses ----

  /** `name+0x10`, or the number of an address in no region. */
  describe(address: number): string {
    const region = this.regions[Math.floor(address / REGION_SPAN)];
    if (region === undefined) return `0x${address.toString(16)}, which is in no region,`;
    return `${region.name}+0x${(address - region.base).toString(16)}`;
  }

  /** Addresses of the replicas that a multicast address stands for. */
  replicas(t: Thread, address: number, bytes: number): readonly number[] {
    this.#aligned(t, address, bytes);
    const region = this.regions[Math.floor(address / REGION_SPAN)];
    const at = address - (region?.base ?? 0);
    if (region?.replicas === undefined || at + bytes > region.bytes) {
      this.#fault(t, 'outOfBounds', `${bytes} bytes at ${this.describe(address)}, no multicast address`);
    }
    return region.replicas.map((base) => base + at);
  }

  #locate(t: Thread, address: number, bytes: number, store: boolean): Region {
    this.steps++;
    const region = this.regions[Math.floor(address / REGION_SPAN)];
    if (region === undefined || address - region.base + bytes > region.bytes) {
      const end = region === undefined ? '' : `; ${region.name} has ${region.bytes} bytes`;
      this.#fault(t, 'outOfBounds', `${bytes} bytes at ${this.describe(address)}${end}`);
    }
    if (region.replicas !== undefined) {
      this.#fault(t, 'forbidden', `an ordinary access to the multicast address ${this.describe(address)}`);
    }
    if (region.private && region.owner !== t.rank) {
      this.#fault(t, 'forbidden', `${this.describe(address)} is private to rank ${region.owner}`);
    }
    if (store && region.readOnly) {
      this.#fault(t, 'forbidden', `store to ${this.describe(address)}, which is read-only`);
    }
    return region;
  }

  #fault(t: Thread, kind: FaultKind, what: string): never {
    return this.#options.fault(t, kind, what);
  }

  #aligned(t: Thread, address: number, align: number): void {
    if (address % align !== 0) {
      this.#fault(t, 'misaligned', `${this.describe(address)} is not a multiple of ${align}`);
    }
  }

  // ---- weak accesses ----

  /** Allows a weak load; `align` is what the program promised. Returns the offset of the bytes in `view`. */
  readWeak(t: Thread, address: number, bytes: number, align: number): number {
    this.#aligned(t, address, align);
    const region = this.#locate(t, address, bytes, false);
    const at = address - region.base;
    if (t.polling) this.#watch(t, region, at, bytes);
    const { flags, writer, readers } = region;
    let knownWriter = t.stamp;
    let before = -1;
    let after = 0;
    for (let i = at; i < at + bytes; i++) {
      const w = writer[i]!;
      if (w !== knownWriter) {
        if (!t.knows(w)) this.#unpublished(t, region, i);
        knownWriter = w;
      }
      if ((flags[i]! & STORED) === 0) this.#uninitialized(t, region, i);
      if (region.readOnly) continue; // nobody will store
      const r = readers[i]!;
      if (r !== before) {
        before = r;
        after = this.#readers.with(r, t, false);
      }
      readers[i] = after;
    }
    this.listener?.access(t, 'load', region, at, bytes, false);
    this.view = region.view;
    return at;
  }

  /** Allows a weak store; the caller then stores at the returned offset of `view`. */
  writeWeak(t: Thread, address: number, bytes: number, align: number): number {
    this.#aligned(t, address, align);
    const region = this.#locate(t, address, bytes, true);
    const at = address - region.base;
    const { flags, writer, readers } = region;
    let knownWriter = t.stamp;
    let knownReaders = 0;
    let special = 0;
    for (let i = at; i < at + bytes; i++) {
      const w = writer[i]!;
      if (w !== knownWriter) {
        if (!t.knows(w)) this.#storeRace(t, region, i);
        knownWriter = w;
      }
      writer[i] = t.stamp;
      const r = readers[i]!;
      if (r !== 0) {
        if (r !== knownReaders) {
          this.#checkReaders(t, region, i, r, true);
          knownReaders = r;
        }
        readers[i] = 0;
      }
      special |= flags[i]!;
      flags[i] = STORED | (flags[i]! & (WATCHED | REMEMBERED));
    }
    if (special & REMEMBERED) this.#forget(region, at, bytes);
    // Nobody waits for these bytes: the load of a waiting thread would conflict with this store.
    this.listener?.access(t, 'store', region, at, bytes, false);
    this.view = region.view;
    return at;
  }

  #unpublished(t: Thread, region: Region, at: number): never {
    const flag = region.flags[at]! & SYNCHRONISED ? 'relaxed' : 'plain';
    return this.#fault(
      t,
      'unpublishedRead',
      `load of ${region.name}+0x${at.toString(16)}, but the last (${flag}) store there, by ` +
        `${this.#who(region.writer[at]!)}, does not happen before it`,
    );
  }

  #uninitialized(t: Thread, region: Region, at: number): never {
    const what = `load of ${region.name}+0x${at.toString(16)}, which was never stored to`;
    return this.#fault(t, 'uninitialized', what);
  }

  #storeRace(t: Thread, region: Region, at: number): never {
    const place = `${region.name}+0x${at.toString(16)}`;
    const who = this.#who(region.writer[at]!);
    return this.#fault(t, 'race', `store to ${place} without order after the store there by ${who}`);
  }

  /** Set by the machine: describes the thread of a stamp. */
  nameOf: (stamp: number) => string = (stamp) => `thread ${stamp}`;

  #who(stamp: number): string {
    return this.nameOf(stamp);
  }

  /** A store needs order after the loads of the set; synchronising ones only matter to a weak store. */
  #checkReaders(t: Thread, region: Region, at: number, set: number, weak: boolean): void {
    for (let reader = this.#readers.of(set); reader !== undefined; reader = reader.before) {
      if ((weak || !reader.sync) && !t.knows(reader.stamp)) {
        const place = `${region.name}+0x${at.toString(16)}`;
        const who = this.#who(reader.stamp);
        this.#fault(t, 'race', `store to ${place} without order after the load there by ${who}`);
      }
    }
  }

  /** Moves up to 16 bytes of a copy; returns how many. */
  copyStep(t: Thread, to: number, from: number, bytes: number): number {
    const count = Math.min(16, bytes);
    const source = this.readWeak(t, from, count, 1);
    const sourceView = this.view;
    const target = this.writeWeak(t, to, count, 1);
    for (let i = 0; i < count; i++) this.view.setUint8(target + i, sourceView.getUint8(source + i));
    return count;
  }

  // ---- synchronising accesses ----

  /**
   * Allows a synchronising load of at most 8 bytes and chooses what it sees; the bytes then lie at the returned
   * offset of `view`. `level` is the scope of an acquire, -1 for relaxed and volatile.
   */
  readSync(t: Thread, address: number, bytes: number, level: number): number {
    this.#aligned(t, address, bytes);
    const region = this.#locate(t, address, bytes, false);
    const at = address - region.base;
    if (t.polling) this.#watch(t, region, at, bytes);
    const flags = this.#markSyncRead(t, region, at, bytes);
    this.view = region.view;
    let late = false;
    let result = at;
    if (flags & REMEMBERED) {
      const low = region.histories.get(at >> 2);
      const high = bytes === 8 ? region.histories.get((at >> 2) + 1) : undefined;
      const order = this.#options.weak ? this.#chooseOrder(t, low, high) : this.#order;
      const lowMessage = low?.at(order);
      const highMessage = high?.at(order);
      late = lowMessage !== low?.newest() || highMessage !== high?.newest();
      if (lowMessage !== undefined) this.#take(t, low!, lowMessage, level);
      if (highMessage !== undefined) this.#take(t, high!, highMessage, level);
      if (late) {
        t.stale = true;
        if (lowMessage?.initialized === false || highMessage?.initialized === false) {
          this.#uninitialized(t, region, at);
        }
        const cell = at & ~3;
        this.#older.setInt32(0, lowMessage?.value ?? region.view.getInt32(cell, true), true);
        if (bytes === 8) {
          this.#older.setInt32(4, highMessage?.value ?? region.view.getInt32(cell + 4, true), true);
        }
        this.view = this.#older;
        result = bytes === 8 ? 0 : at & 3;
      }
    }
    this.listener?.access(t, level < 0 ? 'relaxed load' : 'acquire load', region, at, bytes, late);
    return result;
  }

  /** Checks against weak stores and marks the bytes as read; the flags of all bytes together. */
  #markSyncRead(t: Thread, region: Region, at: number, bytes: number): number {
    const { flags, writer, readers } = region;
    let before = -1;
    let after = 0;
    let all = 0;
    for (let i = at; i < at + bytes; i++) {
      const flag = flags[i]!;
      all |= flag;
      if ((flag & SYNCHRONISED) === 0) {
        if (!t.knows(writer[i]!)) this.#unpublished(t, region, i);
        if ((flag & STORED) === 0) this.#uninitialized(t, region, i);
      }
      const r = readers[i]!;
      if (r !== before) {
        before = r;
        after = this.#readers.with(r, t, true);
      }
      readers[i] = after;
    }
    return all;
  }

  /** Weak mode: the point in the order of stores that a load looks at. */
  #chooseOrder(t: Thread, low: History | undefined, high: History | undefined): number {
    const { random, staleness } = this.#options;
    const newest = this.#order;
    const several = (low?.messages.length ?? 1) > 1 || (high?.messages.length ?? 1) > 1;
    if (!several || !random.chance(staleness)) return newest;
    const bound = Math.max(this.#bound(t, low), this.#bound(t, high));
    const choices = [bound];
    for (const history of [low, high]) {
      for (const m of history?.messages ?? []) if (m.order > bound) choices.push(m.order);
    }
    return random.pick(choices);
  }

  /** The oldest message of a cell that a thread may still see. */
  #bound(t: Thread, history: History | undefined): number {
    if (history === undefined) return 0;
    const { messages } = history;
    const floor = history.floors.get(t.id) ?? -1;
    const overdue = this.steps - this.#options.delay;
    for (let i = messages.length - 1; i > 0; i--) {
      const m = messages[i]!;
      if (m.order <= floor || m.step <= overdue || t.knows(m.stamp)) return m.order;
    }
    return messages[0]!.order;
  }

  /** What follows from having loaded a message. */
  #take(t: Thread, history: History, message: Message, level: number): void {
    if (this.#options.weak) history.floors.set(t.id, message.order);
    if (message.published === undefined) return;
    if (level >= 0) this.#acquire(t, message, level);
    // A system-wide acquire has taken all there is to take.
    if (level < 2 && t.seen[t.seen.length - 1] !== message) t.seen.push(message);
  }

  #acquire(t: Thread, message: Message, level: number): void {
    const { from, published } = message;
    if (from === undefined || published === undefined || !reaches(level, t, from)) return;
    for (let i = 0; i < 3; i++) {
      const clock = published[i];
      if (clock !== undefined && reaches(i, from, t)) t.join(clock);
    }
  }

  /** Allows a synchronising store of at most 8 bytes; the caller stores at the offset, then calls `publish`. */
  writeSync(t: Thread, address: number, bytes: number): number {
    this.#aligned(t, address, bytes);
    const region = this.#locate(t, address, bytes, true);
    const at = address - region.base;
    this.#remember(region, at, bytes);
    this.#markSyncStore(t, region, at, bytes);
    this.view = region.view;
    return at;
  }

  /** Before a synchronising store: cells without messages get their present content as the first one. */
  #remember(region: Region, at: number, bytes: number): void {
    for (let cell = at >> 2; cell < (at + bytes + 3) >> 2; cell++) {
      if (region.histories.has(cell)) continue;
      const first = Math.max(at, cell * 4);
      const base: Message = {
        order: 0,
        step: 0,
        value: region.view.getInt32(cell * 4, true),
        stamp: region.writer[first]!,
        initialized: (region.flags[first]! & STORED) !== 0,
        from: undefined,
        published: undefined,
      };
      region.histories.set(cell, new History(base));
    }
  }

  #markSyncStore(t: Thread, region: Region, at: number, bytes: number): void {
    const { flags, writer, readers } = region;
    let knownReaders = 0;
    for (let i = at; i < at + bytes; i++) {
      if ((flags[i]! & SYNCHRONISED) === 0 && !t.knows(writer[i]!)) this.#storeRace(t, region, i);
      const r = readers[i]!;
      if (r !== 0) {
        if (r !== knownReaders) {
          this.#checkReaders(t, region, i, r, false);
          knownReaders = r;
        }
        readers[i] = 0;
      }
      writer[i] = t.stamp;
      flags[i] = STORED | SYNCHRONISED | REMEMBERED | (flags[i]! & WATCHED);
    }
  }

  /** Makes the store that was just done a message; `level` is the scope of a release, -1 for relaxed. */
  publish(t: Thread, address: number, bytes: number, level: number): void {
    const region = this.regions[Math.floor(address / REGION_SPAN)]!;
    const at = address - region.base;
    let published: Publication = t.fences;
    if (level >= 0) published = publishing(published, level, t.clock());
    this.#push(t, region, at, bytes, published);
    if (level >= 0) this.#advance(t);
    this.listener?.access(t, level < 0 ? 'relaxed store' : 'release store', region, at, bytes, false);
  }

  /**
   * Stores the packets of eight lanes as one line of 128 bytes: nobody sees a part of it, and whoever has seen its last
   * 8 bytes sees no older content of the others, which therefore forget theirs.
   */
  storeLine(lanes: readonly { thread: Thread; address: number; packet: Packet }[]): void {
    const last = lanes.at(-1)!.address + 8;
    for (const { thread, address, packet } of lanes) {
      for (const half of [0, 8]) {
        const place = address + half;
        const at = this.writeSync(thread, place, 8);
        setHalfAt(this.view, at, packet, half);
        this.publish(thread, place, 8, -1);
        if (place !== last) this.#keepNewest(place, 8);
      }
    }
  }

  #keepNewest(address: number, bytes: number): void {
    const region = this.regions[Math.floor(address / REGION_SPAN)]!;
    const at = address - region.base;
    for (let cell = at >> 2; cell < (at + bytes) >> 2; cell++) {
      const { messages } = region.histories.get(cell)!;
      messages.splice(0, messages.length - 1);
    }
  }

  #push(t: Thread, region: Region, at: number, bytes: number, published: Publication): void {
    const keep = this.#options.weak ? REMEMBERED_MESSAGES : 1;
    const order = ++this.#order;
    const first = at >> 2;
    for (let cell = first; cell < (at + bytes + 3) >> 2; cell++) {
      const message: Message = {
        order,
        step: this.steps,
        value: region.view.getInt32(cell * 4, true),
        stamp: t.stamp,
        initialized: true,
        from: t,
        published: published === NOTHING ? undefined : published,
      };
      region.histories.get(cell)!.push(message, keep);
    }
    if (region.flags[at]! & WATCHED || region.flags[at + bytes - 1]! & WATCHED) this.#wake(region, at, bytes);
  }

  #advance(t: Thread): void {
    if (!t.advance()) this.#fault(t, 'limit', 'more publications by one thread than the interpreter counts');
  }

  // ---- atomics ----

  /** Read-modify-write of a u32; returns the old value. */
  atomic32(t: Thread, address: number, op: AtomicOp, value: number, level: number): number {
    const at = this.#enterAtomic(t, address, 4, level);
    const { view } = this;
    const old = view.getUint32(at, true);
    view.setUint32(at, combine32(op, old, value), true);
    this.#leaveAtomic(t, address, 4, level);
    return old;
  }

  /** Read-modify-write of a u64; returns the old value. */
  atomic64(t: Thread, address: number, op: AtomicOp, value: bigint, level: number): bigint {
    const at = this.#enterAtomic(t, address, 8, level);
    const { view } = this;
    const old = view.getBigUint64(at, true);
    view.setBigUint64(at, combine64(op, old, value), true);
    this.#leaveAtomic(t, address, 8, level);
    return old;
  }

  compareExchange32(t: Thread, address: number, expected: number, value: number, level: number): number {
    const at = this.#enterAtomic(t, address, 4, level);
    const { view } = this;
    const old = view.getUint32(at, true);
    if (old !== expected) return old;
    view.setUint32(at, value, true);
    this.#leaveAtomic(t, address, 4, level);
    return old;
  }

  compareExchange64(t: Thread, address: number, expected: bigint, value: bigint, level: number): bigint {
    const at = this.#enterAtomic(t, address, 8, level);
    const { view } = this;
    const old = view.getBigUint64(at, true);
    if (old !== expected) return old;
    view.setBigUint64(at, value, true);
    this.#leaveAtomic(t, address, 8, level);
    return old;
  }

  /** The load half: an atomic always sees the newest value, and acquires. */
  #enterAtomic(t: Thread, address: number, bytes: number, level: number): number {
    this.#aligned(t, address, bytes);
    const region = this.#locate(t, address, bytes, true);
    const at = address - region.base;
    if (this.#markSyncRead(t, region, at, bytes) & REMEMBERED) {
      for (let cell = at >> 2; cell < (at + bytes) >> 2; cell++) {
        const history = region.histories.get(cell);
        if (history !== undefined) this.#take(t, history, history.newest(), level);
      }
    }
    this.#remember(region, at, bytes);
    this.listener?.access(t, 'atomic', region, at, bytes, false);
    this.view = region.view;
    return at;
  }

  /** The store half: a release. */
  #leaveAtomic(t: Thread, address: number, bytes: number, level: number): void {
    const region = this.regions[Math.floor(address / REGION_SPAN)]!;
    const at = address - region.base;
    this.#markSyncStore(t, region, at, bytes);
    // What the value before published was taken over just now, so that this publishes it, too.
    this.#push(t, region, at, bytes, publishing(t.fences, level, t.clock()));
    this.#advance(t);
  }

  // ---- fences ----

  fence(t: Thread, acquire: boolean, release: boolean, level: number): void {
    this.steps++;
    if (acquire) {
      const seen = t.seen.splice(0);
      for (const message of seen) {
        this.#acquire(t, message, level);
        // A wider fence later could still take over what this scope did not reach.
        if (level < 2 && message.published!.some((c) => c !== undefined && !t.has(c))) t.seen.push(message);
      }
    }
    if (release) {
      t.fences = publishing(t.fences, level, t.clock());
      this.#advance(t);
    }
  }

  // ---- waiting ----

  #watch(t: Thread, region: Region, at: number, bytes: number): void {
    for (let cell = at >> 2; cell < (at + bytes + 3) >> 2; cell++) {
      const key = cellKey(region, cell);
      const list = this.#watchers.get(key);
      if (list === undefined) {
        this.#watchers.set(key, [t]);
        for (let i = cell * 4; i < cell * 4 + 4; i++) region.flags[i]! |= WATCHED;
      } else if (list.includes(t)) continue;
      else list.push(t);
      t.watched.push({ region, cell });
    }
  }

  unwatch(t: Thread): void {
    for (const { region, cell } of t.watched) {
      const key = cellKey(region, cell);
      const list = this.#watchers.get(key)!;
      list.splice(list.indexOf(t), 1);
      if (list.length > 0) continue;
      this.#watchers.delete(key);
      for (let i = cell * 4; i < cell * 4 + 4; i++) region.flags[i]! &= ~WATCHED;
    }
    t.watched.length = 0;
  }

  #wake(region: Region, at: number, bytes: number): void {
    for (let cell = at >> 2; cell < (at + bytes + 3) >> 2; cell++) {
      for (const t of this.#watchers.get(cellKey(region, cell)) ?? []) this.#options.wake(t);
    }
  }

  /** A weak store over synchronised cells: only the new content is left to see. */
  #forget(region: Region, at: number, bytes: number): void {
    for (let cell = at >> 2; cell < (at + bytes + 3) >> 2; cell++) {
      region.histories.delete(cell);
      for (let i = cell * 4; i < cell * 4 + 4; i++) region.flags[i]! &= ~REMEMBERED;
    }
  }

  /** Between runs: everything stored so far happens before the next launch. */
  settle(): void {
    for (const region of this.regions) region?.settle();
    this.#readers = new ReaderSets();
    this.#watchers.clear();
  }
}

function cellKey(region: Region, cell: number): number {
  return region.id * (REGION_SPAN / 4) + cell;
}

function combine32(op: AtomicOp, old: number, value: number): number {
  switch (op) {
    case 'add':
      return old + value;
    case 'and':
      return old & value;
    case 'or':
      return old | value;
    case 'xor':
      return old ^ value;
    case 'exchange':
      return value;
    case 'max':
      return Math.max(old, value);
    case 'min':
      return Math.min(old, value);
  }
}

function combine64(op: AtomicOp, old: bigint, value: bigint): bigint {
  switch (op) {
    case 'add':
      return old + value;
    case 'and':
      return old & value;
    case 'or':
      return old | value;
    case 'xor':
      return old ^ value;
    case 'exchange':
      return value;
    case 'max':
      return old > value ? old : value;
    case 'min':
      return old < value ? old : value;
  }
}

/**
 * How a device program waits on the host: spin, then yield, then sleep; and when it gives up.
 *
 * A compiled program polls `env.spins` times in Wasm and then calls `env.relax(round, doorbell)`, again and
 * again until what it waits for is there. `round` counts the calls of one wait from 0. The first rounds give
 * the processor to whoever else can run; after that the waiter registers on the doorbell and sleeps in the
 * kernel until it is rung, in slices that grow, so that an idle wait costs almost nothing. Between slices it
 * looks at what may end the wait for good: the abort word of the doorbell, its own stop word, the time limit,
 * and whether the peers it depends on still live. `relax` then returns 1, the program ends with the status
 * "aborted", and `reason` says why.
 *
 * Where many more threads wait for each other than there are cores, nearly every yield and every ring is in vain:
 * a meeting of 50 ranks rings 49 times at each of them, and only the last ring brings what it waits for. There the
 * waiter hardly yields, and while its rings are mostly in vain it naps first, for as long as the others need to
 * have their turn, and nobody can ring it.
 *
 * Where ranks talk over sockets, a waiter carries the connections meanwhile (transport/net/link-driver.ts), and sleeps on
 * them.
 *
 * Nothing is allocated on the way of a wait that succeeds soon.
 */
import { type Libc, libc } from '../../system/libc.js';
import { isAlive, type ProcessIdentity } from '../../system/process-liveness.js';
import { type CarriedNetwork, createDriver } from '../../transport/net/carried-network.js';
import { type LinkDriver, TURN } from '../../transport/net/link-driver.js';
import { armDoorbell, DOORBELL, wakeDoorbell } from './doorbell.js';
import type { WasmMemory } from './webassembly.js';

/** Private bytes that a waiter works with (address aligned to 8); zero at first. */
export const WAITER_BYTES = 64;

/** Words of them: set to stop the waiter; a word that nobody wakes; struct timespec of futex(2). */
const STOP_WORD = 0;
const NAP_WORD = 1;
const TIMESPEC_WORD = 4;
/** A doorbell that nobody rings. */
const REHEARSAL_WORD = 8;

/** Polls between two calls of relax: about 2 us of reads that hit the cache, a few round trips between cores. */
const SPINS = 1000;

/** The same where threads outnumber cores: whoever is waited for probably needs this very core. */
const SPINS_CROWDED = 8;

/** The same where every round looks at sockets, which takes longer than so many polls. */
const SPINS_NETWORK = 8;

/**
 * Rounds that only spin before the first yield, about 50 us: a partner that has a core of its own is back by then,
 * and a yield may hand this core to a stranger for milliseconds.
 */
const SPIN_ROUNDS = 25;

/** Rounds that yield before the waiter sleeps: with the spins about 0.5 ms when nobody else wants the core. */
const YIELDS = 200;
const YIELDS_CROWDED = 50;

/**
 * The same where the system wakes the waiter as soon as something comes, ahead of others: who yields gets its turn later
 * than that. With strangers on all cores this takes a quarter of the time, on idle ones no more.
 */
const YIELDS_NETWORK = 0;

/** Threads per core from which on yields hand the core round among threads that all wait. */
const DENSE = 5;

/** The same from there on: one to let those go on that this thread has just rung, one in reserve. */
const YIELDS_DENSE = 2;

/**
 * Milliseconds that a thread needs for its turn in a meeting, coming back to cold caches: with so much for each
 * thread of the core, a nap is over when all have had theirs. Measured with 32 and 64 ranks on two cores: half of it
 * doubles the switches, twice as much idles.
 */
const TURN_MS = 0.04;

/** Rings in vain, less those of use, from which on naps come first; and the most that are counted. */
const VAIN = { naps: 2, most: 4 } as const;

/** Milliseconds of the first and of the longest sleep: the longest bounds how late an abort is seen. */
const SLEEP_MS = { first: 2, longest: 10 } as const;

/** The same where there is no doorbell to be woken by. */
const NAP_MS = { first: 0.05, longest: 1 } as const;

/** Each sleep is longer than the one before by this factor. */
const SLEEP_GROWTH = 1.5;

/** Rounds of a rehearsal: after fewer calls of a function V8 does not note yet what it meets. */
const REHEARSALS = 20;

/** Yielding rounds between two looks at the clock, which costs a fifth of a yield. */
const ROUNDS_PER_CLOCK = 16;

/** Milliseconds of waiting between two looks at whether peers live. */
const LIVENESS_MS = 50;

/**
 * Peers of one look, about 15 us each. Waiters begin with different ones and go round, so that together they see
 * everybody at every look, while each of a hundred does no more than each of five.
 */
const PEERS_PER_LOOK = 4;

/** Why a wait was given up. */
export interface WaitReason {
  readonly kind: 'aborted' | 'timeout' | 'peerDied';
  /** Rank of the peer that died. */
  readonly peer?: number;
}

/** A process that a program depends on. */
export interface WaitPeer {
  readonly rank: number;
  readonly process: ProcessIdentity;
}

/** The memory that programs run in: a HostDevice, or what a worker was told of one. */
export interface WaitMemory {
  readonly memory: WasmMemory;
  readonly i32: Int32Array;
  /** Address of the memory in the process, 0 where it is not known (waits are then of JavaScript's own kind). */
  readonly baseAddress: number;
}

export interface WaiterSettings {
  /** Threads of this host that wait for each other, per core; above 1 they yield at once. Default 1. */
  threadsPerCore?: number;
  /** Polls in Wasm between two calls of relax. */
  spins?: number;
  /** Rounds of relax that neither yield nor sleep. */
  spinRounds?: number;
  /** Rounds that yield before the waiter sleeps. */
  yields?: number;
  /** Shortest and longest sleep in milliseconds. */
  sleepMs?: { readonly first: number; readonly longest: number };
  peers?: readonly WaitPeer[];
  /** Connections to carry while waiting. */
  network?: CarriedNetwork;
}

export interface WaiterOptions extends WaiterSettings {
  device: WaitMemory & {
    allocatePrivate(bytes: number): number;
    freePrivate(address: number): void;
  };
}

/** What compiled programs import as `env`, besides the memory. */
export interface WaitImports {
  readonly spins: number;
  readonly relax: (round: number, doorbell: number) => number;
  readonly wake: (doorbell: number) => void;
}

/** A waiter with private memory of its own. Call `close` when no program uses it any more. */
export function createWaiter(options: WaiterOptions): Waiter {
  const { device } = options;
  const scratch = device.allocatePrivate(WAITER_BYTES);
  return new Waiter(device, scratch, options, () => device.freePrivate(scratch));
}

/** The waiting of one thread. Not to be used by two threads, but `stop` may come from anywhere. */
export class Waiter {
  readonly imports: WaitImports;
  readonly #memory: WaitMemory;
  readonly #i32: Int32Array;
  readonly #scratch: number;
  readonly #word: number;
  readonly #c: Libc | null;
  readonly #spinRounds: number;
  readonly #yields: number;
  readonly #sleepMs: { readonly first: number; readonly longest: number };
  /** Length of a nap before the sleep, 0 for none. */
  readonly #napMs: number;
  readonly #release: () => void;
  readonly #network: LinkDriver | undefined;
  #peers: readonly WaitPeer[];
  /** Index of the peer that the next look begins with. */
  #nextPeer: number;
  #reason: WaitReason | undefined;
  /** Milliseconds that the program may take; 0 without a time limit. */
  #timeoutMs = 0;
  /** When they end, on the performance clock; 0 until the program has waited long enough to look at it. */
  #deadline = 0;
  /** When to look at the peers again; negative until the wait has looked at the clock once. */
  #nextLiveness = -1;
  #lastRound = -1;
  /** Rounds in which something has come over the network. */
  #progress = 0;
  /** Round in which the present run of yields began. */
  #yieldsFrom = 0;
  /** Doorbell in whose `sleepers` this waiter is counted, 0 for none. */
  #registered = 0;
  /** Value of its `rings` before the last poll. */
  #seenRings = 0;
  #nextSleepMs = 0;
  /** A ring has ended the last sleep; whether it was of use shows when the program looks. */
  #wasRung = false;
  /** Rings in vain, less those of use, within VAIN. */
  #vainRings = 0;
  /** This wait has napped since its last sleep. */
  #napped = false;
  #closed = false;

  /** `scratch` is the address of WAITER_BYTES private bytes; `release` is called by `close`. */
  constructor(
    memory: WaitMemory,
    scratch: number,
    settings: WaiterSettings = {},
    release: () => void = () => {},
  ) {
    const threadsPerCore = settings.threadsPerCore ?? 1;
    const crowded = threadsPerCore > 1;
    const dense = threadsPerCore >= DENSE;
    this.#memory = memory;
    this.#i32 = memory.i32;
    this.#scratch = scratch;
    this.#word = scratch >>> 2;
    this.#c = memory.baseAddress === 0 ? null : libc();
    const { network } = settings;
    const carrier = network?.doorbell ?? 0;
    const driver =
      network === undefined
        ? undefined
        : createDriver(network, memory.memory.buffer as SharedArrayBuffer, memory.baseAddress, () =>
            wakeDoorbell(memory, carrier),
          );
    this.#network = driver;
    const isCarrying = this.#network !== undefined;
    const yields = dense ? YIELDS_DENSE : crowded ? YIELDS_CROWDED : YIELDS;
    this.#spinRounds = settings.spinRounds ?? (crowded ? 0 : SPIN_ROUNDS);
    this.#yields = settings.yields ?? (isCarrying ? YIELDS_NETWORK : yields);
    this.#sleepMs = settings.sleepMs ?? SLEEP_MS;
    this.#napMs = dense && !isCarrying ? threadsPerCore * TURN_MS : 0;
    this.#peers = settings.peers ?? [];
    this.#nextPeer = process.pid % Math.max(1, this.#peers.length);
    this.#release = release;
    const spins = driver !== undefined ? SPINS_NETWORK : crowded ? SPINS_CROWDED : SPINS;
    const wake = (doorbell: number) => wakeDoorbell(memory, doorbell >>> 0);
    this.imports = {
      spins: settings.spins ?? spins,
      relax: (round, doorbell) => this.#relax(round, doorbell >>> 0),
      wake:
        driver === undefined
          ? wake
          : (doorbell) => {
              if (doorbell >>> 0 !== carrier || driver.publish() === TURN.notOurs) wake(doorbell);
            },
    };
    if (driver === undefined) this.#rehearse();
  }

  /**
   * Waits in vain for a moment, before V8 compiles what waits: code that has not been met would be thrown away at the
   * first wait that takes a little longer, and on a machine whose cores all wait, compiling it anew takes tens of
   * milliseconds.
   */
  #rehearse(): void {
    const doorbell = this.#scratch + REHEARSAL_WORD * 4;
    for (let round = 0; round < REHEARSALS; round++) {
      // As after a sleep.
      this.#wasRung = true;
      this.begin();
      this.#relax(0, doorbell);
      Atomics.add(this.#i32, (doorbell + DOORBELL.sleepers) >>> 2, 1);
      this.#registered = doorbell;
      this.end();
    }
    this.#relax(1, doorbell);
    this.#relax(this.#spinRounds, doorbell);
    this.#relax(this.#spinRounds + ROUNDS_PER_CLOCK - 1, doorbell);
    this.#vainRings = 0;
    this.begin();
  }

  /** Why the last wait was given up; undefined when none was since `begin`. */
  get reason(): WaitReason | undefined {
    return this.#reason;
  }

  /** The processes whose end ends every wait. */
  setPeers(peers: readonly WaitPeer[]): void {
    this.#peers = peers;
    this.#nextPeer = process.pid % Math.max(1, peers.length);
  }

  /** Before a program runs: from now on it may take so many milliseconds (0: as long as it likes). */
  begin(timeoutMs = 0): void {
    this.#reason = undefined;
    // Looking at the clock costs more than a short operation takes: it is put off until a wait gets long.
    this.#timeoutMs = timeoutMs;
    this.#deadline = 0;
    this.#lastRound = -1;
    if (this.#wasRung) this.#judgeRing(true);
    this.#network?.want();
  }

  /** After a program has run. */
  end(): void {
    if (this.#registered !== 0) this.#unregister();
    this.#network?.end();
  }

  /** Makes the present wait and all later ones give up with reason `aborted`. From any thread. */
  stop(): void {
    stopWaiter(this.#memory, this.#scratch);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.end();
    this.#release();
  }

  #relax(round: number, doorbell: number): number {
    const i32 = this.#i32;
    const isNew = round <= this.#lastRound || round === 0;
    if (this.#wasRung) this.#judgeRing(isNew);
    if (isNew) this.#startWait(round);
    this.#lastRound = round;
    if (Atomics.load(i32, this.#word + STOP_WORD) !== 0) return this.#giveUp({ kind: 'aborted' });
    if (doorbell !== 0 && Atomics.load(i32, (doorbell + DOORBELL.abort) >>> 2) !== 0) {
      return this.#giveUp({ kind: 'aborted' });
    }
    if (this.#network !== undefined && this.#network.drive() === TURN.progress) {
      // What came may not be all: waiting begins anew, but not its time limit.
      this.#yieldsFrom = round + 1;
      this.#progress = (this.#progress + 1) % ROUNDS_PER_CLOCK;
      return this.#progress === 0 ? this.#checkTime() : 0;
    }
    const yielded = round - this.#yieldsFrom - this.#spinRounds;
    if (yielded < 0) return 0;
    if (yielded < this.#yields) {
      if (this.#c !== null) this.#c.schedYield();
      else this.#nap(0.001);
      return yielded % ROUNDS_PER_CLOCK === ROUNDS_PER_CLOCK - 1 ? this.#checkTime() : 0;
    }
    return doorbell === 0 ? this.#napLonger() : this.#sleep(round, doorbell);
  }

  #startWait(round: number): void {
    if (this.#registered !== 0) this.#unregister();
    this.#network?.want();
    this.#yieldsFrom = round;
    this.#nextLiveness = -1;
    this.#nextSleepMs = 0;
    this.#napped = false;
  }

  /** Keeps count of whether rings bring what is waited for. */
  #judgeRing(useful: boolean): void {
    this.#wasRung = false;
    this.#vainRings = useful ? Math.max(0, this.#vainRings - 1) : Math.min(VAIN.most, this.#vainRings + 1);
  }

  /** No doorbell: sleeps that nobody can end early, so they are short. */
  #napLonger(): number {
    this.#nextSleepMs =
      this.#nextSleepMs === 0 ? NAP_MS.first : Math.min(this.#nextSleepMs * SLEEP_GROWTH, NAP_MS.longest);
    this.#nap(this.#nextSleepMs);
    return this.#checkTime();
  }

  #nap(milliseconds: number): void {
    this.#waitOn(this.#scratch + NAP_WORD * 4, 0, milliseconds);
  }

  #sleep(round: number, doorbell: number): number {
    const i32 = this.#i32;
    const rings = (doorbell + DOORBELL.rings) >>> 2;
    if (this.#registered !== doorbell) {
      if (this.#registered !== 0) this.#unregister();
      if (this.#napMs > 0 && this.#vainRings >= VAIN.naps && !this.#napped) {
        this.#napped = true;
        this.#nap(this.#napMs);
        return this.#checkTime();
      }
      this.#napped = false;
      Atomics.add(i32, (doorbell + DOORBELL.sleepers) >>> 2, 1);
      this.#registered = doorbell;
      this.#seenRings = armDoorbell(i32, doorbell);
      this.#nextSleepMs = this.#sleepMs.first;
      // One more poll: what was published before the registration did not ring.
      return 0;
    }
    // The abort word was read before the wait: an abort rings, so it is not slept through.
    const sleepMs = this.#untilNextCheck();
    if (this.#network?.sleep(sleepMs) !== true) {
      this.#waitOn(doorbell + DOORBELL.rings, this.#seenRings, sleepMs);
    }
    const now = Atomics.load(i32, rings);
    if (now !== this.#seenRings) {
      // Something happened: what this wait is about may follow at once, so begin with yields again.
      this.#unregister();
      this.#yieldsFrom = round + 1;
      this.#wasRung = true;
    } else {
      this.#nextSleepMs = Math.min(this.#nextSleepMs * SLEEP_GROWTH, this.#sleepMs.longest);
    }
    return this.#checkTime();
  }

  /** The next sleep in milliseconds, cut where the time limit or a look at the peers comes before its end. */
  #untilNextCheck(): number {
    const check = this.#peers.length === 0 ? Number.POSITIVE_INFINITY : LIVENESS_MS;
    let left = this.#timeoutMs > 0 ? this.#timeoutMs : Number.POSITIVE_INFINITY;
    if (this.#deadline !== 0) left = this.#deadline - performance.now();
    return Math.max(0, Math.min(this.#nextSleepMs, check, left));
  }

  /** Sleeps while the word at a heap address holds the value, at most so long. */
  #waitOn(address: number, value: number, milliseconds: number): void {
    if (this.#c === null) {
      Atomics.wait(this.#i32, address >>> 2, value, milliseconds);
      return;
    }
    const timespec = this.#word + TIMESPEC_WORD;
    const seconds = Math.floor(milliseconds / 1000);
    // 64-bit seconds and nanoseconds, little-endian; both stay below 2^31.
    this.#i32[timespec] = seconds;
    this.#i32[timespec + 2] = Math.round((milliseconds - seconds * 1000) * 1e6);
    const base = this.#memory.baseAddress;
    this.#c.futexWait(base + address, value, base + timespec * 4);
  }

  #unregister(): void {
    Atomics.sub(this.#i32, (this.#registered + DOORBELL.sleepers) >>> 2, 1);
    this.#registered = 0;
  }

  #checkTime(): number {
    const now = performance.now();
    if (this.#timeoutMs > 0) {
      if (this.#deadline === 0) this.#deadline = now + this.#timeoutMs;
      else if (now >= this.#deadline) return this.#giveUp({ kind: 'timeout' });
    }
    if (this.#nextLiveness < 0) this.#nextLiveness = now + LIVENESS_MS;
    else if (now >= this.#nextLiveness) {
      this.#nextLiveness = now + LIVENESS_MS;
      for (let looks = Math.min(PEERS_PER_LOOK, this.#peers.length); looks > 0; looks--) {
        const peer = this.#peers[this.#nextPeer]!;
        if (!isAlive(peer.process)) return this.#giveUp({ kind: 'peerDied', peer: peer.rank });
        this.#nextPeer = (this.#nextPeer + 1) % this.#peers.length;
      }
    }
    return 0;
  }

  #giveUp(reason: WaitReason): number {
    this.end();
    this.#reason = reason;
    return 1;
  }
}

/** Stops the waiter with this scratch memory, see `Waiter.stop`. */
export function stopWaiter(memory: { readonly i32: Int32Array }, scratch: number): void {
  Atomics.store(memory.i32, (scratch >>> 2) + STOP_WORD, 1);
}

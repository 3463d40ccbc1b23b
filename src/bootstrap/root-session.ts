/**
 * One communicator at its root: gathers the check-ins, then relays control operations.
 *
 *     gathering --all ranks are here--> running --everybody left or died--> over
 *         |                                                                  ^
 *         +--mistake, death or time-out of a rank: everybody is told---------+
 *
 * While gathering, any fault ends the communicator for all ranks with one message that names the culprit;
 * ranks that come later get the same message. While running, a dead rank fails only the operations that need
 * it, so the survivors can still agree among themselves.
 */
import type { Socket } from 'node:net';
import { TuttiError } from '../errors/tutti-error.js';
import { ControlConnection } from './control-connection.js';
import {
  type CheckIn,
  type Contribution,
  decodeToRoot,
  encodeFromRoot,
  type FromRoot,
  type WireError,
} from './control-message.js';
import { formatDuration, startTimer } from './deadline.js';
import { GatherOperation } from './gather-operation.js';
import { MAX_CONTRIBUTION_BYTES, MAX_RANKS } from './limits.js';
import { formatRanks } from './rank-list.js';

/** Time a refused or departing rank gets to read the last message before its connection is cut, ms. */
const LAST_WORDS_MS = 5_000;
/** Room in a frame for everything but the contributed bytes: header, label and a full rank list. */
const CONTRIBUTION_OVERHEAD_BYTES = 4 * MAX_RANKS + 16 * 1024;

interface Seat {
  readonly checkIn: CheckIn;
  readonly connection: ControlConnection;
  state: 'here' | 'left' | 'lost';
  /** Why operations with this rank cannot succeed; set unless `here`. */
  absence: WireError | undefined;
}

export class RootSession {
  readonly #processNonce: bigint;
  readonly #rootName: string;
  readonly #onOver: (failed: boolean) => void;
  readonly #seats = new Map<number, Seat>();
  readonly #operations = new Map<string, GatherOperation>();
  #state: 'gathering' | 'running' | 'over' = 'gathering';
  #size = 0;
  #firstRank = -1;
  #failure: WireError | undefined;
  #endsAt = Number.POSITIVE_INFINITY;
  #cancelTimer: () => void = () => {};

  /**
   * @param processNonce random number of the root's process, to find the rank that lives in it
   * @param rootName address of the root, for messages
   * @param onOver called once when nobody needs the session any more
   */
  constructor(processNonce: bigint, rootName: string, onOver: (failed: boolean) => void) {
    this.#processNonce = processNonce;
    this.#rootName = rootName;
    this.#onOver = onOver;
  }

  /** Takes a rank that proved the secret. */
  checkIn(checkIn: CheckIn, socket: Socket): void {
    const { rank, size } = checkIn;
    // Declared before the connection: its handlers need the seat, which needs the connection.
    let seat: Seat | undefined;
    const connection = new ControlConnection(socket, MAX_CONTRIBUTION_BYTES + CONTRIBUTION_OVERHEAD_BYTES, {
      onMessage: (payload) => {
        if (seat !== undefined) this.#receive(seat, payload);
      },
      onClosed: (reason) => {
        if (seat !== undefined) this.#closed(seat, reason);
      },
    });
    const refuse = (error: WireError): void => {
      connection.send(encodeFromRoot({ type: 'refused', error }));
      void connection.end(LAST_WORDS_MS);
    };
    if (this.#state !== 'gathering') {
      refuse(this.#failure ?? this.#alreadyUsed(rank));
      return;
    }
    const mistake = this.#mistakeOf(checkIn);
    if (mistake !== undefined) {
      this.#failInit(mistake);
      refuse(mistake);
      return;
    }
    seat = { checkIn, connection, state: 'here', absence: undefined };
    this.#seats.set(rank, seat);
    if (this.#firstRank < 0) {
      this.#size = size;
      this.#firstRank = rank;
    }
    if (this.#seats.size === this.#size) this.#start();
    else this.#limit(rank, checkIn.timeoutMs);
  }

  #alreadyUsed(rank: number): WireError {
    return {
      code: 'invalidUsage',
      rank,
      message:
        `The unique id at ${this.#rootName} already serves a communicator of ${this.#size} ranks; ` +
        `rank ${rank} came again or too late. A unique id serves one communicator: make a new one.`,
    };
  }

  #mistakeOf(checkIn: CheckIn): WireError | undefined {
    const { rank, size } = checkIn;
    const invalid = (message: string): WireError => ({ code: 'invalidArgument', rank, message });
    if (size < 1 || size > MAX_RANKS) {
      return invalid(`Rank ${rank} was given size ${size}; the size must be from 1 to ${MAX_RANKS}.`);
    }
    if (rank < 0 || rank >= size) {
      return invalid(
        `Rank ${rank} is out of range: a communicator of size ${size} has ranks 0 to ${size - 1}.`,
      );
    }
    if (this.#firstRank >= 0 && size !== this.#size) {
      return invalid(
        `The ranks disagree about the size: rank ${rank} was given ${size}, rank ${this.#firstRank} was given ${this.#size}.`,
      );
    }
    const other = this.#seats.get(rank);
    if (other !== undefined) {
      return invalid(
        `Rank ${rank} checked in twice: from ${this.#place(other.checkIn)} and from ${this.#place(checkIn)}. ` +
          'Every process needs a rank of its own.',
      );
    }
    return undefined;
  }

  #place({ hostName, processId }: CheckIn): string {
    return `process ${processId} on ${hostName}`;
  }

  #describe(rank: number): string {
    const seat = this.#seats.get(rank);
    return seat === undefined ? `rank ${rank}` : `rank ${rank} (${this.#place(seat.checkIn)})`;
  }

  #limit(rank: number, timeoutMs: number): void {
    const endsAt = performance.now() + timeoutMs;
    if (endsAt >= this.#endsAt) return;
    this.#endsAt = endsAt;
    this.#cancelTimer();
    const strike = (): void => {
      const missing: number[] = [];
      for (let absent = 0; absent < this.#size; absent++) if (!this.#seats.has(absent)) missing.push(absent);
      this.#failInit({
        code: 'timeout',
        rank: missing[0] ?? -1,
        message:
          `Of ${this.#size} ranks ${formatRanks(missing)} did not come to the root at ${this.#rootName} within ` +
          `${formatDuration(timeoutMs)} (the time-out of rank ${rank}). Were all ranks started, and can they reach the root?`,
      });
    };
    this.#cancelTimer = startTimer(timeoutMs, strike, { keepAlive: false });
  }

  #failInit(error: WireError): void {
    if (this.#state !== 'gathering') return;
    this.#state = 'over';
    this.#failure = error;
    this.#cancelTimer();
    for (const seat of this.#seats.values()) {
      if (seat.state !== 'here') continue;
      seat.connection.send(encodeFromRoot({ type: 'refused', error }));
      void seat.connection.end(LAST_WORDS_MS);
    }
    this.#onOver(true);
  }

  #start(): void {
    this.#state = 'running';
    this.#cancelTimer();
    const seats = Array.from({ length: this.#size }, (_, rank) => this.#seats.get(rank)!);
    const welcome = encodeFromRoot({
      type: 'welcome',
      rootRank: seats.findIndex((seat) => seat.checkIn.processNonce === this.#processNonce),
      members: seats.map((seat) => seat.checkIn),
    });
    for (const seat of seats) seat.connection.send(welcome);
  }

  #receive(seat: Seat, payload: Uint8Array): void {
    if (seat.state !== 'here') return;
    const message = decodeToRoot(payload);
    switch (message.type) {
      case 'contribute':
        this.#contribute(seat, message);
        return;
      case 'abort': {
        const { rank } = seat.checkIn;
        const { reason } = message;
        const absence: WireError = { code: 'remoteError', rank, message: `Rank ${rank} aborted: ${reason}` };
        if (this.#state === 'gathering') this.#failInit(absence);
        this.#depart(seat, 'left', { type: 'aborted', rank, reason }, absence);
        return;
      }
      case 'goodbye': {
        const { rank } = seat.checkIn;
        this.#depart(
          seat,
          'left',
          { type: 'left', rank },
          {
            code: 'remoteError',
            rank,
            message: `${this.#describe(rank)} has closed its communicator and takes part in nothing any more.`,
          },
        );
        return;
      }
    }
  }

  #closed(seat: Seat, reason: string): void {
    if (seat.state !== 'here') return;
    const { rank } = seat.checkIn;
    if (this.#state === 'gathering') {
      seat.state = 'lost';
      this.#failInit({
        code: 'remoteError',
        rank,
        message: `${this.#describe(rank)} was lost during initialisation: ${reason}.`,
      });
      return;
    }
    this.#depart(
      seat,
      'lost',
      { type: 'lost', rank, reason },
      {
        code: 'remoteError',
        rank,
        message: `${this.#describe(rank)} was lost: ${reason}.`,
      },
    );
  }

  #depart(
    seat: Seat,
    state: 'left' | 'lost',
    notice: Exclude<FromRoot, { type: 'gathered' }>,
    absence: WireError,
  ): void {
    seat.state = state;
    seat.absence = absence;
    if (state === 'left') void seat.connection.end(LAST_WORDS_MS);
    if (this.#state !== 'running') return;
    const { rank } = seat.checkIn;
    const bytes = encodeFromRoot(notice);
    for (const other of this.#seats.values()) if (other.state === 'here') other.connection.send(bytes);
    for (const operation of [...this.#operations.values()]) {
      if (operation.includes(rank)) operation.withdraw(rank, absence);
    }
    for (const other of this.#seats.values()) if (other.state === 'here') return;
    this.#state = 'over';
    for (const operation of this.#operations.values()) operation.dispose();
    this.#operations.clear();
    this.#onOver(false);
  }

  #contribute(seat: Seat, contribution: Contribution): void {
    const { rank } = seat.checkIn;
    const participants =
      contribution.among.length === 0
        ? Array.from({ length: this.#size }, (_, index) => index)
        : contribution.among;
    const ascending = participants.every(
      (participant, index) =>
        participant < this.#size && (index === 0 || participant > participants[index - 1]!),
    );
    if (!ascending || !participants.includes(rank)) {
      throw new TuttiError('remoteError', `rank ${rank} sent a wrong list of participants`);
    }
    const key = `${contribution.among.join(',')}#${contribution.sequence}`;
    let operation = this.#operations.get(key);
    if (operation === undefined) {
      operation = new GatherOperation(participants, {
        send: (to, head, ...body) => this.#seats.get(to)?.connection.send(head, ...body),
        describe: (of) => this.#describe(of),
        onDone: () => this.#operations.delete(key),
      });
      this.#operations.set(key, operation);
      for (const participant of participants) {
        const absence = this.#seats.get(participant)?.absence;
        if (absence !== undefined) operation.withdraw(participant, absence);
      }
    }
    operation.join(rank, contribution);
  }

  /** Cuts everybody off; for a root that is closed by its owner. */
  close(): void {
    this.#cancelTimer();
    for (const operation of this.#operations.values()) operation.dispose();
    for (const seat of this.#seats.values()) seat.connection.destroy('the root was closed');
  }
}

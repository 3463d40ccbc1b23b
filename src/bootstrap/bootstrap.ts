/**
 * The bootstrap of a communicator: unrelated processes that share a unique id find each other, agree, and keep
 * a control channel.
 *
 * Every rank connects to the root over TCP and proves that it knows the secret. The root checks that the ranks
 * fit together and tells every rank about every other; then it relays control operations (all-gather, barrier,
 * broadcast), losses and aborts. Shape: a star through the root's process (NCCL pairs ranks into a ring
 * instead; the star costs size messages at one place and can name the culprit of every failure). Two ranks can
 * also get a direct connection.
 *
 * An open and idle bootstrap does not keep the process alive; a pending operation does.
 */

import { createHmac } from 'node:crypto';
import type { Socket } from 'node:net';
import { hostname } from 'node:os';
import { TuttiError } from '../errors/tutti-error.js';
import { hostHash } from '../system/host-identity.js';
import { bindableAddress, chooseBootstrapInterface, listNetworkInterfaces } from '../system/interfaces.js';
import { ControlConnection } from './control-connection.js';
import {
  decodeFromRoot,
  encodeCheckIn,
  encodeToRoot,
  type FromRoot,
  type Member,
  toTuttiError,
  type WireError,
} from './control-message.js';
import { Deadline, formatDuration, startTimer } from './deadline.js';
import { dial, readRetryRule } from './dial.js';
import { proveToListener, ROLE_CHECK_IN } from './handshake.js';
import { type LaunchEnvironment, readLaunchEnvironment } from './launch-environment.js';
import { launchRoot } from './launch-root.js';
import {
  DEFAULT_TIMEOUT_MS,
  MAX_PURPOSE_CHARACTERS,
  MAX_RANKS,
  maxContributionBytes,
  maxFromRootBytes,
} from './limits.js';
import { PeerConnections } from './peer-connections.js';
import { PROCESS_NONCE } from './root.js';
import { formatSocketAddress, isLoopback, type SocketAddress } from './socket-address.js';
import { decodeUniqueId } from './unique-id.js';

/** How much longer than its own time-out a rank waits for the root's verdict, which names the culprit, ms. */
const ANSWER_GRACE_MS = 1_000;
/** Time that a bad rank or size may spend telling the other ranks, ms. */
const MISTAKE_REPORT_MS = 2_000;
/** Longest wait for the root to confirm a goodbye, ms. */
const GOODBYE_MS = 1_000;

/** Where the root is: in a unique id, or at an address where rank 0 listens. */
export type Rendezvous =
  | { id: Uint8Array; address?: never; secret?: never }
  | { id?: never; address: SocketAddress; secret: Uint8Array };

export interface BootstrapCommonOptions {
  rank: number;
  size: number;
  /** Time to wait for the other ranks, here and in every later operation, ms (default 120 s). */
  timeoutMs?: number;
  /** Address of this machine at which other ranks can reach this one (default: the one that reaches the root). */
  advertise?: string;
  /** Which communicator of a root that serves several; the same at all ranks (default 0). */
  generation?: number;
  /** Gives up waiting during `connect`; the other ranks learn that this one is lost. */
  signal?: AbortSignal;
  /** Variables for the interface and the retries (default: the process's). */
  env?: Readonly<Record<string, string | undefined>>;
}

export type BootstrapOptions = BootstrapCommonOptions & Rendezvous;

export interface OperationOptions {
  /** Time to wait for the others, ms (default: that of `connect`). */
  timeoutMs?: number;
}

export interface GatherOptions extends OperationOptions {
  /** Participating ranks, this one among them (default: all). All of them must name the same ranks. */
  among?: readonly number[];
}

type PeerLostListener = (rank: number, reason: string) => void;
type AbortListener = (fromRank: number, reason: string) => void;

interface PendingOperation {
  resolve(parts: Uint8Array[]): void;
  reject(error: Error): void;
}

function checkTimeout(timeoutMs: number): void {
  if (!(timeoutMs > 0)) {
    throw new TuttiError(
      'invalidArgument',
      `timeoutMs is ${timeoutMs}; it must be a positive number of milliseconds.`,
    );
  }
}

function checkInteger(name: string, value: number): void {
  if (!Number.isInteger(value) || Math.abs(value) >= 2 ** 31) {
    throw new TuttiError('invalidArgument', `${name} is ${value}; it must be an integer.`);
  }
}

/** How many communicators this process took from each environment; all ranks count alike. */
const generations = new Map<string, number>();

export class Bootstrap implements AsyncDisposable {
  readonly rank: number;
  readonly size: number;
  /** Every rank with its process, host and address, in rank order. */
  readonly members: readonly Member[];
  /** The rank in whose process the root lives, -1 when that process is no rank (a launcher). */
  readonly rootRank: number;
  /** How this process was launched; undefined unless it came from the environment. */
  readonly launch: LaunchEnvironment | undefined;

  readonly #rootName: string;
  readonly #secret: Uint8Array;
  readonly #generation: number;
  readonly #timeoutMs: number;
  readonly #connection: ControlConnection;
  readonly #peers: PeerConnections;
  readonly #pending = new Map<number, PendingOperation>();
  readonly #sequences = new Map<string, number>();
  readonly #lost = new Map<number, string>();
  readonly #peerLostListeners = new Set<PeerLostListener>();
  readonly #abortListeners = new Set<AbortListener>();
  #nextTicket = 0;
  #rootLeft = false;
  /** Why nothing works any more: closed, aborted, or the root is lost. */
  #failure: TuttiError | undefined;
  #abortedBy: { rank: number; reason: string } | undefined;
  #closing: Promise<void> | undefined;

  private constructor(parts: {
    options: BootstrapOptions;
    launch: LaunchEnvironment | undefined;
    welcome: Extract<FromRoot, { type: 'welcome' }>;
    connection: ControlConnection;
    peers: PeerConnections;
    rootName: string;
  }) {
    this.rank = parts.options.rank;
    this.size = parts.options.size;
    this.members = parts.welcome.members;
    this.rootRank = parts.welcome.rootRank;
    this.launch = parts.launch;
    const { options } = parts;
    this.#secret = options.id !== undefined ? decodeUniqueId(options.id).secret : options.secret;
    this.#generation = options.generation ?? 0;
    this.#timeoutMs = parts.options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.#connection = parts.connection;
    this.#peers = parts.peers;
    this.#rootName = parts.rootName;
  }

  /**
   * Joins the communicator; resolves when all ranks are there. Ranks may come in any order.
   * @throws TuttiError invalidArgument (a bad id, rank or size here or at another rank, the secret refused),
   * timeout (names the missing ranks), remoteError (names the rank that died), systemError
   */
  static connect(options: BootstrapOptions): Promise<Bootstrap> {
    return Bootstrap.#join(options, undefined);
  }

  /**
   * Joins the communicator that the launcher describes in environment variables (`tutti run`, torchrun,
   * Open MPI, MPICH, Slurm, NCCL_COMM_ID). May be called again, in the same order at all ranks, for further
   * communicators of the same ranks.
   * @throws TuttiError as `connect`, and invalidUsage when no launcher is recognised
   */
  static async fromLaunchEnvironment(
    options: Omit<BootstrapCommonOptions, 'rank' | 'size' | 'generation'> = {},
  ): Promise<Bootstrap> {
    const env = options.env ?? process.env;
    const launch = readLaunchEnvironment(env, process.ppid);
    const { rank, size, rendezvous, secret } = launch;
    const where: Rendezvous =
      rendezvous.kind === 'id'
        ? { id: rendezvous.id }
        : { address: { host: rendezvous.host, port: rendezvous.port }, secret };
    const key = `${rank} ${Buffer.from(secret).toString('hex')}`;
    const generation = generations.get(key) ?? 0;
    generations.set(key, generation + 1);
    return Bootstrap.#join({ ...options, ...where, rank, size, generation }, launch);
  }

  static async #join(options: BootstrapOptions, launch: LaunchEnvironment | undefined): Promise<Bootstrap> {
    const { rank, size, timeoutMs = DEFAULT_TIMEOUT_MS, generation = 0 } = options;
    const env = options.env ?? process.env;
    checkInteger('rank', rank);
    checkInteger('size', size);
    checkTimeout(timeoutMs);
    const { host, port, secret } =
      options.id !== undefined ? decodeUniqueId(options.id) : { ...options.address, secret: options.secret };
    const address = { host, port };
    const mistake = mistakeOf(rank, size);
    const deadline = new Deadline(mistake === undefined ? timeoutMs : Math.min(timeoutMs, MISTAKE_REPORT_MS));
    const releaseRoot = options.id === undefined && rank === 0 ? await launchRoot(address, secret) : () => {};

    const never = new AbortController();
    const signal = options.signal ?? never.signal;
    const retry = mistake === undefined ? readRetryRule(env) : { count: 0, sleepMs: 0 };
    let peers: PeerConnections | undefined;
    let socket: Socket;
    try {
      socket = await dial({ address, name: 'the root', deadline, retry, signal }, async (fresh) => {
        peers ??= await PeerConnections.open({
          rank,
          size,
          secret,
          generation,
          listenHost: listenHost(fresh, host, options.advertise, env),
          retry: readRetryRule(env),
        });
        const identity = encodeCheckIn({
          rank,
          size,
          generation,
          timeoutMs: Math.ceil(Math.min(deadline.leftMs, 2 ** 32 - 1)),
          processId: process.pid,
          processNonce: PROCESS_NONCE,
          hostHash: hostHash(env),
          hostName: hostname().slice(0, 255),
          listenHost: peers.address.host,
          listenPort: peers.address.port,
        });
        await proveToListener(fresh, identity, { secret, role: ROLE_CHECK_IN, timeoutMs: deadline.leftMs });
      });
    } catch (error) {
      peers?.close(new TuttiError('internalError', 'The bootstrap did not start.'));
      throw mistake ?? error;
    } finally {
      releaseRoot();
    }
    return Bootstrap.#awaitWelcome(socket, peers!, {
      options,
      launch,
      deadline,
      signal,
      mistake,
      rootName: formatSocketAddress(address),
    });
  }

  static #awaitWelcome(
    socket: Socket,
    peers: PeerConnections,
    {
      options,
      launch,
      deadline,
      signal,
      mistake,
      rootName,
    }: {
      options: BootstrapOptions;
      launch: LaunchEnvironment | undefined;
      deadline: Deadline;
      signal: AbortSignal;
      mistake: TuttiError | undefined;
      rootName: string;
    },
  ): Promise<Bootstrap> {
    return new Promise((resolve, reject) => {
      let bootstrap: Bootstrap | undefined;
      let settled = false;
      const settle = (): void => {
        settled = true;
        cancelTimer();
        signal.removeEventListener('abort', onAbort);
        connection.release();
      };
      const fail = (error: Error): void => {
        if (settled) return;
        settle();
        connection.destroy('initialisation failed');
        peers.close(new TuttiError('internalError', 'The bootstrap did not start.'));
        reject(error);
      };
      const maxBytes = mistake === undefined ? maxFromRootBytes(options.size) : 64 * 1024;
      const connection = new ControlConnection(socket, maxBytes, {
        onMessage: (payload) => {
          const message = decodeFromRoot(payload);
          if (bootstrap !== undefined) bootstrap.#receive(message);
          else if (message.type === 'welcome') {
            bootstrap = new Bootstrap({ options, launch, welcome: message, connection, peers, rootName });
            settle();
            resolve(bootstrap);
          } else if (message.type === 'refused') fail(toTuttiError(message.error));
          else throw new TuttiError('remoteError', `a ${message.type} message came before the welcome`);
        },
        onClosed: (reason) => {
          if (bootstrap !== undefined) bootstrap.#rootClosed(reason);
          else {
            fail(
              mistake ??
                new TuttiError(
                  'remoteError',
                  `The root at ${rootName} was lost during initialisation: ${reason}. Does the process that made the unique id still run?`,
                ),
            );
          }
        },
      });
      connection.hold();
      const onAbort = (): void => fail(signal.reason);
      const cancelTimer = startTimer(deadline.leftMs + ANSWER_GRACE_MS, () =>
        fail(
          mistake ??
            new TuttiError(
              'timeout',
              `The root at ${rootName} did not answer within ${formatDuration(deadline.totalMs)}; is its process stopped or busy?`,
            ),
        ),
      );
      signal.addEventListener('abort', onAbort);
      if (signal.aborted) onAbort();
    });
  }

  #receive(message: FromRoot): void {
    switch (message.type) {
      case 'gathered':
        this.#takePending(message.ticket)?.resolve([...message.parts]);
        return;
      case 'failed':
        this.#takePending(message.ticket)?.reject(toTuttiError(message.error));
        return;
      case 'lost':
        this.#peerLost(message.rank, message.reason);
        return;
      case 'left': {
        const { rank } = message;
        if (rank === this.rootRank) this.#rootLeft = true;
        this.#peers.peerGone(
          rank,
          new TuttiError('remoteError', `Rank ${rank} has closed its communicator.`, { rank }),
        );
        return;
      }
      case 'aborted': {
        const { rank, reason } = message;
        if (rank === this.rootRank) this.#rootLeft = true;
        this.#abortedBy ??= { rank, reason };
        this.#failAll(new TuttiError('remoteError', `Rank ${rank} aborted: ${reason}`, { rank }));
        for (const listener of this.#abortListeners) queueMicrotask(() => listener(rank, reason));
        return;
      }
      default:
        throw new TuttiError('remoteError', `a ${message.type} message came while running`);
    }
  }

  #takePending(ticket: number): PendingOperation | undefined {
    const pending = this.#pending.get(ticket);
    this.#pending.delete(ticket);
    return pending;
  }

  #peerLost(rank: number, reason: string): void {
    if (this.#lost.has(rank)) return;
    this.#lost.set(rank, reason);
    this.#peers.peerGone(rank, new TuttiError('remoteError', `Rank ${rank} was lost: ${reason}.`, { rank }));
    for (const listener of this.#peerLostListeners) queueMicrotask(() => listener(rank, reason));
  }

  #rootClosed(reason: string): void {
    if (this.#failure !== undefined) return;
    const place = this.rootRank >= 0 ? `rank ${this.rootRank}, ${this.#rootName}` : this.#rootName;
    const options = this.rootRank >= 0 ? { rank: this.rootRank } : {};
    if (this.#rootLeft) {
      this.#failOperations(
        new TuttiError(
          'remoteError',
          `The root (${place}) has closed its communicator; control operations are over.`,
          options,
        ),
      );
      return;
    }
    this.#failOperations(new TuttiError('remoteError', `The root (${place}) was lost: ${reason}.`, options));
    this.#peerLost(this.rootRank, reason);
  }

  /** Ends what needs the root; direct connections to other ranks still work. */
  #failOperations(error: TuttiError): void {
    this.#failure ??= error;
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const operation of pending) operation.reject(error);
  }

  #failAll(error: TuttiError): void {
    this.#failOperations(error);
    this.#peers.close(error);
  }

  /**
   * Every participant brings `bytes` (lengths may differ) and gets those of all, in rank order.
   * @param label what this is for; all participants must give the same, so that diverging programs are noticed
   * @throws TuttiError timeout (names the missing ranks), remoteError (a participant died, left or aborted),
   * invalidUsage (labels differ; names both), invalidArgument
   */
  async allGather(bytes: Uint8Array, label: string, options: GatherOptions = {}): Promise<Uint8Array[]> {
    const { timeoutMs = this.#timeoutMs } = options;
    checkTimeout(timeoutMs);
    const among = this.#participants(options.among);
    const limit = maxContributionBytes(among.length === 0 ? this.size : among.length);
    if (bytes.length > limit) {
      throw new TuttiError(
        'invalidArgument',
        `Control operation '${label}' was given ${bytes.length} bytes; at most ${limit} are allowed. Use a collective for data.`,
      );
    }
    if (this.#failure !== undefined) throw this.#failure;
    const group = among.join(',');
    const sequence = this.#sequences.get(group) ?? 0;
    this.#sequences.set(group, (sequence + 1) >>> 0);
    const ticket = this.#nextTicket++ >>> 0;
    this.#connection.hold();
    let cancelTimer = (): void => {};
    try {
      return await new Promise<Uint8Array[]>((resolve, reject) => {
        this.#pending.set(ticket, { resolve, reject });
        cancelTimer = startTimer(timeoutMs + ANSWER_GRACE_MS, () => {
          this.#pending.delete(ticket);
          const message = `Control operation '${label}': the root at ${this.#rootName} did not answer within ${formatDuration(timeoutMs)}; is its process stopped or busy?`;
          reject(new TuttiError('timeout', message, this.rootRank >= 0 ? { rank: this.rootRank } : {}));
        });
        this.#connection.send(
          encodeToRoot({
            type: 'contribute',
            ticket,
            sequence,
            timeoutMs: Math.ceil(Math.min(timeoutMs, 2 ** 32 - 1)),
            label,
            among,
            bytes,
          }),
        );
      });
    } finally {
      cancelTimer();
      this.#connection.release();
    }
  }

  /** Ascending ranks, or empty for all. */
  #participants(among: readonly number[] | undefined): number[] {
    if (among === undefined) return [];
    const ranks = [...new Set(among)].sort((left, right) => left - right);
    const wrong = ranks.find((rank) => !Number.isInteger(rank) || rank < 0 || rank >= this.size);
    if (wrong !== undefined) {
      throw new TuttiError('invalidArgument', `among holds ${wrong}; ranks are 0 to ${this.size - 1}.`);
    }
    if (!ranks.includes(this.rank)) {
      throw new TuttiError(
        'invalidArgument',
        `among (${ranks.join(', ')}) does not hold the calling rank ${this.rank}.`,
      );
    }
    return ranks.length === this.size ? [] : ranks;
  }

  /** Resolves when all participants have called it. Errors as `allGather`. */
  async barrier(label: string, options: GatherOptions = {}): Promise<void> {
    await this.allGather(new Uint8Array(0), label, options);
  }

  /**
   * The bytes of rank `root` (a rank of the communicator), at all participants; other ranks' `bytes` are ignored.
   * Errors as `allGather`.
   */
  async broadcast(
    bytes: Uint8Array,
    root: number,
    label: string,
    options: GatherOptions = {},
  ): Promise<Uint8Array> {
    const among = this.#participants(options.among);
    const index =
      among.length === 0 ? (Number.isInteger(root) && root < this.size ? root : -1) : among.indexOf(root);
    if (index < 0) {
      throw new TuttiError('invalidArgument', `root is ${root}; it must be one of the participating ranks.`);
    }
    // The root is part of the label: ranks that disagree about it must not get different bytes.
    const parts = await this.allGather(
      root === this.rank ? bytes : new Uint8Array(0),
      `${label} (broadcast from rank ${root})`,
      options,
    );
    return parts[index]!;
  }

  /**
   * A TCP connection to another rank whose both ends know the secret. Both ranks call it for each other with
   * the same purpose, in any order and at any time; calls with one purpose are matched in order.
   * The socket is paused, unref'ed, and its errors are swallowed (`close` reports them); it belongs to the caller.
   * @throws TuttiError timeout, remoteError (the peer died, left or aborted), invalidArgument
   */
  async peerConnection(peer: number, purpose: string, options: OperationOptions = {}): Promise<Socket> {
    const { timeoutMs = this.#timeoutMs } = options;
    checkTimeout(timeoutMs);
    const member = this.members[peer];
    if (member === undefined || peer === this.rank) {
      throw new TuttiError(
        'invalidArgument',
        `peer is ${peer}; it must be a rank from 0 to ${this.size - 1} other than the calling rank ${this.rank}.`,
      );
    }
    if (purpose.length > MAX_PURPOSE_CHARACTERS) {
      throw new TuttiError(
        'invalidArgument',
        `purpose has ${purpose.length} characters, at most ${MAX_PURPOSE_CHARACTERS} are allowed.`,
      );
    }
    return this.#peers.request(member, purpose, timeoutMs);
  }

  /**
   * A key of 32 bytes for connections that a transport makes itself: the same at all ranks of this communicator,
   * different for every purpose, and of no use to find the secret.
   */
  deriveKey(purpose: string): Uint8Array {
    return createHmac('sha256', this.#secret).update(`tutti ${purpose} ${this.#generation}`).digest();
  }

  /**
   * Calls back when a rank's connection breaks without a goodbye, for losses in the past too.
   * Rank -1 stands for the root where that is no rank. Returns the function that ends it.
   */
  onPeerLost(listener: PeerLostListener): () => void {
    this.#peerLostListeners.add(listener);
    for (const [rank, reason] of this.#lost) queueMicrotask(() => listener(rank, reason));
    return () => this.#peerLostListeners.delete(listener);
  }

  /** Calls back when another rank aborts, also if it did already. Returns the function that ends it. */
  onAbort(listener: AbortListener): () => void {
    this.#abortListeners.add(listener);
    const past = this.#abortedBy;
    if (past !== undefined) queueMicrotask(() => listener(past.rank, past.reason));
    return () => this.#abortListeners.delete(listener);
  }

  /** Tells all ranks to stop: everything pending fails here and there. Resolves when the message is sent. */
  abort(reason: string): Promise<void> {
    return this.#leave(
      { type: 'abort', reason },
      new TuttiError('remoteError', `This rank (${this.rank}) aborted: ${reason}`, { rank: this.rank }),
    );
  }

  /**
   * Leaves with a goodbye, so that nobody takes it for a death; pending operations fail. May be called twice.
   */
  close(): Promise<void> {
    return this.#leave(
      { type: 'goodbye' },
      new TuttiError('invalidUsage', `The communicator of rank ${this.rank} is closed.`, { rank: this.rank }),
    );
  }

  #leave(
    farewell: { type: 'goodbye' } | { type: 'abort'; reason: string },
    error: TuttiError,
  ): Promise<void> {
    if (this.#closing === undefined) {
      this.#failAll(error);
      this.#failure = error;
      this.#connection.send(encodeToRoot(farewell));
      this.#connection.hold();
      this.#closing = this.#connection.end(GOODBYE_MS).finally(() => this.#connection.release());
    }
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** What is wrong with rank and size by themselves; the other ranks are told before it is thrown. */
function mistakeOf(rank: number, size: number): TuttiError | undefined {
  if (size < 1 || size > MAX_RANKS) {
    return new TuttiError('invalidArgument', `size is ${size}; it must be from 1 to ${MAX_RANKS}.`, { rank });
  }
  if (rank < 0 || rank >= size) {
    return new TuttiError(
      'invalidArgument',
      `rank is ${rank}; for size ${size} it must be from 0 to ${size - 1}.`,
      { rank },
    );
  }
  return undefined;
}

/** Where this rank listens for others: where it reaches the root from, unless told otherwise. */
function listenHost(
  toRoot: Socket,
  rootHost: string,
  advertise: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): string {
  if (advertise !== undefined) return advertise;
  const choose = (): string => bindableAddress(chooseBootstrapInterface(listNetworkInterfaces(), env));
  if ((env.NCCL_SOCKET_IFNAME?.length ?? 0) > 1) return choose();
  const local = (toRoot.localAddress ?? '').replace(/^::ffff:/, '');
  if (local === '' || /^fe80:/i.test(local)) return choose();
  return isLoopback(local) && !isLoopback(rootHost) ? choose() : local;
}

export type { Member, WireError };

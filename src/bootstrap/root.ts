/**
 * The root of a unique id: the TCP end that every rank comes to first, and the hub of control messages after.
 *
 * A root made for a unique id serves exactly one communicator and then ends. A root made by a launcher
 * (`tutti run`, or rank 0 of a job under MPI or Slurm) serves any number: the k-th communicator that a process
 * takes from its environment has generation k, and every generation is a session of its own.
 * The root lives in the process that made it and never keeps that process alive.
 */
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { AuthenticatedListener } from './authenticated-listener.js';
import { type CheckIn, decodeCheckIn } from './control-message.js';
import { ROLE_CHECK_IN } from './handshake.js';
import { RootSession } from './root-session.js';
import { formatSocketAddress, type SocketAddress } from './socket-address.js';

/** Random number of this process; a rank that shows it to the root lives in the root's process. */
export const PROCESS_NONCE: bigint = randomBytes(8).readBigUInt64LE(0);

/** Sessions that a launcher's root keeps; a guard against a run-away loop, far above any real job. */
const MAX_SESSIONS = 4096;

export interface RootOptions {
  host: string;
  port: number;
  secret: Uint8Array;
  /** Serve one communicator per generation rather than one in all (default false). */
  reusable?: boolean;
  /** Stop listening when the last session has ended well (default true). */
  closeWhenIdle?: boolean;
  handshakeTimeoutMs?: number;
}

export class Root {
  #listener: AuthenticatedListener | undefined;
  readonly #reusable: boolean;
  readonly #closeWhenIdle: boolean;
  readonly #sessions = new Map<number, RootSession>();
  /** Sessions that run, and ranks of this process that are on their way to one. */
  #users = 0;
  #failed = false;
  #closed = false;

  private constructor(reusable: boolean, closeWhenIdle: boolean) {
    this.#reusable = reusable;
    this.#closeWhenIdle = closeWhenIdle;
  }

  /** @throws TuttiError systemError when the address cannot be used */
  static async start({ reusable = false, closeWhenIdle = true, ...options }: RootOptions): Promise<Root> {
    const root = new Root(reusable, closeWhenIdle);
    root.#listener = await AuthenticatedListener.listen({
      ...options,
      role: ROLE_CHECK_IN,
      onAdmitted: (identity, socket) => root.#admit(identity, socket),
    });
    return root;
  }

  get address(): SocketAddress {
    return this.#listener!.address;
  }

  get closed(): boolean {
    return this.#closed;
  }

  #admit(identity: Uint8Array, socket: Socket): void {
    let checkIn: CheckIn;
    try {
      checkIn = decodeCheckIn(identity);
    } catch {
      socket.destroy();
      return;
    }
    const key = this.#reusable ? checkIn.generation : 0;
    let session = this.#sessions.get(key);
    if (session === undefined) {
      if (this.#closed || this.#sessions.size >= MAX_SESSIONS) {
        socket.destroy();
        return;
      }
      this.#users++;
      session = new RootSession(PROCESS_NONCE, formatSocketAddress(this.address), (failed) =>
        this.#sessionOver(failed),
      );
      this.#sessions.set(key, session);
    }
    session.checkIn(checkIn, socket);
  }

  /** After a failed start the root stays, so that ranks which come late learn why at once. */
  #sessionOver(failed: boolean): void {
    this.#failed ||= failed;
    this.release();
  }

  /** Keeps an idle root open until `release`: a rank of this process is about to come. */
  retain(): void {
    this.#users++;
  }

  release(): void {
    this.#users--;
    if (this.#users === 0 && !this.#failed && this.#closeWhenIdle) this.close();
  }

  /** Stops listening. Sessions that run go on until their ranks leave, unless `cut`. */
  close({ cut = false }: { cut?: boolean } = {}): void {
    if (!this.#closed) {
      this.#closed = true;
      void this.#listener?.close();
    }
    if (cut) for (const session of this.#sessions.values()) session.close();
  }
}

/**
 * Mutual proof that both ends of a connection know the secret of the unique id.
 *
 *     connector                                   listener
 *       HELLO  magic, version, role, nonce C  ->
 *                                             <-  CHALLENGE  nonce L
 *       PROOF  HMAC(secret, "connector" H C I), identity I  ->
 *                                             <-  ACCEPTED  HMAC(secret, "listener" H C I)   or REFUSED
 *
 * H and C are the HELLO and CHALLENGE payloads, so a proof fits one connection only; the two labels keep a
 * proof from being sent back to its author. The connector proves itself first, so a stranger who connects
 * learns nothing. The identity (rank, purpose, ...) is covered by the proof. The secret never travels.
 * Limits: nothing is encrypted, and bytes after the handshake are not authenticated; the control network is
 * trusted not to rewrite packets, as in NCCL.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Socket } from 'node:net';
import { TuttiError } from '../errors/tutti-error.js';
import { startTimer } from './deadline.js';
import { encodeFrame, FrameParser } from './frame.js';

/** What a connection is for; part of HELLO, so a rank never takes a peer's socket for the root's. */
export const ROLE_CHECK_IN = 1;
export const ROLE_PEER = 2;
export type Role = typeof ROLE_CHECK_IN | typeof ROLE_PEER;

/** Bytes of the shared secret, of a nonce and of a proof (SHA-256). */
export const SECRET_BYTES = 32;
/** Longest handshake payload: a proof and an identity. All that a stranger can make us keep. */
export const MAX_HANDSHAKE_BYTES = 1024;
/** Longest identity a connector may send. */
export const MAX_IDENTITY_BYTES = 900;
/** Raised whenever the handshake or the control messages change. */
export const PROTOCOL_VERSION = 1;

const MAGIC = new TextEncoder().encode('tuttiCtl');

const HELLO = 1;
const CHALLENGE = 2;
const PROOF = 3;
const ACCEPTED = 4;
const REFUSED = 5;

const REFUSED_SECRET = 1;
const REFUSED_VERSION = 2;

/**
 * Why a handshake failed.
 * - `closed`: the connection ended early (perhaps the other end is overloaded: worth another try)
 * - `timeout`: the other end was silent
 * - `secret`: the other end did not accept our proof
 * - `impostor`: the other end could not prove that it knows the secret
 * - `stranger`: the other end does not speak this protocol, or another version
 */
export type HandshakeFailureKind = 'closed' | 'timeout' | 'secret' | 'impostor' | 'stranger';

export class HandshakeFailure extends Error {
  override readonly name = 'HandshakeFailure';
  readonly kind: HandshakeFailureKind;

  constructor(kind: HandshakeFailureKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** Reads single frames of a socket for the time of the handshake, then gives the socket back paused. */
class HandshakeChannel {
  readonly #socket: Socket;
  readonly #parser = new FrameParser(MAX_HANDSHAKE_BYTES);
  readonly #cancelTimer: () => void;
  #waiting: { resolve(frame: Uint8Array): void; reject(error: Error): void } | undefined;
  #failure: HandshakeFailure | undefined;

  constructor(socket: Socket, timeoutMs: number, keepAlive: boolean) {
    this.#socket = socket;
    this.#cancelTimer = startTimer(
      timeoutMs,
      () => this.#fail(new HandshakeFailure('timeout', 'the handshake was not finished in time')),
      { keepAlive },
    );
    socket.on('data', this.#onData);
    socket.on('error', this.#onError);
    socket.on('close', this.#onClose);
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#parser.push(chunk);
    this.#deliver();
  };

  readonly #onError = (error: Error): void => {
    this.#fail(new HandshakeFailure('closed', error.message));
  };

  readonly #onClose = (): void => {
    this.#fail(new HandshakeFailure('closed', 'the connection was closed'));
  };

  #fail(failure: HandshakeFailure): void {
    this.#failure ??= failure;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.reject(this.#failure);
  }

  #deliver(): void {
    if (this.#waiting === undefined) {
      // Nobody may send ahead in this protocol, so what arrives unasked is never more than a frame or two.
      if (this.#parser.bufferedBytes > 2 * MAX_HANDSHAKE_BYTES) this.#socket.pause();
      return;
    }
    let frame: Uint8Array | undefined;
    try {
      frame = this.#parser.next();
    } catch (error) {
      this.#fail(new HandshakeFailure('stranger', error instanceof Error ? error.message : String(error)));
      return;
    }
    if (frame === undefined) return;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting.resolve(frame);
  }

  read(): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      if (this.#failure !== undefined) this.#fail(this.#failure);
      else {
        this.#deliver();
        this.#socket.resume();
      }
    });
  }

  write(...parts: Uint8Array[]): void {
    if (this.#failure === undefined) this.#socket.write(encodeFrame(...parts));
  }

  /** Ends the reading: the socket is paused and bytes after the handshake are put back into it. */
  release(): void {
    this.#cancelTimer();
    const socket = this.#socket;
    socket.off('data', this.#onData);
    socket.off('error', this.#onError);
    socket.off('close', this.#onClose);
    socket.pause();
    const rest = this.#parser.drain();
    if (rest.length > 0 && !socket.destroyed && !socket.readableEnded) socket.unshift(rest);
  }
}

function proof(
  secret: Uint8Array,
  label: 'connector' | 'listener',
  hello: Uint8Array,
  challenge: Uint8Array,
  identity: Uint8Array,
): Uint8Array {
  return createHmac('sha256', secret)
    .update(`tutti ${label}\0`)
    .update(hello)
    .update(challenge)
    .update(identity)
    .digest();
}

function sameBytes(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && timingSafeEqual(left, right);
}

function stranger(what: string): HandshakeFailure {
  return new HandshakeFailure('stranger', what);
}

export interface HandshakeOptions {
  secret: Uint8Array;
  role: Role;
  timeoutMs: number;
  /** The pending handshake keeps the process alive (default true). */
  keepAlive?: boolean;
}

/**
 * Connecting side. Afterwards the listener knows `identity` and both know that the other has the secret.
 * @throws HandshakeFailure
 */
export async function proveToListener(
  socket: Socket,
  identity: Uint8Array,
  { secret, role, timeoutMs, keepAlive = true }: HandshakeOptions,
): Promise<void> {
  if (identity.length > MAX_IDENTITY_BYTES) {
    throw new TuttiError(
      'internalError',
      `An identity of ${identity.length} bytes exceeds ${MAX_IDENTITY_BYTES}.`,
    );
  }
  const channel = new HandshakeChannel(socket, timeoutMs, keepAlive);
  try {
    const hello = Buffer.concat([
      Uint8Array.of(HELLO),
      MAGIC,
      Uint8Array.of(PROTOCOL_VERSION, role),
      randomBytes(SECRET_BYTES),
    ]);
    channel.write(hello);
    const challenge = await channel.read();
    if (challenge[0] === REFUSED) throw refusal(challenge);
    if (challenge[0] !== CHALLENGE || challenge.length !== 1 + SECRET_BYTES) {
      throw stranger('the answer is not a challenge of this protocol');
    }
    channel.write(Uint8Array.of(PROOF), proof(secret, 'connector', hello, challenge, identity), identity);
    const answer = await channel.read();
    if (answer[0] === REFUSED) throw refusal(answer);
    if (answer[0] !== ACCEPTED) throw stranger('the answer is neither acceptance nor refusal');
    if (!sameBytes(answer.subarray(1), proof(secret, 'listener', hello, challenge, identity))) {
      throw new HandshakeFailure('impostor', 'the listener does not know the secret');
    }
  } finally {
    channel.release();
  }
}

function refusal(frame: Uint8Array): HandshakeFailure {
  if (frame[1] === REFUSED_SECRET) return new HandshakeFailure('secret', 'the secret was refused');
  return stranger(
    `protocol version ${PROTOCOL_VERSION} was refused by a listener of version ${frame[2] ?? 0}`,
  );
}

/**
 * Listening side. Returns the identity of a connector that knows the secret.
 * @throws HandshakeFailure; the caller destroys the socket
 */
export async function admitConnector(
  socket: Socket,
  { secret, role, timeoutMs, keepAlive = true }: HandshakeOptions,
): Promise<Uint8Array> {
  const channel = new HandshakeChannel(socket, timeoutMs, keepAlive);
  try {
    const hello = await channel.read();
    const magicEnd = 1 + MAGIC.length;
    if (hello[0] !== HELLO || !sameBytes(hello.subarray(1, magicEnd), MAGIC)) throw stranger('no greeting');
    if (hello[magicEnd] !== PROTOCOL_VERSION) {
      channel.write(Uint8Array.of(REFUSED, REFUSED_VERSION, PROTOCOL_VERSION));
      throw stranger(`protocol version ${hello[magicEnd]}`);
    }
    if (hello[magicEnd + 1] !== role || hello.length !== magicEnd + 2 + SECRET_BYTES) {
      throw stranger('a greeting of another kind');
    }
    const challenge = Buffer.concat([Uint8Array.of(CHALLENGE), randomBytes(SECRET_BYTES)]);
    channel.write(challenge);
    const frame = await channel.read();
    const identity = frame.subarray(1 + SECRET_BYTES);
    if (frame[0] !== PROOF || frame.length < 1 + SECRET_BYTES) throw stranger('no proof');
    const expected = proof(secret, 'connector', hello, challenge, identity);
    if (!sameBytes(frame.subarray(1, 1 + SECRET_BYTES), expected)) {
      channel.write(Uint8Array.of(REFUSED, REFUSED_SECRET));
      throw new HandshakeFailure('impostor', 'the connector does not know the secret');
    }
    channel.write(Uint8Array.of(ACCEPTED), proof(secret, 'listener', hello, challenge, identity));
    return identity;
  } finally {
    channel.release();
  }
}

/**
 * Connecting with patience: the other end may not listen yet.
 *
 * After failure k the next try comes k * NCCL_SOCKET_RETRY_SLEEP_MSEC later, and failure number
 * NCCL_SOCKET_RETRY_CNT + 1 is the last (NCCL 2.30: 34 retries, 100 ms, 59.5 s in all). On top of that
 * everything ends at the caller's deadline. A connection that is cut while it proves itself counts as such a
 * failure too: the other end may have been short of descriptors.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { TuttiError } from '../errors/tutti-error.js';
import { ignoreSocketErrors } from './authenticated-listener.js';
import { type Deadline, formatDuration, startTimer } from './deadline.js';
import { HandshakeFailure } from './handshake.js';
import { formatSocketAddress, type SocketAddress } from './socket-address.js';

export interface RetryRule {
  /** Failures that are followed by another try. */
  count: number;
  /** Unit of the growing pause, ms. */
  sleepMs: number;
}

export const DEFAULT_RETRY_RULE: RetryRule = { count: 34, sleepMs: 100 };

/** System errors that may go away: the machine or the process is still starting, or a signal came between. */
const RETRIED = new Set([
  'EINTR',
  'EAGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ECONNREFUSED',
  'ECONNRESET',
  'EAI_AGAIN',
]);

function nonNegativeInteger(text: string | undefined, fallback: number): number {
  return text !== undefined && /^\d+$/.test(text.trim()) ? Number(text) : fallback;
}

/** The rule of NCCL_SOCKET_RETRY_CNT and NCCL_SOCKET_RETRY_SLEEP_MSEC. */
export function readRetryRule(env: Readonly<Record<string, string | undefined>>): RetryRule {
  return {
    count: nonNegativeInteger(env.NCCL_SOCKET_RETRY_CNT, DEFAULT_RETRY_RULE.count),
    sleepMs: nonNegativeInteger(env.NCCL_SOCKET_RETRY_SLEEP_MSEC, DEFAULT_RETRY_RULE.sleepMs),
  };
}

function openSocket({ host, port }: SocketAddress): Socket {
  return connect({ host, port, noDelay: true });
}

function connectOnce(
  { address, open = openSocket, signal }: DialOptions,
  timeoutMs: number,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = open(address);
    ignoreSocketErrors(socket);
    const finish = (error?: Error): void => {
      cancelTimer();
      signal.removeEventListener('abort', onAbort);
      socket.off('error', finish);
      if (error === undefined) resolve(socket);
      else {
        socket.destroy();
        reject(error);
      }
    };
    const onAbort = (): void => finish(signal.reason);
    const cancelTimer = startTimer(timeoutMs, () =>
      finish(Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' })),
    );
    signal.addEventListener('abort', onAbort);
    socket.once('error', finish);
    socket.once('connect', () => finish());
  });
}

export interface DialOptions {
  address: SocketAddress;
  /** What is there, for messages: `the root`, `rank 3`. */
  name: string;
  deadline: Deadline;
  retry: RetryRule;
  /** Ends the dialing; its reason is thrown. */
  signal: AbortSignal;
  /** Begins a connection, for callers with wishes of their own (default: a socket with no delay). */
  open?: (address: SocketAddress) => Socket;
}

function isRetried(error: unknown): boolean {
  if (error instanceof HandshakeFailure) return error.kind === 'closed';
  if (error instanceof AggregateError) return error.errors.every(isRetried);
  return RETRIED.has((error as NodeJS.ErrnoException).code ?? '');
}

function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ');
  return error instanceof Error ? error.message : String(error);
}

/**
 * Connects and lets `greet` prove itself on the connection, again and again as the rule says.
 * @throws TuttiError timeout (deadline), remoteError (retries used up, or an impostor), invalidArgument (the
 * secret was refused), systemError (the address is unusable); or the signal's reason
 */
export async function dial(options: DialOptions, greet: (socket: Socket) => Promise<void>): Promise<Socket> {
  const { address, name, deadline, retry, signal } = options;
  const where = `${name} at ${formatSocketAddress(address)}`;
  const sentenceStart = `${where[0]!.toUpperCase()}${where.slice(1)}`;
  for (let failures = 0; ; ) {
    signal.throwIfAborted();
    let socket: Socket | undefined;
    let failure: unknown;
    try {
      socket = await connectOnce(options, deadline.leftMs);
      const cut = (): void => void socket?.destroy();
      signal.addEventListener('abort', cut);
      try {
        await greet(socket);
        signal.throwIfAborted();
      } finally {
        signal.removeEventListener('abort', cut);
      }
      return socket;
    } catch (error) {
      socket?.destroy();
      signal.throwIfAborted();
      failure = error;
    }
    if (!isRetried(failure)) throw explain(failure, where, deadline);
    failures++;
    const attempts = `${failures} ${failures === 1 ? 'attempt' : 'attempts'}`;
    if (failures > retry.count) {
      throw new TuttiError(
        'remoteError',
        `${sentenceStart} was not reached in ${attempts}: ${reasonOf(failure)}.`,
        {
          cause: failure,
        },
      );
    }
    const pauseMs = failures * retry.sleepMs;
    if (deadline.leftMs <= pauseMs) {
      await pause(deadline.leftMs, signal);
      throw new TuttiError(
        'timeout',
        `${sentenceStart} was not reached within ${formatDuration(deadline.totalMs)} (${attempts}): ${reasonOf(failure)}.`,
        { cause: failure },
      );
    }
    await pause(pauseMs, signal);
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {});
  signal.throwIfAborted();
}

function explain(failure: unknown, where: string, deadline: Deadline): unknown {
  const sentenceStart = `${where[0]!.toUpperCase()}${where.slice(1)}`;
  if (TuttiError.is(failure)) return failure;
  if (failure instanceof HandshakeFailure) {
    switch (failure.kind) {
      case 'secret':
        return new TuttiError(
          'invalidArgument',
          `The secret of the unique id was refused by ${where}: the id belongs to another communicator or was altered on its way.`,
          { cause: failure },
        );
      case 'impostor':
        return new TuttiError(
          'remoteError',
          `${sentenceStart} does not know the secret of the unique id: another process took its port.`,
          { cause: failure },
        );
      case 'stranger':
        return new TuttiError(
          'remoteError',
          `${sentenceStart} is not the expected process (${failure.message}): another program listens there, or its version of tutti differs.`,
          { cause: failure },
        );
      default:
        return new TuttiError(
          'timeout',
          `${sentenceStart} accepted the connection but did not answer within ${formatDuration(deadline.totalMs)}; is its process stopped or busy?`,
          { cause: failure },
        );
    }
  }
  return new TuttiError('systemError', `${sentenceStart} cannot be reached: ${reasonOf(failure)}.`, {
    cause: failure,
  });
}

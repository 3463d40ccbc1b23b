/**
 * A TCP listener that hands out only connections whose other end knows the secret.
 *
 * Everybody on the network can reach the port, so what has not proved itself yet is held on a short leash:
 * a time limit per handshake, no more of its bytes than one read gives, and a bounded number of them at once (beyond it
 * the oldest is dropped: an honest rank needs milliseconds, so the oldest is the likeliest stranger; an
 * honest rank that is hit tries again). The listener never keeps the process alive.
 */
import { createServer, type Server, type Socket } from 'node:net';
import { TuttiError } from '../errors/tutti-error.js';
import { admitConnector, type Role } from './handshake.js';
import { formatSocketAddress, type SocketAddress } from './socket-address.js';

/** Time a connection has to prove itself, ms. Generous for a rank that shares a core with many others. */
export const HANDSHAKE_TIMEOUT_MS = 10_000;
/** Connections that may be proving themselves at the same time. */
export const MAX_PENDING_HANDSHAKES = 1024;
/** Backlog asked from the system (it caps it); thousands of ranks connect at the same moment. */
const LISTEN_BACKLOG = 16384;

export interface AuthenticatedListenerOptions {
  /** Address to bind to; empty for all addresses of the machine. */
  host: string;
  /** 0 lets the system choose. */
  port: number;
  secret: Uint8Array;
  role: Role;
  handshakeTimeoutMs?: number;
  /** A connection that proved itself; the socket is paused, unref'ed and has an error listener. */
  onAdmitted(identity: Uint8Array, socket: Socket): void;
}

/** `close` follows every error, so errors of a parked socket need no reaction of their own. */
export function ignoreSocketErrors(socket: Socket): void {
  socket.on('error', () => {});
}

export class AuthenticatedListener {
  readonly #server: Server;
  readonly #options: AuthenticatedListenerOptions;
  readonly #pending = new Set<Socket>();
  readonly address: SocketAddress;

  private constructor(server: Server, options: AuthenticatedListenerOptions, port: number) {
    this.#server = server;
    this.#options = options;
    this.address = { host: options.host, port };
    server.on('connection', (socket) => void this.#admit(socket));
    // Running out of descriptors is reported here; accepting goes on when some are free again.
    server.on('error', () => {});
    server.unref();
  }

  /** @throws TuttiError systemError when the address cannot be used */
  static listen(options: AuthenticatedListenerOptions): Promise<AuthenticatedListener> {
    const server = createServer({ noDelay: true });
    return new Promise((resolve, reject) => {
      server.once('error', (error: NodeJS.ErrnoException) => {
        const where = formatSocketAddress(options);
        const remedy =
          error.code === 'EADDRINUSE'
            ? 'another process uses this port; choose another one'
            : error.code === 'EADDRNOTAVAIL'
              ? 'this machine does not have that address; give one of its own'
              : error.message;
        reject(new TuttiError('systemError', `Cannot listen at ${where}: ${remedy}.`, { cause: error }));
      });
      const where = { port: options.port, backlog: LISTEN_BACKLOG };
      server.listen(options.host === '' ? where : { ...where, host: options.host }, () => {
        server.removeAllListeners('error');
        const bound = server.address();
        const port = typeof bound === 'object' && bound !== null ? bound.port : options.port;
        resolve(new AuthenticatedListener(server, options, port));
      });
    });
  }

  async #admit(socket: Socket): Promise<void> {
    ignoreSocketErrors(socket);
    socket.unref();
    if (this.#pending.size >= MAX_PENDING_HANDSHAKES) {
      const [oldest] = this.#pending;
      oldest?.destroy();
    }
    this.#pending.add(socket);
    socket.once('close', () => this.#pending.delete(socket));
    const { secret, role, handshakeTimeoutMs = HANDSHAKE_TIMEOUT_MS } = this.#options;
    let identity: Uint8Array;
    try {
      identity = await admitConnector(socket, {
        secret,
        role,
        timeoutMs: handshakeTimeoutMs,
        keepAlive: false,
      });
    } catch {
      // Strangers are none of the communicator's business. A refusal that was written still goes out.
      socket.destroySoon();
      return;
    } finally {
      this.#pending.delete(socket);
    }
    this.#options.onAdmitted(identity, socket);
  }

  /** Stops listening and drops what has not proved itself. Admitted connections are not touched. */
  close(): Promise<void> {
    for (const socket of this.#pending) socket.destroy();
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      // Server.close calls back only after every accepted connection has ended; admitted ones live on.
      if (!this.#server.listening) resolve();
    });
  }
}

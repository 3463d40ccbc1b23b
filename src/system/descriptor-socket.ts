/**
 * File descriptors for other processes of the host: a datagram socket in the abstract name space of unix(7), through which
 * they travel as ancillary data (SCM_RIGHTS).
 *
 * Sending does not wait for the receiver's thread: what was sent lies in its socket, and is found there as soon as a
 * message that came another way tells of it. It needs no permission to look into the other process, which the ways around
 * sockets do (pidfd_getfd(2)), and containers withhold. Anybody of the host can send something here, so each parcel
 * carries a random token that the other message repeats; what has no known token is thrown away in the end.
 */
import { randomBytes } from 'node:crypto';
import { TuttiError } from '../errors/tutti-error.js';
import { type Libc, libc, libcProblem, systemCallError } from './libc.js';

/** AF_UNIX; SOCK_DGRAM with SOCK_NONBLOCK and SOCK_CLOEXEC; SOL_SOCKET and SCM_RIGHTS. Alike on x86-64 and arm64. */
const UNIX = 1;
const DATAGRAM = 2 | 0o4000 | 0o2000000;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;

/** MSG_NOSIGNAL, and MSG_CMSG_CLOEXEC. */
const NO_SIGNAL = 0x4000;
const CLOSE_ON_EXEC = 0x40000000;

const EAGAIN = 11;
const ENOBUFS = 105;

/** Descriptors of one datagram: SCM_MAX_FD. */
const MOST_OF_DATAGRAM = 253;

/** Descriptors that wait here for a message that tells of them; strangers could send for ever. */
const MOST_KEPT = 4096;

/** Where things lie in the memory that the system reads: struct msghdr, struct iovec, struct sockaddr_un, and text. */
const AT = { header: 0, vector: 64, name: 128, text: 256, control: 512, end: 2048 } as const;
const NAME_BYTES = 110;
const TEXT_BYTES = 128;
const CONTROL_BYTES = AT.end - AT.control;
/** struct cmsghdr without its data. */
const CONTROL_HEADER_BYTES = 16;

/** `token` and the number of the datagram among those of a parcel. */
const PARCEL = /^([0-9a-f]{32}) (\d{1,6})$/;

interface Parcel {
  readonly number: number;
  readonly fds: readonly number[];
}

export class DescriptorSocket {
  /** What others send to. */
  readonly name: string;
  readonly #c: Libc;
  readonly #fd: number;
  readonly #view = new DataView(new ArrayBuffer(AT.end));
  readonly #bytes = new Uint8Array(this.#view.buffer);
  readonly #address: number;
  /** What has come and was not asked for yet, by token. */
  readonly #kept = new Map<string, Parcel[]>();
  #closed = false;

  /** Throws `systemError` where the system has no such sockets, or they cannot be reached from here. */
  constructor() {
    const c = libc();
    if (c === null) throw new TuttiError('systemError', `cannot pass descriptors on: ${libcProblem()}`);
    this.#c = c;
    this.#address = c.addressOf(this.#bytes);
    this.#fd = c.socket(UNIX, DATAGRAM, 0);
    if (this.#fd < 0) throw systemCallError('socket (AF_UNIX)', c.errno());
    this.name = `tutti-${randomBytes(12).toString('hex')}`;
    const bytes = this.#writeName(this.name);
    if (c.bind(this.#fd, this.#address + AT.name, bytes) < 0) {
      const number = c.errno();
      c.close(this.#fd);
      throw systemCallError('binding a unix socket', number);
    }
  }

  /** A token for descriptors that belong together. */
  static token(): string {
    return randomBytes(16).toString('hex');
  }

  /** Closes a descriptor that Node has not opened. */
  static closeDescriptor(descriptor: number): void {
    libc()?.close(descriptor);
  }

  /** The bytes of a struct sockaddr_un whose name begins with a zero byte. */
  #writeName(name: string): number {
    const text = new TextEncoder().encode(name);
    this.#view.setUint16(AT.name, UNIX, true);
    this.#view.setUint8(AT.name + 2, 0);
    this.#bytes.set(text.subarray(0, NAME_BYTES - 3), AT.name + 3);
    return 3 + text.length;
  }

  #writeHeader(nameBytes: number, textBytes: number, controlBytes: number): void {
    const view = this.#view;
    const pointer = (at: number, to: number) => view.setBigUint64(at, BigInt(this.#address + to), true);
    const size = (at: number, bytes: number) => view.setBigUint64(at, BigInt(bytes), true);
    pointer(AT.vector, AT.text);
    size(AT.vector + 8, textBytes);
    if (nameBytes === 0) size(AT.header, 0);
    else pointer(AT.header, AT.name);
    size(AT.header + 8, nameBytes);
    pointer(AT.header + 16, AT.vector);
    size(AT.header + 24, 1);
    pointer(AT.header + 32, AT.control);
    size(AT.header + 40, controlBytes);
    size(AT.header + 48, 0);
  }

  /**
   * Sends descriptors from number `from` on, as far as there is room; they stay open here. Returns how many of all are sent
   * then: fewer than there are when the receiver's socket is full for now. Throws `systemError` when it cannot be.
   */
  send(to: string, token: string, fds: readonly number[], from = 0): number {
    let sent = from;
    while (sent < fds.length) {
      const now = fds.slice(sent, sent + MOST_OF_DATAGRAM);
      if (!this.#sendDatagram(to, `${token} ${sent}`, now)) break;
      sent += now.length;
    }
    return sent;
  }

  #sendDatagram(to: string, content: string, fds: readonly number[]): boolean {
    const text = new TextEncoder().encode(content);
    this.#bytes.set(text, AT.text);
    const view = this.#view;
    view.setBigUint64(AT.control, BigInt(CONTROL_HEADER_BYTES + 4 * fds.length), true);
    view.setInt32(AT.control + 8, SOL_SOCKET, true);
    view.setInt32(AT.control + 12, SCM_RIGHTS, true);
    for (const [i, fd] of fds.entries()) view.setInt32(AT.control + CONTROL_HEADER_BYTES + 4 * i, fd, true);
    const controlBytes = CONTROL_HEADER_BYTES + 8 * Math.ceil(fds.length / 2);
    this.#writeHeader(this.#writeName(to), text.length, controlBytes);
    if (this.#c.sendmsg(this.#fd, this.#address + AT.header, NO_SIGNAL) >= 0) return true;
    const number = this.#c.errno();
    if (number === EAGAIN || number === ENOBUFS) return false;
    throw systemCallError(`passing ${fds.length} descriptors on`, number);
  }

  /** Takes in what has come. */
  #drain(): void {
    for (;;) {
      this.#writeHeader(0, TEXT_BYTES, CONTROL_BYTES);
      const bytes = this.#c.recvmsg(this.#fd, this.#address + AT.header, CLOSE_ON_EXEC);
      if (bytes < 0) return;
      const fds = this.#received();
      const content = new TextDecoder('latin1').decode(this.#bytes.subarray(AT.text, AT.text + bytes));
      const [, token, number] = PARCEL.exec(content) ?? [];
      if (token === undefined || this.#keptCount() + fds.length > MOST_KEPT) {
        this.#closeAll(fds);
        continue;
      }
      const parcels = this.#kept.get(token) ?? [];
      parcels.push({ number: Number(number), fds });
      this.#kept.set(token, parcels);
    }
  }

  /** The descriptors of the datagram that has just come. */
  #received(): number[] {
    const view = this.#view;
    const end = AT.control + Number(view.getBigUint64(AT.header + 40, true));
    const fds: number[] = [];
    for (let at: number = AT.control; at + CONTROL_HEADER_BYTES <= end; ) {
      const length = Number(view.getBigUint64(at, true));
      if (length < CONTROL_HEADER_BYTES || at + length > end) break;
      if (view.getInt32(at + 8, true) === SOL_SOCKET && view.getInt32(at + 12, true) === SCM_RIGHTS) {
        for (let i = at + CONTROL_HEADER_BYTES; i + 4 <= at + length; i += 4)
          fds.push(view.getInt32(i, true));
      }
      at += 8 * Math.ceil(length / 8);
    }
    return fds;
  }

  #keptCount(): number {
    let count = 0;
    for (const parcels of this.#kept.values()) for (const { fds } of parcels) count += fds.length;
    return count;
  }

  #closeAll(fds: Iterable<number>): void {
    for (const fd of fds) this.#c.close(fd);
  }

  /** Calls back with the descriptors of a token, in the order of their sending, and closes them. Throws when some lack. */
  receive<T>(token: string, count: number, use: (fds: readonly number[]) => T): T {
    this.#drain();
    const parcels = (this.#kept.get(token) ?? []).sort((a, b) => a.number - b.number);
    this.#kept.delete(token);
    const fds = parcels.flatMap((parcel) => parcel.fds);
    try {
      if (fds.length !== count) {
        throw new TuttiError('systemError', `${fds.length} of ${count} descriptors have come`);
      }
      return use(fds);
    } finally {
      this.#closeAll(fds);
    }
  }

  /** Closes the socket and what has come and was not asked for. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#drain();
    for (const parcels of this.#kept.values()) for (const { fds } of parcels) this.#closeAll(fds);
    this.#kept.clear();
    this.#c.close(this.#fd);
  }
}

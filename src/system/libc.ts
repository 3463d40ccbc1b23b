/**
 * The few functions of the C library that Node does not offer: mapping memory, memory files, futexes.
 *
 * They are reached through koffi, an optional dependency: where it is absent, or where the system is not
 * Linux, `libc()` is null and `libcProblem()` says why; callers then do without. Addresses travel as numbers
 * (user addresses are below 2^53 on every Linux we run on), because converting them from BigInt or from
 * Buffers costs more than the calls themselves.
 */
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { getSystemErrorMap } from 'node:util';
import { TuttiError } from '../errors/tutti-error.js';

/** What this module uses of koffi's interface. */
interface Koffi {
  load(path: string | null): { func(definition: string): (...parameters: never[]) => unknown };
  errno(): number;
}

/** `prot` and `flags` of mmap(2); the values are the same on x86-64 and arm64. */
export const MAP = {
  protNone: 0x0,
  protRead: 0x1,
  protWrite: 0x2,
  shared: 0x01,
  private: 0x02,
  fixed: 0x10,
  anonymous: 0x20,
  noReserve: 0x4000,
} as const;

/** Flags of memfd_create(2), commands of fcntl(2) and seals, modes of fallocate(2). */
export const MEMFD = {
  closeOnExec: 0x1,
  allowSealing: 0x2,
  addSeals: 1033,
  getSeals: 1034,
  sealSeal: 0x1,
  sealShrink: 0x2,
  sealGrow: 0x4,
  keepSize: 0x1,
  punchHole: 0x2,
} as const;

/** Operations of futex(2) without the private flag: waiters may be in other processes. */
const FUTEX_WAIT = 0;
const FUTEX_WAKE = 1;

/** Wakes everybody: the largest count that futex(2) takes. */
const EVERYBODY = 0x7fff_ffff;

/** Option of prctl(2): PR_SET_PTRACER. */
const SET_PTRACER = 0x59616d61;

/** Numbers of system calls that the C library has no wrapper for. */
const FUTEX_NUMBER: Readonly<Record<string, number>> = { x64: 202, arm64: 98 };

export interface Libc {
  /** Address of the mapping, or -1 (see errno). Offset and length in bytes. */
  mmap(address: number, length: number, prot: number, flags: number, fd: number, offset: number): number;
  munmap(address: number, length: number): number;
  /** A file that lives in memory only and has no name in any file system. Descriptor or -1. */
  memfdCreate(name: string, flags: number): number;
  /** Closes a descriptor that `memfdCreate` made (Node warns about descriptors that it did not open). */
  close(fd: number): number;
  fcntl(fd: number, command: number, value: number): number;
  /** Makes space for a range: 0 or an errno value (it does not set errno). */
  posixFallocate(fd: number, offset: number, length: number): number;
  /** Changes a range, for instance frees its pages (MEMFD.punchHole). 0 or -1. */
  fallocate(fd: number, mode: number, offset: number, length: number): number;
  /** Lets another runnable thread have the processor. */
  schedYield(): number;
  /** Copies between addresses; the caller guarantees that both ranges are mapped. */
  memcpy(to: number, from: number, bytes: number): number;
  /**
   * Copies from another process, process_vm_readv(2): `local` and `remote` are addresses of one struct iovec each. Bytes,
   * fewer than asked for where the rest cannot be read, or -1 (see errno).
   */
  processRead(pid: number, local: number, remote: number): number;
  /** Lets a process and what it starts read this one's memory where the system asks for permission. 0 or -1. */
  allowTracer(pid: number): number;
  /**
   * Sleeps while the 32-bit word at `address` holds `expected`, until woken or until the relative time of the
   * timespec at `timespec` (0: for ever) has passed. 0 when woken, -1 otherwise (see errno).
   */
  futexWait(address: number, expected: number, timespec: number): number;
  /** Wakes all sleepers of the word, in whatever process; their number. */
  futexWake(address: number): number;
  /** A socket, or -1. Addresses below are those of the structures that the calls take. */
  socket(domain: number, type: number, protocol: number): number;
  bind(fd: number, name: number, bytes: number): number;
  /** Bytes, or -1. `message` is the address of a struct msghdr. */
  sendmsg(fd: number, message: number, flags: number): number;
  recvmsg(fd: number, message: number, flags: number): number;
  /** Where a buffer's first byte lies. Only shared and Wasm memory stays there. */
  addressOf(buffer: ArrayBufferView): number;
  /**
   * Reads from or writes to a descriptor by way of `count` structs iovec at an address. Bytes, or -1 (see errno); what
   * they say of sockets that do not block is EAGAIN.
   */
  readv(fd: number, vectors: number, count: number): number;
  writev(fd: number, vectors: number, count: number): number;
  /** Sleeps until one of `count` structs pollfd at an address has something, or the milliseconds have passed. */
  poll(descriptors: number, count: number, timeoutMs: number): number;
  /** Error number of the last failed call on this thread. */
  errno(): number;
}

let loaded: Libc | null | undefined;
let problem = '';

/** The C library, or null where it cannot be reached (not Linux, no koffi, an unknown processor). */
export function libc(): Libc | null {
  if (loaded === undefined) {
    try {
      loaded = load();
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
      loaded = null;
    }
  }
  return loaded;
}

/** Why `libc()` is null; empty when it is not. */
export function libcProblem(): string {
  return libc() === null ? problem : '';
}

function load(): Libc {
  if (process.platform !== 'linux')
    throw new Error(`no shared windows on ${process.platform}, only on Linux`);
  if (process.env.TUTTI_NO_FFI === '1') throw new Error('TUTTI_NO_FFI=1 forbids calls into the C library');
  const futexNumber = FUTEX_NUMBER[process.arch];
  if (futexNumber === undefined) {
    throw new Error(`processor ${process.arch} is not supported (only ${Object.keys(FUTEX_NUMBER)})`);
  }
  let koffi: Koffi;
  try {
    koffi = createRequire(import.meta.url)('koffi') as Koffi;
  } catch (error) {
    const text = error instanceof Error ? error.message.split('\n')[0] : String(error);
    throw new Error(`the optional package koffi cannot be loaded (${text}); \`npm install koffi\` adds it`);
  }
  const library = koffi.load(null);
  const declare = <F>(definition: string): F => library.func(definition) as F;
  const syscall = declare<(number: number, ...parameters: number[]) => number>(
    'intptr_t syscall(intptr_t number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f)',
  );
  const memcpyFrom = declare<(to: ArrayBufferView, from: number, bytes: number) => number>(
    'intptr_t memcpy(void *to, uintptr_t from, size_t bytes)',
  );
  const processRead = declare<
    (pid: number, local: number, count: number, remote: number, others: number, flags: number) => number
  >(
    'intptr_t process_vm_readv(int pid, uintptr_t local, unsigned long count, uintptr_t remote, unsigned long others, unsigned long flags)',
  );
  const prctl = declare<(option: number, a: number, b: number, c: number, d: number) => number>(
    'int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)',
  );
  return {
    mmap: declare(
      'intptr_t mmap(uintptr_t address, size_t length, int prot, int flags, int fd, int64_t offset)',
    ),
    munmap: declare('int munmap(uintptr_t address, size_t length)'),
    memfdCreate: declare('int memfd_create(const char *name, unsigned int flags)'),
    close: declare('int close(int fd)'),
    fcntl: declare('int fcntl(int fd, int command, intptr_t value)'),
    posixFallocate: declare('int posix_fallocate(int fd, int64_t offset, int64_t length)'),
    fallocate: declare('int fallocate(int fd, int mode, int64_t offset, int64_t length)'),
    schedYield: declare('int sched_yield()'),
    memcpy: declare('intptr_t memcpy(uintptr_t to, uintptr_t from, size_t bytes)'),
    processRead: (pid, local, remote) => processRead(pid, local, 1, remote, 1, 0),
    socket: declare('int socket(int domain, int type, int protocol)'),
    bind: declare('int bind(int fd, uintptr_t name, unsigned int bytes)'),
    sendmsg: declare('intptr_t sendmsg(int fd, uintptr_t message, int flags)'),
    recvmsg: declare('intptr_t recvmsg(int fd, uintptr_t message, int flags)'),
    allowTracer: (pid) => prctl(SET_PTRACER, pid, 0, 0, 0),
    futexWait: (address, expected, timespec) =>
      syscall(futexNumber, address, FUTEX_WAIT, expected >>> 0, timespec, 0, 0),
    futexWake: (address) => syscall(futexNumber, address, FUTEX_WAKE, EVERYBODY, 0, 0, 0),
    // Copying nothing returns the destination, which is where the view begins.
    addressOf: (buffer) => memcpyFrom(buffer, 0, 0),
    readv: declare('intptr_t readv(int fd, uintptr_t vectors, int count)'),
    writev: declare('intptr_t writev(int fd, uintptr_t vectors, int count)'),
    poll: declare('int poll(uintptr_t descriptors, unsigned long count, int timeout)'),
    errno: () => koffi.errno(),
  };
}

/** Name and meaning of an error number, as in `ENOSPC: no space left on device`. */
export function errnoText(number: number): string {
  const [name, meaning] = getSystemErrorMap().get(-number) ?? [];
  if (name !== undefined) return `${name}: ${meaning}`;
  const known = Object.entries(constants.errno).find(([, value]) => value === number);
  return known === undefined ? `error number ${number}` : known[0];
}

/** The error for a failed call: `what` says which call on what, `remedy` what the user can do. */
export function systemCallError(what: string, number: number, remedy = ''): TuttiError {
  const tail = remedy === '' ? '' : `; ${remedy}`;
  return new TuttiError('systemError', `${what} failed with ${errnoText(number)}${tail}`);
}

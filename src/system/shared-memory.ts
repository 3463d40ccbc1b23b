/**
 * Memory that several processes of one host map: the segment and its announcement.
 *
 * A segment is a memory file (memfd): it has no name in any file system, so nothing is left behind however its
 * owner ends. Peers reach it through `/proc/PID/fd/N` of the owner. Where they cannot see the owner's /proc
 * entry (containers that share /dev/shm only), the method `posix` makes a file in /dev/shm instead, which the
 * owner unlinks as soon as every peer has it open. Before a peer maps anything it checks that the file is the
 * announced one: device and inode, size, owner, mode 0600, and 16 random bytes at its start. Memory files are
 * sealed against shrinking, because a mapped page that vanishes kills the process that touches it.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  statfsSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { TuttiError } from '../errors/tutti-error.js';
import { errnoText, type Libc, libc, libcProblem, MAP, MEMFD, systemCallError } from './libc.js';
import { isAlive, ownIdentity } from './process-liveness.js';

/** Bytes of the random mark at the start of every segment. */
export const COOKIE_BYTES = 16;

/** Where named segments live. */
const SHM_FOLDER = '/dev/shm';

export type SegmentMethod = 'memfd' | 'posix';

/** Everything a peer needs to find and check a segment. Plain data; inode numbers are decimal strings. */
export interface SegmentAnnouncement {
  readonly method: SegmentMethod;
  readonly pid: number;
  /** Descriptor number in the owner. */
  readonly fd: number;
  readonly dev: string;
  readonly ino: string;
  /** Bytes. */
  readonly size: number;
  /** 16 random bytes in hexadecimal. */
  readonly cookie: string;
  /** File name in /dev/shm, method `posix` only. */
  readonly name?: string;
}

/** The announcement as UTF-8 JSON, for control messages. */
export function encodeAnnouncement(announcement: SegmentAnnouncement): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(announcement));
}

/** Reads what `encodeAnnouncement` wrote; anything else is an `invalidArgument`. */
export function decodeAnnouncement(bytes: Uint8Array): SegmentAnnouncement {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new TuttiError('invalidArgument', 'a segment announcement is not JSON text', { cause });
  }
  return checkAnnouncement(value);
}

const FORMS: Readonly<Record<string, (value: unknown) => boolean>> = {
  method: (value) => value === 'memfd' || value === 'posix',
  pid: (value) => Number.isSafeInteger(value) && (value as number) > 0,
  fd: (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  dev: (value) => typeof value === 'string' && /^\d{1,20}$/.test(value),
  ino: (value) => typeof value === 'string' && /^\d{1,20}$/.test(value),
  size: (value) => Number.isSafeInteger(value) && (value as number) >= COOKIE_BYTES,
  cookie: (value) => typeof value === 'string' && /^[0-9a-f]{32}$/.test(value),
  // The name becomes part of a path: no slash, no dot.
  name: (value) =>
    value === undefined || (typeof value === 'string' && /^tutti-[0-9a-z-]{1,80}$/.test(value)),
};

function checkAnnouncement(value: unknown): SegmentAnnouncement {
  if (typeof value !== 'object' || value === null) {
    throw new TuttiError('invalidArgument', `a segment announcement must be an object, not ${typeof value}`);
  }
  for (const [field, isValid] of Object.entries(FORMS)) {
    const found = (value as Record<string, unknown>)[field];
    if (!isValid(found)) {
      const text = JSON.stringify(found);
      throw new TuttiError('invalidArgument', `a segment announcement has no valid ${field}: ${text}`);
    }
  }
  const announcement = value as SegmentAnnouncement;
  if (announcement.method === 'posix' && announcement.name === undefined) {
    throw new TuttiError('invalidArgument', 'an announcement of method posix has no name');
  }
  return announcement;
}

export interface CreateOptions {
  /** Default: memfd, and posix where the kernel has no memory files. */
  method?: SegmentMethod;
}

export interface OpenOptions {
  /** User that must own the segment; default: the user of this process. */
  uid?: number;
}

/** Names of /dev/shm files that this thread has made and not unlinked yet. */
const named = new Set<string>();
let watchesExit = false;

function unlinkName(name: string): void {
  named.delete(name);
  try {
    unlinkSync(`${SHM_FOLDER}/${name}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

function unlinkAtExit(name: string): void {
  named.add(name);
  if (watchesExit) return;
  watchesExit = true;
  process.on('exit', () => {
    for (const left of [...named]) unlinkName(left);
  });
}

/** Removes files whose owner was killed before it could: the name says which process that was. */
function removeLeftovers(): void {
  const { namespace } = ownIdentity();
  const ours = namespaceNumber(namespace);
  for (const file of readdirSync(SHM_FOLDER)) {
    const match = /^tutti-(\d+)-(\d+)-(\d+)-[0-9a-f]+$/.exec(file);
    if (match === null || match[3] !== ours) continue;
    if (isAlive({ pid: Number(match[1]), startTime: Number(match[2]), namespace })) continue;
    try {
      unlinkSync(`${SHM_FOLDER}/${file}`);
    } catch {
      // Another user's, or another process was quicker.
    }
  }
}

function namespaceNumber(namespace: string): string {
  return /\d+/.exec(namespace)?.[0] ?? '0';
}

function requireLibc(what: string): Libc {
  const c = libc();
  if (c === null) throw new TuttiError('systemError', `cannot ${what}: ${libcProblem()}`);
  return c;
}

/** Free and total bytes of /dev/shm, as text for messages. */
function shmSpace(): string {
  try {
    const { bavail, blocks, bsize } = statfsSync(SHM_FOLDER);
    return `${bavail * bsize} of ${blocks * bsize} bytes are free there`;
  } catch {
    return 'its free space is unknown';
  }
}

export class SharedSegment {
  /** Descriptor of this process. */
  readonly fd: number;
  readonly size: number;
  readonly announcement: SegmentAnnouncement;
  /** True in the process (and thread) that made the segment. */
  readonly isOwner: boolean;
  #closed = false;

  private constructor(fd: number, announcement: SegmentAnnouncement, isOwner: boolean) {
    this.fd = fd;
    this.size = announcement.size;
    this.announcement = announcement;
    this.isOwner = isOwner;
  }

  /**
   * A new segment of so many bytes (a multiple of 4096), zero but for the cookie at its start. Pages take
   * memory when they are first touched; with method posix `reserve` must come before that. Throws `systemError`
   * when the system refuses.
   */
  static create(bytes: number, options: CreateOptions = {}): SharedSegment {
    if (!Number.isSafeInteger(bytes) || bytes <= 0 || bytes % 4096 !== 0) {
      throw new TuttiError('invalidArgument', `a segment of ${bytes} bytes: must be a multiple of 4096`);
    }
    const c = requireLibc('share memory between processes');
    if (options.method === 'posix') return SharedSegment.#createPosix(c, bytes);
    const file = c.memfdCreate('tutti', MEMFD.closeOnExec | MEMFD.allowSealing);
    if (file >= 0) return SharedSegment.#finish(c, adopt(c, file), bytes, 'memfd', undefined);
    const number = c.errno();
    if (options.method === undefined && errnoText(number).startsWith('ENOSYS')) {
      return SharedSegment.#createPosix(c, bytes);
    }
    throw systemCallError('memfd_create', number, 'the limit on open files (ulimit -n) may be too low');
  }

  static #createPosix(c: Libc, bytes: number): SharedSegment {
    removeLeftovers();
    const { pid, startTime, namespace } = ownIdentity();
    const random = randomBytes(8).toString('hex');
    const name = `tutti-${pid}-${startTime}-${namespaceNumber(namespace)}-${random}`;
    const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    let fd: number;
    try {
      fd = openSync(`${SHM_FOLDER}/${name}`, flags, 0o600);
    } catch (cause) {
      const text = cause instanceof Error ? cause.message : String(cause);
      throw new TuttiError('systemError', `cannot make ${SHM_FOLDER}/${name}: ${text}; ${shmSpace()}`, {
        cause,
      });
    }
    unlinkAtExit(name);
    return SharedSegment.#finish(c, fd, bytes, 'posix', name);
  }

  static #finish(
    c: Libc,
    fd: number,
    bytes: number,
    method: SegmentMethod,
    name: string | undefined,
  ): SharedSegment {
    try {
      fchmodSync(fd, 0o600);
      ftruncateSync(fd, bytes);
      if (method === 'posix') reserveSpace(c, fd, 0, 4096, bytes);
      const cookie = randomBytes(COOKIE_BYTES);
      writeSync(fd, cookie, 0, COOKIE_BYTES, 0);
      if (method === 'memfd') {
        const seals = MEMFD.sealShrink | MEMFD.sealGrow | MEMFD.sealSeal;
        if (c.fcntl(fd, MEMFD.addSeals, seals) < 0) throw systemCallError('sealing a memory file', c.errno());
      }
      const { dev, ino } = fstatSync(fd, { bigint: true });
      const announcement: SegmentAnnouncement = {
        method,
        pid: process.pid,
        fd,
        dev: String(dev),
        ino: String(ino),
        size: bytes,
        cookie: cookie.toString('hex'),
        ...(name === undefined ? {} : { name }),
      };
      return new SharedSegment(fd, announcement, true);
    } catch (cause) {
      closeSync(fd);
      if (name !== undefined) unlinkName(name);
      if (TuttiError.is(cause)) throw cause;
      const text = cause instanceof Error ? cause.message : String(cause);
      throw new TuttiError('systemError', `cannot make a shared segment of ${bytes} bytes: ${text}`, {
        cause,
      });
    }
  }

  /**
   * Opens a peer's segment after checking that it is the announced one. `systemError` when it cannot be
   * reached, `invalidArgument` when the announcement is malformed, `remoteError` when it does not match.
   */
  static open(announcement: SegmentAnnouncement, options: OpenOptions = {}): SharedSegment {
    checkAnnouncement(announcement);
    const c = requireLibc('map the memory of another process');
    const { method, pid, name, size, cookie } = announcement;
    const path = method === 'memfd' ? `/proc/${pid}/fd/${announcement.fd}` : `${SHM_FOLDER}/${name}`;
    const refuse = (why: string): never => {
      throw new TuttiError('remoteError', `refused the memory segment ${path} of process ${pid}: ${why}`);
    };
    const check = (stat: ReturnType<typeof statOf>): void => {
      if (!stat.isFile()) refuse('it is not a plain file');
      if (String(stat.dev) !== announcement.dev || String(stat.ino) !== announcement.ino) {
        refuse(`it is inode ${stat.dev}:${stat.ino}, announced ${announcement.dev}:${announcement.ino}`);
      }
      if (Number(stat.size) !== size) refuse(`it has ${stat.size} bytes, announced ${size}`);
      const uid = options.uid ?? process.geteuid?.() ?? 0;
      if (Number(stat.uid) !== uid) refuse(`it belongs to user ${stat.uid}, not to ${uid}`);
      const mode = Number(stat.mode) & 0o777;
      if (mode !== 0o600) refuse(`its mode is ${mode.toString(8)}, not 600: others could write to it`);
    };
    let fd: number;
    try {
      // Looking before opening: opening a pipe or a device by mistake could have effects.
      check(statOf(path));
      fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK | constants.O_NOCTTY);
    } catch (cause) {
      if (TuttiError.is(cause)) throw cause;
      const text = cause instanceof Error ? cause.message : String(cause);
      throw new TuttiError(
        'systemError',
        `cannot open the memory segment of process ${pid}: ${text}; the process may have ended, or run as ` +
          'another user or in another container',
        { cause },
      );
    }
    try {
      check(fstatSync(fd, { bigint: true }));
      if (method === 'memfd') {
        const seals = c.fcntl(fd, MEMFD.getSeals, 0);
        if (seals < 0 || (seals & MEMFD.sealShrink) === 0) refuse('it is not sealed against shrinking');
      }
      const found = Buffer.alloc(COOKIE_BYTES);
      readSync(fd, found, 0, COOKIE_BYTES, 0);
      if (found.toString('hex') !== cookie) refuse('its cookie is not the announced one');
    } catch (error) {
      closeSync(fd);
      throw error;
    }
    return new SharedSegment(fd, announcement, false);
  }

  /**
   * Takes memory for a range now, so that touching it cannot fail later. Needed with method posix, where
   * touching a page that /dev/shm has no room for kills the process; nothing to do for memory files.
   */
  reserve(offset: number, bytes: number): void {
    if (this.announcement.method === 'posix') {
      reserveSpace(requireLibc('reserve'), this.fd, offset, bytes, this.size);
    }
  }

  /** Gives the pages of a range back to the system (4096-byte multiples); they read as zero afterwards. */
  discard(offset: number, bytes: number): void {
    const c = requireLibc('discard');
    if (c.fallocate(this.fd, MEMFD.punchHole | MEMFD.keepSize, offset, bytes) < 0) {
      throw systemCallError(`giving back ${bytes} bytes of shared memory`, c.errno());
    }
  }

  /** Maps the first `bytes` of the segment at an address that the caller owns, replacing what was there. */
  mapAt(address: number, bytes: number): void {
    const c = requireLibc('map');
    const flags = MAP.shared | MAP.fixed;
    if (c.mmap(address, bytes, MAP.protRead | MAP.protWrite, flags, this.fd, 0) !== address) {
      throw systemCallError(`mapping ${bytes} bytes of shared memory`, c.errno(), mapRemedy);
    }
  }

  /** Takes the name out of /dev/shm (method posix): to be called when every peer has opened the segment. */
  unlink(): void {
    const { name } = this.announcement;
    if (this.isOwner && name !== undefined) unlinkName(name);
  }

  /** Closes the descriptor and unlinks the name. Mappings stay until they are replaced. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.unlink();
    closeSync(this.fd);
  }
}

const mapRemedy = 'the limit on mappings (sysctl vm.max_map_count) or on address space may be too low';

/** Puts fresh private memory over a range that the caller owns, so that stray accesses find zeros. */
export function mapAnonymous(address: number, bytes: number): void {
  const c = requireLibc('map');
  const flags = MAP.private | MAP.anonymous | MAP.fixed | MAP.noReserve;
  if (c.mmap(address, bytes, MAP.protRead | MAP.protWrite, flags, -1, 0) !== address) {
    throw systemCallError(`mapping ${bytes} bytes of private memory`, c.errno(), mapRemedy);
  }
}

/** Exchanges a raw descriptor for one that Node opened, and therefore closes when the thread is terminated. */
function adopt(c: Libc, raw: number): number {
  try {
    return openSync(`/proc/self/fd/${raw}`, 'r+');
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new TuttiError('systemError', `cannot reach memory files through /proc: ${text}`, { cause });
  } finally {
    c.close(raw);
  }
}

function statOf(path: string) {
  return statSync(path, { bigint: true });
}

function reserveSpace(c: Libc, fd: number, offset: number, bytes: number, total: number): void {
  const number = c.posixFallocate(fd, offset, bytes);
  if (number === 0) return;
  throw systemCallError(
    `reserving ${bytes} bytes in ${SHM_FOLDER} (at ${offset} of a segment of ${total}; ${shmSpace()})`,
    number,
    `enlarge ${SHM_FOLDER} (docker run --shm-size, or mount -o remount,size=...) or use fewer or smaller buffers`,
  );
}

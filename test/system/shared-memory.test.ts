import { fork } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import {
  decodeAnnouncement,
  encodeAnnouncement,
  type SegmentAnnouncement,
  SharedSegment,
} from '#src/system/shared-memory.js';

const opened: SharedSegment[] = [];

function keep(segment: SharedSegment): SharedSegment {
  opened.push(segment);
  return segment;
}

afterEach(() => {
  for (const segment of opened.splice(0)) segment.close();
});

/** Code and message of what the function throws. */
function refusal(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    return `${error.code}: ${error.message}`;
  }
  return 'nothing was thrown';
}

describe.skipIf(process.platform !== 'linux')('a shared segment', () => {
  it.each(['memfd', 'posix'] as const)('of method %s is the same memory for owner and opener', (method) => {
    const own = keep(SharedSegment.create(65536, { method }));
    const other = keep(SharedSegment.open(own.announcement));
    expect(other.fd).not.toBe(own.fd);
    writeSync(own.fd, 'hello', 4096);
    const found = Buffer.alloc(5);
    readSync(other.fd, found, 0, 5, 4096);
    expect(found.toString()).toBe('hello');
    expect(own.announcement).toMatchObject({ method, size: 65536, pid: process.pid });
  });

  it('as a memory file never appears in /dev/shm', () => {
    const before = readdirSync('/dev/shm').filter((name) => name.includes(`-${process.pid}-`));
    keep(SharedSegment.create(4096));
    expect(readdirSync('/dev/shm').filter((name) => name.includes(`-${process.pid}-`))).toEqual(before);
  });

  it('with a name loses it when told and at the latest when closed', () => {
    const first = keep(SharedSegment.create(4096, { method: 'posix' }));
    const path = `/dev/shm/${first.announcement.name}`;
    expect(existsSync(path)).toBe(true);
    first.unlink();
    expect(existsSync(path)).toBe(false);
    const second = SharedSegment.create(4096, { method: 'posix' });
    expect(existsSync(`/dev/shm/${second.announcement.name}`)).toBe(true);
    second.close();
    expect(existsSync(`/dev/shm/${second.announcement.name}`)).toBe(false);
  });

  it('does not lose its name because an opener unlinks or closes', () => {
    const own = keep(SharedSegment.create(4096, { method: 'posix' }));
    const other = SharedSegment.open(own.announcement);
    other.unlink();
    other.close();
    expect(existsSync(`/dev/shm/${own.announcement.name}`)).toBe(true);
  });

  it.each(['exit', 'kill'])('with a name is not left behind by a process that ends by %s', async (how) => {
    const child = fork(fileURLToPath(new URL('./segment-process.js', import.meta.url)), [how]);
    const [message] = await once(child, 'message');
    const path = `/dev/shm/${message as string}`;
    expect(existsSync(path)).toBe(true);
    if (how === 'kill') child.kill('SIGKILL');
    else child.send('go');
    await once(child, 'exit');
    // A killed process cannot clean up; the next one that makes a segment does it.
    if (how === 'kill') keep(SharedSegment.create(4096, { method: 'posix' }));
    expect(existsSync(path)).toBe(false);
  });

  it('says how much was asked for and what to do when /dev/shm is full', () => {
    const bytes = 2 ** 44;
    const own = keep(SharedSegment.create(bytes, { method: 'posix' }));
    expect(refusal(() => own.reserve(0, bytes))).toMatch(
      /^systemError: reserving 17592186044416 bytes in \/dev\/shm .*\d+ of \d+ bytes are free.*ENOSPC.*--shm-size/,
    );
  });

  it('gives pages back as zeros', () => {
    const own = keep(SharedSegment.create(131072));
    writeSync(own.fd, 'hello', 65536);
    own.discard(65536, 65536);
    const found = Buffer.alloc(5, 1);
    readSync(own.fd, found, 0, 5, 65536);
    expect([...found]).toEqual([0, 0, 0, 0, 0]);
  });

  it.each([0, -4096, 100, Number.NaN, 4096.5])('refuses a size of %d bytes', (bytes) => {
    expect(refusal(() => SharedSegment.create(bytes))).toMatch(/^invalidArgument: a segment of .* 4096/);
  });
});

describe.skipIf(process.platform !== 'linux')('opening a segment', () => {
  const own = () => keep(SharedSegment.create(65536));
  const change = (announcement: SegmentAnnouncement, fields: Partial<SegmentAnnouncement>) => () =>
    SharedSegment.open({ ...announcement, ...fields });

  it('is refused when the cookie is another', () => {
    const { announcement } = own();
    expect(refusal(change(announcement, { cookie: '0'.repeat(32) }))).toMatch(/^remoteError: .*cookie/);
  });

  it('is refused when the file is another inode, device or size', () => {
    const { announcement } = own();
    const { ino } = own().announcement;
    expect(refusal(change(announcement, { ino }))).toMatch(/^remoteError: .*announced \d+:\d+/);
    expect(refusal(change(announcement, { dev: '4242' }))).toMatch(/^remoteError: .*announced 4242:/);
    expect(refusal(change(announcement, { size: 4096 }))).toMatch(
      /^remoteError: .*65536 bytes, announced 4096/,
    );
  });

  it('is refused when the file belongs to another user', () => {
    const segment = own();
    if (process.geteuid?.() === 0) {
      chownSync(`/proc/self/fd/${segment.fd}`, 12345, 0);
      expect(refusal(() => SharedSegment.open(segment.announcement))).toMatch(/^remoteError: .*user 12345/);
    }
    expect(refusal(() => SharedSegment.open(segment.announcement, { uid: 54321 }))).toMatch(
      /^remoteError: .*belongs to user \d+, not to 54321/,
    );
  });

  it('is refused when others may write to the file', () => {
    const segment = own();
    chmodSync(`/proc/self/fd/${segment.fd}`, 0o666);
    expect(refusal(() => SharedSegment.open(segment.announcement))).toMatch(/^remoteError: .*mode is 666/);
  });

  it('is refused when the file is not sealed and could shrink under the mapping', () => {
    const named = keep(SharedSegment.create(4096, { method: 'posix' }));
    const { name: _, ...rest } = named.announcement;
    expect(refusal(() => SharedSegment.open({ ...rest, method: 'memfd' }))).toMatch(/^remoteError: .*sealed/);
  });

  it('is refused when the descriptor is no plain file', () => {
    const { announcement } = own();
    const fd = openSync('/dev/null', 'r');
    expect(refusal(change(announcement, { fd }))).toMatch(/^remoteError: .*not a plain file/);
    closeSync(fd);
  });

  it('says that the process may have ended when it has', () => {
    const { announcement } = own();
    const pid = 2 ** 22 + 1; // above the largest number that Linux gives out
    expect(refusal(change(announcement, { pid }))).toMatch(/^systemError: .*process 4194305.*may have ended/);
  });

  it('is refused when a name was unlinked', () => {
    const named = keep(SharedSegment.create(4096, { method: 'posix' }));
    unlinkSync(`/dev/shm/${named.announcement.name}`);
    expect(refusal(() => SharedSegment.open(named.announcement))).toMatch(/^systemError: cannot open/);
  });

  it('leaves no descriptor open when it is refused', () => {
    const { announcement } = own();
    const count = () => readdirSync('/proc/self/fd').length;
    const before = count();
    for (let i = 0; i < 20; i++) refusal(change(announcement, { cookie: 'f'.repeat(32) }));
    expect(count()).toBe(before);
  });
});

describe('an announcement', () => {
  const digits = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String);
  const arbitrary: fc.Arbitrary<SegmentAnnouncement> = fc.record({
    method: fc.constant('memfd' as const),
    pid: fc.integer({ min: 1, max: 4194304 }),
    fd: fc.nat(),
    dev: digits,
    ino: digits,
    size: fc.maxSafeNat().filter((size) => size >= 16),
    cookie: fc
      .uint8Array({ minLength: 16, maxLength: 16 })
      .map((bytes) => Buffer.from(bytes).toString('hex')),
  });

  it('survives encoding and decoding', () => {
    fc.assert(
      fc.property(arbitrary, (announcement) => {
        expect(decodeAnnouncement(encodeAnnouncement(announcement))).toEqual(announcement);
      }),
    );
  });

  it('with any field missing or of a wrong form is refused by its name', () => {
    const wrong = [undefined, null, -1, 1.5, '', 'x', '../a', {}, []];
    fc.assert(
      fc.property(
        arbitrary,
        fc.constantFrom('method', 'pid', 'fd', 'dev', 'ino', 'size', 'cookie'),
        fc.constantFrom(...wrong),
        (announcement, field, value) => {
          const text = new TextEncoder().encode(JSON.stringify({ ...announcement, [field]: value }));
          expect(refusal(() => decodeAnnouncement(text))).toContain(`has no valid ${field}`);
        },
      ),
    );
  });

  it.each(['tutti-../../etc/passwd', '../x', 'other-1', 'tutti-1.2'])('refuses the file name %s', (name) => {
    const value = {
      method: 'posix',
      pid: 1,
      fd: 3,
      dev: '1',
      ino: '1',
      size: 4096,
      cookie: 'a'.repeat(32),
      name,
    };
    const text = new TextEncoder().encode(JSON.stringify(value));
    expect(refusal(() => decodeAnnouncement(text))).toContain('has no valid name');
  });

  it('that is random bytes is refused', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        expect(refusal(() => decodeAnnouncement(bytes))).toMatch(/^invalidArgument/);
      }),
    );
  });
});

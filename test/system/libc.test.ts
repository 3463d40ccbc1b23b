import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { errnoText, libc, libcProblem, MAP, systemCallError } from '#src/system/libc.js';

const repository = new URL('../..', import.meta.url);

describe.skipIf(libc() === null)('the C library', () => {
  const c = libc()!;

  it('tells where a buffer lies and copies between addresses', () => {
    const memory = new Uint8Array(new SharedArrayBuffer(64));
    memory.set([1, 2, 3]);
    const address = c.addressOf(memory);
    expect(c.addressOf(memory.subarray(8))).toBe(address + 8);
    c.memcpy(address + 16, address, 3);
    expect([...memory.subarray(16, 19)]).toEqual([1, 2, 3]);
  });

  it('maps, and reports failures as -1 with an error number', () => {
    const flags = MAP.private | MAP.anonymous;
    const address = c.mmap(0, 65536, MAP.protRead | MAP.protWrite, flags, -1, 0);
    expect(address).toBeGreaterThan(0);
    expect(c.munmap(address, 65536)).toBe(0);
    expect(c.mmap(0, 0, MAP.protRead, flags, -1, 0)).toBe(-1);
    expect(errnoText(c.errno())).toBe('EINVAL: invalid argument');
  });

  it('returns from a futex at once when the word has changed, and in time when nobody wakes', () => {
    const words = new Int32Array(new SharedArrayBuffer(64));
    const address = c.addressOf(words);
    words[0] = 5;
    expect(c.futexWait(address, 4, 0)).toBe(-1);
    expect(errnoText(c.errno())).toMatch(/^EAGAIN/);
    words[4] = 0; // seconds
    words[6] = 20_000_000; // nanoseconds
    const start = performance.now();
    expect(c.futexWait(address, 5, address + 16)).toBe(-1);
    expect(errnoText(c.errno())).toMatch(/^ETIMEDOUT/);
    expect(performance.now() - start).toBeGreaterThan(15);
    expect(c.futexWake(address)).toBe(0);
  });
});

describe('without the C library', () => {
  it('nothing throws, and the reason is told', () => {
    const program = `import('#src/system/libc.js').then((m) => console.log(m.libc(), m.libcProblem()))`;
    const env = { ...process.env, TUTTI_NO_FFI: '1' };
    const run = spawnSync(process.execPath, ['-e', program], { cwd: repository, env, encoding: 'utf8' });
    expect(run.stderr).toBe('');
    expect(run.stdout).toBe('null TUTTI_NO_FFI=1 forbids calls into the C library\n');
  });

  it('the reason is empty where it is there', () => {
    expect(libcProblem() === '').toBe(libc() !== null);
  });
});

describe('a failed call', () => {
  it('becomes an error with the meaning of its number and a remedy', () => {
    const error = systemCallError('mapping', 12, 'use less');
    expect(error.code).toBe('systemError');
    expect(error.message).toBe('mapping failed with ENOMEM: not enough memory; use less');
    expect(systemCallError('mapping', 99999).message).toBe('mapping failed with error number 99999');
  });
});

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CubinCache, cacheFolder } from '#src/device/cuda/cubin-cache.js';
import { CUDA } from '#src/device/cuda/cuda-error.js';
import { CudaDriver } from '#src/device/cuda/driver.js';
import { KernelLibrary } from '#src/device/cuda/kernel-library.js';
import { FakeDriver } from './fake-driver.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tutti-cubin-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const KEY = { ptx: '.version 7.0', driver: 13000, capability: '9.0' };

describe('the cache of machine code', () => {
  it('gives back what was kept, for the very same text, driver and GPU', () => {
    const cache = new CubinCache(folder);
    expect(cache.get(KEY)).toBeUndefined();
    cache.put(KEY, Uint8Array.of(1, 2, 3));
    expect([...new CubinCache(folder).get(KEY)!]).toEqual([1, 2, 3]);
    for (const other of [{ ptx: 'x' }, { driver: 12080 }, { capability: '8.0' }]) {
      expect(cache.get({ ...KEY, ...other })).toBeUndefined();
    }
  });

  it('takes damaged, cut and empty files for none', () => {
    const cache = new CubinCache(folder);
    cache.put(KEY, new Uint8Array(1000).fill(5));
    const [name] = readdirSync(folder);
    const path = join(folder, name!);
    const good = readFileSync(path);
    for (let at = 0; at < good.length; at += 97) {
      const bad = Buffer.from(good);
      bad[at]! ^= 1;
      writeFileSync(path, bad);
      expect(cache.get(KEY), `byte ${at}`).toBeUndefined();
      writeFileSync(path, good.subarray(0, at));
      expect(cache.get(KEY), `cut at ${at}`).toBeUndefined();
    }
    writeFileSync(path, good);
    expect(cache.get(KEY)).toHaveLength(1000);
  });

  it('leaves no drafts behind and does without a folder that cannot be used', () => {
    new CubinCache(folder).put(KEY, Uint8Array.of(1));
    expect(readdirSync(folder)).toHaveLength(1);
    const file = join(folder, 'file');
    writeFileSync(file, '');
    const cache = new CubinCache(join(file, 'below'));
    cache.put(KEY, Uint8Array.of(1));
    expect(cache.get(KEY)).toBeUndefined();
    // What stands where the file should be.
    const blocked = join(folder, readdirSync(folder).find((name) => name.endsWith('.cubin'))!);
    rmSync(blocked);
    mkdirSync(join(blocked, 'in the way'), { recursive: true });
    new CubinCache(folder).put(KEY, Uint8Array.of(1));
    expect(readdirSync(folder).sort()).toEqual(['file', blocked.slice(folder.length + 1)].sort());
  });

  it('lies where the environment says, or nowhere', () => {
    expect(cacheFolder({ TUTTI_CACHE_DIR: '/a' })).toBe('/a');
    expect(cacheFolder({ TUTTI_CACHE_DIR: '' })).toBeUndefined();
    expect(cacheFolder({ XDG_CACHE_HOME: '/x' })).toBe('/x/tutti');
    const cache = new CubinCache(undefined as never);
    expect(cache).toBeInstanceOf(CubinCache);
  });
});

describe('kernels', () => {
  function open(fake = new FakeDriver()) {
    const driver = new CudaDriver(fake);
    const device = driver.device(0);
    device.retain();
    return { fake, device, library: new KernelLibrary(device, driver.version, new CubinCache(folder)) };
  }
  const text = { name: 'add', ptx: '.visible .entry add' };

  it('are compiled once per machine and loaded once per context', () => {
    const first = open();
    expect(first.library.has('k')).toBe(false);
    const fn = first.library.kernel('k', () => text);
    expect(first.library.kernel('k', () => text)).toBe(fn);
    expect([first.fake.links, first.fake.loads]).toEqual([1, 1]);
    first.device.release();
    expect(first.library.isOpen).toBe(false);
    expect(first.fake.leaks).toEqual([]);
    const second = open();
    second.library.kernel('k', () => text);
    expect([second.fake.links, second.fake.loads]).toEqual([0, 1]);
  });

  it('are compiled again when the driver refuses what is on disk', () => {
    const { library, fake } = open();
    new CubinCache(folder).put({ ptx: text.ptx, driver: 13000, capability: '9.0' }, Buffer.from('of old'));
    library.kernel('k', () => text);
    expect([fake.links, fake.loads]).toEqual([1, 1]);
  });

  it('that do not compile are named, and nothing is left behind', () => {
    const { library, fake, device } = open();
    fake.failures.set('cuLinkAddData', { code: CUDA.unsupportedPtxVersion });
    expect(() => library.kernel('k', () => text)).toThrow(
      /cannot compile the kernel add for GPU 0 \(Fake GPU\): CUDA_ERROR_UNSUPPORTED_PTX_VERSION.*install a newer NVIDIA driver/,
    );
    device.release();
    expect(fake.leaks).toEqual([]);
    expect(readdirSync(folder)).toEqual([]);
  });
});

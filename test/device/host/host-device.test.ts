import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { HostDevice, type HostDeviceOptions } from '#src/device/host/host-device.js';
import { createWaiter } from '#src/device/host/waiting.js';
import { TuttiError } from '#src/errors/tutti-error.js';
import { libc } from '#src/system/libc.js';
import { SharedSegment } from '#src/system/shared-memory.js';
import { add, assemble, atomicAdd, constant, done, drop, get } from './tiny-program.js';

const devices: HostDevice[] = [];

function device(options: HostDeviceOptions = {}): HostDevice {
  const made = new HostDevice(options);
  devices.push(made);
  return made;
}

afterEach(async () => {
  for (const made of devices.splice(0)) await made.close();
});

function refusal(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    return `${error.code}: ${error.message}`;
  }
  return 'nothing was thrown';
}

const small = { heapBytes: 32 << 20, localRanks: 2 };

describe('memory of the host device', () => {
  it('is zero, aligned, apart from all other memory, and zero again when reused', () => {
    const d = device(small);
    const request = fc.record({ bytes: fc.nat(300_000), align: fc.constantFrom(1, 64, 4096, 65536) });
    fc.assert(
      fc.property(
        fc.array(request, { maxLength: 12 }),
        fc.infiniteStream(fc.boolean()),
        (requests, coins) => {
          const live = new Map<number, { bytes: number; mark: number }>();
          let mark = 0;
          for (const { bytes, align } of requests) {
            const address = d.allocate(bytes, align);
            expect(address % align).toBe(0);
            const memory = d.u8.subarray(address, address + bytes);
            expect(memory.findIndex((byte) => byte !== 0)).toBe(-1);
            mark = (mark % 255) + 1;
            memory.fill(mark);
            live.set(address, { bytes, mark });
            if (coins.next().value) {
              const [victim] = live.keys();
              d.free(victim!);
              live.delete(victim!);
            }
          }
          for (const [address, expected] of live) {
            const memory = d.u8.subarray(address, address + expected.bytes);
            expect(memory.findIndex((byte) => byte !== expected.mark)).toBe(-1);
            d.free(address);
          }
        },
      ),
      { numRuns: 50 },
    );
    expect(d.freeBytes).toBe(d.segmentSize - 4096);
  });

  it('of large arrays is zero again when reused, also at both ends', () => {
    const d = device(small);
    for (const bytes of [3 << 20, (3 << 20) + 100, (2 << 20) + 64]) {
      const array = d.alloc(Uint8Array, bytes);
      array.fill(255);
      d.freeArray(array);
      const again = d.alloc(Uint8Array, bytes);
      expect(again.byteOffset).toBe(array.byteOffset);
      expect(again.findIndex((byte) => byte !== 0)).toBe(-1);
      d.freeArray(again);
    }
  });

  it.skipIf(libc() === null)('of large arrays goes back to the system when it is freed', () => {
    const d = device({ localRanks: 2 });
    const bytes = 64 << 20;
    const array = d.alloc(Uint8Array, bytes);
    const before = process.memoryUsage.rss();
    array.fill(1);
    expect(process.memoryUsage.rss() - before).toBeGreaterThan(bytes / 2);
    d.freeArray(array);
    expect(process.memoryUsage.rss() - before).toBeLessThan(bytes / 2);
  });

  it('takes almost no memory for 4 GiB of address space', () => {
    const before = process.memoryUsage.rss();
    const d = device();
    expect(d.size).toBe(2 ** 32);
    d.allocate(100);
    expect(process.memoryUsage.rss() - before).toBeLessThan(20 << 20);
  });

  it('reaches the last byte of the heap', () => {
    const d = device();
    d.u8[d.size - 1] = 7;
    expect(d.dataView.getUint8(d.size - 1)).toBe(7);
    expect(d.i32[d.size / 4 - 1]! >>> 24).toBe(7);
  });

  it('is refused with all numbers and a remedy when there is none', () => {
    const d = device(small);
    d.allocate(1 << 20);
    expect(refusal(() => d.allocate(2 ** 33))).toMatch(
      /^systemError: out of memory in the heap: asked for 8589934592 bytes, \d+ of \d+ are free, the largest block has \d+; free arrays/,
    );
  });

  it('is refused for sizes and alignments that make no sense', () => {
    const d = device(small);
    for (const bytes of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(refusal(() => d.allocate(bytes))).toMatch(/^invalidArgument: cannot allocate/);
      expect(refusal(() => d.alloc(Float64Array, bytes))).toMatch(/^invalidArgument: cannot allocate/);
    }
    for (const align of [0, 3, -64, 1.5]) {
      expect(refusal(() => d.allocate(8, align))).toMatch(/^invalidArgument: alignment .* power of two/);
    }
  });

  it('cannot be freed twice, nor by an address that is not its start', () => {
    const d = device(small);
    const address = d.allocate(1000);
    expect(refusal(() => d.free(address + 64))).toMatch(/^invalidArgument/);
    d.free(address);
    expect(refusal(() => d.free(address))).toMatch(/^invalidArgument: address \d+ is not the start/);
    expect(refusal(() => d.freeArray(new Float32Array(4)))).toMatch(/^invalidArgument: the array is not in/);
  });

  it('has room for arrays without elements, which have different addresses', () => {
    const d = device(small);
    const [a, b] = [d.alloc(Float32Array, 0), d.alloc(Float32Array, 0)];
    expect(a.length).toBe(0);
    expect(a.byteOffset).not.toBe(b.byteOffset);
    d.freeArray(a);
    d.freeArray(b);
  });

  it('is of every element type that JavaScript has', () => {
    const d = device(small);
    for (const type of [Int8Array, Uint8ClampedArray, Uint16Array, Int32Array, Float32Array, Float64Array]) {
      const array = d.alloc(type as typeof Float64Array, 5);
      expect(array).toBeInstanceOf(type);
      expect(array.length).toBe(5);
    }
    expect(d.alloc(BigUint64Array, 2)).toEqual(new BigUint64Array(2));
  });

  it('has private parts that do not count as heap', () => {
    const d = device(small);
    const before = d.freeBytes;
    const address = d.allocatePrivate(100);
    expect(address).toBeLessThan(d.segmentBase);
    expect(address).toBeGreaterThanOrEqual(65536);
    d.u8.fill(1, address, address + 100);
    expect(d.freeBytes).toBe(before);
    d.freePrivate(address);
    const again = d.allocatePrivate(100);
    expect(again).toBe(address);
    expect(d.u8[again]).toBe(0);
    expect(refusal(() => d.freePrivate(again + 64))).toMatch(/^internalError/);
  });
});

describe('an address', () => {
  it('is known for views of the heap, whatever their kind, and for no other', () => {
    const d = device(small);
    const array = d.alloc(Float32Array, 100);
    expect(d.addressOf(array)).toBe(array.byteOffset);
    expect(d.addressOf(array.subarray(10))).toBe(array.byteOffset + 40);
    expect(d.addressOf(new DataView(d.buffer, array.byteOffset + 3))).toBe(array.byteOffset + 3);
    expect(d.addressOf(new Float32Array(100))).toBeUndefined();
    expect(d.addressOf(new Uint8Array(new SharedArrayBuffer(64)))).toBeUndefined();
    expect(d.addressOf(new Uint8Array(new SharedArrayBuffer(d.size)))).toBeUndefined();
    expect(d.addressOf(device(small).alloc(Float32Array, 100))).toBeUndefined();
  });

  it.skipIf(libc() === null)('is known for a view that was posted and received', () => {
    const d = device(small);
    const array = d.alloc(Float32Array, 100);
    const { port1, port2 } = new MessageChannel();
    port1.postMessage(array.subarray(1));
    const { message } = receiveMessageOnPort(port2) as { message: Float32Array };
    port1.close();
    expect(message.buffer).not.toBe(d.buffer);
    expect(d.addressOf(message)).toBe(array.byteOffset + 4);
  });
});

describe('the size of the heap', () => {
  it('is what is asked for, and the address space is shared out evenly', () => {
    const d = device({ heapBytes: 64 << 20, localRanks: 4 });
    expect(d.size).toBe(64 << 20);
    expect(d.segmentBase).toBe(4 << 20);
    if (d.windows.supported) expect(d.segmentSize).toBe(15 << 20);
  });

  it.each(['1000', '-1', 'much', '1e20'])('%s of TUTTI_HEAP_BYTES is refused', (text) => {
    process.env.TUTTI_HEAP_BYTES = text;
    try {
      expect(refusal(() => new HostDevice())).toMatch(/^invalidArgument: a heap of .*TUTTI_HEAP_BYTES/);
    } finally {
      delete process.env.TUTTI_HEAP_BYTES;
    }
  });

  it('comes from TUTTI_HEAP_BYTES where nothing is asked for', () => {
    process.env.TUTTI_HEAP_BYTES = String(16 << 20);
    try {
      expect(device().size).toBe(16 << 20);
    } finally {
      delete process.env.TUTTI_HEAP_BYTES;
    }
  });

  it('may shrink when the address space is limited', () => {
    // 12 GiB: enough for Node, not for 4 GiB of heap with the guard regions that the engine wants.
    const program = `import('#src/device/host/host-device.js').then(({ HostDevice }) => {
      const d = new HostDevice();
      const a = d.alloc(Float32Array, 1000);
      a.fill(1);
      console.log(d.size <= 2 ** 32 && d.size >= 4 << 20, a.length);
    })`;
    const command = `ulimit -v 12582912; exec "${process.execPath}" -e "${program.replaceAll('\n', ' ')}"`;
    const run = spawnSync('sh', ['-c', command], {
      encoding: 'utf8',
      cwd: new URL('../../..', import.meta.url),
    });
    expect(run.stderr).toBe('');
    expect(run.stdout).toBe('true 1000\n');
  });

  it.each([0, -1, 1.5])('cannot be shared out to %d ranks', (localRanks) => {
    expect(refusal(() => new HostDevice({ localRanks }))).toMatch(/^invalidArgument: localRanks is/);
  });
});

describe.skipIf(libc() === null)('a window', () => {
  it('shows the memory of another device, both ways, to JavaScript and to Wasm', async () => {
    const [a, b] = [device(small), device(small)];
    expect(a.windows).toEqual({ supported: true, reason: '' });
    const window = a.openWindow(b.announcement!);
    expect(window.size).toBe(b.segmentSize);
    expect(window.base % 65536).toBe(0);
    const address = b.allocate(64);
    const seen = window.base + address - b.segmentBase;
    b.u8[address] = 42;
    expect(a.u8[seen]).toBe(42);
    const increment = [...get(0), ...constant(1), ...atomicAdd(), ...drop, ...done];
    const waiter = createWaiter({ device: a });
    const { exports } = a.instantiate(a.loadModule(assemble({ increment })), waiter);
    (exports.increment as (descriptor: number, block: number) => number)(seen, 0);
    expect(b.i32[address >>> 2]).toBe(43);
    waiter.close();
  });

  it('of the own segment is the segment itself', () => {
    const d = device(small);
    expect(d.openWindow(d.announcement!)).toMatchObject({ base: d.segmentBase, size: d.segmentSize });
  });

  it('is mapped once however often it is opened, and goes with its last user', () => {
    const [a, b] = [device(small), device(small)];
    const first = a.openWindow(b.announcement!);
    const second = a.openWindow(b.announcement!, 4096);
    expect(second.base).toBe(first.base);
    const address = b.allocate(64);
    b.u8[address] = 42;
    first.close();
    first.close();
    expect(a.u8[second.base + address - b.segmentBase]).toBe(42);
    second.close();
    expect(a.u8[second.base + address - b.segmentBase]).toBe(0);
    expect(b.u8[address]).toBe(42);
  });

  it('may cover the beginning of a segment only, and a longer one is then another mapping', () => {
    const [a, b] = [device({ ...small, localRanks: 4 }), device({ ...small, localRanks: 4 })];
    const short = a.openWindow(b.announcement!, 100);
    expect(short.size).toBe(65536);
    const long = a.openWindow(b.announcement!, 200_000);
    expect(long.size).toBe(262144);
    expect(long.base).not.toBe(short.base);
    b.u8[b.segmentBase + 5000] = 9;
    expect([a.u8[short.base + 5000], a.u8[long.base + 5000]]).toEqual([9, 9]);
    for (const bytes of [0, -1, 1.5, b.segmentSize + 1]) {
      expect(refusal(() => a.openWindow(b.announcement!, bytes))).toMatch(/^invalidArgument: a window of/);
    }
  });

  it('is refused with numbers when the address space is used up', () => {
    const ranks = Array.from({ length: 3 }, () => device(small));
    ranks[0]!.openWindow(ranks[1]!.announcement!);
    expect(refusal(() => ranks[0]!.openWindow(ranks[2]!.announcement!))).toMatch(
      /^systemError: out of memory in the address space for windows.*asked for \d+ bytes.*localRanks.*\(it is 2\)/,
    );
  });

  it('that is refused leaves the address space as it was', () => {
    const [a, b] = [device(small), device(small)];
    const forged = { ...b.announcement!, cookie: '0'.repeat(32) };
    expect(refusal(() => a.openWindow(forged))).toMatch(/^remoteError/);
    expect(a.openWindow(b.announcement!).size).toBe(b.segmentSize);
  });

  it('fits for every one of the local ranks', () => {
    const ranks = Array.from({ length: 5 }, () => device({ heapBytes: 64 << 20, localRanks: 5 }));
    const bases = ranks.map((rank) => ranks[0]!.openWindow(rank.announcement!).base);
    expect(new Set(bases).size).toBe(5);
  });

  it('also works for segments with names, whose memory is reserved before it is used', () => {
    const [a, b] = [device({ ...small, method: 'posix' }), device({ ...small, method: 'posix' })];
    const window = a.openWindow(b.announcement!);
    a.unlinkSegment();
    b.unlinkSegment();
    const array = b.alloc(Uint8Array, 3 << 20);
    array.fill(3);
    expect(a.u8[window.base + array.byteOffset - b.segmentBase]).toBe(3);
    b.freeArray(array);
    expect(b.alloc(Uint8Array, 3 << 20).findIndex((byte) => byte !== 0)).toBe(-1);
    expect(readdirSync('/dev/shm').filter((name) => name.startsWith(`tutti-${process.pid}-`))).toEqual([]);
  });

  it('reads as zero after its device is closed, and the peer keeps its memory', async () => {
    const [a, b] = [device(small), device(small)];
    const window = a.openWindow(b.announcement!);
    const address = b.allocate(64);
    b.u8[address] = 42;
    await b.close();
    expect(b.u8[address]).toBe(0);
    expect(a.u8[window.base + address - b.segmentBase]).toBe(42);
    await a.close();
    expect(a.u8[window.base + address - b.segmentBase]).toBe(0);
    expect(refusal(() => a.allocate(1))).toMatch(/^invalidUsage: .*closed/);
    expect(refusal(() => a.openWindow(SharedSegment.create(4096).announcement))).toMatch(/^invalidUsage/);
  });

  it('leaves no descriptors open', async () => {
    const count = () => readdirSync('/proc/self/fd').length;
    const before = count();
    const [a, b] = [device(small), device(small)];
    a.openWindow(b.announcement!);
    // One for each segment; the window itself needs none.
    expect(count()).toBe(before + 2);
    await a.close();
    await b.close();
    expect(count()).toBeLessThanOrEqual(before);
  });
});

describe('the shared device of a thread', () => {
  it('is one, takes the number of local ranks until memory is used, and is new after close', async () => {
    const first = HostDevice.shared({ ...small });
    expect(HostDevice.shared({ localRanks: 4 })).toBe(first);
    expect(first.localRanks).toBe(4);
    first.allocate(10);
    expect(HostDevice.shared({ localRanks: 8 }).localRanks).toBe(4);
    await first.close();
    const second = HostDevice.shared({ ...small });
    expect(second).not.toBe(first);
    await second.close();
  });

  it('works inside a worker thread, with an executor of its own', async () => {
    const worker = new Worker(fileURLToPath(new URL('./device-thread.js', import.meta.url)));
    const [message] = await once(worker, 'message');
    await once(worker, 'exit');
    expect(message).toEqual({ windows: libc() !== null, status: 0, counter: 1 });
  });
});

describe.skipIf(libc() === null)('the device of a thread that is terminated', () => {
  it('leaves no descriptor and no name behind', async () => {
    const program = `
      import('#src/device/host/host-device.js').then(({ HostDevice }) => {
        HostDevice.shared({ localRanks: 2 }).allocate(100);
        new HostDevice({ localRanks: 2 }).allocate(100);
        require('node:worker_threads').parentPort.postMessage('ready');
        setInterval(() => {}, 1000);
      });`;
    const memoryFiles = () =>
      readdirSync('/proc/self/fd').filter((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`).startsWith('/memfd:tutti');
        } catch {
          return false;
        }
      }).length;
    const before = memoryFiles();
    const worker = new Worker(program, { eval: true });
    await once(worker, 'message');
    expect(memoryFiles()).toBe(before + 2);
    await worker.terminate();
    expect(memoryFiles()).toBe(before);
  });
});

describe('without the C library', () => {
  it('memory and executors work, and the device says why there are no windows', () => {
    const run = spawnSync(process.execPath, [fileURLToPath(new URL('./device-thread.js', import.meta.url))], {
      encoding: 'utf8',
      env: { ...process.env, TUTTI_NO_FFI: '1' },
    });
    expect(run.stderr).toBe('');
    expect(JSON.parse(run.stdout)).toEqual({ windows: false, status: 0, counter: 1 });
  });
});

describe('device programs', () => {
  it('that are the same bytes are compiled once', () => {
    const d = device(small);
    const [a, b] = [assemble({ one: done }), assemble({ one: done })];
    expect(d.loadModule(a)).toBe(d.loadModule(a));
    expect(d.loadModule(b)).toBe(d.loadModule(a));
    expect(d.loadModule(assemble({ two: done }))).not.toBe(d.loadModule(a));
  });

  it('that are not Wasm, or want what the device does not have, are refused', () => {
    const d = device(small);
    expect(refusal(() => d.loadModule(Uint8Array.of(1, 2, 3)))).toMatch(/^invalidArgument: .*not valid Wasm/);
    // (module (import "env" "other" (func)))
    const header = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0];
    const foreign = [
      1, 4, 1, 0x60, 0, 0, 2, 13, 1, 3, 0x65, 0x6e, 0x76, 5, 0x6f, 0x74, 0x68, 0x65, 0x72, 0, 0,
    ];
    const module = d.loadModule(Uint8Array.from([...header, ...foreign]));
    const waiter = createWaiter({ device: d });
    expect(refusal(() => d.instantiate(module, waiter))).toMatch(/^invalidArgument: .*does not fit/);
    waiter.close();
  });

  it('add numbers', () => {
    const d = device(small);
    const waiter = createWaiter({ device: d });
    const { exports } = d.instantiate(
      d.loadModule(assemble({ sum: [...get(0), ...get(1), ...add] })),
      waiter,
    );
    expect((exports.sum as (a: number, b: number) => number)(40, 2)).toBe(42);
    waiter.close();
  });
});

import { describe, expect, it } from 'vitest';
import { CUDA } from '#src/device/cuda/cuda-error.js';
import { DeviceMemory, HostMemory, pointerFacts } from '#src/device/cuda/device-memory.js';
import { CudaDriver } from '#src/device/cuda/driver.js';
import { openDriverLibrary } from '#src/device/cuda/driver-library.js';
import { Graph } from '#src/device/cuda/graph.js';
import { Event, Stream } from '#src/device/cuda/stream.js';
import { TuttiError } from '#src/errors/tutti-error.js';
import { FakeDriver, type FakeDriverOptions } from './fake-driver.js';

function start(options: FakeDriverOptions = {}) {
  const fake = new FakeDriver(options);
  return { fake, driver: new CudaDriver(fake) };
}

/** The error that an act throws. */
function errorOf(act: () => unknown): TuttiError {
  try {
    act();
  } catch (error) {
    if (TuttiError.is(error)) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('the driver', () => {
  it('is missed in one sentence', () => {
    const error = errorOf(() => openDriverLibrary('libno-such-cuda.so.1'));
    expect(error.code).toBe('unhandledCudaError');
    expect(error.message).toBe(
      'no GPU can be used: there is no libno-such-cuda.so.1, so no NVIDIA driver is installed, or this container was started without its GPUs (--gpus all)',
    );
  });

  it('is told to be too old when it lacks a function, once that is called', () => {
    // Any library of the system will do: it has none of the functions.
    const library = openDriverLibrary('libc.so.6');
    expect(errorOf(() => library.cuInit(0)).message).toBe(
      'the NVIDIA driver is too old: it lacks cuInit; install a newer driver',
    );
  });

  it('is refused when it is too old, with both versions', () => {
    expect(errorOf(() => start({ version: 11020 })).message).toContain(
      'it knows CUDA 11.2, 11.4 (driver 470) or newer is needed',
    );
  });

  it('says by name and text why it does not start', () => {
    const fake = new FakeDriver();
    fake.failures.set('cuInit', { code: CUDA.noDevice });
    const error = errorOf(() => new CudaDriver(fake));
    expect(error.code).toBe('unhandledCudaError');
    expect(error.message).toMatch(
      /cannot start the NVIDIA driver: CUDA_ERROR_NO_DEVICE \(text of 100\); check that/,
    );
  });

  it('knows its GPUs and refuses others by number', () => {
    const { driver } = start({ gpus: 2 });
    const device = driver.device(1);
    expect([device.index, device.name, device.major, device.minor]).toEqual([1, 'Fake GPU', 9, 0]);
    expect(device.uuid).toBe('GPU-02020202-0202-0202-0202-020202020202');
    expect(driver.deviceOf(device.uuid)).toBe(device);
    const error = errorOf(() => driver.device(2));
    expect([error.code, error.message]).toEqual([
      'invalidArgument',
      'there is no GPU 2; the driver sees GPUs 0 to 1',
    ]);
    expect(errorOf(() => driver.device(-1)).message).toContain('there is no GPU -1');
  });
});

describe('contexts', () => {
  it('are retained once, made current whatever others made current, and released with the last user', () => {
    const { fake, driver } = start({ gpus: 2 });
    const [a, b] = [driver.device(0), driver.device(1)];
    a.retain();
    a.retain();
    b.retain();
    expect(fake.retained).toEqual([1, 1]);
    const switches = () => fake.log.splice(0).filter((line) => line.startsWith('current'));
    for (const device of [a, a, b]) device.makeCurrent();
    expect(switches()).toEqual(['current 0', 'current 0', 'current 1']);
    // A stream's handle says which GPU it belongs to, but those of the common streams do not.
    for (const stream of [4096, 4096, 0, 1, 2, 4096]) a.makeCurrentFor(stream);
    expect(switches()).toEqual(new Array(4).fill('current 0'));
    a.release();
    expect(fake.retained).toEqual([1, 1]);
    a.release();
    b.release();
    expect(fake.leaks).toEqual([]);
    expect(errorOf(() => a.release()).code).toBe('internalError');
  });

  it('of a released GPU can be used again', () => {
    const { fake, driver } = start();
    const device = driver.device(0);
    for (let k = 0; k < 2; k++) {
      device.retain();
      new Stream(device).destroy();
      device.release();
    }
    expect(fake.leaks).toEqual([]);
  });
});

describe('memory', () => {
  it('that is not there is missed with its size and what is free', () => {
    const { driver } = start({ memory: 2 ** 20 });
    const device = driver.device(0);
    device.retain();
    expect(errorOf(() => new DeviceMemory(device, 2 ** 21)).message).toBe(
      'cannot allocate 2 MiB on GPU 0 (Fake GPU) (0 bytes of 1 MiB are free): CUDA_ERROR_OUT_OF_MEMORY (text of 2); free memory on that GPU or use smaller buffers',
    );
  });

  it('is told apart by its address', () => {
    const { driver } = start({ gpus: 2 });
    const device = driver.device(1);
    device.retain();
    const memory = new DeviceMemory(device, 4096);
    expect(pointerFacts(device, memory.address + 100, 'x')).toEqual({
      device: 1,
      start: memory.address,
      bytes: 4096,
      shareable: true,
    });
    const host = new HostMemory(device, 64);
    expect(errorOf(() => pointerFacts(device, host.address, 'send')).message).toMatch(
      /send: the address 0x[0-9a-f]+ is memory of the host; a device pointer is due/,
    );
    expect(errorOf(() => pointerFacts(device, 12345, 'send')).code).toBe('invalidArgument');
  });
});

describe('streams', () => {
  it('do work in order, wait for events of others, and copy', () => {
    const { fake, driver } = start();
    const device = driver.device(0);
    device.retain();
    const memory = new DeviceMemory(device, 16);
    const [a, b, event] = [new Stream(device), new Stream(device), new Event(device)];
    a.copyIn(memory.address, Uint8Array.of(1, 2, 3, 4));
    event.record(a.handle);
    b.waitFor(event);
    b.copy(memory.address + 4, memory.address, 4);
    b.fill(memory.address + 8, 7, 4);
    const found = new Uint8Array(12);
    b.copyOut(found, memory.address);
    b.synchronize();
    expect(event.isDone).toBe(true);
    expect([...found]).toEqual([1, 2, 3, 4, 1, 2, 3, 4, 7, 7, 7, 7]);
    for (const thing of [a, b, event]) thing.destroy();
    memory.free();
    memory.free();
    device.release();
    expect(fake.leaks).toEqual([]);
  });

  it('report what went wrong in them', () => {
    const { fake, driver } = start();
    const device = driver.device(0);
    device.retain();
    const stream = new Stream(device);
    fake.failures.set('cuStreamQuery', { code: 700 });
    expect(errorOf(() => stream.isIdle).message).toBe(
      'cannot run work on GPU 0 (Fake GPU): CUDA error 700 (text of 700)',
    );
  });
});

describe('graphs', () => {
  it('keep what is put into a stream, and replay it', () => {
    const { fake, driver } = start();
    const device = driver.device(0);
    device.retain();
    const memory = new DeviceMemory(device, 4);
    const stream = new Stream(device);
    const graph = Graph.capture(stream, () => stream.fill(memory.address, 9, 4));
    stream.synchronize();
    expect(fake.machine.read('u8', memory.address)).toBe(0);
    graph.launch(stream.handle);
    stream.synchronize();
    expect(fake.machine.read('u8', memory.address)).toBe(9);
    graph.destroy();
    stream.destroy();
    memory.free();
    device.release();
    expect(fake.leaks).toEqual([]);
  });

  it('are given up when the recording throws or cannot be made executable', () => {
    const { fake, driver } = start();
    const device = driver.device(0);
    device.retain();
    const stream = new Stream(device);
    const stop = () => {
      throw new TuttiError('invalidUsage', 'stop');
    };
    expect(errorOf(() => Graph.capture(stream, stop)).message).toBe('stop');
    fake.failures.set('cuGraphInstantiate', { code: CUDA.outOfMemory });
    expect(errorOf(() => Graph.capture(stream, () => {})).message).toContain('cannot instantiate a graph');
    expect(stream.isCapturing).toBe(false);
    stream.destroy();
    device.release();
    expect(fake.leaks).toEqual([]);
  });
});

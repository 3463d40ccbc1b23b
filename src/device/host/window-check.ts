/**
 * Tries out whether mapped memory behaves: what Wasm code writes must be seen through another mapping of the
 * same file and the other way round, with plain and with atomic accesses, and must be in the file itself.
 *
 * Engines are free to move or protect the memory of a WebAssembly.Memory as they like; where one does, windows
 * are not used and ranks talk through sockets instead.
 */
import { readSync } from 'node:fs';
import { TuttiError } from '../../errors/tutti-error.js';
import { mapAnonymous, type SharedSegment } from '../../system/shared-memory.js';
import { type WasmMemory, wasm } from './webassembly.js';

/** One Wasm page: how much of the segment is mapped a second time for the check. */
const CHECK_BYTES = 65536;

/** Offset in the segment of the two words that the check uses: behind the cookie, in the header. */
const WORD = 32;

/**
 * (module
 *   (import "env" "memory" (memory 1 65536 shared))
 *   (func (export "store") (param i32 i32) (result i32)
 *     local.get 0  local.get 1  i32.store  local.get 1)
 *   (func (export "add") (param i32 i32) (result i32)
 *     local.get 0  local.get 1  i32.atomic.rmw.add))
 */
const PROBE = Uint8Array.from([
  ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
  // types: (i32, i32) -> i32
  ...[0x01, 0x07, 0x01, 0x60, 0x02, 0x7f, 0x7f, 0x01, 0x7f],
  // import env.memory, shared, 1 to 65536 pages
  ...[0x02, 0x12, 0x01, 0x03, 0x65, 0x6e, 0x76, 0x06, 0x6d, 0x65, 0x6d, 0x6f, 0x72, 0x79],
  ...[0x02, 0x03, 0x01, 0x80, 0x80, 0x04],
  // two functions of type 0
  ...[0x03, 0x03, 0x02, 0x00, 0x00],
  // exports "store" and "add"
  ...[0x07, 0x0f, 0x02, 0x05, 0x73, 0x74, 0x6f, 0x72, 0x65, 0x00, 0x00, 0x03, 0x61, 0x64, 0x64, 0x00, 0x01],
  // bodies
  ...[0x0a, 0x18, 0x02],
  ...[0x0b, 0x00, 0x20, 0x00, 0x20, 0x01, 0x36, 0x02, 0x00, 0x20, 0x01, 0x0b],
  ...[0x0a, 0x00, 0x20, 0x00, 0x20, 0x01, 0xfe, 0x1e, 0x02, 0x00, 0x0b],
]);

interface Probe {
  store(address: number, value: number): number;
  add(address: number, value: number): number;
}

/** The heap under test. */
export interface CheckedHeap {
  readonly memory: WasmMemory;
  readonly i32: Int32Array;
  readonly baseAddress: number;
}

/**
 * Checks a segment that is mapped at `base` of the heap, using `spare` (an unused address) for a second view.
 * Throws `systemError` that names what did not work. Leaves the segment and the spare range as they were.
 */
export function checkWindows(heap: CheckedHeap, segment: SharedSegment, base: number, spare: number): void {
  const expect = (found: number, expected: number, what: string): void => {
    if (found === expected) return;
    throw new TuttiError('systemError', `mapped memory does not work here: ${what}`);
  };
  const { i32 } = heap;
  const module = new wasm.Module(PROBE);
  const probe = new wasm.Instance(module, { env: { memory: heap.memory } }).exports as unknown as Probe;
  const own = base + WORD;
  const other = spare + WORD;
  // Wasm code and JavaScript must both see the cookie that was written through the file.
  const cookie = Number.parseInt(segment.announcement.cookie.slice(0, 2), 16);
  expect(probe.add(base, 0) & 0xff, cookie, 'the file is not seen through the mapping');
  segment.mapAt(heap.baseAddress + spare, CHECK_BYTES);
  try {
    probe.store(own, 0x1234_5678);
    expect(Atomics.load(i32, other >>> 2), 0x1234_5678, 'a Wasm store is not seen through a second mapping');
    expect(probe.add(other, 1), 0x1234_5678, 'a Wasm atomic does not see a store of the first mapping');
    expect(Atomics.load(i32, own >>> 2), 0x1234_5679, 'a Wasm atomic is not seen through the first mapping');
    Atomics.store(i32, (other >>> 2) + 1, 77);
    expect(probe.add(own + 4, 0), 77, 'an atomic store through a second mapping is not seen by Wasm');
    const file = Buffer.alloc(8);
    readSync(segment.fd, file, 0, 8, WORD);
    expect(file.readInt32LE(0), 0x1234_5679, 'a Wasm atomic is not in the file');
    expect(file.readInt32LE(4), 77, 'an atomic store is not in the file');
  } finally {
    Atomics.store(i32, own >>> 2, 0);
    Atomics.store(i32, (own >>> 2) + 1, 0);
    mapAnonymous(heap.baseAddress + spare, CHECK_BYTES);
  }
  expect(Atomics.load(i32, spare >>> 2), 0, 'a window cannot be taken away');
}

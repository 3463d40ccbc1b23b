import { spawnSync } from 'node:child_process';
import { afterAll, describe, expect, it } from 'vitest';
import { CopyRequest, COPY_STATE as PROGRAM_STATE } from '#src/collectives/messages.js';
import { COPY_REQUEST, COPY_REQUEST_BYTES, COPY_STATE, serveCopy } from '#src/device/host/copy-requests.js';
import { HostDevice } from '#src/device/host/host-device.js';
import { libc } from '#src/system/libc.js';

const device = new HostDevice({ heapBytes: 16 << 20 });
afterAll(() => device.close());

interface Asked {
  readonly process: number;
  readonly source: number;
  readonly target: number;
  readonly bytes: number;
}

function ask(at: number, { process, source, target, bytes }: Asked): void {
  CopyRequest.at(device.dataView, at)
    .set('state', PROGRAM_STATE.asked)
    .set('process', process)
    .set('target', target)
    .set('targetBytes', bytes)
    .set('source', source)
    .set('sourceBytes', bytes);
}

const stateAt = (at: number): number => device.i32[at >>> 2]!;

describe('requests for copies', () => {
  it('look the same to programs and to the thread that serves them', () => {
    expect(PROGRAM_STATE).toEqual(COPY_STATE);
    expect(CopyRequest.size).toBe(COPY_REQUEST_BYTES);
    for (const [name, offset] of Object.entries(COPY_REQUEST)) {
      expect(CopyRequest.fields[name as keyof typeof COPY_REQUEST].offset, name).toBe(offset);
    }
  });

  it.each([
    ['memory of the own process', 0],
    ['memory of a process by its number', process.pid],
  ])('bring %s to any address, other bytes untouched', (_, pid) => {
    const requests = device.allocatePrivate(3 * COPY_REQUEST_BYTES);
    const array = Uint8Array.from({ length: 100_001 }, (_, i) => (i * 7) & 255);
    const target = new Uint8Array(100_003).fill(1);
    const [from, to] = [libc()!.addressOf(array), libc()!.addressOf(target)];
    for (let k = 0; k < 3; k++) device.i32[(requests + k * COPY_REQUEST_BYTES) >>> 2] = COPY_STATE.none;
    const second = requests + COPY_REQUEST_BYTES;
    ask(second, { process: pid, source: from, target: to + 1, bytes: array.length });
    expect(serveCopy(device, requests)).toBe(false);
    expect(serveCopy(device, second)).toBe(true);
    expect(stateAt(requests)).toBe(COPY_STATE.none);
    expect(stateAt(second)).toBe(COPY_STATE.done);
    expect(target.subarray(1, -1)).toEqual(array);
    expect([target[0], target.at(-1)]).toEqual([1, 1]);
    device.freePrivate(requests);
  });

  it('fail where there is no such memory, and wait where there is no such process', () => {
    const requests = device.allocatePrivate(2 * COPY_REQUEST_BYTES);
    const target = device.baseAddress + requests + COPY_REQUEST_BYTES;
    ask(requests, { process: process.pid, source: 4096, target, bytes: 8 });
    expect(serveCopy(device, requests)).toBe(true);
    expect(stateAt(requests)).toBe(COPY_STATE.failed);
    const { pid } = spawnSync('true');
    ask(requests, { process: pid, source: 4096, target, bytes: 8 });
    expect(serveCopy(device, requests)).toBe(false);
    expect(stateAt(requests)).toBe(COPY_STATE.asked);
    device.freePrivate(requests);
  });
});

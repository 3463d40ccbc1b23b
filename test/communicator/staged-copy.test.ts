/** Copies between ordinary arrays and the heap: every length, alignment and repetition moves the same bytes and no others. */

import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { OutsideArray } from '#src/communicator/outside-array.js';
import { StagedCopy } from '#src/communicator/staged-copy.js';
import { HostDevice } from '#src/device/host/host-device.js';

const MARGIN = 16;
const device = new HostDevice({ heapBytes: 1 << 24, localRanks: 1 });
afterAll(() => device.close());

describe('StagedCopy', () => {
  it('moves the bytes it is for, again and again, and leaves the others alone', () => {
    const room = device.allocate(8192);
    fc.assert(
      fc.property(
        fc.oneof(fc.nat(80), fc.nat(300), fc.nat(4000)),
        fc.nat(12),
        fc.nat(12),
        fc.nat(12),
        fc.integer(),
        (bytes, offset, from, shift, seed) => {
          const outer = new Uint8Array(offset + from + bytes + MARGIN);
          const view = outer.subarray(offset);
          const stage = room + MARGIN + shift;
          const copy = new StagedCopy(device, new OutsideArray(device, view), from, stage, bytes);
          for (let run = 0; run < 3; run++) {
            const value = (i: number) => (seed + run * 31 + i * 7) & 255;
            const around = device.u8.subarray(stage - MARGIN, stage + bytes + MARGIN);
            around.fill(0xa5);
            outer.forEach((_, i) => {
              outer[i] = value(i);
            });
            copy.in();
            const inside = Array.from({ length: bytes }, (_, i) => value(offset + from + i));
            const margin = new Array<number>(MARGIN).fill(0xa5);
            expect([...around]).toEqual([...margin, ...inside, ...margin]);
            for (let i = 0; i < bytes; i++) device.u8[stage + i] = value(i) ^ 255;
            copy.out();
            const isInside = (i: number) => i >= offset + from && i < offset + from + bytes;
            const wanted = Array.from(outer, (_, i) =>
              isInside(i) ? value(i - offset - from) ^ 255 : value(i),
            );
            expect([...outer]).toEqual(wanted);
          }
        },
      ),
      { numRuns: 150 },
    );
    device.free(room);
  });

  it.each([8, 7, 5000])(
    'refuses an array of %i bytes whose memory was transferred, before and after it has copied',
    (bytes) => {
      const room = device.allocate(bytes);
      const gone = /its buffer was transferred or resized/;
      const give = (array: Uint8Array) =>
        structuredClone(array.buffer, { transfer: [array.buffer as ArrayBuffer] });
      const early = new Uint8Array(bytes);
      const outside = new OutsideArray(device, early);
      const copy = new StagedCopy(device, outside, 0, room, bytes);
      give(early);
      expect(() => copy.in()).toThrow(gone);
      expect(() => copy.out()).toThrow(gone);
      expect(() => new StagedCopy(device, outside, 0, room, bytes)).toThrow(gone);
      const late = new Uint8Array(bytes);
      const used = new StagedCopy(device, new OutsideArray(device, late), 0, room, bytes);
      used.in();
      used.out();
      give(late);
      expect(() => used.in()).toThrow(gone);
      expect(() => used.out()).toThrow(gone);
      device.free(room);
    },
  );
});

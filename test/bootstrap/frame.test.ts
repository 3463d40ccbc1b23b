/** Frames survive any chunking of the stream, and wrong lengths are refused before anything is kept. */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeFrame, encodeFrameHead, FRAME_HEADER_BYTES, FrameParser } from '#src/bootstrap/frame.js';

const payloads = fc.array(fc.uint8Array({ minLength: 1, maxLength: 300 }), { maxLength: 12 });

function chunked(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const edges = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  return edges.slice(1).map((end, index) => bytes.slice(edges[index], end));
}

test('the payloads come out whole and in order however the stream is cut', () => {
  fc.assert(
    fc.property(payloads, fc.array(fc.nat(), { maxLength: 30 }), (sent, cuts) => {
      const stream = Buffer.concat(sent.map((payload) => encodeFrame(payload)));
      const parser = new FrameParser(300);
      const seen: number[][] = [];
      for (const chunk of chunked(stream, cuts)) {
        parser.push(chunk);
        for (let frame = parser.next(); frame; frame = parser.next()) seen.push([...frame]);
        expect(parser.bufferedBytes).toBeLessThan(FRAME_HEADER_BYTES + 300);
      }
      expect(seen).toEqual(sent.map((payload) => [...payload]));
      expect(parser.bufferedBytes).toBe(0);
    }),
  );
});

test('a frame given in parts equals the frame of the whole', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1 }), fc.uint8Array(), (head, body) => {
      const whole = encodeFrame(Buffer.concat([head, body]));
      expect([...encodeFrame(head, body)]).toEqual([...whole]);
      expect([...encodeFrameHead(head, body.length), ...body]).toEqual([...whole]);
    }),
  );
});

test('what follows the frames taken so far can be drained', () => {
  const parser = new FrameParser(100);
  parser.push(encodeFrame(Uint8Array.of(1, 2)));
  parser.push(Uint8Array.of(9, 8, 7));
  expect([...parser.next()!]).toEqual([1, 2]);
  expect([...parser.drain()]).toEqual([9, 8, 7]);
  expect(parser.bufferedBytes).toBe(0);
});

test.each([0, 101, 0xffffffff])(
  'an announced length of %i where 1 to 100 are allowed is refused',
  (length) => {
    const header = new Uint8Array(4);
    new DataView(header.buffer).setUint32(0, length, true);
    const parser = new FrameParser(100);
    for (const byte of header.subarray(0, 3)) parser.push(Uint8Array.of(byte));
    expect(parser.next()).toBeUndefined();
    parser.push(header.subarray(3));
    expect(() => parser.next()).toThrow(
      `A frame of ${length} bytes was announced; from 1 to 100 bytes are allowed`,
    );
  },
);

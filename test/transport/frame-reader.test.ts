import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FrameReader } from '#src/transport/net/frame-reader.js';
import {
  decodeLinkFrame,
  encodeLinkFrame,
  FRAME_BYTES,
  type LinkFrame,
} from '#src/transport/net/link-frame.js';

const frames = fc.array(
  fc.record({
    kind: fc.constantFrom('data' as const, 'credit' as const, 'trouble' as const, 'goodbye' as const),
    channel: fc.nat(65535),
    bytes: fc.nat(300),
    step: fc.nat({ max: Number.MAX_SAFE_INTEGER }),
    tail: fc.nat({ max: Number.MAX_SAFE_INTEGER }),
  }),
  { maxLength: 20 },
);

describe('frames between proxies', () => {
  it('arrive whole and in order however the stream is cut, payload in the memory that was named', () => {
    fc.assert(
      fc.property(
        frames,
        fc.infiniteStream(fc.integer({ min: 1, max: 700 })),
        fc.boolean(),
        (sent, cuts, direct) => {
          const stream = Buffer.concat(
            sent.flatMap(({ kind, channel, bytes, step, tail }, index) => [
              encodeLinkFrame(kind, channel, bytes, step, tail),
              kind === 'data' ? Buffer.alloc(bytes, index + 1) : Buffer.alloc(0),
            ]),
          );
          const memory = new Uint8Array(20 * 300);
          const got: LinkFrame[] = [];
          let accepted = 0;
          let settled = 0;
          const reader = new FrameReader({
            accept: (frame) => {
              const index = accepted++;
              return frame.kind === 'data'
                ? memory.subarray(index * 300, index * 300 + frame.bytes)
                : undefined;
            },
            complete: (frame) => {
              const index = got.length;
              if (frame.kind === 'data') {
                const end = index * 300 + frame.bytes;
                expect(memory.subarray(index * 300, end)).toEqual(
                  new Uint8Array(frame.bytes).fill(index + 1),
                );
                expect(memory.subarray(end, (index + 1) * 300).every((byte) => byte === 0)).toBe(true);
              }
              got.push(frame);
            },
            settle: () => {
              settled = got.length;
            },
          });
          for (let at = 0; at < stream.length; ) {
            const wanted = cuts.next().value as number;
            if (direct) {
              // As the system does it: it fills at most the space that the reader offers.
              const space = reader.space();
              const count = Math.min(space.length, wanted, stream.length - at);
              space.set(stream.subarray(at, at + count));
              reader.advance(count);
              at += count;
            } else {
              reader.push(stream.subarray(at, at + wanted));
              at += wanted;
            }
          }
          expect(got).toEqual(sent);
          expect(settled).toBe(sent.length);
        },
      ),
    );
  });

  it('are refused when they do not begin with a known kind and the mark', () => {
    const good = encodeLinkFrame('data', 3, 100, 5, 6);
    expect(good.length).toBe(FRAME_BYTES);
    for (const [at, value] of [
      [0, 0],
      [0, 9],
      [1, 0],
    ] as const) {
      const bad = Uint8Array.from(good);
      bad[at] = value;
      expect(() => decodeLinkFrame(bad)).toThrow(expect.objectContaining({ code: 'remoteError' }));
    }
  });

  it('stop the reader with the error of the sink', () => {
    const reader = new FrameReader({
      accept: () => {
        throw new Error('not allowed');
      },
      complete: () => {
        throw new Error('must not be reached');
      },
      settle: () => {},
    });
    expect(() => reader.push(encodeLinkFrame('goodbye'))).toThrow('not allowed');
  });
});

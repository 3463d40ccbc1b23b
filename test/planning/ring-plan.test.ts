/** How ring operations are cut: chunk sizes of the published rules, and shares without gap or overlap. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RingCollective, RingProtocol } from '#src/collectives/ring.js';
import { LL_BUFFER_BYTES, SIMPLE_BUFFER_BYTES } from '#src/collectives/ring-connection.js';
import { channelShares, GRAIN_BYTES, ringChunkBytes, ringLoopElements } from '#src/planning/ring-plan.js';

const DEFAULTS = { llBytes: LL_BUFFER_BYTES, simpleBytes: SIMPLE_BUFFER_BYTES };
const PROTOCOLS: readonly RingProtocol[] = ['LL', 'Simple'];
const COLLECTIVES: readonly RingCollective[] = [
  'allReduce',
  'allGather',
  'reduceScatter',
  'broadcast',
  'reduce',
];

describe('chunks', () => {
  it('are four steps of a Simple buffer for the collectives that go round in parts, one for pipelines', () => {
    expect(COLLECTIVES.map((collective) => ringChunkBytes(collective, 'Simple', DEFAULTS))).toEqual([
      2097152, 2097152, 2097152, 524288, 524288,
    ]);
  });

  it('are half a slot with LL, the other half being flags', () => {
    for (const collective of COLLECTIVES) expect(ringChunkBytes(collective, 'LL', DEFAULTS)).toBe(32768);
  });

  it('make one loop of 16 MiB on 8 ranks, 56 steps', () => {
    const chunk = ringChunkBytes('allReduce', 'Simple', DEFAULTS);
    const loop = ringLoopElements('allReduce', chunk / 4, 8) * 4;
    expect(loop).toBe(16 * 1048576);
    expect(Math.ceil((16 * 1048576) / loop) * 2 * (8 - 1) * 4).toBe(56);
  });

  it('fit the slots they fill and are whole grains, for any buffer size', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...COLLECTIVES),
        fc.constantFrom(...PROTOCOLS),
        fc.integer({ min: 8192, max: 1 << 24 }),
        (collective, protocol, bytes) => {
          const chunk = ringChunkBytes(collective, protocol, { llBytes: bytes, simpleBytes: bytes });
          const slots = protocol === 'LL' ? 1 : ['broadcast', 'reduce'].includes(collective) ? 1 : 4;
          const wire = protocol === 'LL' ? 2 * chunk : chunk;
          expect(chunk % GRAIN_BYTES[protocol]).toBe(0);
          expect(wire).toBeLessThanOrEqual((bytes / 8) * slots);
          // Not a grain more would fit.
          expect(wire + GRAIN_BYTES[protocol] * (protocol === 'LL' ? 2 : 1)).toBeGreaterThan(
            (bytes / 8) * slots,
          );
        },
      ),
    );
  });
});

describe('shares', () => {
  it('cover every element exactly once for any count and channel count, in order [C02-11]', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.nat(2000), fc.nat(1e9)),
        fc.constantFrom(1, 2, 4, 8),
        fc.integer({ min: 1, max: 64 }),
        fc.constantFrom(...PROTOCOLS),
        (count, size, channels, protocol) => {
          const shares = channelShares(count, size, channels, protocol);
          expect(shares.length).toBe(channels);
          let at = 0;
          for (const share of shares) {
            expect(share.offset).toBe(at);
            expect(share.count).toBeGreaterThanOrEqual(0);
            at += share.count;
          }
          expect(at).toBe(count);
        },
      ),
    );
  });

  it('are whole grains but for the end, and differ by one grain at most', () => {
    fc.assert(
      fc.property(
        fc.nat(1e7),
        fc.constantFrom(1, 2, 4, 8),
        fc.integer({ min: 1, max: 64 }),
        fc.constantFrom(...PROTOCOLS),
        (count, size, channels, protocol) => {
          const grain = GRAIN_BYTES[protocol] / size;
          const shares = channelShares(count, size, channels, protocol).map((share) => share.count);
          const last = shares.findLastIndex((share) => share > 0);
          shares.forEach((share, channel) => {
            if (channel !== last) expect(share % grain).toBe(0);
          });
          const grains = shares.map((share) => Math.ceil(share / grain));
          expect(Math.max(...grains) - Math.min(...grains)).toBeLessThanOrEqual(1);
        },
      ),
    );
  });
});

describe('a loop', () => {
  it('holds a chunk of every rank for all-reduce, one chunk otherwise', () => {
    expect(ringLoopElements('allReduce', 100, 4)).toBe(400);
    for (const collective of COLLECTIVES.slice(1)) expect(ringLoopElements(collective, 100, 4)).toBe(100);
  });
});

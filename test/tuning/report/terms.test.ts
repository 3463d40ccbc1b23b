/** What reports take predictions apart into adds up to the predictions of the model. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { functionsOf, hasProtocol } from '#src/tuning/algorithms.js';
import { modelBandwidth } from '#src/tuning/bandwidth.js';
import { callTime } from '#src/tuning/call-time.js';
import { type ByScale, GENERATIONS } from '#src/tuning/constants.js';
import { modelLatency } from '#src/tuning/latency.js';
import { tuningTables } from '#src/tuning/model.js';
import { cellOf, entryOf, NCCL_ALGORITHMS, NCCL_FUNCTIONS, NCCL_PROTOCOLS } from '#src/tuning/names.js';
import { bandwidthBounds, boundsText, CAP_TABLES } from '#src/tuning/report/bandwidth-bound.js';
import { latencyParts, latencySum, latencyText } from '#src/tuning/report/latency-parts.js';
import { TimeTermModel } from '#src/tuning/report/time-terms.js';
import { anyInput } from '../any-input.js';
import { collnetNodes, fourNodes, plainInput, singleGpuNodes } from '../plain-input.js';

/** Every candidate that the model has numbers for, of any function. */
const CELLS = NCCL_FUNCTIONS.flatMap((fn) =>
  NCCL_ALGORITHMS.filter((algorithm) => functionsOf(algorithm).includes(fn)).flatMap((algorithm) =>
    NCCL_PROTOCOLS.filter((protocol) => hasProtocol(algorithm, protocol)).map((protocol) => ({
      fn,
      algorithm,
      protocol,
    })),
  ),
);

const close = (a: number, b: number, tolerance = 2e-6) =>
  Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(b));

describe('latency', () => {
  it('is the sum of its parts, for any communicator', () => {
    fc.assert(
      fc.property(anyInput, (input) => {
        fc.pre(input.nRanks > 1);
        const tables = tuningTables(input);
        for (const cell of CELLS) {
          const parts = latencyParts(tables, cell);
          const sum = parts.reduce((total, { count, each }) => total + count * each, 0);
          const model = modelLatency(tables.input, tables.constants, cell);
          expect(close(sum, model), `${JSON.stringify(cell)} ${sum} ${model}`).toBe(true);
          expect(parts.every(({ count, each }) => count > 0 && each > 0)).toBe(true);
        }
      }),
      { numRuns: 200 },
    );
  });

  it('is told as steps over links', () => {
    const parts = latencyParts(tuningTables(fourNodes()), {
      fn: 'AllReduce',
      algorithm: 'Tree',
      protocol: 'Simple',
    });
    expect(latencyText(parts)).toBe(
      '8.4 us to start, 14 steps over NVLink of 4 us, 4 steps between nodes of 19 us',
    );
    expect(latencySum(parts)).toBe('8.4 + 14 x 4 + 4 x 19');
  });

  it('tells where posting a network operation takes longer than a step', () => {
    const input = fourNodes({ cpuVendor: 2 });
    const parts = latencyParts(tuningTables(input), { fn: 'AllReduce', algorithm: 'Ring', protocol: 'LL' });
    expect(latencyText(parts)).toContain(
      '56 steps inside nodes of 2 us (posting a network operation takes that long)',
    );
  });
});

describe('the time of a call', () => {
  it('is its latency term plus its bytes term to the last bit, for any communicator and size', () => {
    fc.assert(
      fc.property(
        anyInput,
        fc.integer({ min: 1, max: 2 ** 40 }),
        fc.integer({ min: 1, max: 40 }),
        (input, bytes, n) => {
          const tables = tuningTables(input);
          const terms = new TimeTermModel(tables);
          for (const { fn, algorithm, protocol } of CELLS) {
            const call = { function: fn, bytes, type: 'float32', pipelined: n } as const;
            const cell = cellOf(algorithm, protocol);
            const own = terms.of(call, cell);
            if (tables.bandwidths[entryOf(fn, algorithm, protocol)] === 0) expect(own).toBeUndefined();
            else {
              expect(Math.fround(own!.latency + own!.bytes)).toBe(callTime(tables, call, cell));
              expect(own!.efficiency).toBeGreaterThan(0);
              expect(own!.efficiency).toBeLessThanOrEqual(1);
              expect([1, 1.4, 1.9]).toContain(own!.latencyFactor);
            }
          }
        },
      ),
      { numRuns: 200 },
    );
  });

  it('shows the efficiency of trees and the factor of rings at the size', () => {
    const terms = new TimeTermModel(tuningTables(fourNodes()));
    const at = (bytes: number) => ({ function: 'AllReduce', bytes, type: 'float32' }) as const;
    expect(terms.of(at(2 ** 20), cellOf('Tree', 'LL128'))).toMatchObject({
      efficiency: 0.6,
      latencyFactor: 1,
    });
    expect(terms.of(at(2 ** 20), cellOf('Ring', 'Simple'))).toMatchObject({
      efficiency: 1,
      latencyFactor: 1.4,
    });
    expect(terms.of(at(2 ** 10), cellOf('Ring', 'Simple'))).toMatchObject({
      efficiency: 1,
      latencyFactor: 1,
    });
  });
});

describe('the bounds of a bandwidth', () => {
  it('are what makes it larger when all of them are raised, and nothing else does, for any communicator', () => {
    fc.assert(
      fc.property(anyInput, (input) => {
        fc.pre(input.nRanks > 1);
        const tables = tuningTables(input);
        for (const cell of CELLS) {
          if (tables.bandwidths[entryOf(cell.fn, cell.algorithm, cell.protocol)] === 0) continue;
          const before = modelBandwidth(tables.input, tables.constants, cell);
          const bounds = bandwidthBounds(tables, cell);
          expect(bounds.length, JSON.stringify(cell)).toBeGreaterThan(0);
          const graphs = structuredClone(tables.input.graphs);
          const constants = structuredClone(tables.constants);
          const others = structuredClone(tables.constants);
          for (const table of CAP_TABLES) {
            for (const generation of GENERATIONS) {
              others[table][generation] = others[table][generation].map((value) => value * 1.5) as ByScale;
            }
          }
          for (const bound of bounds) {
            if (bound.kind === 'graph' && input.nNodes === 1) {
              graphs[bound.graph].bwIntra *= 1.001;
              graphs[bound.graph].bwInter *= 1.001;
            } else if (bound.kind === 'graph')
              graphs[bound.graph][bound.side === 'inside' ? 'bwIntra' : 'bwInter'] *= 1.001;
            else {
              constants[bound.table][bound.generation] = constants[bound.table][bound.generation].map(
                (value) => (value === bound.value ? value * 1.001 : value),
              ) as ByScale;
            }
          }
          expect(modelBandwidth({ ...tables.input, graphs }, constants, cell)).toBeGreaterThan(before);
          if (bounds.every(({ kind }) => kind === 'graph')) {
            expect(modelBandwidth(tables.input, others, cell)).toBe(before);
          }
        }
      }),
      { numRuns: 100 },
    );
  });

  it('are told by name and number', () => {
    const bound = (input: Parameters<typeof tuningTables>[0], cell: (typeof CELLS)[number]) =>
      boundsText(bandwidthBounds(tuningTables(input), cell));
    expect(bound(plainInput(), { fn: 'AllReduce', algorithm: 'Ring', protocol: 'LL' })).toBe(
      "NCCL's cap of 141 GB/s for LL",
    );
    expect(bound(fourNodes(), { fn: 'AllReduce', algorithm: 'Ring', protocol: 'Simple' })).toBe(
      '8 ring channels of 24 GB/s to the NICs',
    );
    expect(bound(plainInput(), { fn: 'AllReduce', algorithm: 'NVLS', protocol: 'Simple' })).toBe(
      '8 NVLS channels of 40 GB/s between GPUs',
    );
    expect(bound(collnetNodes(), { fn: 'AllReduce', algorithm: 'CollNetChain', protocol: 'Simple' })).toBe(
      '8 CollNet chain channels of 48 GB/s between GPUs',
    );
    expect(bound(singleGpuNodes(), { fn: 'AllGather', algorithm: 'PAT', protocol: 'Simple' })).toBe(
      '2 tree channels of 12 GB/s to the NICs, of which 75 % count',
    );
  });
});

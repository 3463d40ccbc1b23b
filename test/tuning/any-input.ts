/** Communicators of any shape, real or odd, for property tests. */
import fc from 'fast-check';
import type { TuningInput } from '#src/tuning/input.js';
import { type graph, plainInput } from './plain-input.js';

const anyGraph = fc.record({
  nChannels: fc.integer({ min: 0, max: 32 }),
  bwIntra: fc.float({ min: Math.fround(0.1), max: 400, noNaN: true }),
  bwInter: fc.float({ min: Math.fround(0.1), max: 400, noNaN: true }),
  latencyInter: fc.float({ min: 0, max: 100, noNaN: true }),
  typeIntra: fc.integer({ min: 0, max: 9 }),
  typeInter: fc.integer({ min: 0, max: 11 }),
  sameChannels: fc.boolean(),
}) as fc.Arbitrary<ReturnType<typeof graph>>;

export const anyInput: fc.Arbitrary<TuningInput> = fc
  .record({
    nNodes: fc.integer({ min: 1, max: 300 }),
    perNode: fc.integer({ min: 1, max: 72 }),
    missing: fc.integer({ min: 0, max: 71 }),
    sms: fc.tuple(fc.constantFrom(52, 60, 70, 75, 80, 86, 89, 90, 100, 103, 120), fc.constantFrom(0, 10)),
    graphs: fc.record({
      ring: anyGraph,
      tree: anyGraph,
      collnetDirect: anyGraph,
      collnetChain: anyGraph,
      nvls: anyGraph,
    }),
    cpuArch: fc.integer({ min: 0, max: 4 }),
    cpuVendor: fc.integer({ min: -1, max: 4 }),
    maxTreePattern: fc.integer({ min: 1, max: 3 }),
    hasNvswitch: fc.boolean(),
    nChannels: fc.integer({ min: 1, max: 64 }),
    collnet: fc.boolean(),
    heads: fc.integer({ min: 0, max: 8 }),
    nvls: fc.boolean(),
    plainNetDevice: fc.boolean(),
  })
  .map(({ nNodes, perNode, missing, sms: [minSm, more], collnet, heads, nvls, ...rest }) => {
    const nRanks = nNodes * perNode - (nNodes > 1 ? Math.min(missing, perNode - 1) : 0);
    const minLocalRanks = nRanks - (nNodes - 1) * perNode;
    return plainInput({
      ...rest,
      nNodes,
      nRanks,
      localRanks: perNode,
      minLocalRanks,
      maxLocalRanks: perNode,
      sm: minSm + more,
      minSm,
      maxSm: minSm + more,
      collnet: { enabled: collnet, setupHeads: heads, directHeads: heads },
      nvls: { enabled: nvls, nChannels: nvls ? 16 : 0, heads },
    });
  });

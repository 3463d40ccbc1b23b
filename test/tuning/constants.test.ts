/** The constants of the model against the published tables. */
import { describe, expect, it } from 'vitest';
import { defaultConstants, GENERATIONS, generationOf, scaleOf } from '#src/tuning/constants.js';
import { NCCL_ALGORITHMS } from '#src/tuning/names.js';

/** Numbers of a row of text. */
const numbers = (text: string): number[] => text.split(/[\s/]+/).map(Number);

describe('constants', () => {
  const constants = defaultConstants();

  it.each([
    ['Tree', '6.8 14 8.4', '0.6 1.25 4 / 1 1.9 4 / 5 8.5 14'],
    ['Ring', '6.6 14 8.4', '0.6 1.9 3.4 / 1 2.5 5.7 / 2.7 4 14'],
    ['CollNetDirect', '0 0 0', '0 0 3.7 / 0 0 3.7 / 0 0 31'],
    ['CollNetChain', '0 0 0', '0 0 2.8 / 0 0 2.8 / 0 0 30'],
    ['NVLS', '0 0 0', '0 0 25 / 0 0 0 / 0 0 18'],
    ['NVLSTree', '0 0 0', '0 0 25 / 0 0 0 / 0 0 20.9'],
    ['PAT', '8 8 8', '0 0 4 / 0 0 4 / 0 0 14'],
  ] as const)('latencies of %s: base, then NVLink, PCI, network [C21-03]', (algorithm, base, steps) => {
    const { baseLatencies, hwLatencies } = constants;
    expect(baseLatencies[algorithm]).toEqual(numbers(base));
    const { NVLINK, PCI, NET } = hwLatencies;
    expect([...NVLINK[algorithm], ...PCI[algorithm], ...NET[algorithm]]).toEqual(numbers(steps));
  });

  it.each([
    ['Volta', '39 39 20.4 / 20 20 20 / 20 20 20 / 26.5 18.5 10 / 26.5 18.5 10'],
    ['Ampere', '87.7 22.5 19 / 20 20 20 / 20 20 20 / 24 23.6 17.8 / 24 23.6 17.8'],
    ['Hopper', '141 45 35 / 36.7 36.7 36.7 / 36.7 36.7 29 / 38.7 41.4 36 / 0 57.7 45.5'],
    ['Blackwell', '282 90 70 / 40 40 40 / 55.6 31.67 20 / 70 42.8 24 / 0 96 80'],
  ] as const)('caps of %s: LL, ring LL128, tree LL128, tree, NVLS tree [C21-03]', (generation, caps) => {
    const { llMaxBws, perChMaxRingLL128Bws, perChMaxTreeLL128Bws, perChMaxTreeBws, perChMaxNVLSTreeBws } =
      constants;
    const all = [llMaxBws, perChMaxRingLL128Bws, perChMaxTreeLL128Bws, perChMaxTreeBws, perChMaxNVLSTreeBws];
    expect(all.flatMap((table) => table[generation])).toEqual(numbers(caps));
  });

  it('exist for every algorithm and generation, and are copied for each communicator', () => {
    expect(Object.keys(constants.baseLatencies)).toEqual([...NCCL_ALGORITHMS]);
    expect(Object.keys(constants.llMaxBws)).toEqual([...GENERATIONS]);
    constants.baseLatencies.Tree[0] = 1;
    expect(defaultConstants().baseLatencies.Tree[0]).toBe(6.8);
  });

  it('are taken by generation of the GPUs and number of nodes', () => {
    expect([61, 70, 79, 80, 89, 90, 99, 100, 120].map(generationOf)).toEqual([
      'Volta',
      'Volta',
      'Volta',
      'Ampere',
      'Ampere',
      'Hopper',
      'Hopper',
      'Blackwell',
      'Blackwell',
    ]);
    expect([1, 2, 3, 4, 1000].map(scaleOf)).toEqual([0, 1, 2, 2, 2]);
  });
});

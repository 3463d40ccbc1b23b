import { describe, expect, it } from 'vitest';
import type { ConnectConfig } from '#src/topology/connect/config.js';
import { type NvlsFacts, nvlsSizes } from '#src/topology/connect/nvls-sizes.js';
import { type Environment, topologySettings } from '#src/topology/settings.js';
import { PathType } from '#src/topology/system/path-type.js';

const KIB = 1024;
const BLACKWELL: NvlsFacts = {
  nNodes: 2,
  sm: 100,
  minSm: 100,
  minLocalRanks: 8,
  minNetBw: 48,
  typeInter: PathType.PXN,
};

/** Channels, chunk and tree chunk in KiB. */
const sizes = (facts: Partial<NvlsFacts>, env: Environment = {}, config: ConnectConfig = {}) => {
  const { nChannels, chunkSize, treeMaxChunkSize } = nvlsSizes(
    { ...BLACKWELL, ...facts },
    topologySettings(env),
    config,
  );
  return [nChannels, chunkSize / KIB, treeMaxChunkSize / KIB];
};

describe('NVLS channels and chunks', () => {
  it('are 16 channels before Blackwell, 24 on one node from then on, trees of four nodes in small chunks', () => {
    const hopper = { sm: 90, minSm: 90 };
    expect(sizes({ ...hopper, nNodes: 1 })).toEqual([16, 128, 128]);
    expect(sizes({ ...hopper, nNodes: 3 })).toEqual([16, 128, 128]);
    expect(sizes({ ...hopper, nNodes: 4 })).toEqual([16, 128, 64]);
    expect(sizes({ nNodes: 1 })).toEqual([24, 128, 128]);
    expect(sizes({ minNetBw: 12 })).toEqual([32, 128, 128]);
    expect(sizes({ minNetBw: 12, nNodes: 4 })).toEqual([32, 128, 64]);
    // An older GPU elsewhere keeps the measured settings off.
    expect(sizes({ minSm: 90 })).toEqual([32, 128, 128]);
  });

  it('are measured for two Blackwell nodes with NICs of 400 Gbit/s', () => {
    expect(sizes({ minLocalRanks: 4 })).toEqual([32, 256, 256]);
    expect(sizes({ minLocalRanks: 5 })).toEqual([32, 128, 128]);
    expect(sizes({ typeInter: PathType.PXB })).toEqual([32, 128, 64]);
    expect(sizes({ typeInter: PathType.PXB, minLocalRanks: 9 })).toEqual([32, 128, 128]);
    expect(sizes({ typeInter: PathType.PXB, minNetBw: 96 })).toEqual([32, 128, 128]);
    expect(sizes({ minLocalRanks: 16 })).toEqual([32, 128, 64]);
  });

  it('are measured for more Blackwell nodes by NIC and size', () => {
    expect(sizes({ nNodes: 3, minNetBw: 96 })).toEqual([24, 256, 256]);
    expect(sizes({ nNodes: 3, minNetBw: 96, minLocalRanks: 9 })).toEqual([32, 128, 128]);
    expect(sizes({ nNodes: 3, minNetBw: 96, minLocalRanks: 32 })).toEqual([32, 128, 64]);
    expect(sizes({ nNodes: 3 })).toEqual([24, 128, 128]);
    expect(sizes({ nNodes: 8 })).toEqual([24, 128, 128]);
    expect(sizes({ nNodes: 3, typeInter: PathType.PIX })).toEqual([24, 128, 64]);
  });

  it('heed environment, configuration and parent', () => {
    const chunk = { NCCL_NVLS_CHUNKSIZE: '32768' };
    expect(sizes({ nNodes: 1 }, chunk)).toEqual([24, 32, 32]);
    expect(sizes({ minLocalRanks: 4 }, chunk)).toEqual([32, 32, 256]);
    expect(sizes({ minLocalRanks: 4 }, { NCCL_NVLSTREE_MAX_CHUNKSIZE: '4096' })).toEqual([32, 256, 4]);
    expect(sizes({}, {}, { nvlsCtas: 7 })[0]).toBe(7);
    expect(sizes({}, {}, { nvlsCtas: 7, minCtas: 9 })[0]).toBe(9);
    expect(sizes({}, { NCCL_MAX_CTAS: '12' })[0]).toBe(12);
    expect(sizes({}, { NCCL_NVLS_NCHANNELS: '6' }, { nvlsCtas: 7 })[0]).toBe(6);
    expect(sizes({}, { NCCL_NVLS_NCHANNELS: '6', NCCL_MIN_CTAS: '9' })[0]).toBe(9);
    // 0 asks for as many as the machine needs.
    expect(sizes({}, { NCCL_NVLS_NCHANNELS: '0' }, { nvlsCtas: 7 })[0]).toBe(32);
    const parent = { nChannels: 32, nvlsChannels: 5, p2pnChannels: 32 };
    expect(sizes({}, {}, { parent })[0]).toBe(5);
  });
});

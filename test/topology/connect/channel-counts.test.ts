import { describe, expect, it } from 'vitest';
import {
  bothTrees,
  type ChannelFacts,
  channelSources,
  copyChannels,
} from '#src/topology/connect/channel-counts.js';
import { argumentChannels, type ConnectConfig } from '#src/topology/connect/config.js';
import { type Environment, topologySettings } from '#src/topology/settings.js';
import { upTo } from './machines.js';

/** Two Ampere nodes of 8 ranks without CollNet: nothing but the two trees. */
const PLAIN: ChannelFacts = {
  searchChannels: 4,
  nNodes: 2,
  nRanks: 16,
  minSm: 80,
  ringBwIntra: 48,
  collnet: undefined,
};

const sources = (facts: Partial<ChannelFacts> = {}, env: Environment = {}, config: ConnectConfig = {}) =>
  channelSources({ ...PLAIN, ...facts }, topologySettings(env), config);

describe('channels of a communicator', () => {
  it('are twice those of the search, 64 at most', () => {
    expect(sources()).toEqual(upTo(8));
    expect(sources({ searchChannels: 40 })).toEqual(upTo(64));
    expect([bothTrees(1), bothTrees(32), bothTrees(33)]).toEqual([2, 64, 64]);
  });

  it('are half as many again with CollNet chains that are faster inside than outside', () => {
    const collnet = { bwIntra: 24, bwInter: 12 };
    expect(sources({ collnet })).toEqual([...upTo(8), 0, 1, 2, 3]);
    expect(sources({ collnet, searchChannels: 30 })).toEqual([...upTo(60), 0, 1, 2, 3]);
    expect(sources({ collnet: { bwIntra: 12, bwInter: 12 } })).toEqual(upTo(8));
    expect(sources({ collnet, nRanks: 2 })).toEqual(upTo(8));
  });

  it('are doubled below 16 for fast rings of Hopper over several nodes', () => {
    const hopper = { minSm: 90, ringBwIntra: 45.5 };
    expect(sources(hopper)).toEqual([...upTo(8), ...upTo(8)]);
    expect(sources({ ...hopper, searchChannels: 7 })).toEqual([...upTo(14), ...upTo(14)]);
    expect(sources({ ...hopper, searchChannels: 8 })).toEqual(upTo(16));
    expect(sources({ ...hopper, ringBwIntra: 45 })).toEqual(upTo(8));
    expect(sources({ ...hopper, minSm: 89 })).toEqual(upTo(8));
    expect(sources({ ...hopper, nNodes: 1 })).toEqual(upTo(8));
  });

  it('are doubled below 16 for network devices that unpack, after the other rule', () => {
    const unpack = { unpackNetDevice: true };
    expect(sources({}, {}, unpack)).toEqual([...upTo(8), ...upTo(8)]);
    expect(sources({ nNodes: 1 }, {}, unpack)).toEqual(upTo(8));
    expect(sources({}, { NCCL_UNPACK_DOUBLE_NCHANNELS: '0' }, unpack)).toEqual(upTo(8));
    expect(sources({ minSm: 90 }, {}, unpack).length).toBe(16);
    expect(sources({ minSm: 90, searchChannels: 2 }, {}, unpack)).toEqual([
      ...upTo(4),
      ...upTo(4),
      ...upTo(4),
      ...upTo(4),
    ]);
  });

  it('are cut, then copied to what the user wants: 12 to 32 repeats 0..11, 0..7 again from 24 on', () => {
    const twelve = sources({ searchChannels: 6 }, { NCCL_MIN_NCHANNELS: '32' });
    expect(twelve).toEqual([...upTo(12), ...upTo(12), ...upTo(8)]);
    expect([twelve[12], twelve[23], twelve[24], twelve[31]]).toEqual([0, 11, 0, 7]);
    expect(sources({}, { NCCL_MAX_NCHANNELS: '3' })).toEqual([0, 1, 2]);
    expect(sources({}, { NCCL_MAX_NRINGS: '3', NCCL_MIN_NRINGS: '5' })).toEqual([0, 1, 2, 0, 1]);
    expect(sources({}, { NCCL_MIN_NCHANNELS: '100' }).length).toBe(64);
    expect(sources({}, { NCCL_MAX_NCHANNELS: '-4' })).toEqual([0]);
  });

  it('heed the configuration, and the environment before it', () => {
    expect(sources({}, {}, { maxCtas: 2 })).toEqual([0, 1]);
    expect(sources({}, {}, { minCtas: 10 })).toEqual([...upTo(8), 0, 1]);
    expect(sources({}, { NCCL_MAX_CTAS: '5' }, { maxCtas: 2 })).toEqual(upTo(5));
    expect(sources({}, { NCCL_MAX_CTAS: '0' }, { maxCtas: 2 })).toEqual([0, 1]);
    expect(sources({}, { NCCL_MIN_CTAS: '200' }).length).toBe(64);
    expect(sources({}, { NCCL_MIN_CTAS: '7' }, { maxCtas: 3 })).toEqual([0, 1, 2]);
  });

  it('are never more than those of a parent that shares its resources', () => {
    const parent = { nChannels: 6, nvlsChannels: 16, p2pnChannels: 8 };
    expect(sources({}, {}, { parent })).toEqual(upTo(6));
    expect(sources({ searchChannels: 2 }, { NCCL_MIN_NCHANNELS: '32' }, { parent })).toEqual([
      0, 1, 2, 3, 0, 1,
    ]);
  });

  it('fit into the arguments of a launch', () => {
    const limit = (bytes: string) => argumentChannels(topologySettings({ NCCL_WORK_ARGS_BYTES: bytes }));
    expect(['', '4096', '1056', '96', '47'].map(limit)).toEqual([64, 64, 64, 4, 0]);
    // Less than the header wraps around to a huge number, as in NCCL.
    expect(limit('16')).toBe(64);
    expect(sources({}, { NCCL_WORK_ARGS_BYTES: '96' })).toEqual(upTo(4));
    expect(sources({}, { NCCL_WORK_ARGS_BYTES: '40' })).toEqual([0]);
  });

  it('have the values of the channels that they repeat', () => {
    const values = Int32Array.from([10, 11, 20, 21, 30, 31]);
    expect([...copyChannels(values, [0, 1, 2, 0, 2], 2)]).toEqual([10, 11, 20, 21, 30, 31, 10, 11, 30, 31]);
    expect([...copyChannels(values, [0], 2)]).toEqual([10, 11]);
    expect(copyChannels(values, [0, 1, 2], 2)).toBe(values);
  });
});

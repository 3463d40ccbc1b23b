/** The NCCL_* variables of the topology part: default, values, what is wrong, and what is logged. */
import { describe, expect, it } from 'vitest';
import { type Environment, type TopologySettings, topologySettings } from '#src/topology/settings.js';
import { PathType } from '#src/topology/system/path-type.js';

type Name = keyof TopologySettings;
const setting = <N extends Name>(name: N, env: Environment): TopologySettings[N] =>
  topologySettings(env)[name];

function logged(env: Environment): string[] {
  const lines: string[] = [];
  topologySettings(env, (level, subsystem, text) => lines.push(`${level} ${subsystem} ${text}`));
  return lines;
}

/** Variable, field, default, texts with what they give, and what a number beyond 64 bits gives if not the default. */
type Case = readonly [
  variable: string,
  field: Name,
  initial: unknown,
  values: Readonly<Record<string, unknown>>,
  beyond?: unknown,
];

const FLAG_OFF = { '1': true, '0': false, '2': true, '-1': true, abc: false };
const ONLY_ONE = { '1': true, '0': false, '2': false, '-1': false, '0x1': true };

const CASES: readonly Case[] = [
  ['NCCL_CROSS_NIC', 'crossNic', 2, { '0': 0, '1': 1, '2': 2, '0x1': 1, '-2': -2 }],
  ['NCCL_NVB_DISABLE', 'nvbDisable', false, FLAG_OFF],
  ['NCCL_P2P_DISABLE', 'p2pLevel', undefined, { '1': PathType.LOC, '0': undefined, '2': undefined }],
  ['NCCL_IGNORE_DISABLED_P2P', 'ignoreDisabledP2p', 0, { '1': 1, '2': 2 }],
  ['NCCL_NET_GDR_READ', 'gdrRead', -2, { '0': 0, '1': 1, '-1': -1 }],
  ['NCCL_NET_GDR_C2C', 'gdrC2c', true, { '0': false, '1': true }],
  ['NCCL_NET_GDR_MLOPART', 'gdrMloPart', false, FLAG_OFF],
  ['NCCL_NET_FORCE_FLUSH', 'forceFlush', false, FLAG_OFF],
  ['NCCL_NET_DISABLE_INTRA', 'netDisableIntra', false, ONLY_ONE],
  ['NCCL_P2P_USE_CUDA_MEMCPY', 'p2pMemcpy', false, FLAG_OFF],
  ['NCCL_SHM_DISABLE', 'shmDisable', false, ONLY_ONE],
  ['NCCL_PXN_DISABLE', 'pxnDisable', false, ONLY_ONE],
  ['NCCL_PXN_C2C', 'pxnC2c', true, { '0': false, '1': true }],
  ['NCCL_P2P_PXN_LEVEL', 'p2pPxnLevel', 2, { '0': 0, '1': 1 }],
  ['NCCL_MNNVL_ENABLE', 'mnnvlEnable', 2, { '0': 0, '1': 1 }],
  ['NCCL_MNNVL_UUID', 'mnnvlUuid', -1n, { '0': 0n, '0x7fffffffffffffff': (1n << 63n) - 1n }],
  ['NCCL_MNNVL_CLIQUE_ID', 'mnnvlCliqueId', -1, { '-2': -2, '5': 5 }],
  ['NCCL_MNNVL_CROSS_CLIQUE', 'mnnvlCrossClique', false, FLAG_OFF],
  ['NCCL_MNNVL_SCATTER_NETS_ENABLE', 'scatterNets', true, { '0': false, '1': true }],
  ['NCCL_MNNVL_RAIL_PER_HOST', 'railPerHost', false, FLAG_OFF],
  ['NCCL_TOPO_SPLIT_MLOPART', 'splitMloPart', true, { '0': false, '1': true }],
  [
    'NCCL_MIN_NCHANNELS',
    'minChannels',
    0,
    { '8': 8, '0x10': 16, '010': 8, '4k': 4, '-3': 0, '64': 64, '65': 64 },
  ],
  ['NCCL_MIN_NRINGS', 'minChannels', 0, { '8': 8 }],
  ['NCCL_MAX_NCHANNELS', 'maxChannels', 64, { '8': 8, '0': 1, '-3': 1, '100': 64, abc: 1 }],
  ['NCCL_MAX_NRINGS', 'maxChannels', 64, { '8': 8 }],
  ['NCCL_MIN_CTAS', 'minCtas', undefined, { '4': 4, '0': undefined, '-1': undefined, '99': 64 }],
  ['NCCL_MAX_CTAS', 'maxCtas', undefined, { '4': 4, '0': undefined, '-1': undefined, '99': 64 }],
  ['NCCL_NVLS_NCHANNELS', 'nvlsCtas', undefined, { '7': 7, '0': 0, '-1': -1, '-2': undefined }],
  [
    'NCCL_NCHANNELS_PER_NET_PEER',
    'channelsPerNetPeer',
    undefined,
    { '3': 3, '0': undefined, '-1': undefined, '99': 64 },
  ],
  ['NCCL_WORK_ARGS_BYTES', 'workArgsBytes', (1n << 63n) - 1n, { '4096': 4096n }],
  ['NCCL_UNPACK_DOUBLE_NCHANNELS', 'unpackDoubleChannels', true, { '0': false, '1': true }],
  ['NCCL_MIN_P2P_NCHANNELS', 'minP2pChannels', 1, { '4': 4 }],
  ['NCCL_MAX_P2P_NCHANNELS', 'maxP2pChannels', 64, { '4': 4 }],
  ['NCCL_P2P_PER_CHANNEL_NET_BW', 'p2pPerChannelNetBw', 14, { '7': 7 }],
  ['NCCL_P2P_MAX_PEERS', 'p2pMaxPeers', undefined, { '7': 7, '-2': undefined }],
  ['NCCL_NVLS_CHUNKSIZE', 'nvlsChunkSize', undefined, { '65536': 65536, '0': 0 }, 131_072],
  ['NCCL_NVLSTREE_MAX_CHUNKSIZE', 'nvlsTreeMaxChunkSize', undefined, { '65536': 65536, '-2': undefined }],
  ['NCCL_IGNORE_NET_MISMATCH', 'ignoreNetMismatch', true, FLAG_OFF],
  ['NCCL_IGNORE_COLLNET_MISMATCH', 'ignoreCollnetMismatch', false, FLAG_OFF],
  ['NCCL_COLLNET_NODE_THRESHOLD', 'collnetNodeThreshold', 2, { '1': 1, '8': 8 }],
];

describe('integer variables', () => {
  for (const [variable, field, initial, values, beyond = initial] of CASES) {
    it(variable, () => {
      expect(setting(field, {})).toEqual(initial);
      expect(setting(field, { [variable]: '' })).toEqual(initial);
      for (const [text, expected] of Object.entries(values)) {
        expect(setting(field, { [variable]: text }), `${variable}=${text}`).toEqual(expected);
      }
      // Beyond 64 bits: the default, with a line that says so.
      const huge = { [variable]: '99999999999999999999' };
      expect(setting(field, huge)).toEqual(beyond);
      expect(logged(huge)).toEqual([
        expect.stringMatching(
          new RegExp(
            `^INFO ENV Invalid value 99999999999999999999 for ${variable}, using default -?\\d+\\.$`,
          ),
        ),
      ]);
      expect(logged({ [variable]: '3' })).toEqual([`INFO ENV ${variable} set by environment to 3.`]);
      expect(logged({ [variable]: '' })).toEqual([]);
    });
  }

  it('covers every field', () => {
    const levels: Name[] = ['p2pLevel', 'gdrLevel', 'netDevsPolicy'];
    const covered = new Set([...CASES.map(([, field]) => field), ...levels]);
    expect([...covered].sort()).toEqual(Object.keys(topologySettings()).sort());
  });

  it('prefer the new names of channel limits to the old ones, and say what they make of odd values', () => {
    expect(setting('minChannels', { NCCL_MIN_NCHANNELS: '4', NCCL_MIN_NRINGS: '8' })).toBe(4);
    expect(setting('maxChannels', { NCCL_MAX_NCHANNELS: '4', NCCL_MAX_NRINGS: '8' })).toBe(4);
    // -2 is the mark of "not set".
    expect(setting('minChannels', { NCCL_MIN_NCHANNELS: '-2', NCCL_MIN_NRINGS: '8' })).toBe(8);
    expect(logged({ NCCL_MIN_NCHANNELS: '65' }).at(-1)).toBe(
      'INFO ENV User asked for a minimum of 65 channels, limiting to 64',
    );
    expect(logged({ NCCL_MAX_NCHANNELS: '0' }).at(-1)).toBe(
      'INFO ENV User asked for a maximum of 0 channels, setting it to 1',
    );
    expect(logged({ NCCL_MIN_NCHANNELS: '64', NCCL_MAX_NCHANNELS: '1' }).length).toBe(2);
  });
});

describe('levels', () => {
  it.each([
    ['NCCL_P2P_LEVEL', 'p2pLevel'],
    ['NCCL_NET_GDR_LEVEL', 'gdrLevel'],
  ] as const)('%s is an exact name, or an old number', (variable, field) => {
    const level = (text: string) => setting(field, { [variable]: text });
    const names = ['LOC', 'NVL', 'NVB', 'C2C', 'PIX', 'PXB', 'P2C', 'PXN', 'PHB', 'SYS'] as const;
    for (const name of names) {
      expect(level(name)).toBe(PathType[name]);
      expect(logged({ [variable]: name })).toEqual([`INFO ENV ${variable} set by environment to ${name}`]);
    }
    const { LOC, PIX, PXB, PHB, SYS } = PathType;
    expect(['0', '1', '2', '3', '4', '5', '99'].map(level)).toEqual([LOC, PIX, PXB, PHB, SYS, SYS, SYS]);
    expect(logged({ [variable]: '1' })).toEqual([`INFO ENV ${variable} set by environment to PIX`]);
    for (const text of ['', 'phb', 'PHBX', ' PHB', 'NET', 'DIS', '-1', '1x', 'none']) {
      expect(level(text), text).toBeUndefined();
      expect(logged({ [variable]: text })).toEqual([]);
    }
    expect(topologySettings()[field]).toBeUndefined();
  });

  it('NCCL_P2P_DISABLE=1 counts before NCCL_P2P_LEVEL', () => {
    expect(setting('p2pLevel', { NCCL_P2P_DISABLE: '1', NCCL_P2P_LEVEL: 'SYS' })).toBe(PathType.LOC);
    expect(setting('p2pLevel', { NCCL_P2P_DISABLE: '0', NCCL_P2P_LEVEL: 'SYS' })).toBe(PathType.SYS);
  });
});

describe('NCCL_NETDEVS_POLICY', () => {
  const policy = (text: string | undefined) => setting('netDevsPolicy', { NCCL_NETDEVS_POLICY: text });

  it('is AUTO, ALL or MAX:n in any case', () => {
    expect([undefined, 'AUTO', 'auto'].map(policy)).toEqual(Array(3).fill({ kind: 'AUTO' }));
    expect(['ALL', 'All'].map(policy)).toEqual(Array(2).fill({ kind: 'ALL' }));
    expect(['MAX:1', 'max:12'].map(policy)).toEqual([
      { kind: 'MAX', limit: 1 },
      { kind: 'MAX', limit: 12 },
    ]);
    expect(logged({ NCCL_NETDEVS_POLICY: 'all' })).toEqual([]);
  });

  it('is AUTO for everything else, with a line of log', () => {
    for (const text of ['MAX', 'MAX:', 'MAX:0', 'MAX:-2', 'ALLX', 'some']) {
      expect(policy(text), text).toEqual({ kind: 'AUTO' });
      expect(logged({ NCCL_NETDEVS_POLICY: text })).toEqual([
        `INFO NET NCCL_NETDEVS_POLICY: unable to recognize '${text}', using AUTO`,
      ]);
    }
  });
});

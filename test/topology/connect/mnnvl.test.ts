import { describe, expect, it } from 'vitest';
import {
  clusterUuidText,
  type FabricInfo,
  mnnvlGroups,
  withFabricSettings,
} from '#src/topology/connect/mnnvl.js';
import { type Environment, topologySettings } from '#src/topology/settings.js';

const ABLE = { cuMem: true, fabricHandles: true };

/** A rank of a host, ready, in a cluster and a clique. */
const rank = (host: number, cluster: number, clique = 0): FabricInfo => ({
  hostHash: BigInt(host),
  completed: true,
  clusterUuid: [BigInt(cluster), 7n],
  cliqueId: clique,
  chassisSerial: 'chassis',
});

const groups = (ranks: readonly FabricInfo[], env: Environment = {}, own = 0, support = ABLE) =>
  mnnvlGroups(ranks, own, support, topologySettings(env));

describe('multi-node NVLink', () => {
  const two = [rank(1, 5), rank(1, 5), rank(2, 5), rank(2, 5)];

  it('joins the ranks of one clique over hosts', () => {
    expect(groups(two)).toEqual({ clique: [0, 1, 2, 3], domain: [0, 1, 2, 3], crossClique: false });
    const cliques = [rank(1, 5, 1), rank(2, 5, 2), rank(3, 5, 1), rank(4, 6, 1)];
    expect(groups(cliques)).toEqual({ clique: [0, 2], domain: [0, 1, 2], crossClique: false });
    expect(groups(cliques, {}, 1)).toEqual({ clique: [1], domain: [0, 1, 2], crossClique: false });
  });

  it('reaches other cliques only if asked to, and if there are any', () => {
    const cross = { NCCL_MNNVL_CROSS_CLIQUE: '1' };
    expect(groups([rank(1, 5, 1), rank(2, 5, 2)], cross)).toMatchObject({ crossClique: true });
    expect(groups(two, cross)).toMatchObject({ crossClique: false });
  });

  it('is left alone on one host, unless forced', () => {
    const host = [rank(1, 5), rank(1, 5)];
    expect(groups(host)).toBe('one host');
    expect(groups(host, { NCCL_MNNVL_ENABLE: '1' })).toMatchObject({ clique: [0, 1] });
  });

  it('is off where the user says so', () => {
    expect(groups(two, { NCCL_MNNVL_ENABLE: '0' })).toBe('NCCL_MNNVL_ENABLE');
    expect(groups(two, { NCCL_P2P_DISABLE: '1' })).toBe('P2P level LOC');
    expect(groups(two, { NCCL_P2P_DISABLE: '1', NCCL_MNNVL_ENABLE: '1' })).toMatchObject({
      clique: [0, 1, 2, 3],
    });
  });

  it('needs memory handles, a fabric that is ready, and an identity on every rank', () => {
    expect(groups(two, {}, 0, { ...ABLE, cuMem: false })).toBe('no cuMem');
    expect(groups(two, {}, 0, { ...ABLE, fabricHandles: false })).toBe('no fabric handles');
    expect(groups([...two, { ...rank(3, 5), completed: false }])).toBe('fabric not ready');
    expect(groups([...two, { ...rank(3, 5), clusterUuid: [0n, 0n] }])).toBe('no cluster UUID');
    expect(groups([rank(1, 5), rank(2, 6)])).toBe('alone in its domain');
  });

  it('lets the user replace cluster and clique', () => {
    const replaced = (env: Environment) => withFabricSettings(rank(1, 5, 3), topologySettings(env));
    expect(replaced({})).toEqual(rank(1, 5, 3));
    const uuid = replaced({ NCCL_MNNVL_UUID: '0x123456789abcdef1' }).clusterUuid;
    expect(uuid).toEqual([0x123456789abcdef1n, 0x123456789abcdef1n]);
    expect(replaced({ NCCL_MNNVL_CLIQUE_ID: '9' }).cliqueId).toBe(9);
    const hashed = replaced({ NCCL_MNNVL_CLIQUE_ID: '-2' });
    const other = withFabricSettings(
      { ...rank(1, 5), chassisSerial: 'other' },
      topologySettings({ NCCL_MNNVL_CLIQUE_ID: '-2' }),
    );
    expect(hashed.cliqueId).not.toBe(other.cliqueId);
    expect(hashed.cliqueId).toBe(hashed.cliqueId | 0);
  });

  it('writes an identity as text, none as nothing', () => {
    expect(clusterUuidText([0xabn, 0x10n])).toBe('ab.10');
    expect(clusterUuidText([0n, 0n])).toBe('');
    expect(clusterUuidText([0n, 1n])).toBe('0.1');
  });
});

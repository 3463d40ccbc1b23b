/** When emulated switches can be set up, and what of their buffers they take. */
import { describe, expect, it } from 'vitest';
import type { Collective } from '#src/collectives/control-block.js';
import { CONTROL_BYTES, STEPS } from '#src/collectives/ring-connection.js';
import type { SwitchedName } from '#src/collectives/switched.js';
import {
  type ConnectedLimits,
  connectedSetting,
  SWITCHED_NAMES,
} from '#src/planning/connected-algorithms.js';
import { ConnectionPool } from '#src/planning/connection-pool.js';
import { SWITCH_BYTES, switchBuffers, switchObstacle } from '#src/planning/switch-limits.js';
import { switchedAlgorithm } from '#src/planning/switched-plan.js';
import { usualSwitchedNodeSize } from '#src/planning/virtual-nodes.js';

const limits = (ranks: number, more: Partial<ConnectedLimits> = {}): ConnectedLimits => ({
  ranks,
  ranksPerNode: undefined,
  channels: 1,
  llBytes: 524288,
  simpleBytes: 4194304,
  ...more,
});

const ALL = { bytes: SWITCH_BYTES, nvls: true, collnet: true };

const obstacle = (
  name: SwitchedName,
  ranks: number,
  more: Partial<ConnectedLimits> = {},
  collective: Collective = 'allReduce',
  switches = ALL,
) => switchObstacle(name, collective, limits(ranks, more), switches);

describe('the buffer of a switch', () => {
  it('is what the slots take in which ports leave their data', () => {
    for (const name of SWITCHED_NAMES) {
      for (const [ranks, ranksPerNode, channels] of [
        [8, 4, 1],
        [6, 2, 3],
        [8, 8, 2],
      ] as const) {
        const setting = connectedSetting(name, 'Simple', limits(ranks, { ranksPerNode, channels }));
        const { connections } = switchedAlgorithm(name);
        let node = 0;
        let network = 0;
        for (let rank = 0; rank < ranks; rank++) {
          const { receives, ports = [], sends } = connections(setting, rank);
          const pool = new ConnectionPool({ receives, sends }, setting.slotBytes);
          expect(pool.bytes).toBeGreaterThan(receives.length * (CONTROL_BYTES + STEPS * setting.slotBytes));
          // Whoever does the work of a switch has a slot for each of its ports.
          for (const { level } of ports) {
            if (level === 'network') network += STEPS * setting.slotBytes;
            else if (rank < ranksPerNode) node += STEPS * setting.slotBytes;
          }
        }
        expect(switchBuffers(name, setting)).toEqual({ node, network });
      }
    }
  });

  it('has room for what usual settings need', () => {
    for (const name of SWITCHED_NAMES) {
      for (const ranks of [2, 3, 8, 16, 32]) expect(obstacle(name, ranks)).toBeUndefined();
      expect(obstacle(name, 8, { channels: 8 })).toBeUndefined();
    }
  });

  it('refuses more, with both numbers', () => {
    expect(obstacle('NVLS', 8, { channels: 9 })).toBe(
      "needs 37748736 bytes of a switch's buffer, which has 33554432 (TUTTI_SWITCH_BYTES)",
    );
    const small = { ...ALL, bytes: 1048575 };
    expect(obstacle('CollNetDirect', 8, {}, 'allReduce', small)).toMatch(
      /^needs 1048576 bytes .* has 1048575/,
    );
  });
});

describe('switches', () => {
  it.each([
    ['CollNetDirect', 8, { ranksPerNode: 8 }, 'allReduce', 'needs several nodes, and all 8 ranks are on one'],
    ['NVLSTree', 8, { ranksPerNode: 9 }, 'allReduce', 'needs several nodes, and all 8 ranks are on one'],
    ['CollNetChain', 18, { ranksPerNode: 9 }, 'allReduce', 'serves at most 8 ranks of a node, not 9'],
    ['NVLS', 33, {}, 'allReduce', 'serves at most 32 ranks of a node, not 33'],
    ['NVLS', 7, { ranksPerNode: 3 }, 'allGather', 'needs nodes of one size, and 7 ranks make none of 3'],
  ] as const)('%s on %i ranks %j %s: %s', (name, ranks, more, collective, why) => {
    expect(obstacle(name, ranks, more, collective)).toBe(why);
  });

  it('are there unless a variable switches them off; NVLS over nodes needs CollNet', () => {
    const off = (what: Partial<typeof ALL>, name: SwitchedName, more: Partial<ConnectedLimits> = {}) =>
      obstacle(name, 8, more, 'allReduce', { ...ALL, ...what });
    expect(off({ nvls: false }, 'NVLS')).toMatch('NCCL_NVLS_ENABLE');
    expect(off({ nvls: false }, 'NVLSTree')).toMatch('NCCL_NVLS_ENABLE');
    expect(off({ nvls: false }, 'CollNetDirect')).toBeUndefined();
    expect(off({ collnet: false }, 'CollNetChain')).toMatch('NCCL_COLLNET_ENABLE');
    expect(off({ collnet: false }, 'NVLS')).toBeUndefined();
    expect(off({ collnet: false }, 'NVLS', { ranksPerNode: 4 })).toMatch('NCCL_COLLNET_ENABLE');
    expect(off({ collnet: false }, 'NVLSTree')).toBeUndefined();
  });

  it('between nodes: the usual nodes are the largest of one size, of which there are two', () => {
    const sizes = [2, 3, 4, 6, 7, 8, 9, 12, 16, 22, 64].map((ranks) => [ranks, usualSwitchedNodeSize(ranks)]);
    expect(Object.fromEntries(sizes)).toEqual({
      2: 1,
      3: 1,
      4: 2,
      6: 3,
      7: 1,
      8: 4,
      9: 3,
      12: 6,
      16: 8,
      22: 2,
      64: 8,
    });
  });
});

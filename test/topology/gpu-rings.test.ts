/** Orders of rings on machines that NCCL was asked about (golden data). */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { describeCluster } from '#src/topology/cluster.js';
import { gpuRings } from '#src/topology/gpu-rings.js';
import { pathOrNone } from '#src/topology/paths/path.js';
import { PathType } from '#src/topology/system/path-type.js';
import { readXml } from '#src/topology/xml/read.js';

const documentOf = (machine: string) =>
  readXml(readFileSync(new URL(`../golden/${machine}/topo.xml`, import.meta.url), 'utf8'), {
    root: 'system',
    file: machine,
  }).root;

describe('rings of GPUs', () => {
  it.each(['dgx1-v100x8-4x100g', 'azure-ndv2-v100x8-mesh'])(
    'follow the NVLinks of %s, where the order of numbers does not',
    (machine) => {
      const document = documentOf(machine);
      const { system } = describeCluster({ nodes: [{ xml: document }] }).domains[0]!;
      const gpuOf = (rank: number) => system.nodes.GPU.find((gpu) => gpu.rank === rank)!;
      const isNvlink = (order: readonly number[]) =>
        order.every((rank, i) => {
          const next = order[(i + 1) % order.length]!;
          return pathOrNone(gpuOf(rank), gpuOf(next)).type === PathType.NVL;
        });
      const all = Array.from({ length: 8 }, (_, rank) => rank);
      expect(isNvlink(all)).toBe(false);
      const { orders, reason } = gpuRings(document);
      expect(reason).toBe('as the search of the topology has them');
      expect(orders).toHaveLength(6);
      expect(new Set(orders!.map((order) => order.join())).size).toBe(4);
      for (const order of orders!) {
        expect(order[0]).toBe(0);
        expect(order.toSorted((a, b) => a - b)).toEqual(all);
        expect(isNvlink(order), order.join(' ')).toBe(true);
      }
    },
  );

  it.each(['dgx-a100-8x200g', 'azure-ndv5-h100x8-8x400g', 'perlmutter-a100x4'])(
    'need no order on %s, whose GPUs are all joined alike',
    (machine) => {
      expect(gpuRings(documentOf(machine))).toEqual({ reason: 'all GPUs reach each other alike' });
    },
  );

  it('pass between bridged pairs as seldom as they can', () => {
    for (const order of gpuRings(documentOf('azure-ncv4-a100x4-pairs')).orders!) {
      const pairs = order.map((rank, i) => [rank, order[(i + 1) % 4]!].toSorted().join(''));
      expect(pairs.filter((pair) => pair === '01' || pair === '23')).toHaveLength(2);
    }
  });

  it('have no order where GPUs may not reach each other', () => {
    const env = { NCCL_P2P_DISABLE: '1' };
    const reason = 'the topology has 2 groups of GPUs that do not reach each other';
    expect(gpuRings(documentOf('dgx1-v100x8-4x100g'), { env })).toEqual({ reason });
  });
});

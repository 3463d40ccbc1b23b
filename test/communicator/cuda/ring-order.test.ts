/** Orders of rings in communicators on GPUs of a fake driver. */
import { describe, expect, it } from 'vitest';
import { detectedRings, ringOrder } from '#src/communicator/cuda/ring-order.js';
import type { GpuRings } from '#src/topology/gpu-rings.js';
import { exactCase, runCase, ways } from '../../gpu/cases.mjs';
import { randomFrom } from '../../gpu/random.mjs';
import { fakeGpus, fakeProcesses } from './fake-gpus.js';

/** As a search would have them, for four GPUs. */
const FOUND: GpuRings = {
  orders: [
    [0, 2, 1, 3],
    [0, 2, 1, 3],
    [0, 3, 1, 2],
  ],
  reason: 'as the search of the topology has them',
};

describe.each([
  ['ranks of one process', fakeGpus],
  ['processes', fakeProcesses],
] as const)('%s', (_, open) => {
  it.each([
    ['Ring', ['allReduce', 'allGather', 'reduceScatter', 'broadcast', 'reduce']],
    ['Tree', ['allReduce']],
  ])(
    'follow the orders of the search with %s, with several ranks on a GPU',
    async (algorithm, collectives) => {
      const asked: (readonly string[])[] = [];
      const { comms } = await open([0, 1, 2, 3, 1], {
        ...{ algorithm, protocol: 'Simple', seed: 5 },
        findRings: (busIds) => {
          asked.push(busIds);
          return FOUND;
        },
      });
      // One rank asks, for all; ranks 1 and 4 share a GPU.
      expect(asked).toHaveLength(1);
      expect(asked[0]).toHaveLength(4);
      for (const comm of comms) {
        expect(comm.rings).toBe('rings as the search of the topology has them: 0 2 1 4 3, 0 3 1 4 2');
      }
      const random = randomFrom(7);
      for (let k = 0; k < 2; k++) {
        const one = exactCase(random, comms.length, 60, { collectives });
        if (open === fakeGpus) expect(await runCase(comms, one, ways.awaited), `case ${k}`).toEqual([]);
      }
      const buffers = comms.map((comm) => comm.alloc(Float32Array, 40));
      await Promise.all(buffers.map((buffer, rank) => buffer.copyFrom(new Float32Array(40).fill(2 ** rank))));
      await Promise.all(comms.map((comm, rank) => comm.allReduce(buffers[rank]!, buffers[rank]!)));
      for (const buffer of buffers) expect(await buffer.read()).toEqual(new Float32Array(40).fill(31));
    },
  );

  it('stay in the order of the ranks where nothing better is known, and say why', async () => {
    const findRings = () => ({ reason: 'nobody knows' });
    const { comms } = await open([0, 1, 2], { algorithm: 'Ring', findRings });
    expect(comms.map(({ rings }) => rings)).toEqual(
      new Array(3).fill('rings in the order of the ranks: nobody knows'),
    );
  });
});

describe('the order of rings', () => {
  const connectors = { channels: { Ring: 1 }, llSlot: 512, ll128Slot: 2048, simpleSlot: 512 };
  const sizes = { connectors } as Parameters<typeof ringOrder>[1]['sizes'];
  const gpus = ['0000:01:00.0', '0000:02:00.0', '0000:03:00.0'].map((pciBusId) => ({ pciBusId }));
  const find = () => ({ orders: [[0, 2, 1]], reason: 'found' });

  it('is not looked for where it does not matter', () => {
    const never = () => {
      throw new Error('asked for');
    };
    expect(ringOrder(gpus, { sizes: { ...sizes, connectors: undefined } as never, onHost: false })).toBe(
      undefined,
    );
    const textOf = (list: typeof gpus, onHost = false) =>
      ringOrder(list, { sizes, onHost, find: never })!.text;
    expect(textOf(gpus.slice(0, 2))).toBe('rings in the order of the ranks: there are two GPUs');
    expect(textOf([gpus[0]!, gpus[0]!])).toBe('rings in the order of the ranks: there is one GPU');
    expect(textOf(gpus, true)).toContain('GPUs meet in memory of the host');
    expect(ringOrder(gpus, { sizes, onHost: false, find })!.orders).toEqual([[0, 2, 1]]);
  });

  it('falls back to that of the ranks, with the reason, where the machine cannot be looked at', () => {
    const { orders, reason } = detectedRings(['ffff:01:00.0', 'ffff:02:00.0', 'ffff:03:00.0']);
    expect(orders).toBe(undefined);
    expect(reason).toMatch(/./);
  });
});

/** Which NICs a GPU spreads its channels over. */
import { describe, expect, it } from 'vitest';
import { localCpu, netCapacity, preferredNic, preferredNics } from '#src/topology/paths/local-nics.js';
import { localNodes } from '#src/topology/paths/path.js';
import type { Environment } from '#src/topology/settings.js';
import { PathType } from '#src/topology/system/path-type.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { reach } from '../described.js';
import {
  type Attributes,
  cpu,
  gpu,
  link,
  MILAN,
  net,
  nic,
  nicOf,
  pciSwitch,
  SAPPHIRE_RAPIDS,
  system,
} from '../machine-xml.js';

/** GPUs with these NVML numbers and as many NICs below one switch. */
const below = (devs: readonly number[], nets: number): XmlElement =>
  system(
    cpu(
      MILAN,
      pciSwitch(
        '01:00.0',
        ...devs.map((dev, rank) => gpu(`${rank + 1}2:00.0`, dev, { rank })),
        ...Array.from({ length: nets }, (_, port) => nic(`${port + 1}3:00.0`, port)),
      ),
    ),
  );

/** Numbers of the NICs that each GPU prefers for the channels 0, 1, ... */
function preferred(xml: XmlElement, channels: number, env: Environment = {}): number[][] {
  const { system: machine, settings } = reach(xml, { env });
  return machine.nodes.GPU.map((gpuNode) =>
    Array.from(
      { length: channels },
      (_, channel) => preferredNic(machine, gpuNode, channel, settings.netDevsPolicy).dev,
    ),
  );
}

describe('the NIC of a GPU for a channel', () => {
  it('is one of its share of the nearest ones: of 4 NICs GPU 0 has 0 and 1, GPU 1 has 2 and 3', () => {
    // GPU 1: number 1 with its two bits reversed is 2.
    expect(preferred(below([0, 1], 4), 4)).toEqual([
      [0, 1, 0, 1],
      [2, 3, 2, 3],
    ]);
  });

  it('begins at the reversed bits of the GPU number if the number of NICs is a power of two', () => {
    expect(preferred(below([0, 1, 2, 3], 4), 1)).toEqual([[0], [2], [1], [3]]);
    // Eight NICs, four GPUs: 0, 1, 2, 3 in three bits are 0, 4, 2, 6.
    expect(preferred(below([0, 1, 2, 3], 8), 2)).toEqual([
      [0, 1],
      [4, 5],
      [2, 3],
      [6, 7],
    ]);
  });

  it('begins at the GPU number otherwise', () => {
    expect(preferred(below([0, 1, 2], 3), 2)).toEqual([
      [0, 0],
      [1, 1],
      [2, 2],
    ]);
    // Three NICs for two GPUs: two each.
    expect(preferred(below([0, 1], 3), 3)).toEqual([
      [0, 1, 0],
      [1, 2, 1],
    ]);
  });

  it('counts the NVML number, not the rank, modulo the GPUs that are as near to the first NIC', () => {
    expect(preferred(below([3, 2], 2), 1)).toEqual([[1], [0]]);
    expect(preferred(below([5], 2), 3)).toEqual([[0, 1, 0]]);
  });

  it('follows NCCL_NETDEVS_POLICY', () => {
    const withPolicy = (policy: string) => preferred(below([0, 1], 4), 5, { NCCL_NETDEVS_POLICY: policy });
    expect(withPolicy('ALL')).toEqual([
      [0, 1, 2, 3, 0],
      [2, 3, 0, 1, 2],
    ]);
    expect(withPolicy('MAX:1')).toEqual([
      [0, 0, 0, 0, 0],
      [2, 2, 2, 2, 2],
    ]);
    expect(withPolicy('max:3')).toEqual([
      [0, 1, 2, 0, 1],
      [2, 3, 0, 2, 3],
    ]);
    expect(withPolicy('MAX:9')).toEqual(withPolicy('all'));
    for (const unknown of ['MAX:0', 'MAX:-1', 'some', 'auto'])
      expect(withPolicy(unknown)).toEqual(withPolicy('AUTO'));
  });

  it('is the first one with its id where several virtual ones share it', () => {
    const virtual = () => nicOf('00:00.0', {}, net(0, { gdr: 0 })).children[0]!;
    const xml = system(
      cpu({ ...MILAN, numaid: 0 }, virtual()),
      cpu({ ...MILAN, numaid: 1 }, gpu('01:00.0', 0), virtual()),
    );
    const { system: machine, settings } = reach(xml);
    const nicOfGpu = preferredNic(machine, machine.nodes.GPU[0]!, 0, settings.netDevsPolicy);
    expect(nicOfGpu).toBe(machine.nodes.NET[0]);
  });

  it('is an error where no NIC is described at all, naming GPU and rank', () => {
    const { system: machine, settings } = reach(system(cpu(MILAN, gpu('01:00.0', 0))));
    expect(() => preferredNic(machine, machine.nodes.GPU[0]!, 0, settings.netDevsPolicy)).toThrow(
      /Could not find any local path from gpu GPU\/0-1000 to net.*<net>/,
    );
  });
});

describe('the nearest nodes of a type', () => {
  const machine = reach(
    system(
      cpu(
        { ...SAPPHIRE_RAPIDS, numaid: 0 },
        pciSwitch('01:00.0', gpu('02:00.0', 0), nic('03:00.0', 0), nic('04:00.0', 1, {}, link(3))),
        nic('05:00.0', 2),
      ),
      cpu({ ...SAPPHIRE_RAPIDS, numaid: 1 }, gpu('06:00.0', 1)),
    ),
  ).system;
  const [gpu0, gpu1] = machine.nodes.GPU;

  it('have the most bandwidth, then the best type', () => {
    // NIC 2 is as wide as NIC 0 but behind the CPU; NIC 1 is narrower.
    expect(localNodes(gpu0!, 'NET')).toEqual({ indices: [0], type: PathType.PIX });
    // From the other socket 22 GB/s reach NIC 0 and 2 alike.
    expect(localNodes(gpu1!, 'NET')).toEqual({ indices: [0, 2], type: PathType.SYS });
  });

  it('are none without a table of paths, and all of them, without a type, if none is reached', () => {
    expect(localNodes(gpu0!, 'NVS')).toEqual({ indices: [], type: undefined });
    const apart = reach(
      system(
        cpu(MILAN, gpu('01:00.0', 0)),
        cpu({ ...MILAN, host_hash: '0x2000' }, gpu('01:00.0', 1), nic('02:00.0', 0), nic('03:00.0', 1)),
      ),
      { mnnvl: true, env: { NCCL_P2P_LEVEL: 'SYS' } },
    ).system;
    expect(localNodes(apart.nodes.NET[0]!, 'GPU').indices).toEqual([1]);
    expect(localNodes({ ...gpu0!, paths: { NET: [] } }, 'NET')).toEqual({ indices: [], type: undefined });
    const unreached = { type: PathType.DIS, bandwidth: 0, hops: [] };
    expect(localNodes({ ...gpu0!, paths: { NET: [unreached, unreached] } }, 'NET')).toEqual({
      indices: [0, 1],
      type: undefined,
    });
  });

  it('of type CPU: the first with the fewest hops', () => {
    expect(localCpu(machine, gpu0!).numaId).toBe(0);
    expect(localCpu(machine, gpu1!).numaId).toBe(1);
    expect(() => localCpu(machine, { ...gpu0!, paths: {} })).toThrow(
      /could not find a CPU close to GPU GPU\/0-2000/,
    );
  });
});

describe('what the NICs of a GPU carry', () => {
  const capacity = (xml: XmlElement, env: Environment = {}) => {
    const { system: machine, settings } = reach(xml, { env });
    return netCapacity(machine, machine.nodes.GPU[0]!, settings.netDevsPolicy);
  };
  const one = (width: Attributes, speeds: readonly number[]) =>
    system(
      cpu(
        MILAN,
        pciSwitch(
          '01:00.0',
          width,
          gpu('02:00.0', 0, { pci: width }),
          ...speeds.map((speed, dev) => nic(`${dev + 1}3:00.0`, dev, { speed })),
        ),
      ),
    );

  it('is limited by PCI, and as many count as fill the way to the CPU', () => {
    // 200 Gbit/s are 25 GB/s, the PCI link 24.
    expect(capacity(one(link(4), [200_000]))).toEqual({ minBandwidth: 24, count: 1, total: 24 });
    expect(capacity(one(link(5), [160_000, 160_000, 160_000, 160_000]))).toEqual({
      minBandwidth: 20,
      count: 3,
      total: 60,
    });
    expect(capacity(one(link(5), [80_000, 80_000]))).toEqual({ minBandwidth: 10, count: 2, total: 20 });
  });

  it('counts each preferred NIC once', () => {
    const xml = below([0, 1], 2);
    expect(preferredNics(reach(xml).system, reach(xml).system.nodes.GPU[0]!, { kind: 'AUTO' }).length).toBe(
      1,
    );
    expect(capacity(xml)).toEqual({ minBandwidth: 24, count: 1, total: 24 });
    expect(capacity(one(link(4), [40_000, 40_000, 40_000]), { NCCL_NETDEVS_POLICY: 'MAX:2' })).toEqual({
      minBandwidth: 5,
      count: 2,
      total: 10,
    });
  });
});

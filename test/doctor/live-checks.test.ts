/** Facts of a machine and what the doctor says about them before a job runs. */
import { describe, expect, it } from 'vitest';
import { type LiveFacts, liveChecks } from '#src/doctor/live-checks.js';

const GOOD: LiveFacts = {
  shm: { bytes: 64 * 2 ** 30, freeBytes: 60 * 2 ** 30 },
  memlock: Number.POSITIVE_INFINITY,
  openFiles: 65_536,
  portRange: [32_768, 60_999],
  socketBuffers: { receive: 16 * 2 ** 20, send: 16 * 2 ** 20 },
  interfaces: [
    { name: 'eth0', isUp: true, mtu: 9000, speed: 100_000, addresses: ['10.0.0.1'], isVirtual: false },
    { name: 'docker0', isUp: false, mtu: 1500, speed: undefined, addresses: ['172.17.0.1'], isVirtual: true },
  ],
  adapters: [{ name: 'mlx5_0', port: 1, state: 'ACTIVE', rate: '200 Gb/sec', link: 'InfiniBand' }],
  hasVerbsDevices: true,
  modules: ['nvidia', 'nvidia_peermem', 'mlx5_ib'],
  cores: { allowed: 64, all: 64 },
  numaNodes: 2,
  gpus: ['NVIDIA H100 80GB HBM3'],
  hosts: [{ name: 'n2', reason: undefined }],
  variables: { NCCL_DEBUG: 'WARN' },
};

const concerns = (facts: LiveFacts): string[] =>
  liveChecks(facts).flatMap(({ what, status, advice }) =>
    status === 'attention' && advice !== undefined ? [what] : [],
  );

describe('live checks', () => {
  it('find nothing on a machine that has what NCCL needs', () => {
    expect(concerns(GOOD)).toEqual([]);
    expect(liveChecks(GOOD).every(({ status }) => status === 'fine')).toBe(true);
  });

  it('find nothing in variables that fit the machine', () => {
    for (const NCCL_SOCKET_IFNAME of ['eth', '=eth0', '^docker,lo', 'ib0,eth0'])
      expect(concerns({ ...GOOD, variables: { NCCL_SOCKET_IFNAME } }), NCCL_SOCKET_IFNAME).toEqual([]);
    for (const NCCL_COMM_ID of ['10.0.0.1:5000', '[fe80::1%eth0]:5000', 'n1.site:23456'])
      expect(concerns({ ...GOOD, variables: { NCCL_COMM_ID } }), NCCL_COMM_ID).toEqual([]);
    const files = { NCCL_TOPO_FILE: true };
    expect(concerns({ ...GOOD, files, variables: { NCCL_TOPO_FILE: '/x.xml' } })).toEqual([]);
    const variables = { NCCL_IB_DISABLE: '1', NCCL_PROTO: '^LL128', NCCL_BUFFSIZE: '8388608' };
    expect(concerns({ ...GOOD, adapters: [], variables })).toEqual([]);
  });

  const changes: [string, Partial<LiveFacts>][] = [
    ['/dev/shm', { shm: { bytes: 64 * 2 ** 20, freeBytes: 60 * 2 ** 20 } }],
    ['locked memory', { memlock: 65_536 }],
    ['open files', { openFiles: 1024 }],
    ['TCP ports', { portRange: [40_000, 45_000] }],
    ['socket buffers', { socketBuffers: { receive: 212_992, send: 212_992 } }],
    ['interfaces', { interfaces: [] }],
    ['virtual interfaces', { interfaces: GOOD.interfaces.map((one) => ({ ...one, isUp: true })) }],
    ['size of packets', { interfaces: GOOD.interfaces.map((one) => ({ ...one, mtu: 1500 })) }],
    ['RDMA adapters', { adapters: GOOD.adapters.map((one) => ({ ...one, state: 'DOWN' })) }],
    ['RDMA devices', { hasVerbsDevices: false }],
    ['GPUDirect RDMA', { modules: ['nvidia', 'mlx5_ib'] }],
    ['cores', { cores: { allowed: 1, all: 64 } }],
    ['files of variables', { variables: { NCCL_TOPO_FILE: '/no/x.xml' }, files: { NCCL_TOPO_FILE: false } }],
    ['meeting point', { variables: { NCCL_COMM_ID: 'n1' } }],
    ['meeting point', { variables: { NCCL_COMM_ID: '10.0.0.1:99999' } }],
    ['variables', { variables: { NCCL_P2P_DISABLE: '1' } }],
    ['variables', { variables: { NCCL_PROTO: 'LL' } }],
    ['variables', { variables: { NCCL_BUFFSIZE: '3' } }],
    ['variables', { variables: { NCCL_IB_DISABLE: '1' } }],
    ['variables', { variables: { NCCL_NET: 'Socket' } }],
    ['variables', { variables: { NCCL_NET: 'IB' }, adapters: [] }],
    ['interfaces for NCCL', { variables: { NCCL_SOCKET_IFNAME: 'eth7' } }],
    ['interfaces for NCCL', { variables: { NCCL_SOCKET_IFNAME: '=eth' } }],
    ['interfaces for NCCL', { variables: { NCCL_SOCKET_IFNAME: '^eth' } }],
    ['interfaces for NCCL', { variables: { NCCL_SOCKET_IFNAME: 'lo' } }],
    ['sockets of a connection', { variables: { NCCL_SOCKET_NTHREADS: '16', NCCL_NSOCKS_PERTHREAD: '8' } }],
    ['host n2', { hosts: [{ name: 'n2', reason: 'no answer within 2 s' }] }],
  ];

  it.each(changes)('ask for attention to %s alone when it alone is wrong', (what, change) => {
    expect(concerns({ ...GOOD, ...change })).toEqual([what]);
  });

  it('say what they cannot see', () => {
    const checks = liveChecks({ ...GOOD, memlock: undefined, modules: undefined, gpus: undefined });
    expect(checks.filter(({ status }) => status === 'unknown').map(({ what }) => what)).toEqual([
      'locked memory',
      'GPUs',
    ]);
  });
});

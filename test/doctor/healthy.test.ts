/** What intact jobs and machines of many kinds write: the doctor has no fault to tell of, and calls no name. */
import { describe, expect, it } from 'vitest';
import { isFault } from '#src/doctor/report/outcome.js';
import { examine } from './case-files.js';

interface Kind {
  readonly hosts: readonly string[];
  readonly gpus: number;
  readonly version: string;
  /** Lines of the set-up of each process. */
  readonly setup: (host: string, gpu: number) => readonly string[];
  /** Way between GPUs of a host, and between hosts. */
  readonly inside: string;
  readonly between: string;
  readonly mnnvl?: boolean;
  /** As the oldest versions write the set-up: without an id and without START. */
  readonly isOld?: boolean;
  /** What stands behind the set-up. */
  readonly end?: (say: (message: string) => string, comm: string) => readonly string[];
}

/** The logs of all ranks of a job, one after the other. */
function logsOf({ hosts, gpus, version, setup, inside, between, mnnvl, isOld, end }: Kind): string[] {
  const size = hosts.length * gpus;
  return hosts.flatMap((host, node) =>
    Array.from({ length: gpus }, (_, gpu) => {
      const rank = node * gpus + gpu;
      const say = (message: string): string =>
        `${host}:${1200 + gpu}:${1300 + gpu} [${gpu}] NCCL INFO ${message}`;
      const bus = `${(0x18 + 0x13 * gpu).toString(16)}000`;
      const comm = `comm 0x5a${rank.toString(16)}0 rank ${rank} nranks ${size} cudaDev ${gpu}${isOld ? '' : ` nvmlDev ${gpu}`} busId ${bus}`;
      const id = isOld ? '' : ' commId 0x9e3779b97f4a7c15';
      const next = (rank + 1) % size;
      const isFar = Math.floor(next / gpus) !== node;
      return [
        ...(gpu === 0 ? [say(`NCCL version ${version}`)] : []),
        say('cudaDriverVersion 12080'),
        ...setup(host, gpu).map(say),
        ...(isOld ? [] : [say(`ncclCommInitRankConfig ${comm}${id} - Init START`)]),
        say(
          `comm 0x5a${rank.toString(16)}0 rank ${rank} nRanks ${size} nNodes ${hosts.length} localRanks ${gpus} localRank ${gpu} MNNVL ${mnnvl ? 1 : 0}`,
        ),
        ...(size === 1
          ? []
          : [
              say(
                `Channel 00/0 : ${rank}[${gpu}] -> ${next}[${next % gpus}]${isFar ? ' [send]' : ''} via ${isFar ? between : inside}`,
              ),
            ]),
        ...(size > gpus && gpu === 0
          ? [
              say(
                `Channel 00/0 : ${(rank + size - 1) % size}[${gpus - 1}] -> ${rank}[0] [receive] via ${between}`,
              ),
            ]
          : []),
        say('Connected all rings'),
        say(
          '24 coll channels, 16 collnet channels, 16 nvls channels, 32 p2p channels, 2 p2p channels per peer',
        ),
        say(`${isOld ? '' : 'ncclCommInitRankConfig '}${comm}${id} - Init COMPLETE`),
        ...(end?.(say, comm) ?? [say(`${comm} - Destroy COMPLETE`)]),
      ];
    }).flat(),
  );
}

const ib = (count: number, name = (i: number) => `mlx5_${i}`, link = 'IB'): string =>
  Array.from({ length: count }, (_, i) => `[${i}]${name(i)}:1/${link}`).join(' ');
const env = (values: Readonly<Record<string, string>>): string[] =>
  Object.entries(values).map(([name, value]) => `${name} set by environment to ${value}.`);
const address = (host: string): string => `10.3.7.${host.length + (host.charCodeAt(host.length - 1) % 100)}`;

const JOBS: Readonly<Record<string, Kind>> = {
  'eight GPUs of a board, two hosts, InfiniBand': {
    hosts: ['sn041', 'sn042'],
    gpus: 8,
    version: '2.27.5+cuda12.9',
    setup: (host) => [
      ...env({ NCCL_SOCKET_IFNAME: 'bond0', NCCL_IB_HCA: 'mlx5_0,mlx5_1,mlx5_2,mlx5_3', NCCL_DEBUG: 'INFO' }),
      `Bootstrap: Using bond0:${address(host)}<0>`,
      'NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.',
      `NET/IB : Using ${ib(4)} [RO]; OOB bond0:${address(host)}<0>`,
      'Initialized NET plugin IB',
      'Using network IB',
      'DMA-BUF is available on GPU device 0',
      'NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)',
    ],
    inside: 'P2P/CUMEM/read',
    between: 'NET/IB/0/GDRDMA',
  },
  'a cloud with its own network and plugin': {
    hosts: ['ip-10-0-1-7', 'ip-10-0-1-9'],
    gpus: 8,
    version: '2.26.2+cuda12.8',
    setup: (host) => [
      ...env({ NCCL_SOCKET_IFNAME: '^docker,lo,veth', FI_PROVIDER: 'efa', NCCL_BUFFSIZE: '8388608' }),
      `Bootstrap: Using ens32:${address(host)}<0>`,
      'NET/Plugin: Loaded net plugin Libfabric (v9)',
      'NET/OFI Initializing aws-ofi-nccl 1.14.0',
      'NET/OFI Using transport protocol RDMA (platform set)',
      'NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)',
      'NET/OFI Internode latency set at 75.0 us',
      'TUNER/Plugin: Using tuner plugin nccl_ofi_tuner',
      'Using network Libfabric',
    ],
    inside: 'P2P/CUMEM',
    between: 'NET/Libfabric/0/GDRDMA',
  },
  'a cloud whose network goes over Ethernet with a plugin': {
    hosts: ['a3-0', 'a3-1'],
    gpus: 8,
    version: '2.21.5+cuda12.4',
    setup: (host) => [
      ...env({
        NCCL_NET_GDR_LEVEL: 'PIX',
        NCCL_PROTO: 'Simple,LL128',
        NCCL_IB_DISABLE: '1',
        NCCL_NVLS_ENABLE: '0',
      }),
      `Bootstrap : Using eth0:${address(host)}<0>`,
      'NET/FasTrak plugin initialized',
      'Using network FasTrak',
    ],
    inside: 'P2P/CUMEM',
    between: 'NET/FasTrak/0',
  },
  'virtual machines with a topology file and InfiniBand': {
    hosts: ['nd5-000001', 'nd5-000002'],
    gpus: 8,
    version: '2.25.1+cuda12.8',
    setup: (host) => [
      ...env({
        NCCL_TOPO_FILE: '/opt/cloud/ndv5-topo.xml',
        NCCL_IB_PCI_RELAXED_ORDERING: '1',
        NCCL_SOCKET_IFNAME: 'eth0',
      }),
      `Bootstrap: Using eth0:${address(host)}<0>`,
      `NET/IB : Using ${ib(8, (i) => `mlx5_ib${i}`)} [RO]; OOB eth0:${address(host)}<0>`,
      'Using network IB',
    ],
    inside: 'P2P/IPC/read',
    between: 'NET/IB/3/GDRDMA/Shared',
  },
  'RoCE with traffic classes and an index': {
    hosts: ['r01', 'r02', 'r03'],
    gpus: 4,
    version: '2.20.5+cuda12.4',
    setup: (host) => [
      ...env({
        NCCL_IB_GID_INDEX: '3',
        NCCL_IB_TC: '106',
        NCCL_IB_TIMEOUT: '22',
        NCCL_IB_QPS_PER_CONNECTION: '4',
        NCCL_IB_HCA: '=mlx5_bond_0,mlx5_bond_1',
      }),
      `Bootstrap : Using bond0:${address(host)}<0>`,
      `NET/IB : Using ${ib(2, (i) => `mlx5_bond_${i}`, 'RoCE')} [RO]; OOB bond0:${address(host)}<0>`,
      'Using network IB',
    ],
    inside: 'P2P/IPC',
    between: 'NET/IB/1/GDRDMA',
  },
  'a supercomputer with Slingshot': {
    hosts: ['nid001', 'nid002'],
    gpus: 4,
    version: '2.24.3+cuda12.6',
    setup: (host) => [
      ...env({ NCCL_NET: 'AWS Libfabric', NCCL_CROSS_NIC: '1', NCCL_SOCKET_IFNAME: 'hsn' }),
      `Bootstrap : Using hsn0:${address(host)}<0>`,
      'NET/OFI Selected Provider is cxi (found 4 nics)',
      'Using network AWS Libfabric',
    ],
    inside: 'P2P/CUMEM/read',
    between: 'NET/AWS Libfabric/0/GDRDMA',
  },
  'trays of one NVLink domain': {
    hosts: ['gb-1', 'gb-2', 'gb-3'],
    gpus: 4,
    version: '2.28.9+cuda13.0',
    setup: (host) => [
      `Bootstrap: Using enp1s0:${address(host)}<0>`,
      `NET/IB : Using ${ib(4)} [RO]; OOB enp1s0:${address(host)}<0>`,
      'Using network IB',
      'MNNVL busId 0x1000 fabric UUID 4d.8a cliqueId 0x7ffe state 3 healthMask 0x0',
    ],
    inside: 'P2P/MNNVL',
    between: 'P2P/MNNVL',
    mnnvl: true,
  },
  'one GPU': {
    hosts: ['box'],
    gpus: 1,
    version: '2.29.2+cuda12.9',
    setup: () => [
      'Bootstrap: Using wlp2s0:192.168.1.20<0>',
      'NET/IB : No device found.',
      'NET/Socket : Using [0]wlp2s0:192.168.1.20<0>',
      'Using network Socket',
    ],
    inside: '',
    between: '',
  },
  'cards in a container on one host, over host memory': {
    hosts: ['3f1c9a7be2d4'],
    gpus: 4,
    version: '2.18.3+cuda12.2',
    setup: () => [
      'Bootstrap : Using eth0:172.17.0.3<0>',
      'NET/Plugin : No plugin found (libnccl-net.so), using internal implementation',
      'Failed to open libibverbs.so[.1]',
      'NET/Socket : Using [0]eth0:172.17.0.3<0>',
      'Using network Socket',
      'P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.',
    ],
    inside: 'SHM/direct/direct',
    between: '',
  },
  'the oldest version that is read': {
    hosts: ['dgx1', 'dgx2'],
    gpus: 2,
    version: '2.8.4+cuda11.2',
    setup: (host) => [
      `Bootstrap : Using enp1s0f0:${address(host)}<0>`,
      'NET/Plugin : No plugin found (libnccl-net.so), using internal implementation',
      `NET/IB : Using ${ib(2)} ; OOB enp1s0f0:${address(host)}<0>`,
      'Using network IB',
    ],
    inside: 'P2P/IPC',
    between: 'NET/IB/0/GDRDMA',
    isOld: true,
    end: () => [],
  },
  'many hosts whose meeting took some attempts': {
    hosts: Array.from({ length: 24 }, (_, i) => `n${100 + i}`),
    gpus: 8,
    version: '2.28.3+cuda12.9',
    setup: (host) => [
      `Bootstrap: Using ib0:10.8.${host.slice(1)}.1<0>`,
      'socketStartConnect: connect to 10.8.100.1<39871> returned Connection refused, retrying (1/35) after sleep for 100 msec',
      `NET/IB : Using ${ib(8)} [RO]; OOB ib0:10.8.${host.slice(1)}.1<0>`,
      'Using network IB',
      "GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
    ],
    inside: 'P2P/CUMEM',
    between: 'NET/IB/5/GDRDMA',
  },
  'hosts over TCP in a private network': {
    hosts: ['vm-1', 'vm-2'],
    gpus: 1,
    version: '2.22.3+cuda12.5',
    setup: (host) => [
      `Bootstrap : Using ens4:${address(host)}<0>`,
      'NET/IB : No device found.',
      `NET/Socket : Using [0]ens4:${address(host)}<0>`,
      'Using network Socket',
    ],
    inside: '',
    between: 'NET/Socket/0',
  },
};

const faultsOf = async (files: readonly (readonly [string, string])[]) => {
  const { job, verdicts } = await examine(files);
  return {
    isKnown: job.files.every(({ kinds }) => kinds.size > 0),
    faults: verdicts.filter(isFault).map(({ id, text }) => `${id}: ${text}`),
  };
};

describe('logs of intact jobs', () => {
  for (const [name, kind] of Object.entries(JOBS)) {
    it(`give no fault: ${name}`, async () => {
      const lines = logsOf(kind);
      expect(await faultsOf([['job.log', `${lines.join('\n')}\n`]])).toEqual({ isKnown: true, faults: [] });
      // One file per host, with prefixes, and without the ends.
      const own = kind.hosts.map((host) => lines.filter((line) => line.startsWith(`${host}:`)));
      const files = own.map(
        (list, i) => [`out.${i}`, `${list.map((line) => `${i}: ${line}`).join('\n')}\n`] as const,
      );
      expect((await faultsOf(files)).faults).toEqual([]);
      const running = own.map(
        (list, i) => [`out.${i}`, `${list.filter((line) => !/Destroy/.test(line)).join('\n')}\n`] as const,
      );
      expect((await faultsOf(running)).faults).toEqual([]);
      expect((await faultsOf(files.slice(0, 1))).faults).toEqual([]);
    });
  }
});

const TOPO = Array.from({ length: 8 }, (_, i) => `GPU${i}`);

const OUTPUTS: Readonly<Record<string, readonly string[]>> = {
  'the table of nvidia-smi': [
    '+-----------------------------------------------------------------------------------------+',
    '| NVIDIA-SMI 570.86.10              Driver Version: 570.86.10      CUDA Version: 12.8     |',
    '|-----------------------------------------+------------------------+----------------------+',
    '| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |',
    '| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |',
    '|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |',
    '| N/A   31C    P0              72W / 700W |      4MiB /  81559MiB |      0%      Default |',
    '|   1  NVIDIA A100-SXM4-40GB          On  |   00000000:2A:00.0 Off |                   On |',
    '| N/A   31C    P0              52W / 400W |      4MiB /  40960MiB |     N/A      Default |',
    '|                                         |                        |              Enabled |',
  ],
  'parts of a GPU': [
    'GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1f)',
    '  MIG 3g.40gb     Device  0: (UUID: MIG-5a)',
    '  MIG 3g.40gb     Device  1: (UUID: MIG-5b)',
  ],
  'ways between GPUs of a board': [
    `\t${TOPO.join('\t')}\tNIC0\tCPU Affinity\tNUMA Affinity`,
    ...TOPO.map(
      (name, i) =>
        `${name}\t${TOPO.map((_, j) => (i === j ? ' X ' : 'NV18')).join('\t')}\t${i < 4 ? 'PXB' : 'SYS'}\t${i < 4 ? '0-47' : '48-95'}\t${i < 4 ? 0 : 1}`,
    ),
    `NIC0\t${TOPO.map((_, j) => (j < 4 ? 'PXB' : 'SYS')).join('\t')}\t X `,
  ],
  'adapters with a spare port and one for management': [
    "CA 'mlx5_0'",
    '\tPort 1:',
    '\t\tState: Active',
    '\t\tPhysical state: LinkUp',
    '\t\tRate: 400',
    '\t\tLink layer: InfiniBand',
    "CA 'mlx5_1'",
    '\tPort 1:',
    '\t\tState: Down',
    '\t\tPhysical state: Disabled',
    '\t\tRate: 10',
    '\t\tLink layer: InfiniBand',
    "CA 'mlx5_2'",
    '\tPort 1:',
    '\t\tState: Down',
    '\t\tPhysical state: Polling',
    '\t\tRate: 40',
    '\t\tLink layer: Ethernet',
    "CA 'mlx5_3'",
    '\tPort 1:',
    '\t\tState: Active',
    '\t\tPhysical state: LinkUp',
    '\t\tRate: 100',
    '\t\tLink layer: Ethernet',
  ],
  'interfaces of a host with containers': [
    '1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000',
    '2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP group default qlen 1000',
    '    inet 10.0.0.7/24 brd 10.0.0.255 scope global eth0',
    '3: eth1: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc mq state DOWN group default qlen 1000',
    '4: docker0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc noqueue state DOWN group default',
    '    inet 172.17.0.1/16 brd 172.17.255.255 scope global docker0',
  ],
  'a boot in the kernel’s log': [
    '[    6.1] mlx5_core 0000:5e:00.0: firmware version: 28.39.1002',
    '[    6.2] mlx5_core 0000:5e:00.0: Port module event: module 0, Cable plugged',
    '[    9.3] mlx5_core 0000:5e:00.0 ibp94s0: Link up',
    '[   11.1] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build',
    '[   12.1] nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 22013, Non-fatal, Link 28 Minion Link DLREQ interrupt',
    '[   60.1] pcieport 0000:40:01.1: AER: Corrected error received: 0000:41:00.0',
    '[  600.5] NVRM: Xid (PCI:0000:18:00): 43, pid=4711, name=python, Ch 00000008',
  ],
  'limits, file systems and settings': [
    '$ ulimit -l',
    'unlimited',
    '$ df -h',
    'Filesystem      Size  Used Avail Use% Mounted on',
    'tmpfs           504G     0  504G   0% /dev/shm',
    '/dev/nvme0n1p2  438G  401G   15G  97% /',
    '$ sysctl -a',
    'net.core.rmem_max = 212992',
    'net.ipv4.tcp_congestion_control = cubic',
    'net.ipv4.ip_local_port_range = 32768\t60999',
  ],
  'counters of an adapter that lost nothing': [
    '$ ethtool -S eth2',
    '     rx_discards_phy: 0',
    '     rx_prio3_pause: 0',
    '     tx_prio3_pause: 0',
    '     rx_out_of_buffer: 12',
  ],
  'training with its usual warnings': [
    'W0612 03:14:07.551000 139872 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default',
    '[rank0]:[W612 03:14:09.812 ProcessGroupNCCL.cpp:4561] [PG ID 0 PG GUID 0 Rank 0]  using GPU 0 to perform barrier as devices used by this process are currently unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect.',
    'NCCL version 2.21.5+cuda12.4',
    '[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1',
    'GPU available: True (cuda), used: True',
    'distributed_backend=nccl',
    'step 10 loss 2.31',
    '[rank0]:[W612 04:14:09.812 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.',
  ],
  'a server of models': [
    'INFO 06-12 03:14:09 utils.py:1008] Found nccl from library libnccl.so.2',
    'INFO 06-12 03:14:09 pynccl.py:69] vLLM is using nccl==2.21.5',
    'NCCL version 2.21.5+cuda12.4',
    'WARNING 06-12 03:14:10 custom_all_reduce.py:132] Custom allreduce is disabled because your platform lacks GPU P2P capability or P2P test failed.',
    'INFO 06-12 03:14:10 shm_broadcast.py:256] vLLM message queue communication handle: Handle(connect_ip=127.0.0.1)',
  ],
  'a framework that lists its options and its memory': [
    '  distributed_backend ............................. nccl',
    '  distributed_timeout_minutes ..................... 10',
    'TORCH_NCCL_ASYNC_ERROR_HANDLING=1',
    'NCCL version 2.21.5+cuda12.4',
    ...[1, 2, 3, 4].map(
      (i) =>
        `[Rank 0] (after ${i} iterations) memory (MB) | allocated: 41234.1 | max allocated: 55432.2 | reserved: ${60000 + 100 * i}.0 | max reserved: 61000.0`,
    ),
  ],
};

describe('outputs of intact machines and programs', () => {
  for (const [name, lines] of Object.entries(OUTPUTS)) {
    it(`give no fault: ${name}`, async () => {
      expect(await faultsOf([['out.txt', `${lines.join('\n')}\n`]])).toEqual({ isKnown: true, faults: [] });
    });
  }

  it('give no fault together, beside the log of a job', async () => {
    const log = logsOf(JOBS['virtual machines with a topology file and InfiniBand']!).join('\n');
    const all = Object.values(OUTPUTS).map((lines, i) => [`tool-${i}.txt`, `${lines.join('\n')}\n`] as const);
    expect((await faultsOf([['job.log', `${log}\n`], ...all])).faults).toEqual([]);
  });
});

describe('tables of intact machines', () => {
  const run = (gpu: string, gpus: number, program: string, busGBs: number, bytes = 1 << 30): string =>
    [
      `# Collective test starting: ${program}`,
      ...Array.from(
        { length: gpus },
        (_, i) => `#  Rank  ${i} Group  0 Pid   ${10 + i} on   k1 device  ${i} [0000:${i + 1}b:00] ${gpu}`,
      ),
      '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ',
      `  ${bytes}  ${bytes / 4}  float  sum  -1  ${(bytes / busGBs / 1e3).toFixed(2)}  ${busGBs.toFixed(2)}  ${busGBs.toFixed(2)}  0  ${(bytes / busGBs / 1e3).toFixed(2)}  ${busGBs.toFixed(2)}  ${busGBs.toFixed(2)}  0`,
      '',
    ].join('\n');

  it('of few GPUs on boards without switches, and of models with fewer links, give no fault', async () => {
    for (const [gpu, gpus, program, busGBs] of [
      ['NVIDIA A100-SXM4-80GB', 2, 'all_reduce_perf', 90],
      ['NVIDIA H100 80GB HBM3', 2, 'all_reduce_perf', 130],
      ['NVIDIA H100 80GB HBM3', 8, 'all_reduce_perf', 480],
      ['NVIDIA H800', 8, 'all_reduce_perf', 170],
      ['NVIDIA A800-SXM4-80GB', 8, 'all_reduce_perf', 155],
      ['Tesla V100-SXM2-16GB', 2, 'all_reduce_perf', 23],
      ['Tesla V100-SXM2-32GB', 8, 'all_reduce_perf', 130],
      ['NVIDIA GeForce RTX 4090', 2, 'all_reduce_perf', 12],
      ['NVIDIA L40S', 8, 'all_reduce_perf', 9],
    ] as const)
      expect((await faultsOf([['t.txt', run(gpu, gpus, program, busGBs)]])).faults, `${gpus} ${gpu}`).toEqual(
        [],
      );
    // Sizes that do not fill a machine tell nothing of its links.
    const small = run('NVIDIA H100 80GB HBM3', 8, 'alltoall_perf', 140, 1 << 24);
    expect((await faultsOf([['t.txt', small]])).faults).toEqual([]);
    expect(
      (await faultsOf([['t.txt', run('NVIDIA H100 80GB HBM3', 8, 'all_reduce_perf', 60)]])).faults,
    ).toHaveLength(1);
  });
});

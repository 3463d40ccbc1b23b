/**
 * For every rule, files that are near to what it looks for and show no such fault: what an intact job, another program or
 * another run leaves behind.
 */

export interface CounterExample {
  /** Why it is no such fault. */
  readonly why: string;
  readonly files: readonly (readonly [name: string, text: string])[];
}

const text = (...lines: string[]): string => `${lines.join('\n')}\n`;
const one = (why: string, ...lines: string[]): CounterExample => ({
  why,
  files: [['a.log', text(...lines)]],
});
const files = (why: string, list: Readonly<Record<string, readonly string[]>>): CounterExample => ({
  why,
  files: Object.entries(list).map(([name, lines]) => [name, text(...lines)] as const),
});

interface Rank {
  readonly rank?: number;
  readonly size?: number;
  readonly id?: string;
  readonly comm?: string;
  readonly gpu?: number;
}

/** A line of the log of a host's process, by the number of its GPU. */
const log = (host: string, message: string, gpu = 0): string =>
  `${host}:${10 + gpu}:${20 + gpu} [${gpu}] NCCL INFO ${message}`;
const warn = (host: string, place: string, message: string, gpu = 0): string =>
  `${host}:${10 + gpu}:${20 + gpu} [${gpu}] ${place} NCCL WARN ${message}`;
const init = (
  host: string,
  what: 'START' | 'COMPLETE',
  { rank = 0, size = 2, id = 'a1', comm = '0xa0', gpu = 0 }: Rank,
) =>
  log(
    host,
    `ncclCommInitRank comm ${comm} rank ${rank} nranks ${size} cudaDev ${gpu} busId ${gpu + 1}b000 commId 0x${id} - Init ${what}`,
    gpu,
  );
/** A set-up from beginning to end. */
const whole = (host: string, rank: Rank): string[] => [
  init(host, 'START', rank),
  init(host, 'COMPLETE', rank),
];
const nodes = (host: string, rank: number, count = 2): string =>
  log(host, `comm 0xa0 rank ${rank} nRanks ${count} nNodes ${count} localRanks 1 localRank 0 MNNVL 0`);

/** Two hosts over TCP. */
const tcp = (host: string): string[] => [
  log(host, 'NET/Socket : Using [0]eth1:10.0.0.4<0>'),
  log(host, 'Using network Socket'),
  nodes(host, 0),
];

const TABLE =
  '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ';
const row = (bytes: number, busGBs: number, wrong: string | number = 0, inPlaceGBs = busGBs): string => {
  const us = (GBs: number): string => (bytes / GBs / 1e3).toFixed(2);
  return `  ${bytes}  ${bytes / 4}  float  sum  -1  ${us(busGBs)}  ${busGBs.toFixed(2)}  ${busGBs.toFixed(2)}  ${wrong}  ${us(inPlaceGBs)}  ${inPlaceGBs.toFixed(2)}  ${inPlaceGBs.toFixed(2)}  0`;
};
const device = (rank: number, host: string, gpu: string, number = rank): string =>
  `#  Rank  ${rank} Group  0 Pid   ${10 + rank} on   ${host} device  ${number} [0000:${number + 1}b:00] ${gpu}`;

const MiB = 1024 * 1024;

const dump = (...ranks: readonly string[]): string =>
  `{ "world_size": ${ranks.length}, "ranks": [\n${ranks.map((ops, rank) => `{ "rank": ${rank}, "group": "g", "ops": [ ${ops} ] }`).join(',\n')}\n] }\n`;
const op = (seq: number, state: string, name = 'all_reduce', count = 96, dtype = 'float32'): string =>
  `{ "seq": ${seq}, "op": "${name}", "dtype": "${dtype}", "count": ${count}, "state": "${state}" }`;
const dumps = (why: string, ...ranks: readonly string[]): CounterExample => ({
  why,
  files: [['dumps.json', dump(...ranks)]],
});

const watchdog = (rank: number, sequence = 811): string =>
  `[rank${rank}]:[E101 10:44:10.1 ProcessGroupNCCL.cpp:616] [Rank ${rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=${sequence}, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600089 milliseconds before timing out.`;

const ras = (...lines: string[]): string[] => ['NCCL version 2.28.9 compiled with CUDA 13.0', ...lines];

const SWITCH = [
  '80:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge',
  '\tBus: primary=80, secondary=81, subordinate=84, sec-latency=0',
  '82:00.0 PCI bridge: Broadcom / LSI PEX880xx PCIe Gen 4 Switch (rev b0)',
  '\tBus: primary=82, secondary=83, subordinate=83, sec-latency=0',
];
const ACS = '\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-';
const H100 = '83:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)';
const link = (width: number, what = 'LnkSta'): string =>
  `\t\t${what}:\t${what === 'LnkCap' ? 'Port #0, ' : ''}Speed 32GT/s, Width x${width}${what === 'LnkCap' ? ', ASPM not supported' : ''}`;

export const COUNTER_EXAMPLES: Readonly<Record<string, readonly CounterExample[]>> = {
  'version-mismatch': [
    files('two jobs of two versions share no communicator', {
      'n1.log': [log('n1', 'NCCL version 2.26.2+cuda12.6'), ...whole('n1', { id: 'a1' })],
      'n2.log': [log('n2', 'NCCL version 2.21.5+cuda12.4'), ...whole('n2', { id: 'b2' })],
    }),
    one(
      'builds for two versions of CUDA are one version of NCCL',
      log('n1', 'NCCL version 2.26.2+cuda12.6'),
      ...whole('n1', { rank: 0 }),
      log('n2', 'NCCL version 2.26.2+cuda12.4'),
      ...whole('n2', { rank: 1 }),
    ),
  ],
  'duplicate-gpu': [
    one(
      'a message, not a warning: sharing a GPU was allowed',
      log('n1', 'Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000'),
    ),
    one(
      'two processes on two GPUs',
      ...whole('n1', { rank: 0, gpu: 0 }),
      ...whole('n1', { rank: 1, gpu: 1 }),
    ),
  ],
  'no-socket-interface': [
    one(
      'of one kind of interfaces there is none, others are used',
      log('n1', 'NET/IB : no socket interface found for this subnet'),
      log('n1', 'Bootstrap : Using eth0:10.0.0.1<0>'),
    ),
  ],
  'bootstrap-interface-mismatch': [
    one(
      'networks are routed: the communicator was completed',
      log('n1', 'Bootstrap: Using eth0:10.1.0.1<0>'),
      log('n2', 'Bootstrap: Using eth0:10.1.0.2<0>'),
      log('n3', 'Bootstrap: Using eth1:192.168.9.3<0>'),
      ...[0, 1, 2].flatMap((rank) => whole(`n${rank + 1}`, { rank, size: 3 })),
    ),
    one(
      'an attempt was repeated and led to a communicator',
      log('n1', 'Bootstrap: Using eth0:10.1.0.1<0>'),
      log('n1', 'Call to connect to 192.168.9.3<52291> returned Connection refused, retrying (1/34)'),
      log('n2', 'Bootstrap: Using eth0:10.1.0.2<0>'),
      log('n3', 'Bootstrap: Using eth1:192.168.9.3<0>'),
      ...[0, 1, 2].flatMap((rank) => whole(`n${rank + 1}`, { rank, size: 3 })),
    ),
  ],
  'iface-virtual': [
    one(
      'one host needs no network',
      log('n1', 'NET/Socket : Using [0]docker0:172.17.0.1<0>'),
      ...whole('n1', {}),
    ),
    one(
      'a tunnel that was chosen by name, over which ranks met',
      log('n1', 'NCCL_SOCKET_IFNAME set by environment to tailscale0'),
      log('n1', 'Bootstrap: Using tailscale0:100.64.0.1<0>'),
      log('n1', 'NET/Socket : Using [0]tailscale0:100.64.0.1<0>'),
      log('n1', 'Using network Socket'),
      ...whole('n1', {}),
      nodes('n1', 0),
    ),
    one(
      'a bridge of an uplink is a real network',
      log('n1', 'Bootstrap: Using br-ex:10.0.0.1<0>'),
      log('n1', 'NET/Socket : Using [0]br-ex:10.0.0.1<0>'),
      nodes('n1', 0),
    ),
    one(
      'data go over InfiniBand, the list of sockets carries nothing',
      log('n1', 'Bootstrap: Using eno1:10.0.0.1<0>'),
      log('n1', 'NET/Socket : Using [0]eno1:10.0.0.1<0> [1]docker0:172.17.0.1<0>'),
      log('n1', 'NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eno1:10.0.0.1<0>'),
      log('n1', 'Using network IB'),
      nodes('n1', 0),
    ),
  ],
  'net-plugin-load-failed': [
    one(
      'the plugin that NCCL tries on its own need not be there',
      log('n1', 'NET/Plugin: Could not find: libnccl-net.so'),
      log('n1', 'NET/Plugin: libnccl-net.so: cannot open shared object file: No such file or directory'),
      log('n1', 'Using network IB'),
      nodes('n1', 0),
    ),
    one(
      'another name of the plugin opened',
      log('n1', 'NCCL_NET_PLUGIN set by environment to libnccl-net-ofi.so'),
      log(
        'n1',
        'NET/Plugin: libnccl-net-libnccl-net-ofi.so.so: cannot open shared object file: No such file or directory',
      ),
      log('n1', 'Using network AWS Libfabric'),
      nodes('n1', 0),
    ),
  ],
  'net-unavailable': [
    one(
      'a message about plugins, and a network',
      log('n1', 'Failed to initialize any NET plugin of version 11'),
      log('n1', 'Using network IB'),
    ),
  ],
  'env-ib-disabled': [
    one(
      'a single host',
      log('n1', 'NCCL_IB_DISABLE set by environment to 1.'),
      log('n1', 'Using network Socket'),
      ...whole('n1', {}),
    ),
    one(
      'it is not disabled',
      log('n1', 'NCCL_IB_DISABLE set by environment to 0.'),
      log('n1', 'Using network Socket'),
      nodes('n1', 0),
    ),
    files('the host has no adapter that could do it', {
      'a.log': [
        log('n1', 'NCCL_IB_DISABLE set by environment to 1.'),
        log('n1', 'Using network Socket'),
        nodes('n1', 0),
      ],
      'lspci.txt': ['01:00.0 Ethernet controller: Intel Corporation Ethernet Controller X550 (rev 01)', H100],
    }),
  ],
  'env-p2p-disabled': [
    one('it is not disabled', log('n1', 'NCCL_P2P_DISABLE set by environment to 0.')),
    one(
      'one GPU per host has no peer',
      log('n1', 'NCCL_P2P_DISABLE set by environment to 1.'),
      ...whole('n1', {}),
      nodes('n1', 0),
    ),
    files('GPUs that never reach each other', {
      'a.log': [log('n1', 'NCCL_P2P_DISABLE set by environment to 1.')],
      'b.txt': [
        'GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-0)',
        'GPU 1: NVIDIA GeForce RTX 4090 (UUID: GPU-1)',
      ],
    }),
  ],
  'shm-instead-of-p2p': [
    one(
      'nothing forbids peer-to-peer: the machine has none',
      log('n1', 'Channel 00 : 0[0] -> 1[1] via SHM/direct/direct'),
    ),
  ],
  'env-shm-disabled': [
    one(
      'ranks of a host reach each other directly',
      log('n1', 'NCCL_SHM_DISABLE set by environment to 1.'),
      ...whole('n1', {}),
      log('n1', 'Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM'),
      ...whole('n1', { rank: 1, gpu: 1 }),
    ),
    one(
      'a second communicator counts its ranks anew: 1 is another host there',
      log('n1', 'NCCL_SHM_DISABLE set by environment to 1.'),
      ...whole('n1', { rank: 0, size: 4 }),
      ...whole('n1', { rank: 1, size: 4, gpu: 1 }),
      ...whole('n2', { rank: 2, size: 4 }),
      ...whole('n1', { rank: 0, id: 'c3', comm: '0xc0' }),
      ...whole('n2', { rank: 1, id: 'c3', comm: '0xc0' }),
      log('n1', 'Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0'),
    ),
  ],
  'env-forces-protocol': [
    one(
      'large messages may use other protocols',
      log('n1', 'NCCL_PROTO set by environment to LL,Simple'),
      log('n1', 'AllReduce: 268435456 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}'),
    ),
    one(
      'only small messages are sent',
      log('n1', 'NCCL_PROTO set by environment to LL'),
      log('n1', 'AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}'),
    ),
  ],
  'env-gdr-level': [
    one(
      'a level that allows it',
      log('n1', 'NCCL_NET_GDR_LEVEL set by environment to SYS'),
      log('n1', 'Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0'),
    ),
  ],
  'env-gid-index': [
    one(
      'minus one means that NCCL chooses',
      log('n1', 'NCCL_IB_GID_INDEX set by environment to -1.'),
      warn(
        'n1',
        'misc/ibvwrap.cc:307',
        'Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.6.5.1, remote GID ::ffff:10.6.5.2',
      ),
    ),
    files('the adapter without that entry is not one of the job', {
      'a.log': [
        log('n1', 'NCCL_IB_GID_INDEX set by environment to 1.'),
        log('n1', 'NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>'),
      ],
      'show_gids.txt': [
        'n1$ show_gids',
        'mlx5_0  1       1       0000:0000:0000:0000:0000:ffff:0a3c:0e0b 10.60.14.11     v2      eth2',
        'mlx5_9  1       0       fe80:0000:0000:0000:5aa2:e1ff:fe0c:7a11                 v2      eth9',
      ],
    }),
  ],
  'env-differs': [
    one(
      'the same value in other letters',
      log('n1', 'NCCL_ALGO set by environment to Ring'),
      nodes('n1', 0),
      log('n2', 'NCCL_ALGO set by environment to RING'),
      nodes('n2', 1),
    ),
    one(
      'a variable that each host has its own value of',
      log('n1', 'NCCL_SOCKET_IFNAME set by environment to eno1'),
      nodes('n1', 0),
      log('n2', 'NCCL_SOCKET_IFNAME set by environment to eth0'),
      nodes('n2', 1),
    ),
    one(
      'a log that lacks it proves nothing',
      log('n1', 'NCCL_ALGO set by environment to Ring'),
      nodes('n1', 0),
      nodes('n2', 1),
    ),
  ],
  'env-ib-hca-prefix': [
    one(
      'all that it selects is named',
      log('n1', 'NCCL_IB_HCA set by environment to mlx5_1,mlx5_10'),
      log('n1', 'NET/IB : Using [0]mlx5_1:1/IB [1]mlx5_10:1/IB [RO]; OOB eth0:10.0.0.1<0>'),
    ),
    one(
      'a prefix that is meant as one',
      log('n1', 'NCCL_IB_HCA set by environment to mlx5'),
      log('n1', 'NET/IB : Using [0]mlx5_1:1/IB [1]mlx5_10:1/IB [RO]; OOB eth0:10.0.0.1<0>'),
    ),
  ],
  'socket-threads-limit': [
    one(
      'just the limit',
      log('n1', 'NCCL_SOCKET_NTHREADS set by environment to 8.'),
      log('n1', 'NCCL_NSOCKS_PERTHREAD set by environment to 8.'),
    ),
    one(
      'two hosts set one each',
      log('n1', 'NCCL_SOCKET_NTHREADS set by environment to 16.'),
      log('n2', 'NCCL_NSOCKS_PERTHREAD set by environment to 16.'),
    ),
  ],
  'env-value-unknown': [
    one('a value that it understands', log('n1', 'NCCL_ALGO set by environment to Ring')),
  ],
  'nranks-mismatch': [
    one(
      'communicators of two sizes with their own ids',
      ...whole('n1', { size: 2, id: 'a1' }),
      ...whole('n1', { size: 4, id: 'b2', comm: '0xb0' }),
    ),
    one(
      'each process made a smaller one out of the same',
      ...[0, 1].flatMap((rank) => [
        ...whole(`n${rank}`, { rank, size: 4 }),
        ...whole(`n${rank}`, { rank, size: 2, comm: '0xb0' }),
      ]),
    ),
  ],
  'nranks-mismatch-at-root': [one('ranks agree', ...whole('n1', { rank: 0 }), ...whole('n2', { rank: 1 }))],
  'duplicate-rank': [
    one(
      'the same process tells it twice',
      init('n1', 'START', {}),
      init('n1', 'START', { comm: '0xb0' }),
      init('n1', 'COMPLETE', { comm: '0xb0' }),
    ),
    one('rank 0 of two communicators', ...whole('n1', { id: 'a1' }), ...whole('n2', { id: 'b2' })),
  ],
  'unique-id-mismatch': [
    one(
      'two communicators that were completed',
      ...whole('n1', { rank: 0, id: 'a1' }),
      ...whole('n2', { rank: 1, id: 'b2' }),
    ),
  ],
  'topo-file-ids-mismatch': [
    files('the file names GPUs that are there', {
      'topo.xml': [
        '<system version="1">',
        '  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="17">',
        '    <pci busid="0000:1b:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>',
        '  </cpu>',
        '</system>',
      ],
      'a.log': [...whole('n1', {}), log('n1', 'NCCL_TOPO_FILE set by environment to /etc/topo.xml')],
    }),
  ],
  'topo-file-refused': [
    files('XML of another program that has the same root', {
      'a.xml': ['<?xml version="1.0"?>', '<system>', '  <name>laboratory</name>', '</system>'],
    }),
    files('a file as NCCL writes it', {
      'a.xml': [
        '<system version="1">',
        '  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="17"/>',
        '</system>',
      ],
    }),
  ],
  'nccl-tests-not-one-job': [
    one(
      'one run after the other, each of one GPU',
      ...[1, 2].flatMap((pid) => [
        '# Collective test starting: all_reduce_perf',
        `#  Rank  0 Group  0 Pid   ${pid} on   n1 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB`,
        TABLE,
        row(MiB, 100),
        '# Out of bounds values : 0 OK',
        '# Avg bus bandwidth    : 100',
        '# Collective test concluded: all_reduce_perf',
      ]),
    ),
  ],
  'shm-too-small': [
    one(
      'refused, not full',
      warn(
        'n1',
        'misc/shmutils.cc:128',
        'Error while creating shared memory segment /dev/shm/nccl-k7TqVd (size 9637888), error: Permission denied (13)',
      ),
    ),
  ],
  'shm-permission': [
    one(
      'full, not refused',
      warn(
        'n1',
        'misc/shmutils.cc:128',
        'Error while creating shared memory segment /dev/shm/nccl-k7TqVd (size 9637888), error: No space left on device (28)',
      ),
    ),
  ],
  'memlock-too-low': [
    files('the limit is unlimited', {
      'a.log': [
        warn('n1', 'misc/ibvwrap.cc:150', 'Call to ibv_reg_mr failed with error Cannot allocate memory'),
      ],
      'u.txt': ['n1$ ulimit -l', 'unlimited'],
    }),
    one(
      'another reason',
      warn('n1', 'misc/ibvwrap.cc:150', 'Call to ibv_reg_mr failed with error Invalid argument'),
    ),
  ],
  'ports-exhausted': [
    files('most ports are free', {
      'a.log': [warn('n1', 'misc/socket.cc:409', 'Call to bind failed: Address already in use')],
      'net.txt': [
        'net.ipv4.ip_local_port_range = 32768\t60999',
        'TCP:   312 (estab 290, closed 2, orphaned 0, timewait 1)',
      ],
    }),
    one(
      'a port that was fixed',
      log('n1', 'NCCL_COMM_ID set by environment to 10.0.0.1:29500'),
      warn('n1', 'misc/socket.cc:409', 'Call to bind failed: Address already in use'),
    ),
  ],
  'port-conflict': [
    one('no port is fixed', warn('n1', 'misc/socket.cc:409', 'Call to bind failed: Address already in use')),
  ],
  'too-many-open-files': [
    one(
      'another limit',
      warn('n1', 'misc/socket.cc:409', 'Call to socket failed: Address family not supported'),
    ),
  ],
  'pcie-acs-redirect': [
    files('redirection in a root port: requests pass the root anyway', {
      'lspci.txt': [
        SWITCH[0]!,
        SWITCH[1]!,
        ACS,
        '83:00.0 3D controller: NVIDIA Corporation AD102GL [L40] (rev a1)',
      ],
    }),
    files('a switch above a disk only', {
      'lspci.txt': [
        ...SWITCH,
        ACS,
        '83:00.0 Non-Volatile memory controller: Samsung Electronics Co Ltd NVMe SSD',
      ],
    }),
  ],
  'pcie-link-degraded': [
    files('a link of a GPU that sleeps is slow, not narrow', {
      'lspci.txt': [H100, link(16, 'LnkCap'), '\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16'],
    }),
    files('the slot has no more lanes', {
      'lspci.txt': [SWITCH[2]!, SWITCH[3]!, link(8, 'LnkCap'), H100, link(16, 'LnkCap'), link(8)],
    }),
    files('slots that share lanes: all GPUs are alike', {
      'lspci.txt': [
        H100,
        link(16, 'LnkCap'),
        link(8),
        H100.replace('83:', '84:'),
        link(16, 'LnkCap'),
        link(8),
      ],
    }),
  ],
  'pcie-link-slow': [
    one(
      'all are alike',
      log('n1', '=== System : maxBw 24.0 totalBw 240.0 ==='),
      ...[0, 1, 2].map((i) => log('n1', `+ PCI[12.0] - GPU/0-${i}7000 (${i})`)),
    ),
    one(
      'adapters of two kinds',
      log('n1', '=== System : maxBw 24.0 totalBw 240.0 ==='),
      log('n1', '+ PCI[24.0] - NIC/0-17000'),
      log('n1', '+ PCI[24.0] - NIC/0-18000'),
      log('n1', '+ PCI[6.0] - NIC/0-19000'),
    ),
  ],
  'nvlink-down': [
    files('boards that wire half of the links', {
      'nvlink.txt': [0, 1].flatMap((gpu) => [
        `GPU ${gpu}: NVIDIA A100-SXM4-80GB (UUID: GPU-${gpu})`,
        '\t Link 0: 25 GB/s',
        '\t Link 1: <inactive>',
      ]),
    }),
    files('a card without a bridge beside a pair', {
      'nvlink.txt': [0, 1, 2].flatMap((gpu) => [
        `GPU ${gpu}: NVIDIA A100 80GB PCIe (UUID: GPU-${gpu})`,
        gpu < 2 ? '\t Link 0: 25 GB/s' : '\t Link 0: <inactive>',
      ]),
    }),
    files('one card, of which the bridge joins half of the links', {
      'nvlink.txt': ['GPU 0: NVIDIA H100 PCIe (UUID: GPU-0)', '\t Link 0: 25 GB/s', '\t Link 1: <inactive>'],
    }),
  ],
  'iommu-fault': [
    files('of the graphics on board', {
      'dmesg.txt': [
        '[ 3.1] DMAR: [DMA Read] Request device [00:02.0] fault addr 0x7f000000 [fault reason 06] PTE Read access is not set',
      ],
      'lspci.txt': ['00:02.0 VGA compatible controller: Intel Corporation UHD Graphics 630', H100],
    }),
    files('at the start the kernel says what it switches on', {
      'dmesg.txt': [
        '[ 0.4] DMAR: Enable fault reporting',
        '[ 0.5] AMD-Vi: Interrupt remapping enabled',
        '[12.1] NVRM: Xid (PCI:0000:83:00): 43, Ch 00000008',
      ],
    }),
  ],
  xid: [
    files('what follows from the end of a program', {
      'dmesg.txt': [
        '[1.1] NVRM: Xid (PCI:0000:83:00): 43, pid=77, name=python, Ch 00000008',
        '[1.2] NVRM: Xid (PCI:0000:83:00): 45, pid=77, name=python, Ch 00000008',
        '[1.3] NVRM: Xid (PCI:0000:83:00): 154, GPU recovery action changed from 0x0 (None) to 0x0 (None)',
      ],
    }),
  ],
  'nvls-bind-failed': [
    one(
      'multicast that works',
      log('n1', 'NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)'),
    ),
  ],
  'nvls-unavailable': [
    files('GPUs without it', {
      'a.log': [
        log('n1', 'NVLS multicast support is not available on dev 0'),
        log('n1', 'comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0'),
      ],
      'b.txt': ['GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0)'],
    }),
    files('it was switched off', {
      'a.log': [
        log('n1', 'NCCL_NVLS_ENABLE set by environment to 0.'),
        log('n1', 'NVLS multicast support is not available on dev 0'),
        log('n1', 'comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0'),
      ],
      'b.txt': ['GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)'],
    }),
  ],
  'gdr-missing-on-node': [
    one(
      'all hosts have it on some edges',
      ...['n1', 'n2'].flatMap((host) => [
        log(host, 'Channel 00/0 : 1[1] -> 4[0] [send] via NET/IB/0/GDRDMA'),
        log(host, 'Channel 00/0 : 4[0] -> 1[1] [receive] via NET/IB/0'),
      ]),
    ),
    one(
      'hosts of two jobs',
      ...whole('n1', { id: 'a1' }),
      log('n1', 'Channel 00/0 : 1[1] -> 4[0] [send] via NET/IB/0/GDRDMA'),
      ...whole('n2', { id: 'b2' }),
      log('n2', 'Channel 00/0 : 1[1] -> 4[0] [receive] via NET/IB/0'),
    ),
  ],
  'gdr-off': [
    files('the module is there', {
      'a.log': [log('n1', 'Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0')],
      'b.txt': ['n1$ lsmod', 'nvidia_peermem 16384 0', 'ib_uverbs 188416 2 rdma_ucm,mlx5_ib'],
    }),
    files('it is in use without the module', {
      'a.log': [log('n1', 'Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA')],
      'b.txt': ['n1$ lsmod', 'ib_uverbs 188416 2 rdma_ucm,mlx5_ib'],
    }),
  ],
  'gdr-off-distance': [
    one(
      'a switch between adapter and CPU',
      log('n1', '=== System : maxBw 12.0 totalBw 370.8 ==='),
      log('n1', 'CPU/0-0 (1/2/-1)'),
      log('n1', '+ PCI[24.0] - PCI/0-80000 (1000c03015d9)'),
      log('n1', '              + PCI[24.0] - NIC/0-81000'),
      log('n1', 'Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0'),
    ),
  ],
  'nic-missing-on-node': [
    one(
      'hosts of two jobs',
      ...whole('n1', { id: 'a1' }),
      log('n1', 'NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>'),
      ...whole('n2', { id: 'b2' }),
      log('n2', 'NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>'),
    ),
    one(
      'as many adapters under other names',
      log('n1', 'NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>'),
      log('n2', 'NET/IB : Using [0]mlx5_2:1/IB [1]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.2<0>'),
    ),
  ],
  'roce-no-routable-gid': [
    files('a port of InfiniBand beside one of RoCE', {
      'show_gids.txt': [
        'mlx5_0  1       0       fe80:0000:0000:0000:5aa2:e1ff:fe0c:7a10                 v1',
        'mlx5_1  1       1       0000:0000:0000:0000:0000:ffff:0a3c:0e0b 10.60.14.11     v2      eth2',
      ],
    }),
    files('a port that the job does not use', {
      'a.log': [log('n1', 'NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>')],
      'show_gids.txt': [
        'n1$ show_gids',
        'mlx5_0  1       1       0000:0000:0000:0000:0000:ffff:0a3c:0e0b 10.60.14.11     v2      eth2',
        'mlx5_7  1       0       fe80:0000:0000:0000:5aa2:e1ff:fe0c:7a17                 v2      eth7',
      ],
    }),
    files('no port has an address: the network needs none', {
      'show_gids.txt': [
        'mlx5_0  1       0       fe80:0000:0000:0000:5aa2:e1ff:fe0c:7a10                 v2      eth2',
      ],
    }),
  ],
  'ib-port-down': [
    ...[
      ['spare ports are down', 'mlx5_0'],
      ['another port begins with the same name', 'mlx5_10,mlx5_0'],
      ['the port was left out', '^mlx5_1'],
    ].map(([why, value]) =>
      files(why!, {
        'ibstatus.txt': [
          "Infiniband device 'mlx5_0' port 1 status:",
          '\tstate:\t\t 4: ACTIVE',
          "Infiniband device 'mlx5_1' port 1 status:",
          '\tstate:\t\t 1: DOWN',
        ],
        'a.log': [log('n1', `NCCL_IB_HCA set by environment to ${value}`)],
      }),
    ),
    one(
      'a host whose ports are all switched off',
      "CA 'mlx5_0'",
      '\tPort 1:',
      '\t\tState: Down',
      '\t\tPhysical state: Disabled',
      '\t\tLink layer: InfiniBand',
    ),
  ],
  'ib-port-flap': [
    one(
      'a port that came up',
      warn('n1', 'transport/net_ib.cc:253', 'NET/IB : mlx5_3:1 Got non-fatal async event: port active(9)'),
    ),
  ],
  'roce-packet-loss': [
    files('pause frames are sent: flow control works', {
      'c.txt': ['     rx_discards_phy: 9184372', '     rx_prio3_pause: 7', '     tx_prio3_pause: 4711'],
    }),
    files('a few since the machine was started', {
      'c.txt': ['     rx_discards_phy: 12', '     tx_prio3_pause: 0'],
    }),
  ],
  'rank-died': [
    files('the kernel killed another program, and the job went on', {
      'a.log': whole('n1', {}),
      'dmesg.txt': ['n1$ dmesg', '[13.001] Out of memory: Killed process 4415 (chrome) total-vm:123kB'],
    }),
    one(
      'an exception that only one rank tells of, and handles',
      ...whole('n1', {}),
      '[rank0]: KeyError: learning_rate',
    ),
    one('processes that the launcher ended', 'srun: error: n2: task 1: Terminated'),
  ],
  'rank-behind': [
    dumps('all completed', op(7, 'completed'), op(7, 'completed')),
    dumps('all are in the same', op(8, 'started'), op(8, 'started')),
  ],
  'gpu-lost': [
    one(
      'all answer',
      'GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0)',
      'GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-1)',
    ),
  ],
  'message-unmatched': [
    dumps('both ends were called', op(8, 'started', 'send 0->1'), op(8, 'started', 'recv 1<-0')),
    dumps(
      'one message on its way, in a job that runs',
      op(8, 'started', 'send 0->1'),
      op(7, 'completed', 'recv 1<-0'),
      op(7, 'completed', 'recv 2<-1'),
    ),
  ],
  'ranks-behind': [
    files('all launched the same', {
      'ras.txt': ras(
        '#0-0 (7d20c4be5f91a386) MISMATCH',
        '  Communicator ranks have different AllReduce operation counts',
        '  8 ranks have launched up to operation 41',
      ),
    }),
  ],
  'collective-size-mismatch': [
    dumps('equal sizes', op(8, 'started'), op(8, 'started'), op(8, 'started')),
    dumps(
      'ranks may send different amounts',
      ...[96, 80, 64].map((count) => op(8, 'started', 'all_to_allv', count)),
    ),
    dumps(
      'they differ in what is over',
      `${op(7, 'completed', 'all_reduce', 96)}, ${op(8, 'started')}`,
      `${op(7, 'completed', 'all_reduce', 80)}, ${op(8, 'started')}`,
    ),
  ],
  'collective-order-mismatch': [
    dumps('the same operation', op(8, 'started'), op(8, 'started'), op(8, 'started')),
    dumps(
      'what is over for one need not be over for the others',
      op(9, 'started', 'broadcast'),
      op(8, 'started', 'broadcast'),
      op(8, 'started', 'broadcast'),
    ),
  ],
  'collective-type-mismatch': [dumps('equal types', op(8, 'started'), op(8, 'started'), op(8, 'started'))],
  'abort-missing-on-rank': [
    one(
      'all aborted',
      ...[0, 1].flatMap((gpu) => [
        ...whole('n1', { rank: gpu, gpu }),
        log('n1', `comm 0xa0 rank ${gpu} nRanks 2 cudaDev ${gpu} busId ${gpu + 1}b000 - Abort START`, gpu),
      ]),
      init('n1', 'START', { id: 'c5', comm: '0xa1' }),
    ),
    one(
      'one destroyed it in good order',
      ...[0, 1].flatMap((gpu) => whole('n1', { rank: gpu, gpu })),
      log('n1', 'comm 0xa0 rank 0 nRanks 2 cudaDev 0 busId 1b000 - Abort START'),
      log('n1', 'comm 0xa0 rank 1 nRanks 2 cudaDev 1 busId 2b000 - Destroy COMPLETE', 1),
    ),
  ],
  'api-misuse': [one('another warning', warn('n1', 'group.cc:120', 'ncclGroupEnd: the frob is gone'))],
  'invalid-argument': [one('another warning', warn('n1', 'init.cc:2100', 'Rank 3 requested a frob'))],
  'no-transport': [one('a way was found', log('n1', 'Channel 00 : 0[0] -> 1[1] via P2P/CUMEM'))],
  'cuda-driver-too-old': [
    one(
      'another failure of CUDA',
      log('n1', 'cudaDriverVersion 12020'),
      log('n1', 'NCCL version 2.27.3+cuda12.9'),
      warn('n1', 'enqueue.cc:1', "Cuda failure 700 'an illegal memory access was encountered'"),
    ),
  ],
  'cuda-failure': [
    one(
      'a message about what NCCL then does another way',
      log('n1', "Cuda failure 'peer access is not supported between these two devices'"),
    ),
  ],
  'step-latency-bound': [
    files(
      'the same bandwidth with small and large chunks',
      Object.fromEntries(
        [131072, 1048576].map((chunk) => [
          `${chunk}.txt`,
          [
            `$ mpirun -np 2 -x NCCL_P2P_NET_CHUNKSIZE=${chunk} ./sendrecv_perf -b 64M -e 128M`,
            '# Collective test starting: sendrecv_perf',
            TABLE,
            row(64 * MiB, 33),
            row(128 * MiB, 33),
          ],
        ]),
      ),
    ),
  ],
  'nvlink-islands': [
    files('NVLink joins all', {
      'topo.txt': ['\tGPU0\tGPU1\tCPU Affinity', 'GPU0\t X \tNV4\t0-15', 'GPU1\tNV4\t X \t0-15'],
    }),
    files('there is no NVLink', {
      'topo.txt': ['\tGPU0\tGPU1\tCPU Affinity', 'GPU0\t X \tPHB\t0-15', 'GPU1\tPHB\t X \t0-15'],
    }),
  ],
  'nic-bandwidth-ceiling': [
    files('half of what the adapters carry', {
      'ibstatus.txt': [
        "Infiniband device 'mlx5_0' port 1 status:",
        '\tstate:\t\t 4: ACTIVE',
        '\trate:\t\t 200 Gb/sec (4X HDR)',
      ],
      'b.txt': [
        ...[0, 1, 2, 3].map((rank) =>
          device(rank, rank < 2 ? 'n1' : 'n2', 'NVIDIA A100-SXM4-80GB', rank % 2),
        ),
        TABLE,
        row(4096 * MiB, 12),
      ],
    }),
  ],
  'data-wrong': [
    one('nothing was compared', TABLE, row(MiB, 4.9, 'N/A')),
    one(
      'old versions print the largest deviation',
      TABLE.replaceAll('#wrong', ' error'),
      row(MiB, 4.9, '2e-06'),
    ),
  ],
  'slow-node': [
    files('two hosts are in the slow ones', {
      'p.csv': ['src,dst,busbw_GBs', 'n1,n2,180.2', 'n1,n3,361.9', 'n2,n4,361.1', 'n3,n4,181.1'],
    }),
    files('inside a host it is always faster', {
      'p.csv': [
        'src,dst,busbw_GBs',
        'n1,n1,361.9',
        'n2,n2,362.4',
        'n1,n2,181.9',
        'n1,n3,180.3',
        'n3,n3,361.1',
      ],
    }),
    files('another operation has another bandwidth', {
      'p.csv': [
        'src,dst,test,busbw_GBs',
        'n1,n2,all_reduce,361.9',
        'n1,n3,all_reduce,362.4',
        'n2,n3,all_reduce,361.9',
        'n1,n2,alltoall,44.3',
        'n1,n3,alltoall,45.3',
      ],
    }),
  ],
  firewall: [
    one(
      'nobody listened: the process had ended',
      log('n1', 'Bootstrap: Using eth0:10.1.0.1<0>'),
      warn(
        'n1',
        'misc/socket.cc:577',
        'socketStartConnect: connect to 10.1.0.2<52291> returned Connection refused, exceeded error retry count after 35 attempts',
      ),
      log('n2', 'Bootstrap: Using eth0:10.1.0.2<0>'),
    ),
    one(
      'only attempts, which led somewhere',
      log('n1', 'Bootstrap: Using eth0:10.1.0.1<0>'),
      log('n1', 'Call to connect to 10.1.0.2<52291> returned Connection timed out, retrying (1/34)'),
      log('n2', 'Bootstrap: Using eth0:10.1.0.2<0>'),
      ...whole('n1', {}),
    ),
  ],
  'device-or-wire-stuck': [
    {
      why: 'a dump of some of the ranks tells nothing of the others',
      files: [
        ['d.json', dump(op(8, 'started'), op(8, 'started')).replace('"world_size": 2', '"world_size": 4')],
      ],
    },
    dumps('one has not started it', op(8, 'started'), op(8, 'queued')),
  ],
  'log-breaks-off': [
    one('the last line is whole', ...whole('n1', {})),
    {
      why: 'the set-up was over when it was cut',
      files: [['a.log', `${text(...whole('n1', {}))}n1:10:20 [0] NCCL INFO AllReduce: opC`]],
    },
  ],
  'peer-of-another-kind': [
    one('another warning of the set-up', warn('n1', 'bootstrap.cc:129', 'Bootstrap : the frob is gone')),
  ],
  'process-failed': [
    one('a process that ended well', 'srun: error: n2: task 1: Exited with exit code 0'),
    one(
      'an optional import that was not there',
      'ModuleNotFoundError: No module named apex',
      ...whole('n1', {}),
    ),
  ],
  'nccl-warning-unknown': [
    one('it goes on', log('n1', 'init.cc:310 -> 7')),
    one(
      'sockets of helper threads are closed at the end',
      ...whole('n1', {}),
      log('n1', 'misc/socket.cc:46 -> 3'),
      log('n1', 'misc/socket.cc:752 -> 3'),
      log('n1', 'proxy.cc:1521 -> 3'),
      log('n1', 'comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 - Abort COMPLETE'),
    ),
  ],
  'net-socket-fallback': [
    one(
      'there is nothing faster',
      log('n1', 'NET/IB : No device found.'),
      log('n1', 'Using network Socket'),
      nodes('n1', 0),
    ),
    files('one host', {
      'a.log': [log('n1', 'Using network Socket'), ...whole('n1', {})],
      'ibstatus.txt': ["Infiniband device 'mlx5_0' port 1 status:", '\tstate:\t\t 4: ACTIVE'],
    }),
  ],
  'topology-flat': [
    one(
      'a switch between',
      log('n1', '=== System : maxBw 24.0 totalBw 370.8 ==='),
      log('n1', 'CPU/0-0 (1/2/-1)'),
      log('n1', '+ PCI[24.0] - PCI/0-80000 (1000c03015d9)'),
      ...[0, 1, 2, 3].map((i) => log('n1', `              + PCI[24.0] - GPU/0-8${i}000 (${i})`)),
      log('n1', '+ PCI[12.0] - NIC/0-c1000'),
      nodes('n1', 0),
    ),
  ],
  'ib-retry-exceeded': [
    one(
      'a request that was flushed with the others',
      warn(
        'n1',
        'transport/net_ib.cc:2543',
        'NET/IB: Got completion from peer 10.0.0.2<51209> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=IBV_WC_RDMA_WRITE(1) reqSize=0 vendor_err=244 req_type=Send hca mlx5_3',
      ),
    ),
  ],
  'ibv-modify-qp-timeout': [
    one(
      'a message, after which another address is tried',
      log(
        'n1',
        'Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state INIT, next state RTR',
      ),
    ),
  ],
  'connect-timeout': [
    one(
      'attempts that are repeated',
      log('n1', 'Call to connect to 10.1.0.2<52291> returned Connection timed out, retrying (1/34)'),
      ...whole('n1', {}),
    ),
  ],
  'peer-connection-closed': [
    one(
      'after the end of the communicator',
      ...whole('n1', {}),
      log('n1', 'comm 0xa0 rank 0 nRanks 2 cudaDev 0 busId 1b000 - Destroy COMPLETE'),
      log('n1', 'socketProgress: Connection closed by remote peer n2<41877>'),
    ),
  ],
  'init-waiting': [
    one('all completed', ...[0, 1].flatMap((rank) => whole(`n${rank}`, { rank }))),
    one('what comes after the set-up shows that it was over', init('n1', 'START', {}), nodes('n1', 0)),
  ],
  'collective-hang': [
    one(
      'a log ends with a call, and nothing gives a reason to hang',
      log('n1', 'comm 0xa0 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0'),
      log(
        'n1',
        'AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 8 datatype 7 op 0 root 0 comm 0xa0 [nranks=2] stream 0x1',
      ),
    ),
  ],
  'affinity-narrow': [
    one(
      'a virtual machine that has two processors',
      log(
        'n1',
        'ncclTopoGetCpuAffinity: Affinity for GPU 0 is 0-1. (GPU affinity = 0-1 ; CPU affinity = 0-1).',
      ),
    ),
    one(
      'the set of the NUMA node',
      log(
        'n1',
        'ncclTopoGetCpuAffinity: Affinity for GPU 0 is 0-31. (GPU affinity = 0-31 ; CPU affinity = 0-127).',
      ),
      log('n1', 'Setting affinity for GPU 1 to ff,00000000', 1),
    ),
    one(
      'the set of the process does not count',
      log('n1', 'NCCL_IGNORE_CPU_AFFINITY set by environment to 1.'),
      log('n1', 'ncclTopoGetCpuAffinity: Affinity for GPU 0 is 3. (GPU affinity = 0-31 ; CPU affinity = 3).'),
    ),
    one(
      'no common processor: NCCL changes nothing',
      log('n1', 'ncclTopoGetCpuAffinity: Affinity for GPU 0 is . (GPU affinity = 0-31 ; CPU affinity = 64).'),
    ),
  ],
  'debug-trace': [
    one('the usual level', log('n1', 'NCCL_DEBUG_SUBSYS set by environment to INIT,TRACE')),
    one('a file with that name', log('n1', 'NCCL_DEBUG_FILE set by environment to /tmp/NCCL TRACE 1')),
  ],
  'communicator-churn': [
    one(
      'many communicators at a time',
      ...Array.from({ length: 64 }, (_, i) => whole('n1', { id: `b${i}`, comm: `0x${i + 100}` })).flat(),
    ),
    one(
      'some that were made anew',
      ...Array.from({ length: 8 }, (_, i) => [
        ...whole('n1', { id: `b${i}` }),
        log('n1', `comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 - Destroy COMPLETE`),
      ]).flat(),
    ),
  ],
  'mtu-small': [
    files('jumbo frames', {
      'a.log': tcp('n1'),
      'links.txt': ['n1$ ip link', `3: eth1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP`],
    }),
    files('another interface', {
      'a.log': tcp('n1'),
      'links.txt': ['n1$ ip link', `2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP`],
    }),
    files('another host', {
      'a.log': tcp('n1'),
      'links.txt': ['n7$ ip link', `3: eth1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP`],
    }),
    files('ranks of one host', {
      'a.log': tcp('n1').slice(0, 2),
      'links.txt': ['n1$ ip link', `3: eth1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP`],
    }),
  ],
  'tcp-buffers-small': [
    files('the kernel grows buffers far enough, whatever programs may ask for', {
      'a.log': tcp('n1'),
      'net.txt': [
        'n1$ sysctl -a',
        'net.core.rmem_max = 212992',
        'net.ipv4.tcp_rmem = 4096\t131072\t6291456',
        'net.ipv4.tcp_wmem = 4096\t16384\t4194304',
      ],
    }),
    files('data over InfiniBand', {
      'a.log': [
        log('n1', 'NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth1:10.0.0.4<0>'),
        log('n1', 'Using network IB'),
        nodes('n1', 0),
      ],
      'net.txt': ['n1$ sysctl -a', 'net.ipv4.tcp_rmem = 4096\t87380\t174760'],
    }),
  ],
  'watchdog-timeout': [
    one(
      'what a message quotes later',
      ...whole('n1', {}),
      watchdog(3).replace(/^.*Watchdog/, '  what():  [Rank 3] Watchdog'),
    ),
  ],
  'ras-error': [files('nothing wrong', { 'ras.txt': ras('#0-0 (7d20c4be5f91a386) OK') })],
  'ras-timeout': [
    files('warnings of another kind', {
      'ras.txt': ras('Warnings', '========', '', '#0-0 (7d20c4be5f91a386) OK'),
    }),
  ],
  'bench-cliff': [
    one('a single row that was slow once', TABLE, row(MiB, 40), row(2 * MiB, 5), row(4 * MiB, 42)),
    one(
      'the last row, once of two times',
      TABLE,
      row(16 * MiB, 40),
      row(32 * MiB, 41),
      row(64 * MiB, 5, 0, 41),
    ),
    one('small sizes, where latency decides', TABLE, row(1024, 2), row(2048, 0.4), row(4096, 0.5)),
  ],
  'busbw-low': [
    one(
      'cards whose bridges join pairs',
      ...[0, 1, 2, 3].map((rank) => device(rank, 'n1', 'NVIDIA H100 NVL')),
      TABLE,
      row(1024 * MiB, 40),
    ),
    one(
      'GPUs without NVLink',
      ...[0, 1].map((rank) => device(rank, 'n1', 'NVIDIA L40S')),
      TABLE,
      row(1024 * MiB, 10),
    ),
    one(
      'small messages only',
      ...[0, 1].map((rank) => device(rank, 'n1', 'NVIDIA A100-SXM4-80GB')),
      TABLE,
      row(MiB, 10),
    ),
    one(
      'in an all-to-all between hosts ranks share the adapters',
      '# Collective test starting: alltoall_perf',
      ...[0, 1, 2, 3].map((rank) => device(rank, rank < 2 ? 'n1' : 'n2', 'NVIDIA A100-SXM4-80GB', rank % 2)),
      TABLE,
      row(1024 * MiB, 2),
    ),
    one(
      'older hosts may have slow networks',
      ...[0, 1, 2, 3].map((rank) => device(rank, rank < 2 ? 'n1' : 'n2', 'Tesla V100-SXM2-16GB', rank % 2)),
      TABLE,
      row(1024 * MiB, 2.4),
    ),
  ],
  'net-differs': [
    files('two jobs, each with its own network', {
      'n1.log': [log('n1', 'Using network IB'), ...whole('n1', { id: 'a1' })],
      'n2.log': [log('n2', 'Using network Socket'), init('n2', 'START', { id: 'b2' })],
    }),
    one(
      'one network on all hosts, and a rank that has not come up',
      log('n1', 'Using network IB'),
      init('n1', 'START', { rank: 0 }),
      log('n2', 'Using network IB'),
      init('n2', 'START', { rank: 1 }),
    ),
    one(
      'ranks of a job that came up and ends without a word',
      log('n1', 'Using network IB'),
      ...whole('n1', { rank: 0 }),
      log('n2', 'Using network AWS Libfabric'),
      ...whole('n2', { rank: 1 }),
    ),
  ],
  'ib-completion-failed': [
    one(
      'nobody acknowledged: another fault',
      warn(
        'n1',
        'net_ib.cc:7',
        'NET/IB: Got completion from peer 10.0.0.2<5> with error 12, opcode 1, len 3, vendor err 129',
      ),
    ),
    one('an event of a port', warn('n1', 'net_ib.cc:7', 'NET/IB : mlx5_0:1 Got async event : port error')),
  ],
  'communicator-order': [
    {
      why: 'a rank that waits nowhere is behind in two groups',
      files: [
        [
          'dumps.json',
          '{ "ranks": [ { "rank": 0, "group": "a", "ops": [ { "seq": 8, "op": "all_reduce", "state": "started" } ] },\n{ "rank": 1, "group": "a", "ops": [ { "seq": 7, "op": "all_reduce", "state": "completed" } ] },\n{ "rank": 2, "group": "b", "ops": [ { "seq": 4, "op": "all_gather", "state": "started" } ] },\n{ "rank": 1, "group": "b", "ops": [ { "seq": 3, "op": "all_gather", "state": "completed" } ] } ] }\n',
        ],
      ],
    },
    dumps('one group only', op(8, 'started'), op(7, 'completed')),
  ],
  'rank-held-up': [
    {
      why: 'the missing rank waits nowhere else',
      files: [
        [
          'dumps.json',
          '{ "ranks": [ { "rank": 0, "group": "a", "ops": [ { "seq": 8, "op": "all_reduce", "state": "started" } ] },\n{ "rank": 1, "group": "a", "ops": [ { "seq": 7, "op": "all_reduce", "state": "completed" } ] },\n{ "rank": 1, "group": "b", "ops": [ { "seq": 3, "op": "all_gather", "state": "completed" } ] } ] }\n',
        ],
      ],
    },
  ],
  'gpu-memory-errors': [
    one(
      'no errors, or a GPU without such memory',
      '| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |',
      '|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |',
      '|   1  NVIDIA GeForce RTX 4090        Off |   00000000:41:00.0 Off |                  Off |',
      '|   2  Tesla T4                       On  |   00000000:42:00.0 Off |                  N/A |',
    ),
  ],
  'watchdog-stuck': [one('a time-out of an operation', watchdog(3))],
  'diagnostic-failed': [
    one(
      'tests that passed or were left out, and a table of another program',
      '| Diagnostic                | Result                                         |',
      '| PCIe                      | Pass - All                                     |',
      '| Targeted Power            | Skip - All                                     |',
      'PCIe                      | Fail - GPU: 3                                  |',
    ),
    one(
      'no table of dcgmi',
      log('n1', 'NCCL version 2.28.9+cuda12.8'),
      '| PCIe                      | Fail - GPU: 3                                  |',
    ),
  ],
  'gpu-throttled': [
    one(
      'a cap of power, and a GPU that is idle',
      'GPU 00000000:61:00.0',
      '    Clocks Event Reasons',
      '        Idle                              : Active',
      '        SW Power Cap                      : Active',
      '        HW Slowdown                       : Not Active',
      '            HW Thermal Slowdown           : Not Active',
    ),
  ],
  'storage-stalled': [
    one(
      'a server that answered again, and a process that was blocked for a while, with nobody waiting',
      '[991221.1] nfs: server 10.0.0.9 not responding, still trying',
      '[991222.1] nfs: server 10.0.0.9 OK',
      '[991341.2] INFO: task kworker/3:1:88121 blocked for more than 120 seconds.',
    ),
  ],
  'link-errors': [
    one(
      'few errors, and links that were lost when machines were started',
      'n1$ perfquery -C mlx5_0',
      'SymbolErrorCounter:..............3',
      'LinkErrorRecoveryCounter:........1',
      'LinkDownedCounter:...............14',
      'PortRcvErrors:...................2',
      'n1$ ethtool -S eth2',
      '     rx_crc_errors_phy: 4',
      '     rx_symbol_err_phy: 991230',
      '     link_down_events_phy: 9',
      'n1$ nvidia-smi nvlink -e',
      'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)',
      '\t Link 0: Replay Errors: 12',
      '\t Link 0: CRC Errors: 0',
    ),
  ],
  'adapter-link-down': [
    one(
      'a link that comes up at boot, is lost once, and notes of the driver',
      '[    9.1] mlx5_core 0000:5e:00.0: Detected insufficient power on the PCIe slot (27W).',
      '[   12.1] mlx5_core 0000:5e:00.0 eth2: Link up',
      '[ 9911.1] mlx5_core 0000:5e:00.0 eth2: Link down',
      '[ 9999.1] mlx5_core 0000:5e:00.0 eth2: Link up',
    ),
    one(
      'links of many adapters, each lost once, as when a switch is restarted',
      ...[0, 1, 2, 3].flatMap((i) => [
        `[ 9911.${i}] mlx5_core 0000:5e:0${i}.0 eth${i}: Link down`,
        `[ 9999.${i}] mlx5_core 0000:5e:0${i}.0 eth${i}: Link up`,
      ]),
    ),
  ],
  'ib-port-slow': [
    one(
      'adapters for storage that the job does not use, and a port that is not active',
      log('n1', 'NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>'),
      ...[
        ['mlx5_0', 'ACTIVE', 400],
        ['mlx5_1', 'ACTIVE', 400],
        ['mlx5_2', 'ACTIVE', 100],
        ['mlx5_3', 'DOWN', 10],
      ].flatMap(([name, state, rate]) => [
        `Infiniband device '${name}' port 1 status:`,
        `\tstate:\t\t 4: ${state}`,
        `\trate:\t\t ${rate} Gb/sec (4X)`,
      ]),
    ),
    one(
      'ports of another kind of link',
      log('n1', 'NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>'),
      "Infiniband device 'mlx5_0' port 1 status:",
      '\tstate:\t\t 4: ACTIVE',
      '\trate:\t\t 400 Gb/sec (4X NDR)',
      '\tlink_layer:\t InfiniBand',
      "Infiniband device 'mlx5_1' port 1 status:",
      '\tstate:\t\t 4: ACTIVE',
      '\trate:\t\t 100 Gb/sec (4X EDR)',
      '\tlink_layer:\t Ethernet',
    ),
  ],
  'peer-access-missing': [
    one(
      'the driver refuses GPUs with NVLink: another fault',
      warn(
        'n1',
        'graph/paths.cc:7',
        'P2P is disabled between NVLINK connected GPUs 1 and 0. This should not be the case',
      ),
    ),
    one(
      'it was switched off, which has a rule of its own',
      log('n1', 'NCCL_P2P_DISABLE set by environment to 1'),
      log('n1', 'P2P is disabled between connected GPUs 1 and 0.'),
    ),
  ],
  'congestion-control': [
    files('hosts of one building', {
      'n1.log': tcp('n1'),
      'n1.txt': [
        'n1$ sysctl -a',
        'net.ipv4.tcp_congestion_control = cubic',
        'n1$ ping n2',
        'rtt min/avg/max/mdev = 0.1/0.2/0.3/0.1 ms',
      ],
    }),
    files('what long ways need is set', {
      'n1.log': tcp('n1'),
      'n1.txt': [
        'n1$ sysctl -a',
        'net.ipv4.tcp_congestion_control = bbr',
        'n1$ ping n2',
        'rtt min/avg/max/mdev = 27.1/28.2/29.3/0.1 ms',
      ],
    }),
    files('data do not go over TCP', {
      'n1.log': [log('n1', 'Using network IB'), nodes('n1', 0)],
      'n1.txt': [
        'n1$ sysctl -a',
        'net.ipv4.tcp_congestion_control = cubic',
        'n1$ ping n2',
        'rtt min/avg/max/mdev = 27.1/28.2/29.3/0.1 ms',
      ],
    }),
  ],
  'public-network': [
    one(
      'addresses of one organisation',
      ...['n1', 'n2'].flatMap((host, i) => [
        log(host, `NET/Socket : Using [0]eth0:128.178.9.${i + 3}<0>`),
        log(host, 'Using network Socket'),
      ]),
    ),
    one(
      'private addresses of different networks',
      log('n1', 'NET/Socket : Using [0]eth0:10.7.0.3<0>'),
      log('n1', 'Using network Socket'),
      log('n2', 'NET/Socket : Using [0]eth0:172.20.0.3<0>'),
      log('n2', 'Using network Socket'),
    ),
    one(
      'data over InfiniBand',
      ...['34.90.12.7', '52.20.7.12'].flatMap((address, i) => [
        log(`n${i}`, `NET/Socket : Using [0]eth0:${address}<0>`),
        log(`n${i}`, 'Using network IB'),
      ]),
    ),
  ],
  'backend-gloo': [
    one('no GPUs', 'distributed_backend=gloo', 'GPU available: False, used: False'),
    one(
      'groups of Gloo beside NCCL',
      'GPU available: True (cuda), used: True',
      'distributed_backend=nccl',
      "init_process_group(backend='gloo')",
    ),
    one(
      'a job that loads NCCL',
      'GPU available: True (cuda), used: True',
      'backend=gloo',
      ...whole('n1', {}),
    ),
  ],
  'error-handling-off': [
    one(
      'the default',
      'ProcessGroupNCCL environments: TORCH_NCCL_ASYNC_ERROR_HANDLING: 3, TORCH_NCCL_DUMP_ON_TIMEOUT: 0',
      watchdog(0),
    ),
    one('on', 'export TORCH_NCCL_ASYNC_ERROR_HANDLING=1', watchdog(0)),
  ],
  'allocator-growth': [
    one(
      'a program that keeps what it uses',
      ...[1, 2, 3, 4, 5].map(
        (i) =>
          `[Rank 0] (after ${i} iterations) memory (MB) | allocated: 2345.1 | max allocated: 5432.2 | reserved: ${6000 + 400 * i}.0 | max reserved: 9000.0`,
      ),
    ),
    one(
      'an allocator that has what it needs',
      ...[1, 2, 3, 4, 5].map((i) => `step ${i}: reserved 1.24 GB, allocated 0.0${i} GB`),
    ),
    one(
      'an allocator that gives memory back',
      ...[0.8, 1.2, 1.9, 0.8].map((GB) => `reserved ${GB} GB, allocated 0.00 GB`),
    ),
  ],
  'affinity-distant': [
    one(
      'near cores, and a mask that does not tell',
      log(
        'n1',
        'ncclTopoGetCpuAffinity: Affinity for GPU 0 is 0-15. (GPU affinity = 0-31 ; CPU affinity = 0-15).',
      ),
      log('n1', 'Setting affinity for GPU 1 to ff', 1),
    ),
  ],
  'iface-slow': [
    files('the interface is the fastest', {
      'n1.log': tcp('n1'),
      'n1.txt': [
        'n1$ ethtool eth1',
        'Settings for eth1:',
        '\tSpeed: 10000Mb/s',
        'n1$ ethtool eth0',
        'Settings for eth0:',
        '\tSpeed: 1000Mb/s',
      ],
    }),
    files('data go over InfiniBand, and the set-up over the slow interface', {
      'n1.log': [
        log('n1', 'Bootstrap : Using eno1:10.0.0.4<0>'),
        log('n1', 'NET/Socket : Using [0]eno1:10.0.0.4<0>'),
        log('n1', 'Using network IB'),
        nodes('n1', 0),
      ],
      'n1.txt': [
        'n1$ ethtool eno1',
        'Settings for eno1:',
        '\tSpeed: 1000Mb/s',
        'n1$ ethtool eth2',
        'Settings for eth2:',
        '\tSpeed: 100000Mb/s',
      ],
    }),
  ],
  'library-differs': [
    one('one version', 'nvidia-nccl-cu12==2.21.5', 'NCCL version 2.21.5+cuda12.4'),
    one(
      'packages of several environments',
      'nvidia-nccl-cu12==2.21.5',
      'nvidia-nccl-cu12==2.18.1',
      'NCCL version 2.18.1+cuda12.1',
    ),
  ],
  'adapter-not-opened': [
    one(
      'no adapter is left: data go over TCP',
      warn('n1', 'misc/ibvwrap.cc:92', 'Call to ibv_open_device failed'),
      log('n1', 'NET/IB : No device found.'),
      log('n1', 'Using network Socket'),
    ),
    one('all adapters are opened', log('n1', 'NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>')),
  ],
};

/** Versions, variables and devices that do not fit together between ranks and hosts. */
import type { Job } from '../model/job.js';
import { distinctPlaces } from '../model/place.js';
import { edges, firstOfEach, listed, nodeCount, settings, some, type Told, troubles } from './queries.js';
import { example, type Finding, type Rule } from './rule.js';

export const versionMismatch: Rule = {
  id: 'version-mismatch',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'ranks of one communicator with different versions of NCCL',
  example: [
    example(
      'logs.txt',
      'n1:10:10 [0] NCCL INFO NCCL version 2.26.2+cuda12.6',
      'n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
      'n2:10:10 [0] NCCL INFO NCCL version 2.21.5+cuda12.4',
      'n2:10:11 [0] NCCL INFO ncclCommInitRank comm 0xb0 rank 1 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
    ),
  ],
  references: ['NCCL user guide: troubleshooting'],
  find(job) {
    const told = job.processes.filter(({ version }) => version !== undefined);
    const short = (text: string): string => text.replace(/\+.*$/, '');
    const versions = firstOfEach(told, ({ version }) => short(version!.value));
    const warned = troubles(job, 'versions');
    const isOneJob =
      warned.length > 0 ||
      troubles(job, 'wrongPeer').length > 0 ||
      versions.some((a) =>
        versions.some(
          (b) =>
            a !== b &&
            a.members.some((x) => x.commId !== undefined && b.members.some((y) => y.commId === x.commId)),
        ),
      );
    if ((versions.length < 2 && warned.length === 0) || !isOneJob) return [];
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `ranks use different versions of NCCL${versions.length > 1 ? `: ${versions.map(({ host, version }) => `${short(version!.value)} on ${host}`).join(', ')}` : ''}`,
        culprit: {
          versions: versions.map(({ version }) => short(version!.value)),
          hosts: versions.map(({ host }) => host),
        },
        evidence: distinctPlaces([
          ...versions.map(({ version }) => version!.at),
          ...some(warned.map(({ at }) => at)),
        ]),
        repair:
          'Use one image or one library path on all hosts (ldd of the program, LD_LIBRARY_PATH, LD_PRELOAD, the NCCL inside the framework’s package).',
        workaround: null,
      },
    ];
  },
};

/** Variables that all ranks must agree on: they decide what is connected to what, and how calls are done. */
const COMMON = [
  'NCCL_ALGO',
  'NCCL_PROTO',
  'NCCL_P2P_DISABLE',
  'NCCL_P2P_LEVEL',
  'NCCL_SHM_DISABLE',
  'NCCL_IB_DISABLE',
  'NCCL_NET',
  'NCCL_NET_PLUGIN',
  'NCCL_BUFFSIZE',
  'NCCL_NTHREADS',
  'NCCL_MIN_NCHANNELS',
  'NCCL_MAX_NCHANNELS',
  'NCCL_MIN_CTAS',
  'NCCL_MAX_CTAS',
  'NCCL_CROSS_NIC',
  'NCCL_NVLS_ENABLE',
  'NCCL_COLLNET_ENABLE',
  'NCCL_PXN_DISABLE',
  'NCCL_IB_TC',
];

export const envDiffers: Rule = {
  id: 'env-differs',
  causes: ['blocks', 'hangs', 'slows'],
  looksFor: 'variables with different values on the hosts of a job',
  example: [
    example(
      'logs.txt',
      'n1:10:10 [0] NCCL INFO NCCL_ALGO set by environment to Ring',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0',
      'n2:10:10 [0] NCCL INFO NCCL_ALGO set by environment to Tree',
      'n2:10:11 [0] NCCL INFO comm 0x1 rank 1 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0',
    ),
  ],
  references: ['NCCL user guide: environment variables'],
  find: (job) =>
    COMMON.flatMap((name): Finding[] => {
      const told = settings(job, name);
      const values = firstOfEach(told, ({ value }) => value);
      // A variable is printed where it is read: that another log lacks it proves nothing.
      if (values.length < 2) return [];
      return [
        {
          severity: 'warning',
          confidence: 'certain',
          text: `${name} differs: ${values.map(({ value, process }) => `${value} on ${process.host}`).join(', ')}`,
          culprit: {
            variable: name,
            values: values.map(({ value }) => value),
            hosts: values.map(({ process }) => process.host),
          },
          evidence: some(values.map(({ at }) => at)),
          repair: `Give all ranks the same ${name} (mpirun -x, sbatch --export, the image, /etc/nccl.conf of each host).`,
          workaround: null,
        },
      ];
    }),
};

export const envShmDisabled: Rule = {
  id: 'env-shm-disabled',
  causes: ['slows'],
  looksFor: 'NCCL_SHM_DISABLE=1 with ranks of a host that then talk over the network',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NCCL_SHM_DISABLE set by environment to 1.',
      'n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
      'n1:10:12 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0',
      'n1:20:21 [1] NCCL INFO ncclCommInitRank comm 0xb0 rank 1 nranks 2 cudaDev 1 busId 43000 commId 0x3f - Init START',
    ),
  ],
  references: ['NCCL user guide: NCCL_SHM_DISABLE'],
  find(job) {
    const found = settings(job, 'NCCL_SHM_DISABLE').filter(({ value }) => value === '1');
    const [first] = found;
    if (first === undefined) return [];
    const hostOf = new Map(
      job.processes.flatMap(({ members, host }) => members.map(({ rank }) => [rank, host] as const)),
    );
    const slow = job.processes.flatMap((process) =>
      edges(process).filter(
        ({ kind, from, to }) =>
          kind === 'NET' && hostOf.get(from) === process.host && hostOf.get(to) === process.host,
      ),
    );
    if (slow.length === 0) return [];
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `NCCL_SHM_DISABLE=1: ranks of ${first.process.host} talk to each other over the network`,
        culprit: { variable: 'NCCL_SHM_DISABLE', value: '1', host: first.process.host },
        evidence: distinctPlaces([
          first.at,
          ...some(
            slow.map(({ at }) => at),
            4,
          ),
        ]),
        repair: 'Unset NCCL_SHM_DISABLE; if it hides a small /dev/shm, enlarge that.',
        workaround: null,
      },
    ];
  },
};

export const envIbDisabled: Rule = {
  id: 'env-ib-disabled',
  causes: ['slows'],
  looksFor:
    'NCCL_IB_DISABLE=1 or NCCL_NET=Socket between several hosts that have InfiniBand or RoCE adapters',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.',
      'n1:10:11 [0] NCCL INFO Using network Socket',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_DISABLE'],
  find(job) {
    const found = [
      ...settings(job, 'NCCL_IB_DISABLE')
        .filter(({ value }) => value === '1')
        .map((one) => ({ name: 'NCCL_IB_DISABLE', ...one })),
      ...settings(job, 'NCCL_NET')
        .filter(({ value }) => /^socket$/i.test(value))
        .map((one) => ({ name: 'NCCL_NET', ...one })),
    ];
    const [first] = found;
    const sockets = job.processes.find(({ network }) => network?.value === 'Socket')?.network;
    if (first === undefined || sockets === undefined || nodeCount(job) < 2) return [];
    const hasAdapters =
      job.ports.some(({ state }) => state?.value === 'ACTIVE') ||
      job.processes.some(({ hcas }) => hcas !== undefined);
    return [
      {
        severity: hasAdapters ? 'error' : 'warning',
        confidence: hasAdapters ? 'certain' : 'likely',
        text: `${first.name}=${first.value} sends everything between hosts over TCP`,
        culprit: { variable: first.name, value: first.value, host: first.process.host },
        evidence: distinctPlaces([
          ...some(firstOfEach(found, ({ process }) => process.host).map(({ at }) => at)),
          sockets.at,
        ]),
        repair: `Unset ${first.name} where the hosts have InfiniBand or RoCE adapters.`,
        workaround: null,
      },
    ];
  },
};

/** The table of a host has no entry with the index that its processes ask for. */
function absentGid(job: Job): Finding[] {
  return settings(job, 'NCCL_IB_GID_INDEX')
    .slice(0, 1)
    .flatMap(({ process, value, at }): Finding[] => {
      const own = job.gids.filter(({ host }) => host === undefined || host === process.host);
      const devices = [...new Set(own.map(({ device }) => device))];
      const lacking = devices.filter(
        (device) => !own.some((one) => one.device === device && one.index === Number(value)),
      );
      if (lacking.length === 0 || Number(value) < 0) return [];
      return [
        {
          severity: 'error',
          confidence: 'certain',
          text: `NCCL_IB_GID_INDEX=${value} names an entry that ${listed(lacking)} of ${process.host} does not have`,
          culprit: { variable: 'NCCL_IB_GID_INDEX', value, host: process.host, hca: lacking[0] },
          evidence: [
            at,
            ...some(
              own.filter(({ device }) => lacking.includes(device)).map((one) => one.at),
              8,
            ),
          ],
          repair: `${gidRepair(process.version?.value)} In a container, give it the network of the host.`,
          workaround: null,
        },
      ];
    });
}

export const envGidIndex: Rule = {
  id: 'env-gid-index',
  causes: ['blocks', 'kills'],
  looksFor: 'NCCL_IB_GID_INDEX that names an entry which a port does not have, or a link-local one',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 0.',
      'n1:10:12 [3] misc/ibvwrap.cc:307 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state INIT, next state RTR, local GID index 0, local GID fe80::5aa2, remote GID fe80::5aa3',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_GID_INDEX'],
  find(job) {
    const failed = troubles(job, 'queuePair').filter(({ process }) =>
      process.environment.has('NCCL_IB_GID_INDEX'),
    );
    const [first] = failed;
    if (first === undefined) return absentGid(job);
    const setting = first.process.environment.get('NCCL_IB_GID_INDEX')!;
    const isLocal = first.trouble.localGid?.startsWith('fe80') === true;
    if (setting.value === '-1') return [];
    return [
      {
        severity: 'error',
        confidence: isLocal ? 'certain' : 'likely',
        text: `NCCL_IB_GID_INDEX=${setting.value} selects ${isLocal ? 'a link-local address' : 'an entry that does not reach the peer'} on ${first.process.host}`,
        culprit: {
          variable: 'NCCL_IB_GID_INDEX',
          value: setting.value,
          host: first.process.host,
          hca: first.trouble.device,
        },
        evidence: distinctPlaces([
          setting.at,
          ...some(
            failed.map(({ at }) => at),
            4,
          ),
        ]),
        repair: gidRepair(first.process.version?.value),
        workaround: null,
      },
    ];
  },
};

/** NCCL chooses the entry itself from 2.21 on. */
function gidRepair(version: string | undefined): string {
  const [major = 0, minor = 0] = (version ?? '').split('.').map(Number);
  if (version === undefined)
    return 'Unset NCCL_IB_GID_INDEX where NCCL is 2.21 or newer, which finds the RoCE v2 entry with an IPv4 address by itself; for older ones take the index of that entry from show_gids.';
  return major > 2 || minor >= 21
    ? 'Unset NCCL_IB_GID_INDEX: since 2.21 NCCL finds the RoCE v2 entry with an IPv4 address by itself.'
    : `Set NCCL_IB_GID_INDEX to the RoCE v2 entry with an IPv4 address (show_gids); NCCL ${version.replace(/\+.*$/, '')} does not find it by itself.`;
}

export const envHcaPrefix: Rule = {
  id: 'env-ib-hca-prefix',
  causes: ['slows'],
  looksFor: 'NCCL_IB_HCA that selects more adapters than it names, because names are prefixes',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_1',
      'n1:10:11 [0] NCCL INFO NET/IB : Using [0]mlx5_1:1/IB [1]mlx5_10:1/IB [2]mlx5_11:1/IB [RO]; OOB eth0:10.0.0.1<0>',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_HCA'],
  find(job) {
    const found = settings(job, 'NCCL_IB_HCA').flatMap(({ process, value, at }) => {
      if (/^[=^]/.test(value) || process.hcas === undefined) return [];
      const names = value.split(',').map((name) => name.replace(/:\d+$/, ''));
      const extra = process.hcas.value
        .map(({ name }) => name)
        .filter((name) => {
          const by = names.filter((one) => name.startsWith(one));
          // A prefix that names no adapter of its own (mlx5) is meant as one.
          return (
            by.length > 0 &&
            !names.includes(name) &&
            by.some((one) => process.hcas!.value.some((hca) => hca.name === one))
          );
        });
      return extra.length === 0 ? [] : [{ process, value, at, extra }];
    });
    const [first] = found;
    if (first === undefined) return [];
    return [
      {
        severity: 'warning',
        confidence: 'likely',
        text: `NCCL_IB_HCA=${first.value} on ${first.process.host} also selects ${listed(first.extra)}: names without = are prefixes`,
        culprit: {
          variable: 'NCCL_IB_HCA',
          value: first.value,
          host: first.process.host,
          extra: first.extra,
        },
        evidence: [first.at, first.process.hcas!.at],
        repair: `Write NCCL_IB_HCA==${first.value}: an equals sign before the list asks for exact names.`,
        workaround: null,
      },
    ];
  },
};

/** Helper threads times sockets of one connection that NCCL allows. */
const MAX_SOCKETS = 64;

export const tooManySockets: Rule = {
  id: 'socket-threads-limit',
  causes: ['slows'],
  looksFor: 'NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD above 64',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] NCCL INFO NCCL_SOCKET_NTHREADS set by environment to 16.',
      'n1:10:11 [0] NCCL INFO NCCL_NSOCKS_PERTHREAD set by environment to 8.',
    ),
  ],
  references: ['NCCL user guide: NCCL_SOCKET_NTHREADS, NCCL_NSOCKS_PERTHREAD'],
  find: (job) =>
    firstOfEach(job.processes, ({ host }) => host).flatMap((process): Finding[] => {
      const threads = process.environment.get('NCCL_SOCKET_NTHREADS');
      const sockets = process.environment.get('NCCL_NSOCKS_PERTHREAD');
      const product = Number(threads?.value ?? 1) * Number(sockets?.value ?? 1);
      if (threads === undefined || sockets === undefined || !(product > MAX_SOCKETS)) return [];
      return [
        {
          severity: 'warning',
          confidence: 'certain',
          text: `${threads.value} threads of ${sockets.value} sockets are more than the ${MAX_SOCKETS} sockets of a connection on ${process.host}`,
          culprit: { variable: 'NCCL_NSOCKS_PERTHREAD', value: sockets.value, host: process.host },
          evidence: [threads.at, sockets.at],
          repair: `Lower NCCL_SOCKET_NTHREADS or NCCL_NSOCKS_PERTHREAD: their product is at most ${MAX_SOCKETS}.`,
          workaround: null,
        },
      ];
    }),
};

export const sameGpu: Rule = {
  id: 'duplicate-gpu',
  causes: ['blocks'],
  looksFor: 'two ranks on one GPU',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] init.cc:881 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000',
    ),
  ],
  references: ['NCCL user guide: using multiple NCCL communicators'],
  explainedBy: ['nccl-tests-not-one-job'],
  find(job) {
    const found = troubles(job, 'sameGpu');
    const [first] = found;
    if (first === undefined) return [];
    const ranks = [...first.logged.text.matchAll(/\brank (\d+)/gi)].map(([, rank]) => Number(rank));
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `several ranks of ${first.process.host} use one GPU${ranks.length > 0 ? `: rank ${listed([...new Set(ranks)].sort((a, b) => a - b))}` : ''}`,
        culprit: {
          host: first.process.host,
          ...(ranks.length > 0 ? { ranks: [...new Set(ranks)].sort((a, b) => a - b) } : {}),
        },
        evidence: some(found.map(({ at }) => at)),
        repair:
          'Let each process choose its own GPU before it makes a communicator (cudaSetDevice(local rank), CUDA_VISIBLE_DEVICES per process, --gpus-per-task).',
        workaround: null,
      },
    ];
  },
};

/**
 * Failures of CUDA whose reason is the driver, by number and by words: 35 insufficient driver, 222 PTX of a newer
 * compiler, 803 driver library and kernel module of two versions, 804 no forward compatibility on this GPU.
 */
const DRIVER_NUMBERS: ReadonlySet<number> = new Set([35, 222, 803, 804]);
const DRIVER_WORDS =
  /driver version is insufficient|unsupported toolchain|unsupported display driver|forward compatibility/i;

const isOfDriver = ({ trouble }: Told<'cuda'>): boolean =>
  (trouble.number !== undefined && DRIVER_NUMBERS.has(trouble.number)) || DRIVER_WORDS.test(trouble.reason);

/** `12.2` for the 12020 that drivers state. */
const cudaName = (version: number): string =>
  `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`;

export const driverTooOld: Rule = {
  id: 'cuda-driver-too-old',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'a driver that does not support the CUDA version that NCCL was built with',
  example: [
    example(
      'n1.log',
      'n1:10:10 [0] NCCL INFO cudaDriverVersion 12020',
      'n1:10:10 [0] NCCL INFO NCCL version 2.27.3+cuda12.9',
      "n1:10:11 [0] enqueue.cc:1556 NCCL WARN Cuda failure 222 'the provided PTX was compiled with an unsupported toolchain.'",
    ),
  ],
  references: ['CUDA compatibility: minor version and forward compatibility'],
  find(job) {
    const found = troubles(job, 'cuda').filter((one) => one.logged.isWarning && isOfDriver(one));
    const [first] = found;
    if (first === undefined) return [];
    const { process, trouble } = first;
    const driver = process.cudaDriver;
    const built = /\+cuda(\d+\.\d+)/.exec(process.version?.value ?? '')?.[1];
    const both =
      driver === undefined || built === undefined
        ? ''
        : `: it supports CUDA ${cudaName(driver.value)}, NCCL was built with ${built}`;
    const isSplit = trouble.number === 803;
    return [
      {
        severity: 'error',
        confidence: both !== '' && !isSplit ? 'certain' : 'likely',
        text: isSplit
          ? `the driver of ${process.host} and its library are of two versions: ${trouble.reason}`
          : `the driver of ${process.host} is too old${both} (${trouble.reason})`,
        culprit: {
          host: process.host,
          ...(driver === undefined ? {} : { driver: cudaName(driver.value) }),
          ...(built === undefined ? {} : { builtWith: built }),
          reason: trouble.reason,
        },
        evidence: distinctPlaces([
          ...some(firstOfEach(found, (one) => one.process.host).map(({ at }) => at)),
          ...(both === '' ? [] : [driver?.at, process.version?.at]),
        ]),
        repair: isSplit
          ? 'Restart the machine after the update of the driver, and remove libcuda.so and forward-compatibility packages of another version from the image (LD_LIBRARY_PATH).'
          : `Update the driver${built === undefined ? '' : ` to one for CUDA ${built} or newer`}, or use an NCCL and a framework built for the CUDA version that the driver supports${driver === undefined ? '' : ` (${cudaName(driver.value)})`}.`,
        workaround: null,
      },
    ];
  },
};

export const cudaFailure: Rule = {
  id: 'cuda-failure',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'failures of CUDA that NCCL reports',
  example: [
    example(
      'n1.log',
      "n1:10:11 [0] enqueue.cc:1200 NCCL WARN Cuda failure 'an illegal memory access was encountered'",
    ),
  ],
  references: ['NCCL user guide: troubleshooting, errors'],
  explainedBy: ['xid', 'rank-died', 'nvls-bind-failed', 'shm-too-small'],
  find(job) {
    const found = troubles(job, 'cuda').filter((one) => one.logged.isWarning && !isOfDriver(one));
    const [first] = found;
    if (first === undefined) return [];
    const { reason } = first.trouble;
    const isMemory = /out of memory/i.test(reason);
    const isDriver = /no kernel image/i.test(reason);
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `CUDA failed on ${first.process.host}${first.logged.rank === undefined ? '' : ` (rank ${first.logged.rank})`}: ${reason}`,
        culprit: {
          host: first.process.host,
          ...(first.logged.rank === undefined ? {} : { rank: first.logged.rank }),
          reason,
        },
        evidence: some(firstOfEach(found, ({ process }) => process).map(({ at }) => at)),
        repair: isMemory
          ? 'Leave NCCL some hundred MiB of GPU memory (smaller batch; NCCL_BUFFSIZE, fewer channels).'
          : isDriver
            ? 'Update the driver, or use an NCCL built for the CUDA version that the driver supports.'
            : /system not yet initialized|not yet initiali[sz]ed/i.test(reason)
              ? 'Start the fabric manager (systemctl start nvidia-fabricmanager) in the version of the driver: GPUs on NVSwitch cannot be used before.'
              : 'NCCL only reports it: the failure mostly comes from an earlier kernel of the program; run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer.',
        workaround: null,
      },
    ];
  },
};

/** GPUs with NVLink SHARP on boards with NVSwitch. */
const HAS_MULTICAST = /\b(?:H100|H200|H800|H20|B200|B300|GB200|GB300)\b(?!.*(?:PCIe|NVL))/;

/** A whole board: parts of one, as in virtual machines, may lack multicast by design. */
const WHOLE_BOARD = 8;

export const multicastUnavailable: Rule = {
  id: 'nvls-unavailable',
  causes: ['slows'],
  looksFor: 'a whole board of GPUs with NVSwitch on which NCCL finds no NVLink SHARP',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NVLS multicast support is not available on dev 0',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0',
    ),
    example('gpus.txt', 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)'),
  ],
  references: ['NCCL user guide: NCCL_NVLS_ENABLE'],
  find(job) {
    const names = [
      ...job.links.map(({ name }) => name),
      ...job.benches.flatMap(({ devices }) => devices.map(({ gpu }) => gpu)),
    ];
    const hasSupport = names.length > 0 && names.every((name) => HAS_MULTICAST.test(name));
    const found = job.processes.filter(
      ({ multicast, environment, members }) =>
        multicast?.value === false &&
        environment.get('NCCL_NVLS_ENABLE')?.value !== '0' &&
        members.some(({ localRanks }) => localRanks === WHOLE_BOARD),
    );
    const [first] = found;
    if (!hasSupport || first === undefined) return [];
    return [
      {
        severity: 'warning',
        confidence: 'likely',
        text: `NVLink SHARP is not available on ${listed([...new Set(found.map(({ host }) => host))])} although its GPUs have it`,
        culprit: { host: first.host },
        evidence: some(firstOfEach(found, ({ host }) => host).map(({ multicast }) => multicast!.at)),
        repair:
          'See that the fabric manager runs in the version of the driver and that the driver is 530 or newer (nvidia-smi -q: Fabric state Completed).',
        workaround: null,
      },
    ];
  },
};

export const multicastFailed: Rule = {
  id: 'nvls-bind-failed',
  causes: ['blocks', 'kills'],
  looksFor: 'NVLink SHARP (NVLS) memory that cannot be bound: the fabric manager, or multicast resources',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] transport/nvls.cc:229 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 the operation cannot be performed in the present state',
    ),
  ],
  references: ['NCCL user guide: NCCL_NVLS_ENABLE'],
  find(job) {
    const found = troubles(job, 'multicast');
    const [first] = found;
    if (first === undefined) return [];
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `NVLS memory cannot be bound on ${listed([...new Set(found.map(({ process }) => process.host))])}: ${first.trouble.reason}`,
        culprit: { host: first.process.host },
        evidence: some(firstOfEach(found, ({ process }) => process).map(({ at }) => at)),
        repair:
          'Restart the fabric manager of the driver’s version (systemctl status nvidia-fabricmanager), and see that no other job holds the multicast resources.',
        workaround:
          'NCCL_NVLS_ENABLE=0 does without NVLS, at a cost of up to a third of the all-reduce bandwidth.',
      },
    ];
  },
};

export const noTransport: Rule = {
  id: 'no-transport',
  causes: ['blocks'],
  looksFor: 'two ranks that no transport connects',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] transport.cc:120 NCCL WARN No transport found for rank 0[1b000] -> rank 1[43000]',
    ),
  ],
  references: [],
  find(job) {
    const found = troubles(job, 'noTransport');
    const [first] = found;
    if (first === undefined) return [];
    const off = ['NCCL_P2P_DISABLE', 'NCCL_SHM_DISABLE', 'NCCL_NET'].flatMap((name) =>
      settings(job, name)
        .slice(0, 1)
        .map((one) => ({ name, ...one })),
    );
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `nothing connects rank ${first.trouble.from} to rank ${first.trouble.to}${off.length === 0 ? '' : `; set: ${off.map(({ name, value }) => `${name}=${value}`).join(', ')}`}`,
        culprit: {
          from: first.trouble.from,
          to: first.trouble.to,
          ...(off.length === 0 ? {} : { variable: off[0]!.name }),
        },
        evidence: distinctPlaces([first.at, ...off.map(({ at }) => at)]),
        repair:
          off.length === 0
            ? 'See why both peer-to-peer and shared memory are refused (containers with separate IPC namespaces), and that a network is there.'
            : `Take ${listed(off.map(({ name }) => name))} away.`,
        workaround: null,
      },
    ];
  },
};

export const misuse: Rule = {
  id: 'api-misuse',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'calls that break the rules of groups: unbalanced, mixed modes, partly captured',
  example: [example('n1.log', 'n1:10:10 [0] group.cc:120 NCCL WARN ncclGroupEnd: not in a group call.')],
  references: ['NCCL user guide: group calls'],
  find(job) {
    const found = troubles(job, 'misuse');
    return firstOfEach(found, ({ trouble }) => trouble.what).map(
      ({ trouble, process, at }): Finding => ({
        severity: 'error',
        confidence: 'certain',
        text: `${process.host}: ${trouble.what}`,
        culprit: { host: process.host, what: trouble.what },
        evidence: [at],
        repair:
          'Pair ncclGroupStart and ncclGroupEnd on every path, keep blocking and nonblocking communicators in separate groups, and capture all communicators of a group or none.',
        workaround: null,
      }),
    );
  },
};

export const noNetwork: Rule = {
  id: 'net-unavailable',
  causes: ['blocks'],
  looksFor: 'the network that NCCL_NET demands is not there',
  example: [example('n1.log', 'n1:10:11 [0] net.cc:300 NCCL WARN Failed to initialize any NET plugin')],
  references: ['NCCL user guide: NCCL_NET'],
  explainedBy: ['net-plugin-load-failed'],
  find(job: Job) {
    const found = troubles(job, 'noNetwork');
    const [first] = found;
    if (first === undefined) return [];
    const setting = first.process.environment.get('NCCL_NET');
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `${first.process.host} has no network${setting === undefined ? '' : ` ${setting.value}`}`,
        culprit: {
          host: first.process.host,
          ...(setting === undefined ? {} : { variable: 'NCCL_NET', value: setting.value }),
        },
        evidence: distinctPlaces([first.at, setting?.at]),
        repair:
          'Install the plugin or the adapter’s libraries that NCCL_NET names, pass the devices into the container, or unset NCCL_NET.',
        workaround: null,
      },
    ];
  },
};

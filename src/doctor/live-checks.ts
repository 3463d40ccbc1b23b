/**
 * What to mind on a machine before a job runs: facts of the system against what NCCL needs. Nothing is changed, and
 * what could not be seen is said to be unknown.
 */

export interface LiveFacts {
  readonly shm: { readonly bytes: number; readonly freeBytes: number } | undefined;
  /** Bytes; Infinity for unlimited. */
  readonly memlock: number | undefined;
  readonly openFiles: number | undefined;
  readonly portRange: readonly [low: number, high: number] | undefined;
  /** net.core.rmem_max, wmem_max. */
  readonly socketBuffers: { readonly receive: number; readonly send: number } | undefined;
  readonly interfaces: readonly LiveInterface[];
  readonly adapters: readonly LiveAdapter[];
  /** /dev/infiniband can be opened by this process' name space. */
  readonly hasVerbsDevices: boolean;
  /** Names of loaded kernel modules; undefined where they cannot be seen. */
  readonly modules: readonly string[] | undefined;
  readonly cores: { readonly allowed: number; readonly all: number } | undefined;
  readonly numaNodes: number | undefined;
  /** GPUs that the driver lists; undefined without a driver. */
  readonly gpus: readonly string[] | undefined;
  readonly hosts: readonly { readonly name: string; readonly reason: string | undefined }[];
  /** Whether files that variables name can be read, by variable. */
  readonly files?: Readonly<Record<string, boolean>>;
  /** NCCL_* variables of this environment. */
  readonly variables: Readonly<Record<string, string>>;
}

export interface LiveInterface {
  readonly name: string;
  readonly isUp: boolean;
  readonly mtu: number | undefined;
  /** Mbit/s. */
  readonly speed: number | undefined;
  readonly addresses: readonly string[];
  readonly isVirtual: boolean;
}

export interface LiveAdapter {
  readonly name: string;
  readonly port: number;
  readonly state: string;
  readonly rate: string;
  readonly link: string;
}

export interface LiveCheck {
  readonly what: string;
  readonly status: 'fine' | 'attention' | 'unknown';
  readonly found: string;
  /** What to do, for what needs attention. */
  readonly advice?: string;
}

/** A segment of one connection is some MiB; eight ranks with their channels need about this. */
const SHM_BYTES = 1 << 30;
/** Descriptors: some per peer and channel. */
const OPEN_FILES = 8192;
/** Ports of a large all-to-all. */
const PORTS = 20_000;
/** Bytes of a socket buffer that fill a link of 100 Gbit/s over a round trip of 0.1 ms. */
const SOCKET_BUFFER = 1 << 20;
const MIB = 1 << 20;

const check = (what: string, isFine: boolean | undefined, found: string, advice: string): LiveCheck =>
  isFine === undefined
    ? { what, status: 'unknown', found }
    : isFine
      ? { what, status: 'fine', found }
      : { what, status: 'attention', found, advice };

/** All checks, in the order of a bring-up. */
export function liveChecks(facts: LiveFacts): LiveCheck[] {
  return [
    ...resources(facts),
    ...network(facts),
    ...adapters(facts),
    ...machine(facts),
    ...variables(facts),
    ...facts.hosts.map(({ name, reason }) =>
      check(
        `host ${name}`,
        reason === undefined,
        reason ?? 'reachable',
        `Make ${name} reachable from here: name resolution, route, firewall.`,
      ),
    ),
  ];
}

function resources({ shm, memlock, openFiles, portRange, adapters: hcas }: LiveFacts): LiveCheck[] {
  const [low, high] = portRange ?? [0, 0];
  return [
    check(
      '/dev/shm',
      shm && shm.freeBytes >= SHM_BYTES,
      shm === undefined
        ? 'not there'
        : `${Math.round(shm.freeBytes / MIB)} of ${Math.round(shm.bytes / MIB)} MiB free`,
      'Give a container more (docker --shm-size=8g or --ipc=host, a memory-backed emptyDir), or remove old files.',
    ),
    check(
      'locked memory',
      memlock === undefined ? undefined : hcas.length === 0 || memlock === Number.POSITIVE_INFINITY,
      memlock === undefined
        ? 'unknown'
        : memlock === Number.POSITIVE_INFINITY
          ? 'unlimited'
          : `${Math.round(memlock / 1024)} kB`,
      'RDMA registers memory: set the limit to unlimited (ulimit -l, LimitMEMLOCK, --ulimit memlock=-1).',
    ),
    check(
      'open files',
      openFiles === undefined ? undefined : openFiles >= OPEN_FILES,
      openFiles === undefined ? 'unknown' : `at most ${openFiles}`,
      'Raise the limit for large jobs (ulimit -n 65536).',
    ),
    check(
      'TCP ports',
      portRange && high - low + 1 >= PORTS,
      portRange === undefined ? 'unknown' : `${high - low + 1} (${low}-${high})`,
      'Widen net.ipv4.ip_local_port_range to 1024-65535 for all-to-all over many hosts.',
    ),
  ];
}

function network({ interfaces, socketBuffers }: LiveFacts): LiveCheck[] {
  const real = interfaces.filter(
    ({ isVirtual, isUp, addresses }) => !isVirtual && isUp && addresses.length > 0,
  );
  const names = real.map(
    ({ name, addresses, speed }) =>
      `${name} ${addresses[0]}${speed === undefined ? '' : ` ${speed / 1000} Gbit/s`}`,
  );
  const virtual = interfaces.filter(
    ({ isVirtual, isUp, addresses }) => isVirtual && isUp && addresses.length > 0,
  );
  const small = real.filter(({ mtu, speed }) => mtu !== undefined && mtu < 9000 && (speed ?? 0) >= 25_000);
  return [
    check(
      'interfaces',
      real.length > 0,
      names.length === 0 ? 'none with an address' : names.join(', '),
      'Bring an interface up with an address.',
    ),
    check(
      'virtual interfaces',
      virtual.length === 0 || real.length === 0,
      virtual.length === 0 ? 'none' : virtual.map(({ name }) => name).join(', '),
      `NCCL may take them as networks between hosts: set NCCL_SOCKET_IFNAME=${real[0]?.name ?? 'NAME'}.`,
    ),
    check(
      'size of packets',
      small.length === 0,
      small.length === 0 ? 'fine for the speed' : small.map(({ name, mtu }) => `${name} ${mtu}`).join(', '),
      'Use jumbo frames (MTU 9000) on fast Ethernet, on all hosts and switches alike.',
    ),
    check(
      'socket buffers',
      socketBuffers && Math.min(socketBuffers.receive, socketBuffers.send) >= SOCKET_BUFFER,
      socketBuffers === undefined
        ? 'unknown'
        : `receive ${socketBuffers.receive}, send ${socketBuffers.send} bytes at most`,
      'Where data goes over TCP, raise net.core.rmem_max and wmem_max (16 MiB and more).',
    ),
  ];
}

function adapters({ adapters: hcas, hasVerbsDevices, modules, gpus }: LiveFacts): LiveCheck[] {
  if (hcas.length === 0) return [{ what: 'RDMA adapters', status: 'fine', found: 'none' }];
  const down = hcas.filter(({ state }) => state !== 'ACTIVE');
  const hasPeerMemory = modules?.some((name) => /peermem|nv_peer_mem/.test(name));
  return [
    check(
      'RDMA adapters',
      down.length === 0,
      hcas.map(({ name, port, state, rate, link }) => `${name}:${port} ${state} ${rate} ${link}`).join(', '),
      `${down.map(({ name }) => name).join(', ')}: bring the port up, or leave it out with NCCL_IB_HCA on all hosts.`,
    ),
    check(
      'RDMA devices',
      hasVerbsDevices,
      hasVerbsDevices ? '/dev/infiniband is there' : 'adapters are there, /dev/infiniband is not',
      'Pass /dev/infiniband into the container (--device, a device plugin); without it NCCL falls back to TCP.',
    ),
    ...(gpus === undefined || gpus.length === 0
      ? []
      : [
          check(
            'GPUDirect RDMA',
            hasPeerMemory,
            hasPeerMemory === true ? 'peer-memory module is loaded' : 'nvidia-peermem is not loaded',
            'modprobe nvidia-peermem, at every boot; not needed where NCCL says that DMA-BUF is available.',
          ),
        ]),
  ];
}

function machine({ cores, numaNodes, gpus }: LiveFacts): LiveCheck[] {
  return [
    check(
      'cores',
      cores && (cores.allowed >= 2 || cores.all < 2),
      cores === undefined
        ? 'unknown'
        : `${cores.allowed} of ${cores.all}${numaNodes === undefined ? '' : `, ${numaNodes} NUMA node${numaNodes === 1 ? '' : 's'}`}`,
      'NCCL’s threads share one core with the program: widen the binding (mpirun --bind-to none or numa, srun --cpu-bind=none), or set NCCL_IGNORE_CPU_AFFINITY=1.',
    ),
    {
      what: 'GPUs',
      status: gpus === undefined ? 'unknown' : 'fine',
      found: gpus === undefined ? 'no driver' : gpus.join(', '),
    },
  ];
}

/** Variables that forbid a fast way. */
const COSTLY = ['NCCL_P2P_DISABLE', 'NCCL_SHM_DISABLE', 'NCCL_IB_DISABLE'];

/** Interfaces that NCCL_SOCKET_IFNAME leaves: prefixes, exact names behind `=`, all others behind `^`. */
function selected(value: string, interfaces: readonly LiveInterface[]): LiveInterface[] {
  const isInverse = value.startsWith('^');
  const isExact = /^\^?=/.test(value);
  const names = value
    .replace(/^\^?=?/, '')
    .split(',')
    .map((name) => name.replace(/:\d+$/, ''))
    .filter((name) => name !== '');
  return interfaces.filter(
    ({ name, isUp, addresses }) =>
      isUp &&
      addresses.length > 0 &&
      isInverse !== names.some((one) => (isExact ? name === one : name.startsWith(one))),
  );
}

/** What NCCL_SOCKET_IFNAME selects on this machine. */
function chosenInterfaces({ variables: all, interfaces, hosts }: LiveFacts): LiveCheck[] {
  const value = all.NCCL_SOCKET_IFNAME;
  if (value === undefined || value === '') return [];
  const chosen = selected(value, interfaces);
  const isLoopback = chosen.length > 0 && chosen.every(({ name }) => name === 'lo');
  // The loopback interface may be missing in the list of interfaces, and always is there.
  const isOnlyLo = isLoopback || (chosen.length === 0 && /^=?lo$/.test(value));
  const real = interfaces.filter(
    ({ isUp, isVirtual, addresses }) => isUp && !isVirtual && addresses.length > 0,
  );
  const found = `NCCL_SOCKET_IFNAME=${value} selects ${isOnlyLo ? 'lo' : chosen.length === 0 ? 'nothing' : chosen.map(({ name }) => name).join(', ')}`;
  return [
    check(
      'interfaces for NCCL',
      isOnlyLo ? hosts.length === 0 && real.length === 0 : chosen.length > 0,
      found,
      isOnlyLo
        ? 'The loopback interface reaches no other host: name another one, or unset it, for jobs on several hosts.'
        : `No set-up ends without one: name an interface that is up with an address (${real.map(({ name }) => name).join(', ') || 'none is here'}), or unset it.`,
    ),
  ];
}

/** Values that stop a job, or slow it down. */
function badValues({ variables: all, adapters: hcas }: LiveFacts): string[] {
  const { NCCL_PROTO, NCCL_BUFFSIZE, NCCL_NET } = all;
  return [
    ...COSTLY.filter(
      (name) => /^[1-9]/.test(all[name] ?? '') && (name !== 'NCCL_IB_DISABLE' || hcas.length > 0),
    ).map((name) => `${name}=${all[name]}`),
    ...(/^LL$/i.test(NCCL_PROTO ?? '') ? [`NCCL_PROTO=${NCCL_PROTO}`] : []),
    ...(/^\d+$/.test(NCCL_BUFFSIZE ?? '') && Number(NCCL_BUFFSIZE) < SMALLEST_BUFFER
      ? [`NCCL_BUFFSIZE=${NCCL_BUFFSIZE}`]
      : []),
    ...(/^IB$/i.test(NCCL_NET ?? '') && hcas.length === 0 ? ['NCCL_NET=IB without adapters'] : []),
    ...(/^socket$/i.test(NCCL_NET ?? '') && hcas.length > 0 ? [`NCCL_NET=${NCCL_NET}`] : []),
  ];
}

/** Variables that name files: NCCL reads the first, and writes the others. */
export const FILE_VARIABLES = ['NCCL_TOPO_FILE', 'NCCL_GRAPH_FILE', 'NCCL_TUNER_CONFIG_FILE'] as const;

/** Files that variables name and that cannot be read. */
function missingFiles({ files, variables: all }: LiveFacts): LiveCheck[] {
  const missing = FILE_VARIABLES.filter((name) => all[name] !== undefined && files?.[name] === false);
  return missing.map((name) =>
    check(
      'files of variables',
      false,
      `${name}=${all[name]} cannot be read`,
      `Give a path that this machine has, or unset ${name}.`,
    ),
  );
}

/** NCCL_COMM_ID is where rank 0 listens: an address and a port. */
function meetingPoint({ variables: all, interfaces }: LiveFacts): LiveCheck[] {
  const value = all.NCCL_COMM_ID;
  if (value === undefined || value === '') return [];
  const found = /^(?:\[([0-9a-f:.%\w]+)\]|([^:\s]+)):(\d+)$/i.exec(value);
  const port = Number(found?.[3] ?? 0);
  const isFine = found !== null && port > 0 && port < 65_536;
  const address = found?.[1] ?? found?.[2];
  const isOwn = interfaces.some(({ addresses }) => addresses.some((one) => one === address));
  return [
    check(
      'meeting point',
      isFine,
      `NCCL_COMM_ID=${value}${!isFine ? ' is no address with a port' : isOwn ? ', an address of this machine: rank 0 is to run here' : ', not of this machine: rank 0 is to run there'}`,
      'Write ADDRESS:PORT ([ADDRESS]:PORT for IPv6) of the host of rank 0, or unset it: frameworks pass the address themselves.',
    ),
  ];
}

/** Bytes; the default has 4 MiB, and each of its eight parts carries one step of a ring. */
const SMALLEST_BUFFER = 1 << 16;

function variables(facts: LiveFacts): LiveCheck[] {
  const all = facts.variables;
  const set = badValues(facts);
  const sockets = Number(all.NCCL_SOCKET_NTHREADS ?? 1) * Number(all.NCCL_NSOCKS_PERTHREAD ?? 1);
  return [
    check(
      'variables',
      set.length === 0,
      set.length === 0 ? `${Object.keys(all).length} of NCCL_ set` : set.join(', '),
      'Unset them, unless a fault of this machine needs them.',
    ),
    ...chosenInterfaces(facts),
    ...missingFiles(facts),
    ...meetingPoint(facts),
    ...(sockets > 64
      ? [
          check(
            'sockets of a connection',
            false,
            String(sockets),
            'NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD is at most 64.',
          ),
        ]
      : []),
  ];
}

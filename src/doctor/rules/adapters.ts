/** InfiniBand and RoCE: ports that flap, addresses that are missing, requests that fail, packets that are lost. */
import type { BenchRow } from '../model/bench.js';
import type { Job } from '../model/job.js';
import type { GidEntry } from '../model/machine.js';
import { distinctPlaces, type Place } from '../model/place.js';
import { cliffs } from './cliffs.js';
import { firstOfEach, listed, some, troubles } from './queries.js';
import { example, type Finding, type Rule } from './rule.js';

export const ibPortFlap: Rule = {
  id: 'ib-port-flap',
  causes: ['kills', 'hangs', 'slows'],
  looksFor: 'an adapter that reports its port going down while the job runs',
  example: [
    example(
      'n2.log',
      'n2:10:12 [3] transport/net_ib.cc:253 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port error(10)',
      'n2:10:12 [3] transport/net_ib.cc:253 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port active(9)',
    ),
  ],
  references: ['ibv_get_async_event(3): IBV_EVENT_PORT_ERR'],
  find(job) {
    const down = troubles(job, 'portEvent').filter(({ trouble }) =>
      /port error|device fatal/.test(trouble.event),
    );
    const groups = new Map<string, typeof down>();
    for (const one of down) {
      const key = `${one.process.host} ${one.trouble.device}:${one.trouble.port}`;
      groups.set(key, [...(groups.get(key) ?? []), one]);
    }
    return [...groups].map(([name, events]): Finding => {
      const { process, trouble } = events[0]!;
      return {
        severity: 'error',
        confidence: 'certain',
        text: `port ${name} went down${events.length > 1 ? ` ${events.length} times` : ''} while the job ran`,
        culprit: { host: process.host, hca: trouble.device, port: trouble.port },
        evidence: some(events.map(({ at }) => at)),
        repair: `Look at the physical link of ${process.host} ${trouble.device} port ${trouble.port} first: cable, transceiver, switch port and their error counters.`,
        workaround: 'A larger NCCL_IB_TIMEOUT rides over flaps of a few seconds and hides the bad link.',
      };
    });
  },
};

/** Statuses of completions that follow from a lost peer or link (ibv_wc_status). */
const RETRY_EXCEEDED = 12;
const FLUSHED = 5;

export const ibRetryExceeded: Rule = {
  id: 'ib-retry-exceeded',
  causes: ['kills', 'hangs'],
  looksFor: 'requests that no peer acknowledged (completion status 12)',
  example: [
    example(
      'n1.log',
      'n1:10:12 [3] transport/net_ib.cc:2543 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<51209> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1) reqSize=262144 vendor_err=129 req_type=Send hca mlx5_3',
    ),
  ],
  references: ['ibv_poll_cq(3): IBV_WC_RETRY_EXC_ERR', 'NCCL user guide: NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT'],
  explainedBy: [
    'ib-port-flap',
    'ib-port-down',
    'roce-packet-loss',
    'roce-no-routable-gid',
    'rank-died',
    'xid',
  ],
  find(job) {
    const all = troubles(job, 'completion').filter(({ trouble }) => trouble.status !== FLUSHED);
    const found = all.filter(({ trouble }) => trouble.status === RETRY_EXCEEDED);
    if (found.length === 0) return [];
    const devices = [...new Set(found.flatMap(({ trouble }) => trouble.device ?? []))];
    const peers = [...new Set(found.map(({ trouble }) => trouble.peer))];
    const nameOf = new Map(
      job.processes.flatMap(({ bootstrap, host }) =>
        bootstrap === undefined ? [] : [[bootstrap.address, host] as const],
      ),
    );
    // A host that is an end of every failure is the one to look at.
    const ends = found.map(({ process, trouble }) => [
      process.host,
      nameOf.get(trouble.peer) ?? trouble.peer,
    ]);
    const common = [...new Set(ends.flat())].filter((host) => ends.every((pair) => pair.includes(host)));
    const isNamed = common.length === 1 && found.length > 1;
    return [
      {
        severity: 'error',
        confidence: isNamed ? 'likely' : 'possible',
        text: `peers stopped acknowledging${devices.length === 0 ? '' : ` on ${listed(devices)}`}: ${listed(peers.map((one) => nameOf.get(one) ?? one))}`,
        culprit: {
          ...(isNamed ? { host: common[0] } : {}),
          peers: peers.map((one) => nameOf.get(one) ?? one),
          ...(devices.length === 1 ? { hca: devices[0] } : { hcas: devices }),
        },
        evidence: some(firstOfEach(found, ({ process }) => process).map(({ at }) => at)),
        repair:
          'Look at the link of the adapter that all failures have in common (cable, switch port, error counters), and whether the process at the other end still lives.',
        workaround: 'A larger NCCL_IB_TIMEOUT waits longer, and hides short interruptions.',
        why: 'peers got no acknowledgements while the link or the process was gone',
      },
    ];
  },
};

export const ibvModifyQpTimeout: Rule = {
  id: 'ibv-modify-qp-timeout',
  causes: ['blocks', 'kills'],
  looksFor: 'queue pairs that cannot be connected to their peer',
  example: [
    example(
      'n1.log',
      'n1:10:12 [3] misc/ibvwrap.cc:307 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.60.15.12, remote GID ::ffff:10.60.15.11',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_GID_INDEX, NCCL_IB_HCA'],
  explainedBy: ['roce-no-routable-gid', 'ib-port-down', 'ib-port-flap', 'env-gid-index'],
  find(job) {
    const found = troubles(job, 'queuePair').filter(({ logged }) => logged.isWarning);
    const [first] = found;
    if (first === undefined) return [];
    const { device, localGid, remoteGid, reason } = first.trouble;
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `${first.process.host} cannot connect ${device ?? 'an adapter'} to its peer: ${reason}`,
        culprit: { host: first.process.host, hca: device, localGid, remoteGid },
        evidence: some(firstOfEach(found, ({ process }) => process).map(({ at }) => at)),
        repair:
          'Make both ends use addresses of one network and kind: compare show_gids on both hosts, NCCL_IB_GID_INDEX and NCCL_IB_HCA, and whether adapters of different rails can reach each other.',
        workaround: null,
        why:
          localGid !== undefined && isLinkLocal(localGid)
            ? 'a link-local source cannot reach the peer'
            : 'a queue pair cannot be connected with the address that was chosen',
      },
    ];
  },
};

const isLinkLocal = (gid: string): boolean => /^fe80(?::|$)/i.test(gid);

const portName = ({ host, device, port }: GidEntry): string => `${host ?? ''} ${device}:${port}`;

export const roceNoRoutableGid: Rule = {
  id: 'roce-no-routable-gid',
  causes: ['blocks', 'kills'],
  looksFor: 'a RoCE port whose GID table has link-local entries only, because its interface has no address',
  example: [
    example(
      'show_gids.n1.txt',
      'n1$ show_gids',
      'mlx5_0  1       0       fe80:0000:0000:0000:5aa2:e1ff:fe0c:7a10                 v2      eth2',
      'mlx5_0  1       1       0000:0000:0000:0000:0000:ffff:0a3c:0e0b 10.60.14.11     v2      eth2',
      'mlx5_1  1       0       fe80:0000:0000:0000:5aa2:e1ff:fe0c:7a11                 v2      eth3',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_GID_INDEX'],
  find(job) {
    const byPort = new Map<string, GidEntry[]>();
    for (const entry of job.gids) {
      const key = portName(entry);
      byPort.set(key, [...(byPort.get(key) ?? []), entry]);
    }
    const routable = [...byPort.values()].filter((list) => list.some(({ gid }) => !isLinkLocal(gid)));
    const failures = troubles(job, 'queuePair');
    const found: Finding[] = [];
    for (const list of byPort.values()) {
      const [first] = list;
      if (first === undefined || list.some(({ gid }) => !isLinkLocal(gid))) continue;
      const same = routable.filter(([one]) => one!.device === first.device && one!.host !== first.host);
      // Where no port has an address, the network may not need them (InfiniBand, IPv6 link-local fabrics).
      if (routable.length === 0) continue;
      const failed = failures.filter(
        ({ process, trouble }) =>
          (first.host === undefined || process.host === first.host) &&
          (trouble.device === first.device ||
            (trouble.localGid !== undefined && isLinkLocal(trouble.localGid))),
      );
      const warned = failed.filter(({ logged }) => logged.isWarning);
      const peers = (same.length > 0 ? same : routable).map(
        (one) => one.findLast(({ gid }) => !isLinkLocal(gid))!,
      );
      found.push({
        severity: failed.length > 0 ? 'error' : 'warning',
        confidence: failed.length > 0 ? 'certain' : 'likely',
        text: `${first.host ?? 'a host'} ${first.device} has link-local GIDs only: ${first.interface ?? 'its interface'} has no IPv4 address`,
        culprit: {
          ...(first.host === undefined ? {} : { host: first.host }),
          hca: first.device,
          ...(first.interface === undefined ? {} : { interface: first.interface }),
        },
        evidence: distinctPlaces([
          ...list.map(({ at }) => at),
          ...some(
            (warned.length > 0 ? warned : failed).map(({ at }) => at),
            4,
          ),
          ...some(
            peers.map(({ at }) => at),
            4,
          ),
        ]),
        repair: `Give ${first.interface ?? 'the interface'} of ${first.host ?? 'the host'} its IPv4 address${exampleAddress(peers)}; the RoCE v2 entry then appears in the GID table by itself.`,
        workaround: `Leaving ${first.device} out on all nodes (NCCL_IB_HCA=^${first.device}) avoids the port, at the cost of its bandwidth.`,
      });
    }
    return found;
  },
};

const exampleAddress = (peers: readonly GidEntry[]): string => {
  const known = peers.find(({ ipv4 }) => ipv4 !== undefined)?.ipv4;
  return known === undefined ? '' : ` (others have ${known.replace(/\.\d+$/, '.x')})`;
};

export const ibPortDown: Rule = {
  id: 'ib-port-down',
  causes: ['blocks', 'kills', 'slows'],
  looksFor: 'an adapter port that is not active although others of the host are',
  example: [
    example(
      'ibstatus.txt',
      "Infiniband device 'mlx5_0' port 1 status:",
      '\tstate:\t\t 4: ACTIVE',
      "Infiniband device 'mlx5_1' port 1 status:",
      '\tstate:\t\t 1: DOWN',
      '\tlink_layer:\t InfiniBand',
    ),
    example('n1.log', 'n1:10:11 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0,mlx5_1'),
  ],
  references: ['ibstat(8)'],
  find(job) {
    const active = job.ports.filter(({ state }) => state?.value === 'ACTIVE');
    return job.ports.flatMap((port): Finding[] => {
      const { state, device, host } = port;
      if (state === undefined || state.value === 'ACTIVE' || active.length === 0) return [];
      // Spare ports of machines are down, too: only a port that the job asked for is a fault.
      const isUsed = job.processes.some(
        (process) =>
          (process.environment.get('NCCL_IB_HCA')?.value ?? '').includes(device) ||
          (host !== process.host && process.hcas?.value.some(({ name }) => name === device) === true),
      );
      if (!isUsed) return [];
      return [
        {
          severity: 'error',
          confidence: 'likely',
          text: `${host ?? ''} ${device} port ${port.port} is ${state.value}`.trim(),
          culprit: { ...(host === undefined ? {} : { host }), hca: device, port: port.port },
          evidence: [state.at],
          repair: `Bring ${device} port ${port.port} up: cable, switch port${state.value === 'INIT' ? ', subnet manager' : ''}.`,
          workaround: null,
        },
      ];
    });
  },
};

/** Discards from which on it is no accident. */
const MANY = 1000;

export const rocePacketLoss: Rule = {
  id: 'roce-packet-loss',
  causes: ['kills', 'hangs', 'slows'],
  looksFor: 'adapters that discard packets while no pause frames are sent: flow control is off on the way',
  example: [
    example(
      'counters.txt',
      'n1: ethtool -S eth2',
      '     rx_discards_phy: 9184372',
      '     rx_prio3_pause: 0',
      '     tx_prio3_pause: 0',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_TC', 'RoCE: priority flow control, ECN'],
  find(job) {
    const discards = job.counters.filter(
      ({ name, value }) => /(?:rx_discards_phy|rx_.*discard|out_of_buffer)$/.test(name) && value >= MANY,
    );
    if (discards.length === 0) return [];
    const hosts = [...new Set(discards.flatMap(({ host }) => host ?? []))];
    const pauses = job.counters.filter(
      ({ name, host }) => /prio\d+_pause$/.test(name) && (host === undefined || hosts.includes(host)),
    );
    // Pause frames that are sent show that flow control works; then discards have another cause.
    if (pauses.some(({ value, name }) => value > 0 && name.startsWith('tx_'))) return [];
    const steep = cliffs(job).filter(({ factor }) => factor >= 3);
    const silent = firstOfEach(
      pauses.filter(({ value }) => value === 0),
      ({ host, name }) => `${host} ${name}`,
    );
    return [
      {
        severity: 'error',
        confidence: steep.length > 0 && silent.length > 0 ? 'certain' : 'likely',
        text: `the adapters of ${listed(hosts)} discard packets${silent.length > 0 ? ' and no pause frames are sent' : ''}: the RoCE network has no working flow control`,
        culprit: { network: 'RoCE', hosts },
        evidence: distinctPlaces([
          ...steep.flatMap(({ before, after }) => [before.at, after.at]),
          ...some(
            discards.map(({ at }) => at),
            32,
          ),
          ...some(
            silent.map(({ at }) => at),
            32,
          ),
        ]),
        repair:
          'Switch on flow control end to end (PFC on the priority that NCCL_IB_TC selects, or ECN/DCQCN) on adapters and switches, and check the discard counters again.',
        workaround:
          'Fewer channels or a smaller NCCL_BUFFSIZE lowers the burst and hides the loss, at a cost in bandwidth.',
      },
    ];
  },
};

export const benchCliff: Rule = {
  id: 'bench-cliff',
  causes: ['slows'],
  looksFor: 'a bandwidth that falls to a fraction from one size to the next and stays there',
  example: [
    example(
      'all_reduce.txt',
      '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ',
      '   134217728      33554432     float     sum      -1  6371.09   21.07   39.50       0  6373.00   21.06   39.49       0',
      '   268435456      67108864     float     sum      -1  82510.9    3.25    6.10       0  82521.0    3.25    6.10       0',
      '   536870912     134217728     float     sum      -1   176602    3.04    5.70       0   175484    3.06    5.74       0',
    ),
  ],
  references: [],
  explainedBy: ['roce-packet-loss', 'ib-port-flap', 'pcie-link-degraded'],
  find(job) {
    return cliffs(job).map(({ before, after, factor }): Finding => {
      const grown = after.outOfPlace.timeUs / before.outOfPlace.timeUs;
      return {
        severity: 'warning',
        confidence: 'likely',
        text: `bandwidth falls to a ${Math.round(factor)}th between ${sizeText(before)} and ${sizeText(after)} and stays there`,
        culprit: { fromBytes: before.bytes, toBytes: after.bytes, factor: Math.round(factor * 10) / 10 },
        evidence: [before.at, after.at],
        repair:
          'Compare the counters of the adapters before and after a run of the sizes above the cliff (discards, pauses, retransmissions), and temperatures and clocks of the GPUs.',
        workaround: null,
        why: `from ${sizeText(before)} to ${sizeText(after)} the time grows ${Math.round(grown)} times for ${Math.round((after.bytes / before.bytes) * 10) / 10} times the bytes`,
      };
    });
  },
};

const sizeText = ({ bytes }: BenchRow): string =>
  bytes >= 1 << 30
    ? `${bytes / 2 ** 30} GiB`
    : bytes >= 1 << 20
      ? `${bytes / 2 ** 20} MiB`
      : `${bytes} bytes`;

/** Names of adapters that a host's processes use. */
function hcasOf(job: Job): Map<string, { names: string[]; at: Place }> {
  const found = new Map<string, { names: string[]; at: Place }>();
  for (const { host, hcas } of job.processes) {
    if (hcas === undefined) continue;
    const names = hcas.value.map(({ name, port }) => (port === 1 ? name : `${name}:${port}`));
    const known = found.get(host);
    if (known === undefined || names.length > known.names.length) found.set(host, { names, at: hcas.at });
  }
  return found;
}

export const nicMissingOnNode: Rule = {
  id: 'nic-missing-on-node',
  causes: ['hangs', 'slows'],
  looksFor: 'a host that lists fewer adapters than the others',
  example: [
    example(
      'logs.txt',
      'n1:10:11 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>',
      'n2:10:11 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>',
      'n3:10:11 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.3<0>',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_HCA'],
  find(job) {
    const byHost = hcasOf(job);
    if (byHost.size < 2) return [];
    // What most hosts have; of two hosts, the one with more adapters is taken as whole.
    const counts = new Map<number, number>();
    for (const { names } of byHost.values()) counts.set(names.length, (counts.get(names.length) ?? 0) + 1);
    const [usual] = [...counts].sort((a, b) => b[1] - a[1] || b[0] - a[0])[0]!;
    const whole = [...byHost].filter(([, { names }]) => names.length === usual);
    return [...byHost].flatMap(([host, { names, at }]): Finding[] => {
      if (names.length >= usual) return [];
      const everywhere = whole[0]![1].names.filter((name) =>
        whole.every(([, other]) => other.names.includes(name)),
      );
      const missing = everywhere.filter((name) => !names.includes(name));
      const isNamed = missing.length === usual - names.length;
      const asked = job.processes.find((one) => one.host === host)?.environment.get('NCCL_IB_HCA');
      return [
        {
          severity: 'error',
          confidence: byHost.size > 2 || isNamed ? 'certain' : 'likely',
          text: `${host} lists ${names.length} adapter${names.length === 1 ? '' : 's'}, the other${whole.length === 1 ? '' : 's'} ${usual}${isNamed ? `: ${listed(missing)} is missing` : ''}`,
          culprit: {
            host,
            ...(isNamed && missing.length === 1 ? { hca: missing[0] } : isNamed ? { hcas: missing } : {}),
            found: names.length,
            expected: usual,
          },
          evidence: distinctPlaces([
            at,
            ...some(
              whole.map(([, other]) => other.at),
              8,
            ),
            asked?.at,
          ]),
          repair: `Find ${isNamed ? listed(missing) : 'the missing adapters'} of ${host} (lspci, ibstat, port state, device passed into the container${asked === undefined ? '' : ', NCCL_IB_HCA'}) and bring the port up.`,
          workaround: isNamed
            ? `Leaving the same adapter out on all nodes (NCCL_IB_HCA=^${missing.join(',')}) keeps the rails aligned, at ${names.length}/${usual} of the bandwidth.`
            : null,
        },
      ];
    });
  },
};

export const memoryRegistration: Rule = {
  id: 'memlock-too-low',
  causes: ['blocks', 'kills'],
  looksFor: 'memory that cannot be registered with the adapter because the limit of locked memory is low',
  example: [
    example(
      'n1.log',
      'n1:10:12 [0] misc/ibvwrap.cc:150 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory',
    ),
    example('ulimit.txt', 'n1$ ulimit -l', '64'),
  ],
  references: ['getrlimit(2): RLIMIT_MEMLOCK', 'NCCL user guide: troubleshooting'],
  find(job) {
    const found = troubles(job, 'registration').filter(({ trouble }) =>
      /cannot allocate memory/i.test(trouble.reason),
    );
    const [first] = found;
    if (first === undefined) return [];
    const { host } = first.process;
    const limit = job.values.find(
      (one) => one.name === 'ulimit.memlock' && (one.host === undefined || one.host === host),
    );
    if (limit?.value === 'unlimited') return [];
    return [
      {
        severity: 'error',
        confidence: limit === undefined ? 'likely' : 'certain',
        text: `${host} cannot register memory with its adapter (${first.trouble.call})${limit === undefined ? '' : `; locked memory is limited to ${limit.value} kB`}`,
        culprit: {
          host,
          call: first.trouble.call,
          ...(limit === undefined ? {} : { limitKb: Number(limit.value) }),
        },
        evidence: distinctPlaces([...some(found.map(({ at }) => at)), limit?.at]),
        repair:
          'Set the limit of locked memory to unlimited for the job (ulimit -l, LimitMEMLOCK of the service, --ulimit memlock=-1 of the container).',
        workaround: null,
      },
    ];
  },
};

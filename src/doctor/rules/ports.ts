/** TCP ports and descriptors that run out, and what follows when a helper thread gives up. */
import type { Job } from '../model/job.js';
import { distinctPlaces, type Place } from '../model/place.js';
import { listed, settings, some, troubles } from './queries.js';
import { example, type Rule } from './rule.js';

const IN_USE = /already in use|Cannot assign requested address/i;

/** From this share of the range on, it counts as used up. */
const FULL = 0.9;

function portRange(job: Job, host: string): { text: string; ports: number; at: Place } | undefined {
  const found = job.values.find(
    (one) => one.name === 'net.ipv4.ip_local_port_range' && (one.host === undefined || one.host === host),
  );
  const [low, high] = (found?.value ?? '').split(' ').map(Number);
  if (found === undefined || low === undefined || high === undefined || !(high >= low)) return undefined;
  return { text: `${low}-${high}`, ports: high - low + 1, at: found.at };
}

export const portsExhausted: Rule = {
  id: 'ports-exhausted',
  causes: ['blocks', 'kills'],
  looksFor: 'no free TCP port: the local range is used up by connections of the job itself',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] NCCL INFO NCCL_PXN_DISABLE set by environment to 1.',
      'n1:10:12 [0] misc/socket.cc:409 NCCL WARN Call to bind failed: Address already in use',
    ),
    example(
      'net.txt',
      'n1$ sysctl net.ipv4.ip_local_port_range',
      'net.ipv4.ip_local_port_range = 32768\t60999',
      'TCP:   28377 (estab 27190, closed 121, orphaned 0, timewait 98)',
    ),
  ],
  references: ['kernel documentation: ip_local_port_range', 'NCCL user guide: NCCL_PXN_DISABLE'],
  find(job) {
    const binds = troubles(job, 'bind').filter(({ trouble }) => IN_USE.test(trouble.reason));
    const connects = troubles(job, 'connect').filter(({ trouble }) => /Cannot assign/i.test(trouble.reason));
    const failed = [...binds, ...connects];
    const [first] = failed;
    if (first === undefined) return [];
    const { host } = first.process;
    // A fixed port that another program holds is another fault.
    const isFixed = ['NCCL_COMM_ID', 'NCCL_RAS_ADDR'].some((name) => first.process.environment.has(name));
    const range = portRange(job, host);
    const open = job.sockets.find((one) => one.host === undefined || one.host === host);
    const isFull = range !== undefined && open !== undefined && open.tcp >= FULL * range.ports;
    if (range !== undefined && open !== undefined && !isFull) return [];
    if (isFixed && !isFull) return [];
    const pxn = settings(job, 'NCCL_PXN_DISABLE').find(({ value }) => value === '1');
    return [
      {
        severity: 'error',
        confidence: isFull ? 'certain' : 'possible',
        text: `${host} has no free TCP port left${range === undefined ? '' : ` of ${range.ports} (${range.text})`}`,
        culprit: {
          host,
          ...(pxn === undefined ? {} : { variable: 'NCCL_PXN_DISABLE' }),
          ...(range === undefined ? {} : { portRange: range.text, ports: range.ports }),
        },
        evidence: distinctPlaces([...some(failed.map(({ at }) => at)), pxn?.at, range?.at, open?.at]),
        repair: `${pxn === undefined ? '' : 'Take NCCL_PXN_DISABLE=1 away (as many times fewer network peers per rank as a node has GPUs), or '}${pxn === undefined ? 'Widen' : 'widen'} net.ipv4.ip_local_port_range to 1024-65535 on all nodes.`,
        workaround: null,
      },
    ];
  },
};

export const portConflict: Rule = {
  id: 'port-conflict',
  causes: ['blocks', 'kills'],
  looksFor: 'a fixed port (NCCL_COMM_ID) that another program holds',
  example: [
    example(
      'n1.log',
      'n1:10:10 [0] NCCL INFO NCCL_COMM_ID set by environment to 10.0.0.1:29500',
      'n1:10:10 [0] misc/socket.cc:409 NCCL WARN Call to bind failed: Address already in use',
    ),
  ],
  references: ['NCCL user guide: NCCL_COMM_ID'],
  find(job) {
    const failed = troubles(job, 'bind').filter(({ trouble }) => IN_USE.test(trouble.reason));
    const fixed = failed.flatMap(({ process, at }) => {
      const setting = process.environment.get('NCCL_COMM_ID');
      return setting === undefined ? [] : [{ process, at, setting }];
    });
    const [first] = fixed;
    if (first === undefined || portsExhausted.find(job).length > 0) return [];
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `the port of NCCL_COMM_ID=${first.setting.value} is in use on ${first.process.host}`,
        culprit: { host: first.process.host, variable: 'NCCL_COMM_ID', value: first.setting.value },
        evidence: distinctPlaces([first.at, first.setting.at]),
        repair: 'Choose a free port, or end the program that holds it (ss -ltnp).',
        workaround: null,
      },
    ];
  },
};

export const tooManyOpenFiles: Rule = {
  id: 'too-many-open-files',
  causes: ['blocks', 'kills'],
  looksFor: 'the limit of open files (EMFILE)',
  example: [
    example('n1.log', 'n1:10:12 [0] misc/socket.cc:409 NCCL WARN Call to socket failed: Too many open files'),
  ],
  references: ['getrlimit(2): RLIMIT_NOFILE'],
  find(job) {
    const failed = job.processes.flatMap((process) =>
      process.troubles
        .filter(({ text }) => /too many open files/i.test(text))
        .map(({ at }) => ({ process, at })),
    );
    const [first] = failed;
    if (first === undefined) return [];
    const limit = job.values.find(({ name }) => name === 'ulimit.nofile');
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `${first.process.host} ran out of file descriptors`,
        culprit: { host: first.process.host, ...(limit === undefined ? {} : { limit: Number(limit.value) }) },
        evidence: distinctPlaces([...some(failed.map(({ at }) => at)), limit?.at]),
        repair:
          'Raise the limit of open files for the job (ulimit -n 65536 or more, LimitNOFILE of the service, --ulimit nofile of the container).',
        workaround: null,
      },
    ];
  },
};

export const peerConnectionClosed: Rule = {
  id: 'peer-connection-closed',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'sockets that a peer, or the own helper thread, closed',
  example: [
    example(
      'n1.log',
      'n1:10:12 [0] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer n2<41877>',
    ),
  ],
  references: [],
  explainedBy: { effects: ['blocks', 'kills', 'hangs'] },
  find(job) {
    const closed = troubles(job, 'peerClosed');
    if (closed.length === 0) return [];
    const lines = [
      ...closed.map(({ at }) => at),
      ...troubles(job, 'proxy').map(({ at }) => at),
      ...job.events.flatMap((event) =>
        event.kind === 'ncclError' && /remote process exited|network error/.test(event.text)
          ? [event.at]
          : [],
      ),
    ];
    const peers = [...new Set(closed.map(({ trouble }) => trouble.peer))];
    return [
      {
        severity: 'error',
        confidence: 'possible',
        text: `connections to ${listed(peers)} were closed by the other side`,
        culprit: { peers, hosts: [...new Set(closed.map(({ process }) => process.host))] },
        evidence: some(lines, 24),
        repair: `See why the processes on ${listed(peers)} ended or gave up: their logs and standard error, dmesg for Xid and for killed processes.`,
        workaround: null,
        why: 'the process at the other end gave up and closed its sockets',
      },
    ];
  },
};

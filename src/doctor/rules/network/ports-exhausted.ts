/** Each connection takes a local TCP port, and a large all-to-all can use up the range of a host. */
import type { Job } from '../../model/job.js';
import { distinctPlaces, type Place } from '../../model/place.js';
import { settings, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { ADDRESS_IN_USE } from './address-in-use.js';

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
    const binds = troubles(job, 'bind').filter(({ trouble }) => ADDRESS_IN_USE.test(trouble.reason));
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

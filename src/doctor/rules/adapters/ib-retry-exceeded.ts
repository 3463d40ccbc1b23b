/** Requests that nobody acknowledged: the link, or the process at the other end, is gone. */
import { firstOfEach, listed, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

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
    'link-errors',
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

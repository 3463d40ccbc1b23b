/** Requests that an adapter completed with an error, by its number (ibv_wc_status). */
import { firstOfEach, listed, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

/** Nobody acknowledged: has a rule of its own. */
const RETRY_EXCEEDED = 12;

/** Flushed because the connection had failed before: never the first failure. */
const FLUSHED = 5;

/** What a status means, and what to look at (ibv_poll_cq(3)). */
const STATUSES: Readonly<Record<number, readonly [means: string, repair: string]>> = {
  1: [
    'a message was longer than the buffer for it',
    'Look for ranks that disagree about the size of a message or run other versions of NCCL.',
  ],
  4: [
    'a buffer is not registered with the adapter',
    'See that the program does not free or unmap buffers that are in use; try without GPUDirect (NCCL_NET_GDR_LEVEL=LOC) to tell memory of GPUs from the rest.',
  ],
  [FLUSHED]: [
    'a request was flushed after the connection had failed',
    'Look for the first failure: another completion error, an event of a port, or the end of the process at the other side.',
  ],
  9: ['the other side refused a request', 'Compare versions of NCCL, firmware and drivers of both hosts.'],
  10: [
    'the other side refused access to its memory',
    'See whether the process there ended or freed the buffer; compare versions, and look at the IOMMU and nvidia-peermem of that host.',
  ],
  11: [
    'the other side failed while it served a request',
    'Look at dmesg of the other host: PCIe or IOMMU errors, Xid, errors of the adapter.',
  ],
  13: [
    'the other side did not take a message in time',
    'See what the process at the other side does (stack, GPU errors): it no longer posts receives.',
  ],
};

export const ibCompletionFailed: Rule = {
  id: 'ib-completion-failed',
  causes: ['kills', 'hangs'],
  looksFor: 'requests that an adapter completed with an error other than missing acknowledgements',
  example: [
    example(
      'n1.log',
      'n1:10:12 [3] transport/net_ib.cc:1500 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<50000> with status=10 opcode=1 len=0 vendor err 136 (Send) hca mlx5_3',
    ),
  ],
  references: ['ibv_poll_cq(3)'],
  explainedBy: [
    'ib-port-flap',
    'ib-port-down',
    'link-errors',
    'ib-retry-exceeded',
    'rank-died',
    'xid',
    'gpu-lost',
    'iommu-fault',
    'version-mismatch',
    'collective-size-mismatch',
  ],
  find(job) {
    const all = troubles(job, 'completion').filter(({ trouble }) => trouble.status !== RETRY_EXCEEDED);
    const failures = all.filter(({ trouble }) => trouble.status !== FLUSHED);
    const found = failures.length > 0 ? failures : all;
    const [first] = found;
    if (first === undefined) return [];
    const { status } = first.trouble;
    const [means, repair] = STATUSES[status] ?? [
      `a request failed with status ${status}`,
      'Look the status up (ibv_poll_cq(3)), and look at dmesg of both hosts for errors of the adapter.',
    ];
    const peers = [...new Set(found.flatMap(({ trouble }) => (trouble.peer === '' ? [] : [trouble.peer])))];
    return [
      {
        severity: 'error',
        confidence: 'possible',
        text: `${means} (status ${status}) on ${listed([...new Set(found.map(({ process }) => process.host))])}${peers.length === 0 ? '' : `, from ${listed(peers)}`}`,
        culprit: {
          host: first.process.host,
          status,
          ...(first.trouble.device === undefined ? {} : { hca: first.trouble.device }),
          ...(peers.length === 0 ? {} : { peers: peers.slice(0, 16) }),
        },
        evidence: some(firstOfEach(found, ({ process }) => process).map(({ at }) => at)),
        repair,
        workaround: null,
        why: 'requests fail when the connection or the other side is gone',
      },
    ];
  },
};

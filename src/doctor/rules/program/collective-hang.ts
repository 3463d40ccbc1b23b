/** The last call of a log that ends there, where the buses give a reason to hang. */
import type { Job } from '../../model/job.js';
import type { Place } from '../../model/place.js';
import { iommuFault } from '../machine/iommu-fault.js';
import { pcieAcsRedirect } from '../machine/pcie-acs-redirect.js';
import { some } from '../queries.js';
import { example, type Rule } from '../rule.js';

/** A call was made on every rank that logs, and nothing after it. */
function lastCalls(job: Job): Place[] {
  return job.processes.flatMap(({ members }) => {
    const open = members.filter(
      ({ lastCall, destroyed, abortStarted }) => lastCall !== undefined && !destroyed && !abortStarted,
    );
    return open.map(({ lastCall }) => lastCall!.at);
  });
}

export const collectiveHang: Rule = {
  id: 'collective-hang',
  causes: ['hangs'],
  looksFor: 'a collective that all ranks called and none finished, where the buses give a reason',
  example: [
    ...pcieAcsRedirect.example,
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO comm 0xa0 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0',
      'n1:10:10 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 8 datatype 7 op 0 root 0 comm 0xa0 [nranks=2] stream 0x1',
    ),
  ],
  references: [],
  explainedBy: ['pcie-acs-redirect', 'iommu-fault'],
  find(job) {
    const calls = lastCalls(job);
    const acs = [...pcieAcsRedirect.find(job), ...iommuFault.find(job)];
    // A log does not say that a call came back: without a reason to hang, its end means nothing.
    if (calls.length === 0 || acs.length === 0) return [];
    return [
      {
        severity: acs.some(({ severity }) => severity === 'error') ? 'error' : 'warning',
        confidence: 'possible',
        text: 'a collective does not come back',
        culprit: {},
        evidence: some(calls),
        repair: 'See the cause.',
        workaround: null,
        why: 'peer writes are sent up to the root complex and do not arrive',
      },
    ];
  },
};

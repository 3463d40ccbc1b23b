/** GPUDirect RDMA on all hosts but one: that host copies everything through its memory. */
import type { Job } from '../../model/job.js';
import { distinctPlaces } from '../../model/place.js';
import { rankOf } from '../../model/process.js';
import { comparable, listed, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { networkEdges, networkSides, type Side } from './network-edges.js';

export const gdrMissingOnNode: Rule = {
  id: 'gdr-missing-on-node',
  causes: ['slows'],
  looksFor: 'a host without GPUDirect RDMA on any network edge although its peers have it on theirs',
  example: [
    example(
      'logs.txt',
      'n1:10:11 [0] NCCL INFO Channel 00/0 : 1[1] -> 4[0] [send] via NET/IB/0/GDRDMA',
      'n2:10:11 [0] NCCL INFO Channel 00/0 : 1[1] -> 4[0] [receive] via NET/IB/0',
    ),
  ],
  references: ['NCCL user guide: GPU Direct RDMA, nvidia-peermem, NCCL_DMABUF_ENABLE'],
  find: (job) => comparable(job).flatMap((processes) => missingAmong(job, networkSides({ processes }))),
};

function missingAmong(job: Job, all: readonly Side[]): Finding[] {
  const having = all.filter(({ edges: own }) => own.every(({ gpuDirect }) => gpuDirect));
  const lacking = all.filter(({ edges: own }) => own.every(({ gpuDirect }) => !gpuDirect));
  if (having.length === 0) return [];
  return lacking.map(({ host, processes }): Finding => {
    const ranks = [...new Set(processes.flatMap((one) => rankOf(one) ?? []))].sort((a, b) => a - b);
    const modules = job.modules.find((one) => one.host === host);
    const isMissing =
      modules !== undefined && ![...modules.names.keys()].some((name) => /peermem|nv_peer_mem/.test(name));
    return {
      severity: 'error',
      confidence: isMissing ? 'certain' : 'likely',
      text: `no network edge of ${host} uses GPUDirect RDMA, all of ${listed(having.map((one) => one.host))} do`,
      culprit: { host, ranks },
      evidence: distinctPlaces([
        ...some(processes.map((one) => networkEdges(one)[0]!.at)),
        ...some(having.flatMap((one) => one.processes.map((process) => networkEdges(process)[0]!.at))),
        ...(isMissing ? [modules.at] : []),
      ]),
      repair: `Load the peer-memory module on ${host} (modprobe nvidia-peermem, keep it loaded at boot) or use a driver with DMA-BUF there.`,
      workaround: null,
    };
  });
}

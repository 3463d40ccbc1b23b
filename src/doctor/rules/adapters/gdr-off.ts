/** Without the peer-memory module or DMA-BUF, adapters do not reach GPU memory. */
import { distinctPlaces } from '../../model/place.js';
import { listed, some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { networkSides } from './network-edges.js';

export const gdrOff: Rule = {
  id: 'gdr-off',
  causes: ['slows'],
  looksFor: 'no network edge of the job with GPUDirect RDMA, and the module for it not loaded',
  example: [
    example('rank0.log', 'n1:10:12 [0] NCCL INFO Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0'),
    example(
      'lsmod.txt',
      'n1$ lsmod',
      'nvidia_uvm           4710400  18',
      'ib_uverbs             188416  2 rdma_ucm,mlx5_ib',
    ),
  ],
  references: ['NCCL user guide: GPU Direct RDMA'],
  explainedBy: ['env-gdr-level', 'topo-file-ids-mismatch', 'gdr-missing-on-node'],
  find(job) {
    const all = networkSides(job);
    const isOff = all.length > 0 && all.every(({ edges: own }) => own.every(({ gpuDirect }) => !gpuDirect));
    // Without a list of modules it may be the kind of GPU, or the distance: then nothing is certain enough.
    const lacking = job.modules.filter(
      ({ names }) =>
        names.has('ib_uverbs') && ![...names.keys()].some((name) => /peermem|nv_peer_mem/.test(name)),
    );
    const told = all.flatMap(({ host }) =>
      job.processes.flatMap((one) => (one.host === host ? (one.gpuDirectOff ?? []) : [])),
    );
    const isTold = told.length > 0;
    if (!isOff || (lacking.length === 0 && !isTold)) return [];
    // Cards for desktops cannot do it: only on hosts of the size for training it is surely missed.
    const isMissed =
      lacking.length > 0 ||
      job.processes.some(({ members }) =>
        members.some(({ localRanks, size }) => (localRanks ?? size ?? 0) >= 8),
      );
    const without = lacking.flatMap(({ host }) => host ?? []);
    const hosts = all.map(({ host }) => host);
    return [
      {
        severity: isMissed ? 'error' : 'warning',
        confidence: 'likely',
        text: `no network edge uses GPUDirect RDMA, ${lacking.length === 0 ? `and NCCL says that it is disabled on ${listed([...new Set(hosts)])}` : `and nvidia-peermem is not loaded${without.length === 0 ? '' : ` on ${listed(without)}`}`}`,
        culprit: { hosts, module: 'nvidia_peermem' },
        evidence: distinctPlaces([
          ...some(all.map(({ edges: own }) => own[0]!.at)),
          ...lacking.map(({ at }) => at),
          ...some(told, 8),
        ]),
        repair:
          'Load the peer-memory module on all hosts (modprobe nvidia-peermem, keep it loaded at boot), or use an open-kernel driver with DMA-BUF.',
        workaround: null,
      },
    ];
  },
};

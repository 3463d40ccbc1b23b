/** A variable sends everything between hosts over TCP. */
import type { Job } from '../../model/job.js';
import { distinctPlaces } from '../../model/place.js';
import { firstOfEach, nodeCount, settings, some } from '../queries.js';
import { example, type Rule } from '../rule.js';

/** Devices that do RDMA. */
const ADAPTER = /Infiniband|Mellanox|ConnectX|RDMA|Elastic Fabric|BCM57|E810/i;

/** A whole list of devices, with network cards and none that does RDMA. */
const lacksAdapters = (job: Job): boolean =>
  job.pci.some(({ text }) => /^Ethernet controller/i.test(text)) &&
  !job.pci.some(({ text }) => ADAPTER.test(text));

/** Ranks of a host from which on it is a machine for training, which has adapters. */
const LARGE_HOST = 8;

/** Hosts of the size that mostly have adapters; those of clouds may have none. */
const isLarge = (job: Job): boolean =>
  job.processes.some(({ members }) => members.some(({ localRanks }) => (localRanks ?? 0) >= LARGE_HOST));

/** Something shows that hosts have adapters. */
const maySendFaster = (job: Job): boolean =>
  job.ports.length > 0 ||
  job.gids.length > 0 ||
  job.pci.some(({ text }) => ADAPTER.test(text)) ||
  job.modules.some(({ names }) =>
    [...names.keys()].some((name) => /^(?:mlx[45]_ib|ib_uverbs|irdma|bnxt_re|efa)$/.test(name)),
  ) ||
  job.processes.some(({ environment }) =>
    [...environment.keys()].some(
      (name) => /^(?:NCCL_IB_|FI_|NCCL_NET_GDR|OFI_)/.test(name) && name !== 'NCCL_IB_DISABLE',
    ),
  );

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
    if (lacksAdapters(job)) return [];
    const hasAdapters =
      job.ports.some(({ state }) => state?.value === 'ACTIVE') ||
      job.processes.some(({ hcas }) => hcas !== undefined);
    const isLikely = maySendFaster(job);
    return [
      {
        severity: hasAdapters ? 'error' : isLikely || isLarge(job) ? 'warning' : 'info',
        confidence: hasAdapters ? 'certain' : isLikely ? 'likely' : 'possible',
        text: `${first.name}=${first.value} sends everything between hosts over TCP${hasAdapters || isLikely ? '' : '; nothing in the input shows that they have something faster'}`,
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

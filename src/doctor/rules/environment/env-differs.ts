/** Variables that decide what is connected to what must be the same on all ranks. */
import { comparable, firstOfEach, settings, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

/** Variables that all ranks must agree on: they decide what is connected to what, and how calls are done. */
const COMMON = [
  'NCCL_ALGO',
  'NCCL_PROTO',
  'NCCL_P2P_DISABLE',
  'NCCL_P2P_LEVEL',
  'NCCL_SHM_DISABLE',
  'NCCL_IB_DISABLE',
  'NCCL_NET',
  'NCCL_NET_PLUGIN',
  'NCCL_BUFFSIZE',
  'NCCL_NTHREADS',
  'NCCL_MIN_NCHANNELS',
  'NCCL_MAX_NCHANNELS',
  'NCCL_MIN_CTAS',
  'NCCL_MAX_CTAS',
  'NCCL_CROSS_NIC',
  'NCCL_NVLS_ENABLE',
  'NCCL_COLLNET_ENABLE',
  'NCCL_PXN_DISABLE',
  'NCCL_IB_TC',
];

export const envDiffers: Rule = {
  id: 'env-differs',
  causes: ['blocks', 'hangs', 'slows'],
  looksFor: 'variables with different values on the hosts of a job',
  example: [
    example(
      'logs.txt',
      'n1:10:10 [0] NCCL INFO NCCL_ALGO set by environment to Ring',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0',
      'n2:10:10 [0] NCCL INFO NCCL_ALGO set by environment to Tree',
      'n2:10:11 [0] NCCL INFO comm 0x1 rank 1 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0',
    ),
  ],
  references: ['NCCL user guide: environment variables'],
  find(job) {
    const groups = comparable(job);
    return COMMON.flatMap((name): Finding[] => {
      const values = groups
        .map((processes) => firstOfEach(settings({ processes }, name), ({ value }) => value.toLowerCase()))
        .find((list) => list.length > 1);
      // A variable is printed where it is read: that another log lacks it proves nothing.
      if (values === undefined) return [];
      return [
        {
          severity: 'warning',
          confidence: 'certain',
          text: `${name} differs: ${values.map(({ value, process }) => `${value} on ${process.host}`).join(', ')}`,
          culprit: {
            variable: name,
            values: values.map(({ value }) => value),
            hosts: values.map(({ process }) => process.host),
          },
          evidence: some(values.map(({ at }) => at)),
          repair: `Give all ranks the same ${name} (mpirun -x, sbatch --export, the image, /etc/nccl.conf of each host).`,
          workaround: null,
        },
      ];
    });
  },
};

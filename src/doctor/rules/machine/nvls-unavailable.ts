/** A board that has NVLink SHARP, on which NCCL does not find it. */
import { firstOfEach, listed, some } from '../queries.js';
import { example, type Rule } from '../rule.js';

/** GPUs with NVLink SHARP on boards with NVSwitch. */
const HAS_MULTICAST = /\b(?:H100|H200|H800|H20|B200|B300|GB200|GB300)\b(?!.*(?:PCIe|NVL))/;

/** A whole board: parts of one, as in virtual machines, may lack multicast by design. */
const WHOLE_BOARD = 8;

export const nvlsUnavailable: Rule = {
  id: 'nvls-unavailable',
  causes: ['slows'],
  looksFor: 'a whole board of GPUs with NVSwitch on which NCCL finds no NVLink SHARP',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NVLS multicast support is not available on dev 0',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0',
    ),
    example('gpus.txt', 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)'),
  ],
  references: ['NCCL user guide: NCCL_NVLS_ENABLE'],
  find(job) {
    const names = [
      ...job.links.map(({ name }) => name),
      ...job.benches.flatMap(({ devices }) => devices.map(({ gpu }) => gpu)),
    ];
    const hasSupport = names.length > 0 && names.every((name) => HAS_MULTICAST.test(name));
    const found = job.processes.filter(
      ({ multicast, environment, members }) =>
        multicast?.value === false &&
        environment.get('NCCL_NVLS_ENABLE')?.value !== '0' &&
        members.some(({ localRanks }) => localRanks === WHOLE_BOARD),
    );
    const [first] = found;
    if (!hasSupport || first === undefined) return [];
    return [
      {
        severity: 'warning',
        confidence: 'likely',
        text: `NVLink SHARP is not available on ${listed([...new Set(found.map(({ host }) => host))])} although its GPUs have it`,
        culprit: { host: first.host },
        evidence: some(firstOfEach(found, ({ host }) => host).map(({ multicast }) => multicast!.at)),
        repair:
          'See that the fabric manager runs in the version of the driver and that the driver is 530 or newer (nvidia-smi -q: Fabric state Completed).',
        workaround: null,
      },
    ];
  },
};

/** GPUs that do not reach each other's memory: data between them go through the host. */
import type { Job } from '../../model/job.js';
import { firstOfEach, listed, settings, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

/** Cards of which the driver never lets two reach each other. */
const NEVER = /GeForce|\bRTX [2-5]0\d\d\b|\bTITAN\b/i;

/** The GPUs are of a kind that reaches no other. */
const isByDesign = (job: Job): boolean => {
  const names = [
    ...job.links.map(({ name }) => name),
    ...job.benches.flatMap(({ devices }) => devices.map(({ gpu }) => gpu)),
  ];
  return names.length > 0 && names.every((name) => NEVER.test(name));
};

export const peerAccessMissing: Rule = {
  id: 'peer-access-missing',
  causes: ['slows'],
  isLast: true,
  looksFor: 'GPUs of a host of which NCCL or a program says that they cannot reach each other directly',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.',
    ),
  ],
  references: ['NCCL user guide: NCCL_P2P_LEVEL, NCCL_IGNORE_DISABLED_P2P'],
  explainedBy: ['env-p2p-disabled', 'nvlink-down', 'pcie-acs-redirect', 'iommu-fault'],
  find(job, others = []) {
    const off = troubles(job, 'p2pOff').filter(({ trouble }) => !trouble.isNvlink);
    const told = job.values.filter(({ name }) => name === 'gpu.noPeerAccess');
    if (off.length === 0 && told.length === 0) return [];
    // It was asked for, and a rule of its own speaks.
    if (settings(job, 'NCCL_P2P_DISABLE').some(({ value }) => value === '1')) return [];
    const isNote = told.length === 0 || isByDesign(job);
    // Where a fault is found, a note on what may be as it is meant would only stand beside it.
    if (isNote && others.some(({ severity }) => severity !== 'info')) return [];
    const hosts = [
      ...new Set([...off.map(({ process }) => process.host), ...told.flatMap(({ host }) => host ?? [])]),
    ];
    const pairs = firstOfEach(off, ({ trouble }) => `${trouble.from} ${trouble.to}`);
    const far = job.matrices.some(({ rows }) =>
      rows.some(
        ({ name, cells }) => name.startsWith('GPU') && cells.some((cell) => /^(?:SYS|NODE)$/.test(cell)),
      ),
    );
    return [
      {
        severity: isNote ? 'info' : 'warning',
        confidence: 'possible',
        text: `GPUs${hosts.length === 0 ? '' : ` of ${listed(hosts)}`} do not reach each other directly${pairs.length === 0 ? '' : ` (${listed(pairs.map(({ trouble }) => `${trouble.from} and ${trouble.to}`))})`}: data between them go through host memory`,
        culprit: { ...(hosts.length === 0 ? {} : { hosts: hosts.slice(0, 16) }) },
        evidence: some([...told.map(({ at }) => at), ...pairs.map(({ at }) => at)]),
        repair: `${far ? 'Use GPUs below one PCIe root, or with NVLink, together (nvidia-smi topo -m shows pairs with SYS or NODE between them)' : 'See nvidia-smi topo -p2p r and topo -m: use GPUs below one PCIe root, or with NVLink, together'}; on cards that could, look for access control (ACS), the IOMMU, and virtual machines. Cards for games cannot.`,
        workaround: null,
      },
    ];
  },
};

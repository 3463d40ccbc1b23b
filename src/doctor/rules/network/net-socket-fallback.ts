/** Without a usable adapter NCCL takes TCP and says so in one line only. */
import { firstOfEach, listed, nodeCount, some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { pluginFailures } from './plugin-failures.js';

export const netSocketFallback: Rule = {
  id: 'net-socket-fallback',
  causes: ['slows'],
  looksFor: 'several hosts over TCP although they have a faster network',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NET/IB : No device found.',
      'n1:10:11 [0] NCCL INFO Using network Socket',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0',
    ),
    example(
      'ibstatus.txt',
      "Infiniband device 'mlx5_0' port 1 status:",
      '\tstate:\t\t 4: ACTIVE',
      '\trate:\t\t 200 Gb/sec (4X HDR)',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_DISABLE, NCCL_IB_HCA, NCCL_NET'],
  explainedBy: ['net-plugin-load-failed', 'env-ib-disabled', 'iface-virtual'],
  find(job) {
    if (nodeCount(job) < 2) return [];
    const over = job.processes.filter(({ network }) => network?.value === 'Socket');
    // Sockets are a fall-back only where something faster is known to be there.
    const hasPorts = job.ports.some(({ state }) => state?.value === 'ACTIVE');
    const hasHcas = job.processes.some(({ hcas }) => hcas !== undefined);
    const hasDevices = job.pci.some(({ text }) => /Infiniband controller|ConnectX/i.test(text));
    const isPlugin = pluginFailures(job).length > 0;
    if (over.length === 0 || !(hasPorts || hasHcas || hasDevices || isPlugin)) return [];
    const isFast =
      hasPorts || hasHcas || isPlugin || job.pci.some(({ text }) => /Infiniband controller/i.test(text));
    const hosts = [...new Set(over.map(({ host }) => host))];
    const lines = firstOfEach(over, ({ host, network }) => host + network!.at.file);
    const ports = job.ports.flatMap(({ state }) => (state?.value === 'ACTIVE' ? [state.at] : []));
    return [
      {
        // Cards that can do RDMA are often used as plain network cards.
        severity: isFast ? 'error' : 'warning',
        confidence: isFast ? 'likely' : 'possible',
        text: `${listed(hosts)} use${hosts.length === 1 ? 's' : ''} TCP sockets although a faster network is there`,
        culprit: { hosts, network: 'Socket' },
        evidence: [...some(lines.map(({ network }) => network!.at)), ...some(ports, 4)],
        repair:
          'Make the adapters visible to the job (pass /dev/infiniband into the container, install libibverbs, raise the memlock limit, do not set NCCL_IB_DISABLE) and demand them with NCCL_NET=IB.',
        workaround: null,
        why: 'without plugin and without InfiniBand devices only TCP is left',
      },
    ];
  },
};

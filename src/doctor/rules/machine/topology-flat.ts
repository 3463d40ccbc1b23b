/** Where the tree of PCI is hidden, as in virtual machines, NCCL hangs all devices on one CPU. */
import { some } from '../queries.js';
import { example, type Rule } from '../rule.js';

/** GPUs from which on a machine has switches. */
const MANY = 4;

export const topologyFlat: Rule = {
  id: 'topology-flat',
  causes: ['slows'],
  looksFor:
    'a machine whose GPUs and adapters all hang on one CPU with no switch between: its topology is not known',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO === System : maxBw 12.0 totalBw 370.8 ===',
      'n1:10:11 [0] NCCL INFO CPU/0-0 (1/2/-1)',
      'n1:10:11 [0] NCCL INFO + PCI[12.0] - GPU/0-8a000 (0)',
      'n1:10:11 [0] NCCL INFO + PCI[12.0] - GPU/0-8b000 (1)',
      'n1:10:11 [0] NCCL INFO + PCI[12.0] - NIC/0-c1000',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0',
    ),
  ],
  references: ['NCCL user guide: NCCL_TOPO_FILE'],
  explainedBy: ['topo-file-ids-mismatch'],
  find(job) {
    const flat = job.processes.filter(({ tree, members }) => {
      const gpus = tree?.devices.filter(({ kind }) => kind === 'GPU') ?? [];
      const nics = tree?.devices.filter(({ kind }) => kind === 'NIC') ?? [];
      // Small machines have no switches; several GPUs next to several adapters do.
      const isLarge = gpus.length > 1 && nics.length > 0 && members.some(({ nodes }) => (nodes ?? 1) > 1);
      // Slots of an older generation are as slow, and they are shared out among the sockets.
      const isOneCpu = new Set(tree?.devices.map(({ cpu }) => cpu)).size === 1;
      return (
        isLarge && isOneCpu && [...gpus, ...nics].every(({ isOnCpu, linkGBs }) => isOnCpu && linkGBs <= 12)
      );
    });
    const [first] = flat;
    if (first === undefined) return [];
    const tree = first.tree!;
    const gpus = tree.devices.filter(({ kind }) => kind === 'GPU');
    return [
      {
        // Few cards of an older generation may truly hang there.
        severity: gpus.length >= MANY ? 'warning' : 'info',
        confidence: 'likely',
        text: `NCCL knows no place of the ${tree.devices.length} devices of ${first.host}: all hang on a CPU at the default speed`,
        culprit: { host: first.host },
        evidence: some([...tree.devices.map(({ at }) => at), ...tree.cpus], 24),
        repair:
          'Give NCCL a topology file of this kind of virtual machine (NCCL_TOPO_FILE); providers publish them.',
        workaround: null,
        why: 'devices that the file does not know hang directly on the first CPU at the default PCI speed',
      },
    ];
  },
};

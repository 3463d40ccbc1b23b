/** With peer-to-peer forbidden, edges inside a host go through host memory. */
import { edges, some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { forbidsPeerAccess } from './peer-access.js';

export const shmInsteadOfP2p: Rule = {
  id: 'shm-instead-of-p2p',
  causes: ['slows'],
  looksFor: 'edges inside a host that go through host memory because peer-to-peer is forbidden',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1',
      'n1:10:11 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct',
    ),
  ],
  references: [],
  explainedBy: ['env-p2p-disabled'],
  find(job) {
    const off = job.processes.filter((process) =>
      ['NCCL_P2P_DISABLE', 'NCCL_P2P_LEVEL'].some((name) => {
        const value = process.environment.get(name)?.value;
        return value !== undefined && forbidsPeerAccess(name, value);
      }),
    );
    const lines = off.flatMap((process) => edges(process).filter(({ kind }) => kind === 'SHM'));
    if (lines.length === 0) return [];
    return [
      {
        severity: 'warning',
        confidence: 'certain',
        text: 'GPUs of a host talk through host memory',
        culprit: {},
        evidence: some(lines.map(({ at }) => at)),
        repair: 'Allow peer-to-peer.',
        workaround: null,
        why: 'with peer-to-peer forbidden every edge goes through host memory',
      },
    ];
  },
};

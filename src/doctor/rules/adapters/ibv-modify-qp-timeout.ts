/** Queue pairs that cannot reach their peer with the addresses that were chosen. */
import { firstOfEach, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { isLinkLocal } from './gids.js';

export const ibvModifyQpTimeout: Rule = {
  id: 'ibv-modify-qp-timeout',
  causes: ['blocks', 'kills'],
  looksFor: 'queue pairs that cannot be connected to their peer',
  example: [
    example(
      'n1.log',
      'n1:10:12 [3] misc/ibvwrap.cc:307 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.60.15.12, remote GID ::ffff:10.60.15.11',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_GID_INDEX, NCCL_IB_HCA'],
  explainedBy: ['roce-no-routable-gid', 'ib-port-down', 'ib-port-flap', 'env-gid-index'],
  find(job) {
    const found = troubles(job, 'queuePair').filter(({ logged }) => logged.isWarning);
    const [first] = found;
    if (first === undefined) return [];
    const { device, localGid, remoteGid, reason } = first.trouble;
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `${first.process.host} cannot connect ${device ?? 'an adapter'} to its peer: ${reason}`,
        culprit: { host: first.process.host, hca: device, localGid, remoteGid },
        evidence: some(firstOfEach(found, ({ process }) => process).map(({ at }) => at)),
        repair:
          'Make both ends use addresses of one network and kind: compare show_gids on both hosts, NCCL_IB_GID_INDEX and NCCL_IB_HCA, and whether adapters of different rails can reach each other.',
        workaround: null,
        why:
          localGid !== undefined && isLinkLocal(localGid)
            ? 'a link-local source cannot reach the peer'
            : 'a queue pair cannot be connected with the address that was chosen',
      },
    ];
  },
};

/** A RoCE port gets its routable address from its interface; without one only link-local entries are left. */
import { grouped } from '../../model/grouped.js';
import type { Job } from '../../model/job.js';
import type { GidEntry } from '../../model/machine.js';
import { distinctPlaces } from '../../model/place.js';
import { some, troubles } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { isLinkLocal } from './gids.js';

const portName = ({ host, device, port }: GidEntry): string => `${host ?? ''} ${device}:${port}`;

export const roceNoRoutableGid: Rule = {
  id: 'roce-no-routable-gid',
  causes: ['blocks', 'kills'],
  looksFor: 'a RoCE port whose GID table has link-local entries only, because its interface has no address',
  example: [
    example(
      'show_gids.n1.txt',
      'n1$ show_gids',
      'mlx5_0  1       0       fe80:0000:0000:0000:5aa2:e1ff:fe0c:7a10                 v2      eth2',
      'mlx5_0  1       1       0000:0000:0000:0000:0000:ffff:0a3c:0e0b 10.60.14.11     v2      eth2',
      'mlx5_1  1       0       fe80:0000:0000:0000:5aa2:e1ff:fe0c:7a11                 v2      eth3',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_GID_INDEX'],
  find(job) {
    const byPort = grouped(job.gids, portName);
    const routable = [...byPort.values()].filter((list) => list.some(({ gid }) => !isLinkLocal(gid)));
    const failures = troubles(job, 'queuePair');
    const found: Finding[] = [];
    for (const list of byPort.values()) {
      const [first] = list;
      if (first === undefined || list.some(({ gid }) => !isLinkLocal(gid))) continue;
      if (!isRoce(list, job) || isUnused(first, job)) continue;
      const same = routable.filter(([one]) => one!.device === first.device && one!.host !== first.host);
      // Where no port has an address, the network may not need them (InfiniBand, IPv6 link-local fabrics).
      if (routable.length === 0) continue;
      const failed = failures.filter(
        ({ process, trouble }) =>
          (first.host === undefined || process.host === first.host) &&
          (trouble.device === first.device ||
            (trouble.localGid !== undefined && isLinkLocal(trouble.localGid))),
      );
      const warned = failed.filter(({ logged }) => logged.isWarning);
      const peers = (same.length > 0 ? same : routable).map(
        (one) => one.findLast(({ gid }) => !isLinkLocal(gid))!,
      );
      found.push({
        severity: failed.length > 0 ? 'error' : 'warning',
        confidence: failed.length > 0 ? 'certain' : 'likely',
        text: `${first.host ?? 'a host'} ${first.device} has link-local GIDs only: ${first.interface ?? 'its interface'} has no IPv4 address`,
        culprit: {
          ...(first.host === undefined ? {} : { host: first.host }),
          hca: first.device,
          ...(first.interface === undefined ? {} : { interface: first.interface }),
        },
        evidence: distinctPlaces([
          ...list.map(({ at }) => at),
          ...some(
            (warned.length > 0 ? warned : failed).map(({ at }) => at),
            4,
          ),
          ...some(
            peers.map(({ at }) => at),
            4,
          ),
        ]),
        repair: `Give ${first.interface ?? 'the interface'} of ${first.host ?? 'the host'} its IPv4 address${exampleAddress(peers)}; the RoCE v2 entry then appears in the GID table by itself.`,
        workaround: `Leaving ${first.device} out on all nodes (NCCL_IB_HCA=^${first.device}) avoids the port, at the cost of its bandwidth.`,
      });
    }
    return found;
  },
};

/** Ports of InfiniBand have link-local entries only, of one kind. */
const isRoce = (list: readonly GidEntry[], job: Job): boolean =>
  list.some(({ version }) => version === 'v2') &&
  !job.ports.some(
    ({ device, host, linkLayer }) =>
      device === list[0]!.device &&
      (host === undefined || host === list[0]!.host) &&
      linkLayer === 'InfiniBand',
  );

/** The job lists its adapters, on all hosts without this one. */
function isUnused({ host, device }: GidEntry, job: Job): boolean {
  const lists = job.processes.flatMap((process) =>
    host === undefined || process.host === host ? (process.hcas?.value ?? []) : [],
  );
  return lists.length > 0 && !lists.some(({ name }) => name === device);
}

const exampleAddress = (peers: readonly GidEntry[]): string => {
  const known = peers.find(({ ipv4 }) => ipv4 !== undefined)?.ipv4;
  return known === undefined ? '' : ` (others have ${known.replace(/\.\d+$/, '.x')})`;
};

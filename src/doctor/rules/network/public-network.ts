/** Data between hosts over addresses of the public network. */
import type { Job } from '../../model/job.js';
import { firstOfEach, listed, nodeCount, some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { maySameNetwork } from './subnets.js';

/** Networks of organisations and providers, of links, and of this host. */
const PRIVATE =
  /^(?:10\.|127\.|169\.254\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|192\.0\.2\.|198\.(?:1[89]|51\.100)\.|203\.0\.113\.)/;

const isPublic = (address: string): boolean => /^\d+\.\d+\.\d+\.\d+$/.test(address) && !PRIVATE.test(address);

/** Hosts over TCP with the address that the others reach them at. */
function addresses(job: Job) {
  return firstOfEach(
    job.processes.flatMap(({ host, network, sockets }) => {
      const address = sockets?.value[0]?.address;
      return network?.value === 'Socket' && address !== undefined && isPublic(address)
        ? [{ host, address, at: sockets!.at }]
        : [];
    }),
    ({ host }) => host,
  );
}

export const publicNetwork: Rule = {
  id: 'public-network',
  causes: ['slows'],
  looksFor: 'hosts that exchange their data over TCP with addresses of different public networks',
  example: [
    example(
      'logs.txt',
      'n1:10:11 [0] NCCL INFO NET/Socket : Using [0]eth0:34.90.12.7<0>',
      'n1:10:11 [0] NCCL INFO Using network Socket',
      'n2:10:11 [0] NCCL INFO NET/Socket : Using [0]eth0:52.20.7.12<0>',
      'n2:10:11 [0] NCCL INFO Using network Socket',
    ),
  ],
  references: ['NCCL user guide: NCCL_SOCKET_IFNAME'],
  find(job) {
    if (nodeCount(job) < 2) return [];
    const found = addresses(job);
    // Organisations may own the addresses that they use inside.
    const [first] = found;
    const other = found.find(({ address }) => !maySameNetwork(address, first!.address));
    if (first === undefined || other === undefined) return [];
    return [
      {
        severity: 'warning',
        confidence: 'possible',
        text: `data between ${listed(found.map(({ host }) => host))} go over public addresses of different networks (${first.address}, ${other.address})`,
        culprit: {
          hosts: found.map(({ host }) => host).slice(0, 16),
          addresses: [first.address, other.address],
        },
        evidence: some([first.at, other.at]),
        repair:
          'Put the hosts into one private network of the provider, near each other (one zone, a placement group), and name its interface with NCCL_SOCKET_IFNAME: NCCL does not encrypt what it sends.',
        workaround: null,
      },
    ];
  },
};

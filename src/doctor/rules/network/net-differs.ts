/** Hosts of one communicator that use different networks cannot talk to each other. */
import type { Job } from '../../model/job.js';
import { distinctPlaces } from '../../model/place.js';
import type { NcclProcess } from '../../model/process.js';
import { firstOfEach, listed, troubles } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

/** The process did not get its communicators up, or warns of something. */
const isFailing = (process: NcclProcess): boolean =>
  process.failedReturns.length > 0 ||
  process.troubles.some(({ isWarning }) => isWarning) ||
  process.members.some(({ started, completed }) => started !== undefined && completed === undefined);

/** Processes by communicator. */
function byCommunicator(job: Job): Map<string, NcclProcess[]> {
  const found = new Map<string, NcclProcess[]>();
  for (const process of job.processes) {
    if (process.network === undefined) continue;
    for (const id of new Set(process.members.flatMap(({ commId }) => commId ?? []))) {
      const list = found.get(id);
      if (list === undefined) found.set(id, [process]);
      else list.push(process);
    }
  }
  return found;
}

export const netDiffers: Rule = {
  id: 'net-differs',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'hosts of one communicator that use different networks, as InfiniBand on one and TCP on another',
  example: [
    example(
      'logs.txt',
      'a:10:20 [0] NCCL INFO Using network IB',
      'a:10:20 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
      'b:10:20 [0] NCCL INFO NET/IB : No device found.',
      'b:10:20 [0] NCCL INFO Using network Socket',
      'b:10:20 [0] NCCL INFO ncclCommInitRank comm 0xb0 rank 1 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
      'b:10:20 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3',
    ),
  ],
  references: ['NCCL user guide: NCCL_NET, NCCL_IB_HCA'],
  explainedBy: ['net-plugin-load-failed', 'version-mismatch'],
  find(job) {
    const mixed = [...byCommunicator(job).values()].filter((list) => {
      const networks = new Set(list.map(({ network }) => network!.value));
      return networks.size > 1 && new Set(list.map(({ host }) => host)).size > 1 && list.some(isFailing);
    });
    return mixed.slice(0, 1).flatMap((list): Finding[] => {
      const networks = firstOfEach(list, ({ network }) => network!.value);
      const hostsOn = (value: string): string[] => [
        ...new Set(list.flatMap((one) => (one.network!.value === value ? [one.host] : []))),
      ];
      const counted = networks.map(({ network }) => ({
        network: network!.value,
        hosts: hostsOn(network!.value),
      }));
      const odd = [...counted].sort(
        (a, b) =>
          a.hosts.length - b.hosts.length || Number(b.network === 'Socket') - Number(a.network === 'Socket'),
      )[0]!;
      const isProven = troubles(job, 'wrongPeer').length > 0;
      const lacking = list.find(
        ({ host, noIbDevice }) => odd.hosts.includes(host) && noIbDevice !== undefined,
      );
      return [
        {
          severity: 'error',
          confidence: isProven ? 'certain' : 'likely',
          text: `hosts of one communicator use different networks: ${counted.map(({ network, hosts }) => `${network} on ${listed(hosts, 3)}`).join(', ')}`,
          culprit: { hosts: odd.hosts.slice(0, 16), network: odd.network },
          evidence: distinctPlaces([...networks.map(({ network }) => network!.at), lacking?.noIbDevice]),
          repair:
            odd.network === 'Socket'
              ? `Find out why ${listed(odd.hosts, 3)} ${odd.hosts.length === 1 ? 'has' : 'have'} no usable adapter (ibv_devinfo, port state, /dev/infiniband in the container, memlock, NCCL_IB_HCA), and demand the network with NCCL_NET on all hosts, so that a host without it stops at once.`
              : `Let all hosts use one network: compare plugins, NCCL_NET and NCCL_IB_DISABLE of ${listed(odd.hosts, 3)} with the others.`,
          workaround: 'NCCL_NET=Socket on all hosts works, over TCP.',
        },
      ];
    });
  },
};

/** Data through TCP in packets of 1500 bytes: the processor handles six times as many as with jumbo frames. */
import type { Place } from '../../model/place.js';
import { listed, some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { isOf, tcpTraffic } from './tcp-traffic.js';

/** Bytes of an ordinary Ethernet frame. */
const ORDINARY = 1500;

export const mtuSmall: Rule = {
  id: 'mtu-small',
  causes: ['slows'],
  looksFor: 'data over TCP through an interface with ordinary frames (MTU 1500)',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NET/Socket : Using [0]eth1:10.0.0.4<0>',
      'n1:10:11 [0] NCCL INFO Using network Socket',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0',
    ),
    example(
      'links.txt',
      'n1$ ip link',
      '3: eth1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP mode DEFAULT group default qlen 1000',
    ),
  ],
  references: ['NCCL user guide: NET/Socket', 'ip-link(8): mtu'],
  find(job) {
    const found = tcpTraffic(job).flatMap(({ host, interfaces, at }) =>
      job.interfaces
        .filter((one) => isOf(one, host) && interfaces.includes(one.name) && one.mtu !== undefined)
        .filter(({ mtu }) => mtu! <= ORDINARY)
        .map((one) => ({ host, name: one.name, mtu: one.mtu!, places: [at, one.at] as Place[] })),
    );
    const [first] = found;
    if (first === undefined) return [];
    const names = [...new Set(found.map(({ host, name }) => `${name} of ${host}`))];
    return [
      {
        severity: 'info',
        confidence: 'possible',
        text: `data go over TCP in packets of ${first.mtu} bytes through ${listed(names)}`,
        culprit: {
          hosts: [...new Set(found.map(({ host }) => host))],
          interface: first.name,
          mtu: first.mtu,
        },
        evidence: some(found.flatMap(({ places }) => places)),
        repair: `Set jumbo frames on all hosts and on the switches between them (ip link set ${first.name} mtu 9000), if the network carries them.`,
        workaround: null,
      },
    ];
  },
};

/** How TCP meets losses decides how fast it is over long ways; in one building it hardly matters. */
import { some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { isOf, tcpTraffic } from './tcp-traffic.js';

/** Milliseconds between hosts from which on the way is long: other sites, not other racks. */
const LONG = 5;

const NAME = 'net.ipv4.tcp_congestion_control';

export const congestionControl: Rule = {
  id: 'congestion-control',
  causes: ['slows'],
  looksFor: 'data over TCP to hosts far away with a congestion control for short ways',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NET/Socket : Using [0]eth1:10.0.0.4<0>',
      'n1:10:11 [0] NCCL INFO Using network Socket',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0',
    ),
    example(
      'net.txt',
      'n1$ sysctl -a',
      'net.ipv4.tcp_congestion_control = cubic',
      'n1$ ping -c 3 10.9.0.4',
      'rtt min/avg/max/mdev = 27.9/28.4/29.1/0.4 ms',
    ),
  ],
  references: ['kernel documentation: tcp_congestion_control'],
  find: (job) =>
    tcpTraffic(job)
      .slice(0, 1)
      .flatMap(({ host, at }): Finding[] => {
        const control = job.values.find((one) => one.name === NAME && isOf(one, host));
        const way = job.values.find(
          (one) => one.name.startsWith('ping.ms') && isOf(one, host) && Number(one.value) >= LONG,
        );
        if (control === undefined || way === undefined || /^bbr/.test(control.value)) return [];
        return [
          {
            severity: 'info',
            confidence: 'possible',
            text: `data go over TCP to a host ${way.value} ms away, with the congestion control ${control.value} on ${host}`,
            culprit: { host, setting: NAME, value: control.value, milliseconds: Number(way.value) },
            evidence: some([at, control.at, way.at]),
            repair:
              'Try BBR on both ends (net.ipv4.tcp_congestion_control=bbr, net.core.default_qdisc=fq) with large socket buffers; keep CUBIC inside a building.',
            workaround: null,
          },
        ];
      }),
};

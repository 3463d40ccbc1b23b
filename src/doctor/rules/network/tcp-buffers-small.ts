/** The kernel's limit of a socket's buffer bounds what is under way on one TCP connection. */
import { listed, some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { isOf, tcpTraffic } from './tcp-traffic.js';

/** Bytes under which one connection cannot fill 10 Gbit/s at a few milliseconds; the kernel's own limit is 208 KiB. */
const SMALL = 2 ** 20;

const LIMITS = ['net.core.rmem_max', 'net.core.wmem_max'];

export const tcpBuffersSmall: Rule = {
  id: 'tcp-buffers-small',
  causes: ['slows'],
  looksFor: 'data over TCP with small limits of socket buffers',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NET/Socket : Using [0]eth1:10.0.0.4<0>',
      'n1:10:11 [0] NCCL INFO Using network Socket',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0',
    ),
    example('net.txt', 'n1$ sysctl -a', 'net.core.rmem_max = 212992', 'net.core.wmem_max = 212992'),
  ],
  references: ['kernel documentation: net.core.rmem_max, net.core.wmem_max, tcp_rmem, tcp_wmem'],
  find(job) {
    const found = tcpTraffic(job).flatMap(({ host, at }) =>
      job.values
        .filter((one) => isOf(one, host) && LIMITS.includes(one.name) && Number(one.value) < SMALL)
        .map((one) => ({ host, name: one.name, value: one.value, places: [at, one.at] })),
    );
    const [first] = found;
    if (first === undefined) return [];
    const hosts = [...new Set(found.map(({ host }) => host))];
    return [
      {
        severity: 'info',
        confidence: 'possible',
        text: `data go over TCP, and ${first.name} is ${first.value} bytes on ${listed(hosts)}`,
        culprit: { hosts, setting: first.name, value: first.value },
        evidence: some([...new Set(found.flatMap(({ places }) => places))]),
        repair:
          'Raise net.core.rmem_max and net.core.wmem_max to 16 MiB, and the last number of net.ipv4.tcp_rmem and tcp_wmem with them, on all hosts.',
        workaround:
          'NCCL_SOCKET_NTHREADS=4 and NCCL_NSOCKS_PERTHREAD=4 spread data over more connections, at the cost of processors.',
      },
    ];
  },
};

/**
 * The kernel lets the buffers of a TCP connection grow to the last number of tcp_rmem and tcp_wmem, which bounds what is
 * under way on it. net.core.rmem_max and wmem_max bound only what a program asks for by itself, as NCCL does where
 * NCCL_SOCKET_RCVBUF and NCCL_SOCKET_SNDBUF are set.
 */
import { listed, some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { isOf, tcpTraffic } from './tcp-traffic.js';

/** Bytes; less cannot fill 10 Gbit/s where an answer takes a millisecond. The kernel's own limits are 6 and 4 MiB. */
const SMALL = 2 ** 20;

const LIMITS = ['net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem'];

/** The greatest size of a `least usual most`. */
const mostOf = (value: string): number => Number(value.split(' ')[2]);

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
    example('net.txt', 'n1$ sysctl -a', 'net.ipv4.tcp_rmem = 4096\t87380\t174760'),
  ],
  references: ['kernel documentation: tcp_rmem, tcp_wmem'],
  find(job) {
    const found = tcpTraffic(job).flatMap(({ host, at }) =>
      job.values
        .filter((one) => isOf(one, host) && LIMITS.includes(one.name) && mostOf(one.value) < SMALL)
        .map((one) => ({ host, name: one.name, value: mostOf(one.value), places: [at, one.at] })),
    );
    const [first] = found;
    if (first === undefined) return [];
    const hosts = [...new Set(found.map(({ host }) => host))];
    return [
      {
        severity: 'info',
        confidence: 'possible',
        text: `data go over TCP, and ${first.name} ends at ${first.value} bytes on ${listed(hosts)}`,
        culprit: { hosts, setting: first.name, value: first.value },
        evidence: some([...new Set(found.flatMap(({ places }) => places))]),
        repair: 'Raise the last number of net.ipv4.tcp_rmem and net.ipv4.tcp_wmem to 16 MiB on all hosts.',
        workaround:
          'NCCL_SOCKET_NTHREADS=4 and NCCL_NSOCKS_PERTHREAD=4 spread data over more connections, at the cost of processors.',
      },
    ];
  },
};

/** Data over TCP through a slow interface, as that for management, although the host has a faster one. */
import type { Job } from '../../model/job.js';
import { distinctPlaces, type Place } from '../../model/place.js';
import { listed, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { isVirtual } from './subnets.js';
import { isOf, tcpTraffic } from './tcp-traffic.js';

/** Mbit/s; faster ones are for data. */
const SLOW = 10_000;
/** A faster interface is one of a higher class. */
const FASTER = 2.4;

interface Faster {
  readonly name: string;
  readonly mbps: number;
  readonly at: Place;
}

/** The fastest link of a host: interfaces that are up, and ports that are active. */
function fastestOf(job: Job, host: string): Faster | undefined {
  const found: Faster[] = [
    ...job.interfaces.flatMap((one) =>
      isOf(one, host) && one.speedMbps !== undefined && one.isUp !== false && !isVirtual(one.name)
        ? [{ name: one.name, mbps: one.speedMbps, at: one.at }]
        : [],
    ),
    ...job.ports.flatMap((one) =>
      isOf(one, host) && one.state?.value === 'ACTIVE' && one.rateGbps !== undefined
        ? [{ name: one.device, mbps: one.rateGbps.value * 1000, at: one.rateGbps.at }]
        : [],
    ),
  ];
  return found.sort((a, b) => b.mbps - a.mbps)[0];
}

export const ifaceSlow: Rule = {
  id: 'iface-slow',
  causes: ['slows'],
  looksFor: 'data over TCP through an interface of 10 Gbit/s or less on a host that has a faster one',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NET/Socket : Using [0]eno1:10.0.0.4<0>',
      'n1:10:11 [0] NCCL INFO Using network Socket',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0',
    ),
    example(
      'ethtool.txt',
      'n1$ ethtool eno1',
      'Settings for eno1:',
      '\tSpeed: 1000Mb/s',
      'n1$ ethtool ens2f0',
      'Settings for ens2f0:',
      '\tSpeed: 100000Mb/s',
    ),
  ],
  references: ['NCCL user guide: NCCL_SOCKET_IFNAME'],
  explainedBy: ['net-socket-fallback', 'net-plugin-load-failed', 'env-ib-disabled', 'iface-virtual'],
  find(job) {
    const found = tcpTraffic(job).flatMap(({ host, interfaces, at }) => {
      const used = job.interfaces.filter(
        (one) =>
          isOf(one, host) &&
          interfaces.includes(one.name) &&
          one.speedMbps !== undefined &&
          one.speedMbps <= SLOW,
      );
      const fastest = fastestOf(job, host);
      const [slow] = used;
      const isAll = interfaces.every((name) => used.some((one) => one.name === name));
      return slow === undefined || fastest === undefined || !isAll || fastest.mbps < FASTER * slow.speedMbps!
        ? []
        : [{ host, slow, fastest, at }];
    });
    return found.slice(0, 1).map(
      ({ slow, fastest, at }): Finding => ({
        severity: 'warning',
        confidence: 'likely',
        text: `data go over ${slow.name} with ${slow.speedMbps! / 1000} Gbit/s on ${listed(found.map(({ host }) => host))}, where ${fastest.name} has ${fastest.mbps / 1000}`,
        culprit: {
          hosts: found.map(({ host }) => host).slice(0, 16),
          interface: slow.name,
          faster: fastest.name,
          mbps: slow.speedMbps,
          fasterMbps: fastest.mbps,
        },
        evidence: some(distinctPlaces([at, slow.at, fastest.at])),
        repair: `Set NCCL_SOCKET_IFNAME=${fastest.name} on all hosts where that interface has an address which the others reach; if it is an adapter of InfiniBand or RoCE, let NCCL use it as such (NCCL_IB_HCA).`,
        workaround: null,
      }),
    );
  },
};

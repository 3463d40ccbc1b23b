/** Hosts of one network that both run and cannot connect: something drops packets to their ports. */
import { distinctPlaces } from '../../model/place.js';
import { firstOfEach, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { maySameNetwork } from './subnets.js';

export const firewall: Rule = {
  id: 'firewall',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'connections that fail between hosts of one network that both run: something blocks the ports',
  example: [
    example(
      'logs.txt',
      'n1:10:10 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.1<0>',
      'n1:10:12 [0] misc/socket.cc:577 NCCL WARN socketStartConnect: connect to 10.1.0.2<52291> returned Connection timed out, exceeded error retry count after 35 attempts',
      'n2:10:10 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.2<0>',
    ),
  ],
  references: ['NCCL user guide: troubleshooting, networking issues'],
  explainedBy: ['iface-virtual', 'bootstrap-interface-mismatch', 'rank-died', 'ports-exhausted'],
  find(job) {
    const addressOf = new Map(
      job.processes.flatMap(({ bootstrap, host }) =>
        bootstrap === undefined ? [] : [[bootstrap.address, { host, at: bootstrap.at }] as const],
      ),
    );
    const failed = troubles(job, 'connect').filter(({ process, trouble, logged }) => {
      const peer = trouble.address === undefined ? undefined : addressOf.get(trouble.address);
      const own = process.bootstrap?.address;
      const isNear = own !== undefined && maySameNetwork(own, trouble.address ?? '');
      const isBlocked = /timed out|no route|prohibited|unreachable/i.test(trouble.reason);
      return logged.isWarning && peer !== undefined && peer.host !== process.host && isNear && isBlocked;
    });
    const [first] = failed;
    if (first === undefined) return [];
    const peer = addressOf.get(first.trouble.address!)!;
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `${first.process.host} cannot connect to ${peer.host} (${first.trouble.address}) although both run in one network: ${first.trouble.reason}`,
        culprit: {
          host: peer.host,
          address: first.trouble.address,
          from: [...new Set(failed.map(({ process }) => process.host))],
        },
        evidence: distinctPlaces([
          ...some(firstOfEach(failed, ({ process }) => process).map(({ at }) => at)),
          peer.at,
        ]),
        repair: `Open all TCP ports between the hosts (firewalld, nftables, security groups): NCCL listens on any free port; test with nc -l on ${peer.host}.`,
        workaround: null,
      },
    ];
  },
};

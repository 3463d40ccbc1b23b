/** Connections that fail for good, where nothing else tells why. */
import { firstOfEach, listed, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const connectTimeout: Rule = {
  id: 'connect-timeout',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'connections between hosts that fail for good, with no other fault that explains it',
  example: [
    example(
      'n1.log',
      'n1:10:12 [0] misc/socket.cc:577 NCCL WARN socketStartConnect: connect to 10.1.0.2<52291> returned Connection timed out, exceeded error retry count after 35 attempts',
    ),
  ],
  references: ['NCCL user guide: troubleshooting, networking issues'],
  explainedBy: [
    'iface-virtual',
    'bootstrap-interface-mismatch',
    'ports-exhausted',
    'rank-died',
    'no-socket-interface',
    'too-many-open-files',
    'firewall',
  ],
  find(job) {
    const failed = troubles(job, 'connect').filter(({ logged }) => logged.isWarning);
    if (failed.length === 0) return [];
    const addresses = [...new Set(failed.flatMap(({ trouble }) => trouble.address ?? []))];
    const reasons = [...new Set(failed.map(({ trouble }) => trouble.reason))];
    const isRefused = reasons.every((reason) => /refused/i.test(reason));
    return [
      {
        severity: 'error',
        confidence: 'possible',
        text: `${listed([...new Set(failed.map(({ process }) => process.host))])} cannot connect to ${addresses.length === 0 ? 'a peer' : listed(addresses)}: ${reasons.join('; ')}`,
        culprit: {
          hosts: [...new Set(failed.map(({ process }) => process.host))],
          addresses,
          reason: reasons[0],
        },
        evidence: some(firstOfEach(failed, ({ process }) => process).map(({ at }) => at)),
        repair: isRefused
          ? 'Nobody listens at that address: see whether the process there has ended before, and start with its log.'
          : 'Let all ports between the hosts through (NCCL uses any free port), and choose an interface that reaches them with NCCL_SOCKET_IFNAME.',
        workaround: null,
        why: 'the address is not reachable from here',
      },
    ];
  },
};

/** Peer-to-peer, shared memory and network are all refused between two ranks. */
import { distinctPlaces } from '../../model/place.js';
import { listed, settings, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const noTransport: Rule = {
  id: 'no-transport',
  causes: ['blocks'],
  looksFor: 'two ranks that no transport connects',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] transport.cc:120 NCCL WARN No transport found for rank 0[1b000] -> rank 1[43000]',
    ),
  ],
  references: [],
  find(job) {
    const found = troubles(job, 'noTransport');
    const [first] = found;
    if (first === undefined) return [];
    const off = ['NCCL_P2P_DISABLE', 'NCCL_SHM_DISABLE', 'NCCL_NET'].flatMap((name) =>
      settings(job, name)
        .slice(0, 1)
        .map((one) => ({ name, ...one })),
    );
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `nothing connects rank ${first.trouble.from} to rank ${first.trouble.to}${off.length === 0 ? '' : `; set: ${off.map(({ name, value }) => `${name}=${value}`).join(', ')}`}`,
        culprit: {
          from: first.trouble.from,
          to: first.trouble.to,
          ...(off.length === 0 ? {} : { variable: off[0]!.name }),
        },
        evidence: distinctPlaces([first.at, ...off.map(({ at }) => at)]),
        repair:
          off.length === 0
            ? 'See why both peer-to-peer and shared memory are refused (containers with separate IPC namespaces), and that a network is there.'
            : `Take ${listed(off.map(({ name }) => name))} away.`,
        workaround: null,
      },
    ];
  },
};

/** The set-up needs one interface with an address, and the variable leaves none. */
import { distinctPlaces } from '../../model/place.js';
import { some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const noSocketInterface: Rule = {
  id: 'no-socket-interface',
  causes: ['blocks'],
  looksFor: 'no interface left for the set-up: NCCL_SOCKET_IFNAME names none that is there',
  example: [
    example('n1.log', 'n1:10:10 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found'),
  ],
  references: ['NCCL user guide: NCCL_SOCKET_IFNAME'],
  find(job) {
    // NCCL also says in passing which kinds of interfaces it did not find.
    const found = troubles(job, 'noInterface').filter(({ logged }) => logged.isWarning);
    const [first] = found;
    if (first === undefined) return [];
    const setting = first.process.environment.get('NCCL_SOCKET_IFNAME');
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text:
          setting === undefined
            ? `${first.process.host} has no interface for the set-up: none that is up has an address, or NCCL_SOCKET_IFNAME leaves none`
            : `${first.process.host} has no interface that fits NCCL_SOCKET_IFNAME=${setting.value}`,
        culprit: {
          host: first.process.host,
          variable: 'NCCL_SOCKET_IFNAME',
          ...(setting === undefined ? {} : { value: setting.value }),
        },
        evidence: distinctPlaces([...some(found.map(({ at }) => at)), setting?.at]),
        repair: `Name an interface that ${first.process.host} has and that is up with an address (ip -br addr), or unset NCCL_SOCKET_IFNAME.`,
        workaround: null,
      },
    ];
  },
};

/** NCCL_COMM_ID fixes a port, which another program may hold. */
import { distinctPlaces } from '../../model/place.js';
import { troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { ADDRESS_IN_USE } from './address-in-use.js';
import { portsExhausted } from './ports-exhausted.js';

export const portConflict: Rule = {
  id: 'port-conflict',
  causes: ['blocks', 'kills'],
  looksFor: 'a fixed port (NCCL_COMM_ID) that another program holds',
  example: [
    example(
      'n1.log',
      'n1:10:10 [0] NCCL INFO NCCL_COMM_ID set by environment to 10.0.0.1:29500',
      'n1:10:10 [0] misc/socket.cc:409 NCCL WARN Call to bind failed: Address already in use',
    ),
  ],
  references: ['NCCL user guide: NCCL_COMM_ID'],
  find(job) {
    const failed = troubles(job, 'bind').filter(({ trouble }) => ADDRESS_IN_USE.test(trouble.reason));
    const fixed = failed.flatMap(({ process, at }) => {
      const setting = process.environment.get('NCCL_COMM_ID');
      return setting === undefined ? [] : [{ process, at, setting }];
    });
    const [first] = fixed;
    if (first === undefined || portsExhausted.find(job).length > 0) return [];
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `the port of NCCL_COMM_ID=${first.setting.value} is in use on ${first.process.host}`,
        culprit: { host: first.process.host, variable: 'NCCL_COMM_ID', value: first.setting.value },
        evidence: distinctPlaces([first.at, first.setting.at]),
        repair: 'Choose a free port, or end the program that holds it (ss -ltnp).',
        workaround: null,
      },
    ];
  },
};

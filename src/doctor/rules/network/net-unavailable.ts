/** NCCL_NET demands a network by name, and NCCL stops where it is not there. */
import type { Job } from '../../model/job.js';
import { distinctPlaces } from '../../model/place.js';
import { troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const netUnavailable: Rule = {
  id: 'net-unavailable',
  causes: ['blocks'],
  looksFor: 'the network that NCCL_NET demands is not there',
  example: [example('n1.log', 'n1:10:11 [0] net.cc:300 NCCL WARN Failed to initialize any NET plugin')],
  references: ['NCCL user guide: NCCL_NET'],
  explainedBy: ['net-plugin-load-failed'],
  find(job: Job) {
    const found = troubles(job, 'noNetwork').filter(({ logged }) => logged.isWarning);
    const [first] = found;
    if (first === undefined) return [];
    const setting = first.process.environment.get('NCCL_NET');
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `${first.process.host} has no network${setting === undefined ? '' : ` ${setting.value}`}`,
        culprit: {
          host: first.process.host,
          ...(setting === undefined ? {} : { variable: 'NCCL_NET', value: setting.value }),
        },
        evidence: distinctPlaces([first.at, setting?.at]),
        repair:
          'Install the plugin or the adapter’s libraries that NCCL_NET names, pass the devices into the container, or unset NCCL_NET.',
        workaround: null,
      },
    ];
  },
};

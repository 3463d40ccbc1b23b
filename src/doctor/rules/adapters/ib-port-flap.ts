/** A link that goes down for moments loses packets, and requests fail when retries end. */
import { grouped } from '../../model/grouped.js';
import { some, troubles } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const ibPortFlap: Rule = {
  id: 'ib-port-flap',
  causes: ['kills', 'hangs', 'slows'],
  looksFor: 'an adapter that reports its port going down while the job runs',
  example: [
    example(
      'n2.log',
      'n2:10:12 [3] transport/net_ib.cc:253 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port error(10)',
      'n2:10:12 [3] transport/net_ib.cc:253 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port active(9)',
    ),
  ],
  references: ['ibv_get_async_event(3): IBV_EVENT_PORT_ERR'],
  find(job) {
    const down = troubles(job, 'portEvent').filter(({ trouble }) =>
      /port error|device fatal|catastrophic/.test(trouble.event),
    );
    const groups = grouped(down, ({ process, trouble }) =>
      trouble.device === undefined ? process.host : `${process.host} ${trouble.device}:${trouble.port}`,
    );
    return [...groups].map(([name, events]): Finding => {
      const { process, trouble } = events[0]!;
      const times = events.length > 1 ? ` ${events.length} times` : '';
      const { device, port } = trouble;
      const where = device === undefined ? '' : ` ${device} port ${port}`;
      // The adapter itself failed, not its link.
      if (events.some((one) => !/port error/.test(one.trouble.event))) {
        return {
          severity: 'error',
          confidence: 'certain',
          text: `${device === undefined ? `an adapter of ${name}` : `adapter ${name}`} reported ${events[0]!.trouble.event}${times}`,
          culprit: { host: process.host, ...(device === undefined ? {} : { hca: device, port }) },
          evidence: some(events.map(({ at }) => at)),
          repair: `Look into dmesg of ${process.host} for the adapter (health, firmware, PCIe errors), update its firmware or replace it.`,
          workaround: null,
        };
      }
      return {
        severity: 'error',
        confidence: 'certain',
        text: `${device === undefined ? `a port of ${name}` : `port ${name}`} went down${times} while the job ran`,
        culprit: { host: process.host, ...(device === undefined ? {} : { hca: device, port }) },
        evidence: some(events.map(({ at }) => at)),
        repair: `Look at the physical link${device === undefined ? 's' : ''} of ${process.host}${where} first${device === undefined ? ' (dmesg names the port)' : ''}: cable, transceiver, switch port and their error counters.`,
        workaround: 'A larger NCCL_IB_TIMEOUT rides over flaps of a few seconds and hides the bad link.',
      };
    });
  },
};

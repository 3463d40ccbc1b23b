/** RoCE needs a network without loss: discards without pause frames show that flow control is off. */
import { distinctPlaces } from '../../model/place.js';
import { cliffs } from '../measurements/cliffs.js';
import { firstOfEach, listed, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

/** Discards from which on it is no accident. */
const MANY = 1000;

export const rocePacketLoss: Rule = {
  id: 'roce-packet-loss',
  causes: ['kills', 'hangs', 'slows'],
  looksFor: 'adapters that discard packets while no pause frames are sent: flow control is off on the way',
  example: [
    example(
      'counters.txt',
      'n1: ethtool -S eth2',
      '     rx_discards_phy: 9184372',
      '     rx_prio3_pause: 0',
      '     tx_prio3_pause: 0',
    ),
    example(
      'all_reduce.txt',
      '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ',
      '   134217728      33554432     float     sum      -1  6371.09   21.07   39.50       0  6373.00   21.06   39.49       0',
      '   268435456      67108864     float     sum      -1  82510.9    3.25    6.10       0  82521.0    3.25    6.10       0',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_TC', 'RoCE: priority flow control, ECN'],
  find(job) {
    const discards = job.counters.filter(
      ({ name, value }) => /(?:rx_discards_phy|rx_.*discard|out_of_buffer)$/.test(name) && value >= MANY,
    );
    if (discards.length === 0) return [];
    const hosts = [...new Set(discards.flatMap(({ host }) => host ?? []))];
    const pauses = job.counters.filter(
      ({ name, host }) => /prio\d+_pause$/.test(name) && (host === undefined || hosts.includes(host)),
    );
    // Pause frames that are sent show that flow control works; then discards have another cause.
    if (pauses.some(({ value, name }) => value > 0 && name.startsWith('tx_'))) return [];
    const steep = cliffs(job).filter(({ factor }) => factor >= 3);
    // Where all adapters of the job are InfiniBand, the counters are of other networks.
    const links = job.processes.flatMap(({ hcas }) => hcas?.value.map(({ link }) => link) ?? []);
    if (links.length > 0 && links.every((link) => link === 'IB')) return [];
    const isFelt = steep.length > 0 || troubles(job, 'completion').length > 0;
    const isHanging = job.events.some(({ kind }) => kind === 'watchdog');
    const silent = firstOfEach(
      pauses.filter(({ value }) => value === 0),
      ({ host, name }) => `${host} ${name}`,
    );
    return [
      {
        // Counters count since the start of the machine: without a symptom they may be old.
        severity: isFelt ? 'error' : isHanging ? 'warning' : 'info',
        confidence: !isFelt ? 'possible' : steep.length > 0 && silent.length > 0 ? 'certain' : 'likely',
        text: `the adapters of ${listed(hosts)} discard packets${silent.length > 0 ? ' and no pause frames are sent' : ''}: the RoCE network has no working flow control`,
        culprit: { network: 'RoCE', hosts },
        evidence: distinctPlaces([
          ...steep.flatMap(({ before, after }) => [before.at, after.at]),
          ...some(
            discards.map(({ at }) => at),
            32,
          ),
          ...some(
            silent.map(({ at }) => at),
            32,
          ),
        ]),
        repair:
          'Switch on flow control end to end (PFC on the priority that NCCL_IB_TC selects, or ECN/DCQCN) on adapters and switches, and check the discard counters again.',
        workaround:
          'Fewer channels or a smaller NCCL_BUFFSIZE lowers the burst and hides the loss, at a cost in bandwidth.',
      },
    ];
  },
};

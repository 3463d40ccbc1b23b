/** A measured bandwidth that is what the adapters can carry. */
import { hostsOfRun, largestRow } from '../../model/bench.js';
import { distinctPlaces } from '../../model/place.js';
import { some } from '../queries.js';
import { example, type Rule } from '../rule.js';

/** Bits per byte. */
const BITS = 8;

export const nicBandwidthCeiling: Rule = {
  id: 'nic-bandwidth-ceiling',
  causes: ['slows'],
  looksFor: 'a bus bandwidth between hosts that is what their adapters can carry',
  example: [
    example(
      'ibstatus.txt',
      "Infiniband device 'mlx5_0' port 1 status:",
      '\tstate:\t\t 4: ACTIVE',
      '\trate:\t\t 200 Gb/sec (4X HDR)',
    ),
    example(
      'all_reduce.txt',
      '#  Rank  0 Group  0 Pid   3300 on      n1 device  0 [0000:1b:00] NVIDIA A100-SXM4-80GB',
      '#  Rank  1 Group  0 Pid   3301 on      n1 device  1 [0000:1c:00] NVIDIA A100-SXM4-80GB',
      '#  Rank  2 Group  0 Pid   3300 on      n2 device  0 [0000:1b:00] NVIDIA A100-SXM4-80GB',
      '#  Rank  3 Group  0 Pid   3301 on      n2 device  1 [0000:1c:00] NVIDIA A100-SXM4-80GB',
      '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ',
      '  4294967296    1073741824     float     sum      -1   279620   15.36   23.04       0   279620   15.36   23.04       0',
    ),
  ],
  references: ['nccl-tests: PERFORMANCE.md'],
  find(job) {
    const active = job.ports.filter(
      ({ state, rateGbps }) => state?.value === 'ACTIVE' && rateGbps !== undefined,
    );
    const hosts = new Set(active.map(({ host }) => host));
    // Ports of one host: of the first that has any.
    const [host] = hosts;
    const own = active.filter((port) => port.host === host);
    const ceiling = own.reduce((total, { rateGbps }) => total + rateGbps!.value / BITS, 0);
    const run = job.benches.find(
      (one) =>
        hostsOfRun(one).length > 1 && one.devices.length > hostsOfRun(one).length && one.rows.length > 0,
    );
    const best = run === undefined ? undefined : largestRow(run);
    if (run === undefined || best === undefined || ceiling === 0) return [];
    const perHost = run.devices.length / hostsOfRun(run).length;
    const measured = best.outOfPlace.busGBs;
    const share = measured / ceiling;
    if (own.length >= perHost || share < 0.75 || share > 1.05) return [];
    const nics = own.map(({ device }) => device);
    const rows = job.matrices.flatMap(({ rows: all }) => all.filter(({ name }) => name.startsWith('GPU')));
    return [
      {
        severity: 'info',
        confidence: 'certain',
        text: `${measured} GB/s is ${Math.round(share * 100)} % of what ${own.length} adapters per node carry (${ceiling} GB/s)`,
        culprit: { nics, ceilingGBs: ceiling, measuredGBs: measured },
        evidence: distinctPlaces([
          ...some(rows.map(({ at }) => at)),
          ...own.map(({ rateGbps }) => rateGbps!.at),
          best.at,
        ]),
        repair: `Nothing is broken: ${own.length} adapters of ${own[0]!.rateGbps!.value} Gb/s give ${ceiling} GB/s per node and ${Math.round(share * 100)} % of it is reached; more bandwidth needs more adapters.`,
        workaround: null,
      },
    ];
  },
};

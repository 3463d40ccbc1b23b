/** A bandwidth that follows the chunk size: every step costs a fixed time. */

import { type BenchRun, largestRow } from '../../model/bench.js';
import { largest, smallest } from '../../model/extremes.js';
import { distinctPlaces, type Place } from '../../model/place.js';
import { some } from '../queries.js';
import { example, type Rule } from '../rule.js';

interface StepPoint {
  readonly chunk: number;
  /** Microseconds per chunk, at large sizes. */
  readonly us: number;
  readonly GBs: number;
  readonly at: Place[];
}

const CHUNK_VARIABLES = [
  'NCCL_P2P_NET_CHUNKSIZE',
  'NCCL_P2P_PCI_CHUNKSIZE',
  'NCCL_P2P_NVL_CHUNKSIZE',
  'NCCL_BUFFSIZE',
];

function stepPoint(run: BenchRun): StepPoint | undefined {
  const name = CHUNK_VARIABLES.find((one) => run.command?.environment.has(one));
  const chunk = Number(run.command?.environment.get(name ?? ''));
  const rows = run.rows.filter(({ bytes }) => bytes >= 16 * chunk);
  if (name === undefined || !(chunk > 0) || rows.length < 2) return undefined;
  const rates = rows.map(({ outOfPlace }) => outOfPlace.algGBs);
  const [least, most] = [smallest(rates), largest(rates)];
  // Flat over all sizes: what costs time is inside the steps.
  if (least < 0.9 * most) return undefined;
  const GBs = rates.reduce((a, b) => a + b) / rates.length;
  return {
    chunk,
    us: chunk / (GBs * 1e3),
    GBs,
    at: [...(run.average === undefined ? [] : [run.average.at]), largestRow(run)!.at],
  };
}

/** Least squares of time = fixed + chunk / bandwidth. */
export function fitSteps(points: readonly { chunk: number; us: number }[]): {
  fixedUs: number;
  GBs: number;
  error: number;
} {
  const n = points.length;
  const meanX = points.reduce((a, { chunk }) => a + chunk, 0) / n;
  const meanY = points.reduce((a, { us }) => a + us, 0) / n;
  const slope =
    points.reduce((a, { chunk, us }) => a + (chunk - meanX) * (us - meanY), 0) /
    points.reduce((a, { chunk }) => a + (chunk - meanX) ** 2, 0);
  const fixedUs = meanY - slope * meanX;
  const error = largest(points.map(({ chunk, us }) => Math.abs(fixedUs + slope * chunk - us) / us));
  return { fixedUs, GBs: 1e-3 / slope, error };
}

export const stepLatencyBound: Rule = {
  id: 'step-latency-bound',
  causes: ['slows'],
  looksFor: 'a bandwidth that is flat over sizes and follows the chunk size: every step costs a fixed time',
  example: [
    example(
      'small.txt',
      '$ mpirun -np 2 -x NCCL_P2P_NET_CHUNKSIZE=131072 ./sendrecv_perf -b 64M -e 128M',
      '# Collective test starting: sendrecv_perf',
      '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ',
      '    67108864      16777216     float     sum      -1  6710.89   10.00   10.00       0  6710.89   10.00   10.00     N/A',
      '   134217728      33554432     float     sum      -1  13421.8   10.00   10.00       0  13421.8   10.00   10.00     N/A',
    ),
    example(
      'large.txt',
      '$ mpirun -np 2 -x NCCL_P2P_NET_CHUNKSIZE=1048576 ./sendrecv_perf -b 64M -e 128M',
      '# Collective test starting: sendrecv_perf',
      '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ',
      '    67108864      16777216     float     sum      -1  2033.60   33.00   33.00       0  2033.60   33.00   33.00     N/A',
      '   134217728      33554432     float     sum      -1  4067.20   33.00   33.00       0  4067.20   33.00   33.00     N/A',
    ),
  ],
  references: ['NCCL user guide: NCCL_P2P_NET_CHUNKSIZE'],
  find(job) {
    const points = job.benches.flatMap((run) => stepPoint(run) ?? []);
    const chunks = new Set(points.map(({ chunk }) => chunk));
    if (chunks.size < 2) return [];
    const { fixedUs, GBs, error } = fitSteps(points);
    const smallest = points.reduce((a, b) => (b.chunk < a.chunk ? b : a));
    if (!(fixedUs >= 2) || !(GBs > 0) || error > 0.1 || smallest.GBs > 0.75 * GBs) return [];
    const wire = largest(
      job.wireTests.map(({ averageGBs }) => averageGBs),
      0,
    );
    const near = job.wireTests.filter(({ averageGBs }) => averageGBs >= 0.97 * wire);
    const test = job.benches.find(({ program }) => program !== undefined)?.program?.replace(/_perf$/, '');
    const round = (value: number): number => Math.round(value * 10) / 10;
    return [
      {
        severity: 'warning',
        confidence: 'likely',
        text: `each chunk costs ${round(fixedUs)} us before it moves at ${round(GBs)} GB/s${wire > 0 ? ` (the wire carries ${round(wire)})` : ''}`,
        culprit: { fixedCostUs: round(fixedUs), linkGBs: round(GBs), test },
        evidence: distinctPlaces([...points.flatMap(({ at }) => at), ...some(near.map(({ at }) => at))]),
        repair: `Each chunk costs a fixed ${round(fixedUs)} us before it moves at wire speed: use larger chunks or more steps in flight (channels per peer), and look for the cause on the host path (proxy thread placement, GPUDirect flush, PCIe ordering).`,
        workaround: null,
      },
    ];
  },
};

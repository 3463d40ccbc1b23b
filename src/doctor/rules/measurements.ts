/** What measurements show: separate runs, islands, ceilings, fixed costs of steps, wrong results. */
import { type BenchRun, hostsOfRun, largestRow } from '../model/bench.js';
import type { Job } from '../model/job.js';
import type { LinkMatrix } from '../model/machine.js';
import { distinctPlaces, type Place } from '../model/place.js';
import { listed, some } from './queries.js';
import { example, type Finding, type Rule } from './rule.js';

export const ncclTestsNotOneJob: Rule = {
  id: 'nccl-tests-not-one-job',
  causes: ['slows'],
  looksFor: 'processes of nccl-tests that each believe to be rank 0: built without MPI, or with another one',
  example: [
    example(
      'out.txt',
      '+ mpirun -np 2 ./all_reduce_perf -b 8M -e 8M -g 1',
      '# Collective test starting: all_reduce_perf',
      '#  Rank  0 Group  0 Pid   8821 on   n1 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB',
      '# Collective test starting: all_reduce_perf',
      '#  Rank  0 Group  0 Pid   8822 on   n1 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB',
    ),
  ],
  references: ['nccl-tests: README, MPI=1'],
  find(job) {
    const byFile = new Map<string, BenchRun[]>();
    for (const run of job.benches) byFile.set(run.at.file, [...(byFile.get(run.at.file) ?? []), run]);
    return [...byFile.values()].flatMap((runs): Finding[] => {
      const starts = runs.filter(({ devices }) => devices.length > 0);
      const pids = new Set(starts.flatMap(({ devices }) => devices.map(({ pid, host }) => `${host}:${pid}`)));
      // All begin with rank 0, and the next began before the last one was done.
      const isAllZero = starts.every(({ devices }) => devices.some(({ rank }) => rank === 0));
      const together = starts.filter((run, i) => {
        const next = starts[i + 1];
        const isDone =
          run.concluded !== undefined && (next === undefined || run.concluded.line < next.at.line);
        return !isDone || i === starts.length - 1;
      });
      if (starts.length < 2 || !isAllZero || together.length < 2 || pids.size < 2) return [];
      const program = starts[0]!.program;
      const hosts = [...new Set(starts.flatMap(hostsOfRun))].sort();
      const command = starts[0]!.command;
      const asked = command?.processes;
      const last = starts.at(-1)!.devices.length * starts.length - 1;
      return [
        {
          severity: 'error',
          confidence: 'certain',
          text: `${starts.length} processes of ${program ?? 'the program'} run each on its own, as rank 0 of 1: this is not one job`,
          culprit: { program, processes: starts.length, hosts },
          evidence: distinctPlaces([
            asked === undefined ? undefined : command!.at,
            ...some(
              starts.map(({ devices }) => devices[0]!.at),
              64,
            ),
            ...some(
              runs.flatMap(({ average }) => (average === undefined ? [] : [average.at])),
              64,
            ),
          ]),
          repair: `Build nccl-tests with MPI=1 against the MPI that the launcher belongs to (make clean first) and check that the device list shows ranks 0 to ${last}.`,
          workaround: null,
        },
      ];
    });
  },
};

const isNvlink = (cell: string): boolean => /^NV\d/.test(cell);

/** Groups of GPUs that NVLink joins, by number. */
function islandsOf(matrix: LinkMatrix): { gpus: number[]; at: Place }[] {
  const rows = matrix.rows.filter(({ name }) => name.startsWith('GPU'));
  const numbers = rows.map(({ name }) => Number(name.slice(3)));
  const seen = new Set<number>();
  const found: { gpus: number[]; at: Place }[] = [];
  for (const start of numbers) {
    if (seen.has(start)) continue;
    const group = [start];
    seen.add(start);
    for (const one of group) {
      const row = rows[numbers.indexOf(one)]!;
      row.cells.forEach((cell, i) => {
        const name = matrix.columns[i] ?? '';
        const other = Number(name.slice(3));
        if (!name.startsWith('GPU') || !isNvlink(cell) || seen.has(other) || !numbers.includes(other)) return;
        seen.add(other);
        group.push(other);
      });
    }
    found.push({ gpus: group.sort((a, b) => a - b), at: rows[numbers.indexOf(start)]!.at });
  }
  return found;
}

/** GPUs that a run used, as its command or its device list says. */
function gpusOf(run: BenchRun): number[] | undefined {
  const visible = run.command?.environment.get('CUDA_VISIBLE_DEVICES');
  if (visible !== undefined && /^\d+(?:,\d+)*$/.test(visible)) return visible.split(',').map(Number);
  return run.devices.length > 0 && hostsOfRun(run).length === 1
    ? run.devices.map(({ device }) => device)
    : undefined;
}

/** A run over several islands that is slower than this share of one inside an island shows the border. */
const BORDER = 0.5;

export const nvlinkIslands: Rule = {
  id: 'nvlink-islands',
  causes: ['slows'],
  looksFor: 'NVLink that joins only some GPUs of a host, and runs that cross the borders',
  example: [
    example(
      'topo.txt',
      '\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity',
      'GPU0\t X \tNV4\tPHB\tPHB\t0-15',
      'GPU1\tNV4\t X \tPHB\tPHB\t0-15',
      'GPU2\tPHB\tPHB\t X \tNV4\t0-15',
      'GPU3\tPHB\tPHB\tNV4\t X \t0-15',
    ),
  ],
  references: ['nvidia-smi topo -m'],
  find: (job) =>
    job.matrices.flatMap((matrix): Finding[] => {
      const islands = islandsOf(matrix).filter(({ gpus }) => gpus.length > 1);
      const all = matrix.rows.filter(({ name }) => name.startsWith('GPU')).length;
      if (islands.length === 0 || (islands.length === 1 && islands[0]!.gpus.length === all)) return [];
      const runs = job.benches.flatMap((run) => {
        const gpus = gpusOf(run);
        const best = largestRow(run);
        if (gpus === undefined || best === undefined || gpus.length < 2) return [];
        const isInside = islands.some((island) => gpus.every((gpu) => island.gpus.includes(gpu)));
        return [{ isInside, best }];
      });
      const inside = runs.filter(({ isInside }) => isInside).map(({ best }) => best.outOfPlace.busGBs);
      const across = runs.filter(({ isInside }) => !isInside);
      const fastest = Math.max(0, ...inside);
      const isShown = across.some(({ best }) => best.outOfPlace.busGBs < BORDER * fastest);
      // Without measurements it is told only where the table is all there is.
      const isAlone = job.benches.length === 0 && job.processes.length === 0;
      if (!isShown && !isAlone) return [];
      const slowest = Math.min(...across.map(({ best }) => best.outOfPlace.busGBs));
      return [
        {
          severity: 'info',
          confidence: 'certain',
          text: `NVLink joins only ${islands.map(({ gpus }) => `GPU ${listed(gpus)}`).join('; ')}${isShown ? `: ${fastest} GB/s inside, ${slowest} across` : ''}`,
          culprit: { islands: islands.map(({ gpus }) => gpus) },
          evidence: distinctPlaces([
            ...islands.map(({ at }) => at),
            ...some(runs.map(({ best }) => best.at)),
          ]),
          repair:
            'No setting changes it: a group that is larger than an island must cross PCIe or the sockets; place tensor-parallel groups inside an island.',
          workaround: null,
        },
      ];
    }),
};

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
  const [least, most] = [Math.min(...rates), Math.max(...rates)];
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
  const error = Math.max(...points.map(({ chunk, us }) => Math.abs(fixedUs + slope * chunk - us) / us));
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
    const wire = Math.max(0, ...job.wireTests.map(({ averageGBs }) => averageGBs));
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

export const wrongResults: Rule = {
  id: 'data-wrong',
  looksFor: 'results that nccl-tests found wrong',
  example: [
    example(
      'all_reduce.txt',
      '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ',
      '     1048576        262144     float     sum      -1   401.24    2.61    4.90      12   398.01    2.63    4.94       0',
    ),
  ],
  references: ['nccl-tests: -c'],
  explainedBy: ['pcie-acs-redirect', 'xid'],
  find(job) {
    // Old versions print the largest deviation here, a small fraction.
    const bad = job.benches.flatMap(({ rows }) =>
      rows.filter(({ outOfPlace, inPlace }) => [outOfPlace, inPlace].some((side) => (side?.wrong ?? 0) >= 1)),
    );
    const footers = job.benches.flatMap(({ outOfBounds }) =>
      outOfBounds !== undefined && outOfBounds.count > 0 ? [outOfBounds.at] : [],
    );
    if (bad.length === 0 && footers.length === 0) return [];
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `${Math.max(bad.length, 1)} measured size${bad.length === 1 ? '' : 's'} gave wrong results`,
        culprit: {
          rows: bad.length,
          wrong: Math.max(
            0,
            ...bad.map(({ outOfPlace, inPlace }) => Math.max(outOfPlace.wrong ?? 0, inPlace?.wrong ?? 0)),
          ),
        },
        evidence: [...some(bad.map(({ at }) => at)), ...footers],
        repair:
          'Find the pair of GPUs or hosts that gives wrong data (runs of two ranks each, with -c 1), and test peer-to-peer (NCCL_P2P_DISABLE=1) and GPUDirect (NCCL_NET_GDR_LEVEL=LOC) one at a time.',
        workaround: null,
        why: 'data do not arrive where they were written',
      },
    ];
  },
};

/** For rules of other files: the tables of a job have rows of several hosts. */
export const hasTables = (job: Job): boolean => job.benches.some(({ rows }) => rows.length > 0);

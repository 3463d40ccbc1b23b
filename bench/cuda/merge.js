/**
 * Joins the reports of NCCL's and tutti's programs of one run into rows with ratios and verdicts.
 *
 * A report is what a program prints: `{ program, processes, ranks, rows: [{ operation, bytes, kind, launch, calls,
 * samples: [{ eventUs, wallUs, enqueueUs }] }], ... }`, times per call in microseconds, of the slowest rank.
 */
import { median } from '../host/report.js';
import { targetOf } from './targets.js';

/** A loop of plain launches is bound by the host when enqueueing takes this share of its time. */
const HOST_BOUND_SHARE = 0.9;

/** Bytes on the busiest link per byte of a row's size, of N ranks. */
export function busFactor(operation, ranks) {
  if (operation === 'allReduce') return (2 * (ranks - 1)) / ranks;
  const whole = operation === 'broadcast' || operation === 'reduce' || operation === 'sendRecv';
  return whole ? 1 : (ranks - 1) / ranks;
}

/** GB/s (1e9 bytes per second) of a call that takes so many microseconds. */
export function busBandwidth({ operation, bytes }, ranks, us) {
  return (bytes * busFactor(operation, ranks)) / (us * 1e3);
}

/** All samples of all reports of one program, by `operation/bytes/launch/kind`. */
function collect(reports) {
  const cells = new Map();
  for (const [round, report] of reports.entries()) {
    for (const { operation, bytes, launch, kind, samples } of report.rows) {
      const key = `${operation}/${bytes}/${launch}/${kind}`;
      if (!cells.has(key)) cells.set(key, { operation, bytes, launch, kind, samples: [] });
      cells.get(key).samples.push(...samples.map((sample) => ({ ...sample, round })));
    }
  }
  return [...cells.values()];
}

/** Medians of a cell's samples, and the median of each round, which shows how far rounds differ. */
function summary({ kind, samples }) {
  const of = (key) => median(samples.map((sample) => sample[key]));
  const rounds = [...new Set(samples.map(({ round }) => round))];
  return {
    kind,
    us: of('eventUs'),
    wallUs: of('wallUs'),
    enqueueUs: of('enqueueUs'),
    roundsUs: rounds.map((wanted) =>
      median(samples.filter(({ round }) => round === wanted).map(({ eventUs }) => eventUs)),
    ),
  };
}

/**
 * What NCCL would take if it were driven without Python: a loop that is bound by the host loses Python's share of a
 * call, but never gets faster than its own graph launches, in which no host takes part.
 */
function withoutPython(cell, pythonUs, graphUs) {
  if (cell.enqueueUs < HOST_BOUND_SHARE * cell.us) return cell.us;
  return Math.max(cell.us - pythonUs, graphUs ?? 0);
}

const least = (cells, key) =>
  cells.reduce((best, cell) => (best === undefined || cell[key] < best[key] ? cell : best), undefined);

/**
 * @param {{ nccl: object[], tutti: object[] }} reports of one process mode, in the order of the rounds
 * @returns {object[]} one row per operation, size and kind of launch
 */
export function mergeReports({ nccl, tutti }) {
  const { processes, ranks } = tutti[0] ?? nccl[0];
  const pythonUs = nccl[0]?.pythonUs ?? {};
  const peers = collect(nccl);
  const own = collect(tutti);
  const rows = new Map();
  for (const { operation, bytes, launch } of [...own, ...peers]) {
    rows.set(`${operation}/${bytes}/${launch}`, { operation, bytes, launch });
  }
  return [...rows.values()].map((row) => {
    const same = (cell) =>
      cell.operation === row.operation && cell.bytes === row.bytes && cell.launch === row.launch;
    const graphOf = (kind) =>
      peers.find(
        (cell) =>
          cell.operation === row.operation &&
          cell.bytes === row.bytes &&
          cell.kind === (kind === 'plain' ? 'graph' : `${kind}-graph`),
      );
    const theirs = peers.filter(same).map((cell) => {
      const made = summary(cell);
      const graph = row.launch === 'plain' ? graphOf(cell.kind) : undefined;
      const python = row.launch === 'plain' ? (pythonUs[row.operation] ?? 0) : 0;
      const graphUs = graph === undefined ? undefined : summary(graph).us;
      return { ...made, comparedUs: withoutPython(made, python, graphUs) };
    });
    const ours = least(own.filter(same).map(summary), 'us');
    const best = least(theirs, 'comparedUs');
    return {
      ...row,
      nccl: theirs,
      best: best?.kind,
      tutti: ours,
      ...judge(row, { processes, ranks }, best, ours),
    };
  });
}

function judge(row, { processes, ranks }, best, ours) {
  if (ours === undefined || best === undefined) return {};
  const ratio = best.comparedUs / ours.us;
  const target = targetOf({ ...row, processes });
  return {
    ratio,
    busbw: busBandwidth(row, ranks, ours.us),
    ...(target === undefined ? {} : { target, verdict: ratio >= target ? 'PASS' : 'MISS' }),
  };
}

/** One report of the reports of all processes of a program: the slowest rank's times, everybody's memory. */
export function slowest(parts) {
  const [whole] = parts;
  const memoryBytes = {};
  for (const when of Object.keys(whole.memoryBytes))
    memoryBytes[when] = parts.flatMap((part) => part.memoryBytes[when]);
  const wrong = {};
  for (const what of Object.keys(whole.wrong))
    wrong[what] = parts.reduce((sum, part) => sum + part.wrong[what], 0);
  const rows = whole.rows.map((row, index) => ({
    ...row,
    samples: row.samples.map((sample, repetition) => {
      const all = parts.map((part) => part.rows[index].samples[repetition]);
      return Object.fromEntries(
        Object.keys(sample).map((key) => [key, Math.max(...all.map((one) => one[key]))]),
      );
    }),
  }));
  const most = (key) => Math.max(...parts.map((part) => part[key]));
  return { ...whole, initMs: most('initMs'), firstCallMs: most('firstCallMs'), memoryBytes, wrong, rows };
}

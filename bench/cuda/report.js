/** The tables and the page of a comparison with NCCL, from merged rows. */
import { sizeName } from '../host/plan.js';
import { median, renderTable } from '../host/report.js';
import { BUS_BANDWIDTH, ENQUEUE_US, FIRST_CALL_MS, MEMORY_BYTES } from './targets.js';

const microseconds = (value) =>
  value < 100 ? value.toFixed(2) : value < 1000 ? value.toFixed(1) : value.toFixed(0);

/** Two digits, or as many as it takes to see that a target was missed. */
function ratioText(ratio, target = 0) {
  const digits = [2, 3, 4].find((count) => ratio >= target || Number(ratio.toFixed(count)) < target) ?? 5;
  return ratio.toFixed(digits);
}

/** Names of memory kinds in the head of a table; graph kinds are named after their memory. */
const memoryOf = (kind) => (kind === 'graph' ? 'plain' : kind.replace(/-graph$/, ''));

/** The table of one operation and kind of launch. */
export function operationTable(rows) {
  const memories = [...new Set(rows.flatMap(({ nccl }) => nccl.map(({ kind }) => memoryOf(kind))))];
  const plain = rows[0].launch === 'plain';
  const head = [
    'size',
    ...memories.map((memory) => `NCCL ${memory}, us`),
    ...(plain ? ['best, less Python'] : []),
    'tutti, us',
    'busbw, GB/s',
    'ratio',
    'target',
    ...(plain ? ['enqueue NCCL, us', 'enqueue tutti, us'] : []),
  ];
  const body = rows.map((row) => {
    const best = row.nccl.find(({ kind }) => kind === row.best);
    const { tutti } = row;
    return [
      sizeName(row.bytes),
      ...memories.map((memory) => {
        const cell = row.nccl.find(({ kind }) => memoryOf(kind) === memory);
        return cell === undefined ? '-' : microseconds(cell.us);
      }),
      ...(plain ? [best === undefined ? '-' : microseconds(best.comparedUs)] : []),
      tutti === undefined ? '-' : microseconds(tutti.us),
      row.busbw === undefined ? '-' : row.busbw.toFixed(1),
      row.ratio === undefined ? '-' : ratioText(row.ratio, row.target),
      row.target === undefined ? '-' : `${row.target.toFixed(2)} ${row.verdict}`,
      ...(plain
        ? [
            best === undefined ? '-' : microseconds(best.enqueueUs),
            tutti ? microseconds(tutti.enqueueUs) : '-',
          ]
        : []),
    ];
  });
  return [head, ...body];
}

/** Rows of one table: one operation, one kind of launch, by size. */
export function groups(rows) {
  const found = new Map();
  for (const row of rows) {
    const key = `${row.operation}, ${row.launch}`;
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(row);
  }
  return [...found.entries()].map(([name, group]) => [name, group.sort((a, b) => a.bytes - b.bytes)]);
}

const verdict = (isMet) => (isMet ? 'PASS' : 'MISS');

/**
 * What was to be reached, one entry per sentence: `{ what, target, reached, verdict }`. A sentence about many rows
 * is met when all of them are; its `misses` name those that are not.
 */
export function judgements(rows, reports, processes) {
  const list = [];
  for (const [name, group] of groups(rows)) {
    const judged = group.filter(({ target }) => target !== undefined);
    for (const target of new Set(judged.map((row) => row.target))) {
      const same = judged.filter((row) => row.target === target);
      const misses = same.filter((row) => row.verdict === 'MISS');
      const ratios = same.map(({ ratio }) => ratio);
      list.push({
        what: `${name}, ${sizeName(same[0].bytes)}${same.length > 1 ? ` to ${sizeName(same.at(-1).bytes)}` : ''}`,
        target: `${target}x`,
        reached: `${Math.min(...ratios).toFixed(2)}x to ${Math.max(...ratios).toFixed(2)}x`,
        verdict: verdict(misses.length === 0),
        misses: misses.map((row) => `${sizeName(row.bytes)}: ${ratioText(row.ratio, row.target)}x`),
      });
    }
  }
  const widest = rows.find(
    (row) => row.operation === 'allReduce' && row.launch === 'graph' && row.bytes === BUS_BANDWIDTH.bytes,
  );
  if (widest?.busbw !== undefined) {
    list.push({
      what: `bus bandwidth of allReduce, graph, ${sizeName(BUS_BANDWIDTH.bytes)}`,
      target: `${BUS_BANDWIDTH.gigabytes} GB/s`,
      reached: `${widest.busbw.toFixed(1)} GB/s`,
      verdict: verdict(widest.busbw >= BUS_BANDWIDTH.gigabytes),
      misses: [],
    });
  }
  const [own] = reports.tutti;
  if (own === undefined) return list;
  // A process that drives several GPUs enqueues a launch for each of them.
  const gpusPerProcess = own.ranks / processes;
  const enqueues = rows
    .filter(({ launch, tutti }) => launch === 'plain' && tutti !== undefined)
    .map(({ tutti }) => tutti.enqueueUs / gpusPerProcess);
  if (enqueues.length > 0) {
    list.push({
      what: 'host time of a prepared operation, per call and GPU, median over all rows',
      target: `${ENQUEUE_US} us`,
      reached: `${median(enqueues).toFixed(2)} us (${Math.min(...enqueues).toFixed(2)} to ${Math.max(...enqueues).toFixed(2)})`,
      verdict: verdict(median(enqueues) < ENQUEUE_US),
      misses: [],
    });
  }
  for (const report of reports.tutti) {
    if (report.firstCallMs === undefined || report.firstCallMs === null) continue;
    const limit = FIRST_CALL_MS[report.cache];
    list.push({
      what: `first call, ${report.cache} cache of compiled kernels`,
      target: `${limit} ms`,
      reached: `${report.firstCallMs.toFixed(0)} ms`,
      verdict: verdict(report.firstCallMs < limit),
      misses: [],
    });
  }
  const used = own.memoryBytes?.afterAllReduce;
  if (used !== undefined) {
    const bytes = used.reduce((sum, one) => sum + one, 0);
    list.push({
      what: 'GPU memory of a communicator, all GPUs together',
      target: `${MEMORY_BYTES / 1e6} MB`,
      reached: `${(bytes / 1e6).toFixed(1)} MB`,
      verdict: verdict(bytes < MEMORY_BYTES),
      misses: [],
    });
  }
  return list;
}

export function judgementTable(list) {
  const head = ['what', 'target', 'reached', 'verdict', 'misses'];
  const body = list.map(({ what, target, reached, verdict: met, misses }) => [
    what,
    target,
    reached,
    met,
    misses.join('; ') || '-',
  ]);
  return [head, ...body];
}

const megabytes = (list) => list.map((bytes) => (bytes / 1e6).toFixed(1)).join(' + ');

/** Facts of the programs: versions, start, memory. */
function facts({ nccl, tutti }) {
  const lines = [];
  const [theirs] = nccl;
  if (theirs !== undefined) {
    lines.push(
      `- NCCL ${theirs.version}, driver ${theirs.driver}, ${theirs.gpus.join(', ')}; start of the communicators ${theirs.initMs.toFixed(0)} ms, first call ${theirs.firstCallMs?.toFixed(0) ?? '-'} ms`,
    );
    for (const [when, used] of Object.entries(theirs.memoryBytes))
      lines.push(`- GPU memory of NCCL's communicators, ${when}: ${megabytes(used)} MB`);
    const shares = Object.entries(theirs.pythonUs).map(([name, us]) => `${name} ${us.toFixed(2)}`);
    lines.push(`- Python's share of a call, us: ${shares.join(', ')}`);
  }
  const [own] = tutti;
  if (own !== undefined) {
    lines.push(`- start of tutti's communicators ${own.initMs.toFixed(0)} ms`);
    for (const [when, used] of Object.entries(own.memoryBytes ?? {}))
      lines.push(`- GPU memory of tutti's communicators, ${when}: ${megabytes(used)} MB`);
  }
  return lines;
}

/** The page that lies beside the raw result. */
export function page({ date, processes, ranks, machine, connection, reports, rows, judgement }) {
  const mode = processes === 1 ? 'one process' : `${processes} processes`;
  const tables = groups(rows).map(
    ([name, group]) => `### ${name}\n\n${renderTable(operationTable(group))}\n`,
  );
  const host = Object.entries(machine).map(([name, value]) => `- ${name}: ${value}`);
  const wrong = [...reports.nccl, ...reports.tutti].flatMap((report) => Object.values(report.wrong ?? {}));
  const wrongCount = wrong.reduce((sum, count) => sum + count, 0);
  return `# tutti and NCCL on ${ranks} GPUs, ${mode}, ${date}

Written by \`node bench/cuda.js\`: NCCL and tutti took turns, ${reports.nccl.length} and ${reports.tutti.length} times.
Float sum, out of place. A time is that between CUDA events around a loop, per call, of the slowest rank: the median
over all samples. A ratio is the best of NCCL's ways over tutti's time: above 1, tutti is faster. Where NCCL's loop is
bound by the host, Python's share of a call is taken off first. Wrong elements in the checks of both: ${wrongCount}.

${connection}

## What was to be reached

${renderTable(judgementTable(judgement))}

## Times

${tables.join('\n')}
## Machine and programs

${[...host, ...facts(reports)].join('\n')}
`;
}

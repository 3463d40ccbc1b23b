/** Turns the times of all rounds into medians, ratios, verdicts and a page of Markdown. */
import { sizeName } from './plan.js';
import { targetOf } from './targets.js';

/** @param {number[]} values at least one */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Median, least and greatest of a contestant's times for one size over the rounds, in us. */
function summary(samples) {
  return { median: median(samples), min: Math.min(...samples), max: Math.max(...samples), samples };
}

/**
 * @param {{ id: string, peer: boolean }[]} contestants
 * @param {Map<string, Map<number, number[]>>} times contestant id -> bytes -> one time per round, in us
 * @param {number[]} sizes
 * @param {number} ranks
 * @returns rows, one per size: each contestant's times, and per tutti section the ratios and the verdict
 */
export function summarise(contestants, times, sizes, ranks) {
  return sizes.map((size) => {
    const cells = {};
    for (const { id } of contestants) {
      const samples = times.get(id)?.get(size) ?? [];
      if (samples.length > 0) cells[id] = summary(samples);
    }
    const peers = contestants.filter(({ id, peer }) => peer && cells[id] !== undefined);
    const best = peers.sort((a, b) => cells[a.id].median - cells[b.id].median)[0];
    const verdicts = {};
    for (const section of ['windows', 'arrays']) {
      if (cells[section] === undefined || best === undefined) continue;
      verdicts[section] = judge(ranks, section, size, cells, best.id);
    }
    return { size, cells, best: best?.id, verdicts };
  });
}

function judge(ranks, section, size, cells, best) {
  const own = cells[section].median;
  const ratio = cells[best].median / own;
  const target = targetOf(ranks, section, size);
  const against = target?.peer === 'openmpi' ? 'openmpi' : best;
  if (target === undefined || cells[against] === undefined) return { ratio, verdict: '-' };
  const reached = cells[against].median / own;
  return {
    ratio,
    against,
    reached,
    target: target.ratio,
    verdict: reached >= target.ratio ? 'PASS' : 'MISS',
  };
}

const microseconds = (value) =>
  value < 10 ? value.toFixed(2) : value < 1000 ? value.toFixed(1) : value.toFixed(0);

const cellText = (cell) =>
  cell === undefined
    ? '-'
    : `${microseconds(cell.median)} (${microseconds(cell.min)}-${microseconds(cell.max)})`;

function verdictText(verdict) {
  if (verdict === undefined) return ['-', '-'];
  const { ratio, reached, target, against } = verdict;
  if (target === undefined) return [ratio.toFixed(2), '-'];
  return [
    ratio.toFixed(2),
    `${verdict.verdict} (${reached.toFixed(2)} of ${target.toFixed(2)} against ${against})`,
  ];
}

/** The table: a row per size, times as `median (least-greatest)` in us, then ratio and verdict per section. */
export function table(contestants, rows) {
  const head = [
    'size',
    ...contestants.map(({ name }) => `${name}, us`),
    'best peer / windows',
    'target',
    'best peer / arrays',
    'target',
  ];
  const body = rows.map(({ size, cells, verdicts }) => [
    sizeName(size),
    ...contestants.map(({ id }) => cellText(cells[id])),
    ...verdictText(verdicts.windows),
    ...verdictText(verdicts.arrays),
  ]);
  return [head, ...body];
}

/** Aligned columns for a terminal; the same text is a Markdown table. */
export function renderTable([head, ...body]) {
  const widths = head.map((_, column) => Math.max(...[head, ...body].map((row) => row[column].length)));
  const line = (row) => `| ${row.map((text, column) => text.padStart(widths[column])).join(' | ')} |`;
  const rule = `|${widths.map((width) => `${'-'.repeat(width + 1)}:`).join('|')}|`;
  return [line(head), rule, ...body.map(line)].join('\n');
}

/** The page that lies beside the raw result. */
export function page({ date, ranks, rounds, machine, versions, oversubscribed, plan, notes }, rendered) {
  const facts = Object.entries({ ...machine, ...versions }).map(([name, value]) => `- ${name}: ${value}`);
  const mode = oversubscribed
    ? 'More ranks than cores: Open MPI runs with `--oversubscribe --bind-to none --mca mpi_yield_when_idle 1`.'
    : 'Open MPI runs with its defaults over shared memory (`--mca btl self,vader`).';
  const counts = plan.map(({ size, iterations }) => `${sizeName(size)}: ${iterations}`).join(', ');
  return `# All-reduce on one host, ${ranks} ranks, ${date}

Written by \`node bench/host.js\`. Float sum, out of place. Programs run one after the other in ${rounds} rounds;
a time is the slowest rank's mean per call, shown as median (least-greatest) over the rounds. Timed calls per
size: ${counts}. Sums are checked element by element. A ratio is the best peer's median over tutti's: above 1,
tutti is faster. ${mode} Gloo runs over TCP loopback, its only transport here.

Windows: \`comm.prepare.allReduce(...).run()\` on arrays of \`comm.alloc\`. Arrays: \`comm.allReduceSync\` on
ordinary typed arrays.

${rendered}

${facts.join('\n')}
${notes.map((note) => `\n${note}\n`).join('')}`;
}

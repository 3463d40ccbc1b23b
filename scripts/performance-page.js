/**
 * Keeps the tables of docs/performance.md equal to the results they come from.
 *
 * A table stands between `<!-- table NAME -->` and `<!-- end -->`; its rows come from the newest result of that name in
 * bench/results, so that no figure of the page is typed by hand.
 *
 * usage: node scripts/performance-page.js             check; exit status 1 and one line per table that differs
 *        node scripts/performance-page.js --update    write the page
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { groups, judgements } from '../bench/cuda/report.js';
import { sizeName } from '../bench/host/plan.js';
import { renderTable } from '../bench/host/report.js';

const PAGE = fileURLToPath(new URL('../docs/performance.md', import.meta.url));
const RESULTS = new URL('../bench/results/', import.meta.url);
const TABLE = /(<!-- table ([\w-]+) -->\n)[\s\S]*?(\n<!-- end -->)/g;

/** The newest result of a name: `NAME-YYYY-MM-DD.json`, so the last one by name. */
function newest(name) {
  const files = readdirSync(RESULTS).filter(
    (file) => file.startsWith(name) && /^-\d{4}-\d\d-\d\d\.json$/.test(file.slice(name.length)),
  );
  if (files.length === 0) throw new Error(`bench/results has no ${name}-<date>.json`);
  return JSON.parse(readFileSync(new URL(files.sort().at(-1), RESULTS), 'utf8'));
}

const microseconds = (us) => (us < 20 ? us.toFixed(1) : us.toFixed(0));

/** Sizes of the summary; the pages beside the results have all. */
const GPU_SIZES = [8, 8 << 10, 128 << 10, 512 << 10, 2 << 20, 32 << 20, 512 << 20];

/** tutti / best of NCCL's ways in microseconds, and the ratio, by operation and size. */
function gpuTable(processes, launch) {
  const { rows } = newest(`cuda-2-gpus-${processes === 1 ? '1-process' : `${processes}-processes`}`);
  const body = groups(rows.filter((row) => row.launch === launch)).map(([, group]) => [
    group[0].operation === 'sendRecv' ? 'send and receive' : group[0].operation,
    ...GPU_SIZES.map((bytes) => {
      const row = group.find((one) => one.bytes === bytes);
      const peer = row.nccl.find(({ kind }) => kind === row.best);
      return `${microseconds(row.tutti.us)} / ${microseconds(peer.comparedUs ?? peer.us)} (${row.ratio.toFixed(2)})`;
    }),
  ]);
  return renderTable([['', ...GPU_SIZES.map(sizeName)], ...body]);
}

/** What was to be reached, both modes side by side. */
function gpuTargets() {
  const [one, two] = ['1-process', '2-processes'].map((mode) => {
    const { rows, reports, processes } = newest(`cuda-2-gpus-${mode}`);
    return judgements(rows, reports, processes);
  });
  const cell = (list, what) => {
    const found = list.find((entry) => entry.what === what);
    if (found === undefined) return '-';
    const misses = found.misses.length > 0 ? ` (${found.misses.join(', ')})` : '';
    return `${found.reached} of ${found.target}${found.verdict === 'PASS' ? '' : `, MISS${misses}`}`;
  };
  const names = [...new Set([...one, ...two].map(({ what }) => what))];
  return renderTable([
    ['', 'one process', 'two processes'],
    ...names.map((what) => [what, cell(one, what), cell(two, what)]),
  ]);
}

/** The fastest peer's time over tutti's, by number of ranks and size; arrays of `alloc`, then ordinary ones. */
function hostTable(kind) {
  const results = [2, 4, 8].map((ranks) => newest(`host-${ranks}-ranks`));
  const sizes = results[0].rows.map(({ size }) => size);
  return renderTable([
    ['', ...sizes.map(sizeName)],
    ...results.map(({ ranks, rows }) => [
      `${ranks} ranks`,
      ...sizes.map((size) => {
        const row = rows.find((one) => one.size === size);
        const cell = row?.cells[kind];
        if (cell === undefined) return '-';
        const peer = row.cells[row.best];
        return `${microseconds(cell.median)} / ${microseconds(peer.median)} (${(peer.median / cell.median).toFixed(2)})`;
      }),
    ]),
  ]);
}

const TABLES = {
  'host-windows': () => hostTable('windows'),
  'host-arrays': () => hostTable('arrays'),
  'gpu-graph': () => gpuTable(1, 'graph'),
  'gpu-plain': () => gpuTable(2, 'plain'),
  'gpu-targets': gpuTargets,
};

/** A table's cells alone, so that a formatter may align them as it likes. */
const cells = (text) => text.replace(/[ :-]*-+[ :-]*(?=\|)|[ \n]+/g, ' ').trim();

const { values } = parseArgs({ options: { update: { type: 'boolean' } } });
const page = readFileSync(PAGE, 'utf8');
const stale = [];
const filled = page.replace(TABLE, (whole, open, name, close) => {
  const table = TABLES[name];
  if (table === undefined) {
    throw new Error(
      `docs/performance.md has a table ${name}, which is none of ${Object.keys(TABLES).join(', ')}`,
    );
  }
  const text = `${open}\n${table()}\n${close}`;
  if (cells(text) !== cells(whole)) stale.push(name);
  return text;
});
if (values.update) {
  writeFileSync(PAGE, filled);
} else {
  for (const name of stale) {
    console.error(
      `docs/performance.md: table ${name} differs from bench/results; node scripts/performance-page.js --update`,
    );
  }
  process.exitCode = stale.length > 0 ? 1 : 0;
}

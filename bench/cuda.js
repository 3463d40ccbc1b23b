/**
 * Compares tutti with NCCL on the GPUs of this machine, in one run: the programs take turns, round after round, so
 * that a disturbance of the machine meets both. Prints tables and writes raw times and pages to bench/results/.
 *
 * usage: node bench/cuda.js [--processes 1,N] [--gpus 2] [--sizes 8,64K,...] [--operations allReduce,...]
 *                           [--rounds 2] [--repetitions 5] [--only nccl,tutti] [--limit SECONDS] [--out FOLDER]
 *   --processes   1: one process drives all GPUs; N: a process for each
 *   --only        one of the programs, to see that it runs; no ratios then
 *   --limit       of one run of one program
 * Needs Node, Python 3 with NCCL (as PyTorch brings it), and the NVIDIA driver. Exit status 1 where a program failed
 * or gave wrong results; a missed target is a result, not a failure.
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, stripVTControlCharacters } from 'node:util';
import { mergeReports } from './cuda/merge.js';
import { DEFAULT_SIZES, makePlan, OPERATIONS, planText } from './cuda/plan.js';
import { judgements, judgementTable, page } from './cuda/report.js';
import { parseSize } from './host/plan.js';
import { renderTable } from './host/report.js';
import { machineFacts } from './machine.js';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

const { values } = parseArgs({
  options: {
    processes: { type: 'string' },
    gpus: { type: 'string', default: '2' },
    sizes: { type: 'string' },
    operations: { type: 'string', default: OPERATIONS.join(',') },
    rounds: { type: 'string', default: '2' },
    repetitions: { type: 'string', default: '5' },
    only: { type: 'string', default: 'nccl,tutti' },
    limit: { type: 'string', default: '120' },
    out: { type: 'string', default: here('results') },
  },
});

const gpus = Number(values.gpus);
const modes = (values.processes ?? `1,${gpus}`).split(',').map(Number);
for (const mode of modes) {
  if (mode !== 1 && mode !== gpus)
    throw new RangeError(`--processes ${mode}: 1 for all GPUs, or ${gpus}, one for each`);
}
for (const operation of values.operations.split(',')) {
  if (!OPERATIONS.includes(operation))
    throw new RangeError(`--operations ${operation}: there are ${OPERATIONS.join(', ')}`);
}
const plan = makePlan(values.sizes?.split(',').map(parseSize) ?? DEFAULT_SIZES);
const rounds = Number(values.rounds);
const wanted = values.only.split(',');

/** Never on shared machines: a fault in NVLink multicast can take GPUs out of service. */
const ENVIRONMENT = { ...process.env, NCCL_NVLS_ENABLE: '0' };

/** Runs a program to its end and reads the report that it wrote. */
async function reportOf(command, args, env) {
  const folder = mkdtempSync(join(tmpdir(), 'tutti-bench-cuda-'));
  const out = join(folder, 'report.json');
  try {
    const child = spawn(command, [...args, '--out', out], {
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...ENVIRONMENT, ...env },
      // Somewhat later than the program's own limit.
      timeout: (Number(values.limit) + 20) * 1000,
      killSignal: 'SIGKILL',
    });
    const status = await new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code, signal) => resolve(signal ?? code));
    });
    if (status !== 0) throw new Error(`${command} ${args[0]} ended with ${status}`);
    return JSON.parse(readFileSync(out, 'utf8'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function argumentsOf(processes) {
  return [
    ...['--processes', String(processes), '--gpus', String(gpus), '--plan', planText(plan)],
    ...['--operations', values.operations, '--repetitions', values.repetitions, '--limit', values.limit],
  ];
}

/** The reports with samples as lists of numbers in the order of `sampleFields`: a third of the text. */
function compact(reports) {
  const fields = ['eventUs', 'wallUs', 'enqueueUs'];
  const short = (report) => ({
    ...report,
    sampleFields: fields,
    rows: report.rows.map((row) => ({
      ...row,
      samples: row.samples.map((sample) => fields.map((field) => sample[field])),
    })),
  });
  return { nccl: reports.nccl.map(short), tutti: reports.tutti.map(short) };
}

/** How the GPUs are connected, from NVIDIA's own tool; nothing where it is missing. */
function connection() {
  const { stdout } = spawnSync('nvidia-smi', ['topo', '-m'], { encoding: 'utf8' });
  // Heads are underlined; behind the matrix stands how to read it.
  const text = stripVTControlCharacters(stdout ?? '')
    .split('\nLegend')[0]
    .trim();
  return text === '' ? '' : `\`nvidia-smi topo -m\`:\n\n\`\`\`\n${text}\n\`\`\``;
}

const machine = machineFacts();
const date = new Date().toISOString().slice(0, 10);
const cache = mkdtempSync(join(tmpdir(), 'tutti-bench-cache-'));
try {
  for (const processes of modes) {
    const reports = { nccl: [], tutti: [] };
    const failed = new Set();
    for (let round = 0; round < rounds; round++) {
      const turn = {
        nccl: () => reportOf('python3', [here('peers/nccl/nccl_loops.py'), ...argumentsOf(processes)], {}),
        tutti: async () => {
          // A cache of compiled kernels for each mode: empty in its first round, filled afterwards.
          const report = await reportOf(
            process.execPath,
            [here('cuda/loops.js'), ...argumentsOf(processes)],
            {
              TUTTI_CACHE_DIR: join(cache, String(processes)),
              // The driver's own cache would hide what compiling costs.
              CUDA_CACHE_DISABLE: '1',
            },
          );
          return { cache: round === 0 ? 'cold' : 'warm', ...report };
        },
      };
      for (const program of ['nccl', 'tutti']) {
        if (!wanted.includes(program) || failed.has(program)) continue;
        try {
          const report = await turn[program]();
          reports[program].push(report);
          process.stderr.write(
            `${processes} processes, round ${round + 1}: ${program} ${report.seconds.toFixed(1)} s\n`,
          );
        } catch (error) {
          failed.add(program);
          process.exitCode = 1;
          process.stderr.write(`${program}, ${processes} processes, round ${round + 1}: ${error.message}\n`);
        }
      }
    }
    if (reports.nccl.length + reports.tutti.length === 0) continue;
    const rows = mergeReports(reports);
    const judgement = judgements(rows, reports, processes);
    for (const report of [...reports.nccl, ...reports.tutti]) {
      for (const note of report.notes ?? []) process.stderr.write(`${report.program}: ${note}\n`);
      for (const [what, count] of Object.entries(report.wrong ?? {})) {
        if (count === 0) continue;
        process.exitCode = 1;
        process.stderr.write(`${report.program}, ${what}: ${count} wrong elements\n`);
      }
    }
    const result = {
      date,
      processes,
      ranks: gpus,
      rounds,
      machine,
      connection: connection(),
      plan,
      judgement,
      rows,
      reports,
    };
    const base = join(
      values.out,
      `cuda-${gpus}-gpus-${processes}-process${processes > 1 ? 'es' : ''}-${date}`,
    );
    mkdirSync(values.out, { recursive: true });
    // Nanoseconds are as fine as the clocks are.
    const rounded = (_key, value) =>
      typeof value === 'number' && !Number.isInteger(value) ? Math.round(value * 1e3) / 1e3 : value;
    writeFileSync(`${base}.json`, `${JSON.stringify({ ...result, reports: compact(reports) }, rounded)}\n`);
    writeFileSync(`${base}.md`, page(result));
    console.log(`\n${processes} processes\n\n${renderTable(judgementTable(judgement))}\n`);
    console.log(`written: ${base}.json, ${base}.md`);
  }
} finally {
  rmSync(cache, { recursive: true, force: true });
}

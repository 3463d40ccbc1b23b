/**
 * Times tutti's collectives on the GPUs of this machine, by the loops that bench/peers/nccl times NCCL with.
 *
 * usage: node bench/cuda/loops.js --plan BYTES:CALLS:LAUNCHES,... [--processes 1|N] [--gpus 2] [--operations ...]
 *                                 [--launches plain,graph] [--repetitions 5] [--limit SECONDS] [--out FILE]
 *   --processes 1: this process drives all GPUs; N: a process for each GPU
 *
 * A sample of one operation, size and kind of launch: a call and a wait for it, a second call that lines the GPUs up,
 * then an event, so many calls (or launches of a graph of 20 calls) without a pause, an event, a wait. Per call:
 * `eventUs` is the time between the events, `wallUs` the host's time from the first call until the wait is over,
 * `enqueueUs` the host's time for the calls alone. Each is that of the slowest rank. Results are compared element by
 * element. Result: one JSON object.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readLaunchEnvironment } from '../../dist/bootstrap/launch-environment.js';
import { expectedElement, outputElements, sentElement } from './data.js';
import { slowest } from './merge.js';
import { GRAPH_CALLS, OPERATIONS, parsePlan } from './plan.js';
import { openRanks } from './ranks.js';

const { values } = parseArgs({
  options: {
    plan: { type: 'string' },
    processes: { type: 'string', default: '1' },
    gpus: { type: 'string', default: '2' },
    operations: { type: 'string', default: OPERATIONS.join(',') },
    launches: { type: 'string', default: 'plain,graph' },
    repetitions: { type: 'string', default: '5' },
    limit: { type: 'string', default: '120' },
    out: { type: 'string' },
    folder: { type: 'string' },
  },
});
if (values.plan === undefined) throw new RangeError('--plan BYTES:CALLS:LAUNCHES,... is missing');
const plan = parsePlan(values.plan);
const gpus = Number(values.gpus);
const processes = Number(values.processes);
if (processes !== 1 && processes !== gpus)
  throw new RangeError(`--processes ${processes}: 1 for all GPUs, or ${gpus}, one for each`);
const operations = values.operations.split(',');
const launches = values.launches.split(',');
const repetitions = Number(values.repetitions);

/** Calls before the first sample of a row. */
const WARM_UP_CALLS = 3;

/** Work of the host before the first row: a processor takes about a second of it until it runs at its full speed. */
const WARM_UP_MS = 1000;

/** Calls of an operation before its first row: V8 optimises a function after some hundreds, but in the background. */
const ACQUAINTANCE_CALLS = 20_000;

/** Sizes that these calls are shared out among, so that no code is made for the first of them alone. */
const ACQUAINTANCE_SIZES = 4;

/** A check compares whole outputs up to this many elements, of larger ones so many at the start, middle and end. */
const COMPARED_ELEMENTS = 2 ** 18;

const FLOAT_BYTES = 4;
const now = () => performance.now() * 1e3;

function synchronize(ranks) {
  for (const rank of ranks) rank.synchronize();
}

/** Repeats `step` and times it: see the head of this file. */
async function takeSamples(ranks, meet, step, steps, callsPerStep) {
  const samples = [];
  for (let repetition = 0; repetition < repetitions; repetition++) {
    await meet();
    step();
    synchronize(ranks);
    step();
    for (const rank of ranks) rank.recordStart();
    const begin = now();
    for (let k = 0; k < steps; k++) step();
    const enqueued = now();
    for (const rank of ranks) rank.recordStop();
    synchronize(ranks);
    const end = now();
    const calls = steps * callsPerStep;
    samples.push({
      eventUs: Math.max(...ranks.map((rank) => rank.elapsedUs())) / calls,
      wallUs: (end - begin) / calls,
      enqueueUs: (enqueued - begin) / calls,
    });
  }
  return samples;
}

/** One function that does something on all ranks of this process; no loop where there is one rank. */
function together(functions) {
  if (functions.length === 1) return functions[0];
  if (functions.length === 2) {
    const [first, second] = functions;
    return () => {
      first();
      second();
    };
  }
  return () => {
    for (const each of functions) each();
  };
}

function sentArray(rank, elements) {
  const array = new Float32Array(elements);
  for (let i = 0; i < elements; i++) array[i] = sentElement(rank, i);
  return array;
}

/** Parts of an output that are compared. */
function windows(elements) {
  if (elements <= 3 * COMPARED_ELEMENTS) return [[0, elements]];
  const middle = elements / 2 - COMPARED_ELEMENTS / 2;
  return [0, middle, elements - COMPARED_ELEMENTS].map((from) => [from, from + COMPARED_ELEMENTS]);
}

/** Number of wrong elements of one call, over the ranks of this process; elements beyond the output stay unwritten. */
async function check(ranks, meet, operation, bytes, step) {
  const elements = bytes / FLOAT_BYTES;
  for (const rank of ranks) rank.poisonReceive(bytes);
  await meet();
  step();
  synchronize(ranks);
  let wrong = 0;
  for (const own of ranks) {
    const place = { rank: own.rank, size: own.size, elements };
    const length = outputElements(operation, place);
    for (const [from, to] of windows(elements)) {
      const result = await own.readReceive(from, to);
      for (let i = from; i < to; i++) {
        const expected = i < length ? expectedElement(operation, place, i) : Number.NaN;
        if (!Object.is(result[i - from], expected)) wrong += 1;
      }
    }
  }
  return wrong;
}

async function measure() {
  const rank =
    values.folder === undefined ? undefined : readLaunchEnvironment(process.env, process.ppid).rank;
  const { initMs, description, ranks, meet, close } = await openRanks({ gpus, rank });
  const memory = { afterInit: ranks.map((own) => own.usedBytes()) };
  const largest = Math.max(...plan.map(({ bytes }) => bytes));
  for (const own of ranks) {
    own.allocate(largest);
    await own.writeSend(sentArray(own.rank, largest / FLOAT_BYTES));
  }
  await meet();
  const used = () => ranks.map((own) => own.usedBytes() - 2 * largest);
  const report = { initMs, description, firstCallMs: 0, memoryBytes: memory, wrong: {}, rows: [] };

  /** The operation on all ranks of this process, ready to run. */
  const prepare = async (operation, bytes) => {
    const prepared = await Promise.all(ranks.map((own) => own.prepare(operation, bytes)));
    return {
      each: prepared,
      run: together(prepared.map(({ run }) => run)),
      release: together(prepared.map(({ release }) => release)),
    };
  };

  /** One function that launches a graph of what `record` puts into it, by rank, and one that gives the graphs back. */
  const captureAll = (record) => {
    const graphs = ranks.map((own, k) => own.capture(() => record(k)));
    return {
      replay: together(graphs.map((graph) => () => graph.run())),
      release: () => {
        for (const graph of graphs) graph.release();
      },
    };
  };

  const becomeAcquainted = async (operation) => {
    const known = await Promise.all(
      plan.slice(0, ACQUAINTANCE_SIZES).map(({ bytes }) => prepare(operation, bytes)),
    );
    // Graphs too: code that was made for one kind of launch is thrown away at the first launch of the other.
    const graphs = captureAll((k) => {
      for (const { each } of known) each[k].record();
    });
    await meet();
    for (let k = 0; k < ACQUAINTANCE_CALLS; k += 100) {
      const { run } = known[(k / 100) % known.length];
      for (let call = 0; call < 100; call++) run();
      graphs.replay();
      // Queues of launches are finite, and ranks must not run far ahead of each other.
      synchronize(ranks);
    }
    graphs.release();
    for (const { release } of known) release();
  };

  const begin = now();
  const first = await prepare('allReduce', plan[0].bytes);
  first.run();
  synchronize(ranks);
  report.firstCallMs = (now() - begin) / 1e3;
  first.release();
  memory.afterAllReduce = used();

  const warmUntil = now() + WARM_UP_MS * 1e3;
  while (now() < warmUntil) synchronize(ranks);
  for (const operation of operations) {
    let wrong = 0;
    await becomeAcquainted(operation);
    for (const { bytes, calls, launches: graphLaunches } of plan) {
      const prepared = await prepare(operation, bytes);
      await meet();
      wrong += await check(ranks, meet, operation, bytes, prepared.run);
      for (let k = 0; k < WARM_UP_CALLS; k++) prepared.run();
      synchronize(ranks);
      for (const launch of launches) {
        let samples;
        if (launch === 'plain') {
          samples = await takeSamples(ranks, meet, prepared.run, calls, 1);
        } else {
          const { replay, release } = captureAll((k) => {
            for (let call = 0; call < GRAPH_CALLS; call++) prepared.each[k].record();
          });
          samples = await takeSamples(ranks, meet, replay, graphLaunches, GRAPH_CALLS);
          release();
        }
        const total = launch === 'plain' ? calls : graphLaunches * GRAPH_CALLS;
        report.rows.push({ operation, bytes, kind: launch, launch, calls: total, samples });
      }
      prepared.release();
    }
    report.wrong[operation] = wrong;
  }
  memory['after all'] = used();
  await meet();
  await close();
  return report;
}

/** Runs this program again as a process for each GPU, under our own launcher. */
async function runProcesses() {
  const folder = mkdtempSync(join(tmpdir(), 'tutti-bench-cuda-'));
  const cli = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
  const here = fileURLToPath(import.meta.url);
  const args = [cli, 'run', '-n', String(gpus), '--', here, ...process.argv.slice(2), '--folder', folder];
  try {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit'] });
    const code = await new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', resolve);
    });
    if (code !== 0) throw new Error(`the processes of the ranks ended with status ${code}`);
    const parts = Array.from({ length: gpus }, (_, rank) =>
      JSON.parse(readFileSync(join(folder, `rank${rank}.json`), 'utf8')),
    );
    return slowest(parts);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const limit = setTimeout(() => {
  process.stderr.write(`tutti's loops took longer than ${values.limit} s\n`);
  process.exit(3);
}, Number(values.limit) * 1000);
limit.unref();

if (values.folder !== undefined) {
  const report = await measure();
  writeFileSync(
    join(values.folder, `rank${process.env.TUTTI_RANK ?? process.env.RANK}.json`),
    JSON.stringify(report),
  );
} else {
  const began = now();
  const report = processes === 1 ? await measure() : await runProcesses();
  const whole = { program: 'tutti', processes, ranks: gpus, seconds: (now() - began) / 1e6, ...report };
  if (values.out === undefined) process.stdout.write(`${JSON.stringify(whole)}\n`);
  else writeFileSync(values.out, JSON.stringify(whole));
}

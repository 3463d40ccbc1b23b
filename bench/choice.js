/**
 * What communicators on host memory choose, beside what is fastest: every candidate of every collective is measured at
 * each size, in turn, round after round, and the choice of the standard constants (or of --constants FILE) is compared.
 * All of it is done several times by new processes, since the same program differs by up to 20 % from process to process
 * (how the compiler of JavaScript went about it, where memory lies); a candidate's time is the middle one of these.
 *
 * usage: node bench/choice.js [--ranks 2,4,8] [--coll all|allReduce,...] [--sizes 64,1K,...] [--rounds 5]
 *                             [--processes 3] [--constants FILE] [--quick] [--out FOLDER]
 *   --quick   few sizes and rounds, and no files: to see that everything runs
 * Exit status 1 where with 2 or 4 ranks a choice takes more than a tenth longer than the fastest candidate.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { timeOf } from '../dist/cli/tune/host/fit.js';
import { measureHost } from '../dist/cli/tune/host/measure.js';
import { coreCount } from '../dist/system/core-count.js';
import { candidateName, DATA_COLLECTIVES } from '../dist/tuning/host/candidates.js';
import { parseConstants, STANDARD_CONSTANTS } from '../dist/tuning/host/constants.js';
import { judge } from '../dist/tuning/host/fit-quality.js';
import { parseSize, sizeName } from './host/plan.js';
import { machineFacts } from './machine.js';

const { values } = parseArgs({
  options: {
    ranks: { type: 'string', default: '2,4,8' },
    coll: { type: 'string', default: 'all' },
    sizes: { type: 'string' },
    rounds: { type: 'string' },
    processes: { type: 'string' },
    constants: { type: 'string' },
    quick: { type: 'boolean', default: false },
    out: { type: 'string', default: fileURLToPath(new URL('results', import.meta.url)) },
  },
});

/** From pure latency to beyond the caches; many ranks on few cores take long, so they have fewer. */
const SIZES = '64,256,512,1K,2K,4K,8K,16K,32K,64K,128K,256K,1M,4M,16M';
const CROWDED_SIZES = '64,512,2K,8K,16K,32K,64K,256K,1M,4M';
const QUICK_SIZES = '64,4K,256K';

/** Milliseconds of one sample, and how many times the fastest a candidate may take to be measured to the end. */
const SAMPLE_MS = 1;
const HOPELESS = 2;

/** Ranks that must choose within GOAL of the fastest; more are shown. */
const JUDGED_RANKS = [2, 4];
const GOAL = 1.1;

const cores = coreCount();
const rounds = Number(values.rounds ?? (values.quick ? 3 : 5));
const processes = Number(values.processes ?? (values.quick ? 1 : 3));
const collectives = values.coll === 'all' ? DATA_COLLECTIVES : values.coll.split(',');
const constants =
  values.constants === undefined
    ? STANDARD_CONSTANTS
    : parseConstants(readFileSync(values.constants, 'utf8'));

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
const us = (time) => time.toPrecision(3);

/** The samples of one candidate and call, by process. */
function runsOf(all) {
  const byCall = new Map();
  for (const sample of all.flat()) {
    const key = [sample.collective, sample.bytes, sample.candidate].join();
    byCall.set(key, [...(byCall.get(key) ?? []), sample]);
  }
  return [...byCall.values()];
}

/** A candidate's time: the middle process's median; beside it the least and greatest sample. */
function summaryOf(runs) {
  const { collective, ranks, bytes, candidate } = runs[0];
  const samples = runs.flatMap((run) => run.samples);
  return {
    ...{ collective, ranks, bytes, candidate },
    median: median(runs.map((run) => median(run.samples))),
    ...{ least: Math.min(...samples), greatest: Math.max(...samples) },
    processes: runs.length,
  };
}

const lines = [];
const say = (line) => {
  lines.push(line);
  console.log(line);
};

const machine = machineFacts();
const summaries = [];
const misses = [];
for (const ranks of values.ranks.split(',').map(Number)) {
  const sizes = values.sizes ?? (values.quick ? QUICK_SIZES : ranks > 2 * cores ? CROWDED_SIZES : SIZES);
  const plan = {
    ...{ collectives, rounds, sampleMs: SAMPLE_MS, hopeless: HOPELESS },
    sizes: sizes.split(',').map(parseSize),
  };
  const all = [];
  for (let process = 0; process < processes; process++) all.push(await measureHost(ranks, plan));
  const runs = runsOf(all);
  const own = runs.map(summaryOf);
  summaries.push(...own);
  const spreadOf = (row) =>
    own.find(
      ({ collective, bytes, candidate }) =>
        collective === row.call.collective &&
        bytes === row.call.bytes &&
        candidate === candidateName(row.candidate),
    );
  const times = runs.map((run, at) => ({ ...timeOf(run[0], cores), microseconds: own[at].median }));
  const calls = judge(constants.window, times, 'window');
  say(
    `\n${ranks} ranks on ${cores} cores, middle of ${processes} medians (least-greatest) of ${rounds} rounds, us\n`,
  );
  say('| collective | size | choice | us | fastest | us | choice / fastest |');
  say('| --- | ---: | --- | ---: | --- | ---: | ---: |');
  for (const { chosen, fastest, ratio } of calls) {
    const { collective, bytes } = chosen.call;
    const cell = (row) => {
      const { least, greatest } = spreadOf(row);
      return `${candidateName(row.candidate)} | ${us(row.microseconds)} (${us(least)}-${us(greatest)})`;
    };
    const isMiss = ratio > GOAL;
    if (isMiss) misses.push({ collective, ranks, bytes, ratio });
    say(
      `| ${collective} | ${sizeName(bytes)} | ${cell(chosen)} | ${cell(fastest)} | ${ratio.toFixed(2)}${isMiss ? ' MISS' : ''} |`,
    );
  }
  const good = calls.filter(({ ratio }) => ratio <= GOAL).length;
  say(`\n${good} of ${calls.length} choices within 10 % of the fastest.`);
}

if (!values.quick) {
  const date = new Date().toISOString().slice(0, 10);
  const base = join(values.out, `choice-${date}`);
  mkdirSync(values.out, { recursive: true });
  writeFileSync(
    `${base}.json`,
    `${JSON.stringify({ date, machine, rounds, processes, misses, summaries }, null, 1)}\n`,
  );
  const facts = Object.entries(machine).map(([name, value]) => `- ${name}: ${value}`);
  writeFileSync(
    `${base}.md`,
    [
      `# Choices on host memory, ${date}`,
      '',
      'Written by `node bench/choice.js`.',
      ...lines,
      '',
      ...facts,
      '',
    ].join('\n'),
  );
  console.log(`written: ${base}.json, ${base}.md`);
}
process.exitCode = misses.some(({ ranks }) => JUDGED_RANKS.includes(ranks)) ? 1 : 0;

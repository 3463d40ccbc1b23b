/**
 * Compares tutti's all-reduce with Open MPI (shared memory) and Gloo (TCP loopback) on this host, in one run:
 * the programs take turns, round after round, so that a disturbance of the machine meets all of them.
 * Prints a table and writes the raw times and a page to bench/results/.
 *
 * usage: node bench/host.js [--ranks 2,4,8] [--sizes 8,64K,...] [--rounds 5] [--quick] [--sockets] [--only ID,...] [--out FOLDER]
 *   --quick   one round of short loops and no files: to see that everything runs
 *   --sockets everybody over TCP, as on different machines; prints and writes no files
 *   --only    some of openmpi, gloo-ring, gloo-bcube, windows, arrays
 * Exit status 1 where a program failed; a missed target is a result, not a failure.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { makeContestants } from './host/contestants.js';
import { DEFAULT_SIZES, makePlan, parseSize, planText } from './host/plan.js';
import { page, renderTable, summarise, table } from './host/report.js';
import { machineFacts } from './machine.js';
import { buildPeers, REMEDY } from './peers/build.js';

const { values } = parseArgs({
  options: {
    ranks: { type: 'string', default: '2,4,8' },
    sizes: { type: 'string' },
    rounds: { type: 'string' },
    quick: { type: 'boolean', default: false },
    sockets: { type: 'boolean', default: false },
    only: { type: 'string' },
    out: { type: 'string', default: fileURLToPath(new URL('results', import.meta.url)) },
  },
});

function wholeNumber(text, least, what) {
  const value = Number(text);
  if (Number.isInteger(value) && value >= least) return value;
  throw new RangeError(`${what} '${text}': give a whole number of at least ${least}`);
}

const rankCounts = values.ranks.split(',').map((text) => wholeNumber(text, 2, '--ranks'));
const sizes = values.sizes?.split(',').map(parseSize) ?? DEFAULT_SIZES;
const rounds = wholeNumber(values.rounds ?? (values.quick ? 1 : 5), 1, '--rounds');

function versionOf(command, args, pattern) {
  try {
    return pattern.exec(execFileSync(command, args, { encoding: 'utf8' }))?.[1] ?? 'unknown';
  } catch {
    return 'not installed';
  }
}

function chooseContestants() {
  const peers = buildPeers();
  for (const [name, { missing }] of Object.entries(peers)) {
    if (missing !== undefined) console.error(`${name} is left out: ${missing}\n  ${REMEDY}`);
  }
  const all = makeContestants(peers);
  const wanted = values.only?.split(',');
  for (const id of wanted ?? []) {
    if (all.every((each) => each.id !== id))
      throw new RangeError(`--only '${id}': there are ${all.map((each) => each.id).join(', ')}`);
  }
  return all.filter(({ id }) => wanted === undefined || wanted.includes(id));
}

/** Times of every contestant over the rounds; one that fails is named and left out from then on. */
async function runRounds(contestants, job) {
  const times = new Map(contestants.map(({ id }) => [id, new Map(sizes.map((size) => [size, []]))]));
  const failed = new Map();
  for (let round = 0; round < rounds; round++) {
    for (const { id, name, run } of contestants) {
      if (failed.has(id)) continue;
      try {
        for (const [size, us] of await run(job)) times.get(id).get(size).push(us);
      } catch (error) {
        failed.set(id, error.message);
        console.error(`${name}, round ${round + 1}: ${error.message}`);
      }
    }
    process.stderr.write(`${job.ranks} ranks: round ${round + 1} of ${rounds} done\n`);
  }
  for (const id of failed.keys()) times.delete(id);
  return { times, failed };
}

const contestants = chooseContestants();
const machine = machineFacts();
const versions = {
  openmpi: versionOf('mpirun', ['--version'], /Open MPI\) ([\d.]+)/),
  gloo: versionOf('dpkg-query', ['-W', 'libgloo-dev'], /\t(.+)/),
};
console.log(
  Object.entries({ ...machine, ...versions })
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n'),
);

for (const ranks of rankCounts) {
  const oversubscribed = ranks > availableParallelism();
  const plan = makePlan(sizes, { oversubscribed, quick: values.quick });
  const { times, failed } = await runRounds(contestants, {
    ranks,
    plan,
    text: planText(plan),
    oversubscribed,
    sockets: values.sockets,
  });
  if (failed.size > 0) process.exitCode = 1;
  const rows = summarise(contestants, times, sizes, ranks);
  const rendered = renderTable(table(contestants, rows));
  console.log(`\n${ranks} ranks, median (least-greatest) of ${rounds} rounds\n\n${rendered}\n`);
  if (values.quick || values.sockets) continue;
  const date = new Date().toISOString().slice(0, 10);
  const notes = [...failed.keys()].map((id) => `${id} failed and is left out.`);
  const result = { date, ranks, rounds, machine, versions, oversubscribed, plan, rows, notes };
  const base = join(values.out, `host-${ranks}-ranks-${date}`);
  mkdirSync(values.out, { recursive: true });
  writeFileSync(`${base}.json`, `${JSON.stringify(result, null, 1)}\n`);
  writeFileSync(`${base}.md`, page(result, rendered));
  console.log(`written: ${base}.json, ${base}.md`);
}

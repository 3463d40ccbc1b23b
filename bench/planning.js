/**
 * Times tuning and planning on machines of test/golden: one decision (remembered and not), the tables of a
 * communicator, and groups of collectives. There is no peer to compare with here; the bounds are targets, and the
 * result says whether they hold on this machine.
 *
 * usage: node bench/planning.js [--out FOLDER] [--quick]
 *   --quick   few repetitions and no files: to see that everything runs
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { CommunicatorPlanner } from '../dist/planning/communicator-planner.js';
import { describeCluster } from '../dist/topology/cluster.js';
import { readXml } from '../dist/topology/xml/read.js';
import { decide } from '../dist/tuning/decide.js';
import { DecisionCache } from '../dist/tuning/decision-cache.js';
import { tuningInput } from '../dist/tuning/from-topology.js';
import { tuningTables } from '../dist/tuning/model.js';
import { tuningSettings } from '../dist/tuning/settings.js';
import { machineFacts } from './machine.js';

const { values } = parseArgs({
  options: {
    out: { type: 'string', default: fileURLToPath(new URL('results', import.meta.url)) },
    quick: { type: 'boolean', default: false },
  },
});
const GOLDEN = fileURLToPath(new URL('../test/golden/', import.meta.url));
const ROUNDS = values.quick ? 3 : 31;

const rows = [];
/** Times are medians of rounds; the spread is that of the middle half. */
function row(what, times, unit, target) {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (part) => sorted[Math.floor((sorted.length - 1) * part)];
  const value = at(0.5);
  const digits = (number) => Number(number.toPrecision(3));
  const ok = target === undefined ? null : value <= target;
  rows.push({ what, value: digits(value), low: digits(at(0.25)), high: digits(at(0.75)), unit, target, ok });
  const verdict = ok === null ? '    ' : ok ? 'ok  ' : 'MISS';
  const bound = target === undefined ? '' : ` (target ${target} ${unit})`;
  console.log(
    `${verdict} ${what}: ${digits(value)} ${unit} (${digits(at(0.25))}-${digits(at(0.75))})${bound}`,
  );
}

/** Milliseconds of a call. */
function time(work) {
  const start = performance.now();
  work();
  return performance.now() - start;
}

function communicator(machine, nodes) {
  const { root: xml } = readXml(readFileSync(join(GOLDEN, machine, 'topo.xml'), 'utf8'), { root: 'system' });
  const { comm, settings } = describeCluster({ nodes: Array.from({ length: nodes }, () => ({ xml })) });
  return { comm, settings };
}

const inputOf = ({ comm, settings }) =>
  tuningInput({ comm, topology: settings, settings: tuningSettings({}) });

const MACHINES = [
  ['azure-ndv5-h100x8-8x400g', 1],
  ['azure-ndv5-h100x8-8x400g', 4],
  ['dgx-a100-8x200g', 2],
];
const CALL = { type: 'float32', reduction: 'Sum' };
const FUNCTIONS = ['AllReduce', 'AllGather', 'ReduceScatter', 'Broadcast', 'Reduce'];
const DECISIONS = 2000;

for (const [machine, nodes] of MACHINES) {
  const made = communicator(machine, nodes);
  const input = inputOf(made);
  const tables = tuningTables(input);
  const name = `${nodes} x ${machine}`;
  // Sizes that no round has seen before: what a decision costs that nothing remembers.
  let next = 8;
  const cold = [];
  const cached = [];
  const cache = new DecisionCache(tables);
  for (let round = 0; round < ROUNDS; round++) {
    cold.push(
      (time(() => {
        for (let i = 0; i < DECISIONS; i++) {
          next += 8;
          decide(tables, { ...CALL, function: FUNCTIONS[i % FUNCTIONS.length], bytes: next });
        }
      }) *
        1000) /
        DECISIONS,
    );
    const calls = FUNCTIONS.map((fn, i) => ({ ...CALL, function: fn, bytes: 1024 << i }));
    for (const call of calls) cache.decide(call);
    cached.push(
      (time(() => {
        for (let i = 0; i < DECISIONS * 50; i++) cache.decide(calls[i % calls.length]);
      }) *
        1000) /
        (DECISIONS * 50),
    );
  }
  row(`a decision that is remembered, ${name}`, cached, 'us', 1);
  row(`a decision that is not, ${name}`, cold.slice(1), 'us', 50);
  row(
    `the tables of a communicator, ${name}`,
    Array.from({ length: ROUNDS }, () => time(() => tuningTables(input)) * 1000),
    'us',
  );

  const planner = new CommunicatorPlanner({ comm: made.comm, tables });
  const task = (count) => ({
    function: 'AllReduce',
    deviceOp: 'Sum',
    type: 'float32',
    elementBytes: 4,
    count,
  });
  const groups = {
    'a group of one all-reduce': () => [task(1 << 18)],
    'a group of 1,000 equal all-reduces': () => Array.from({ length: 1000 }, () => task(1 << 18)),
    'a group of 1,000 all-reduces of many sizes': (round) =>
      Array.from({ length: 1000 }, (_, i) => task(1 + ((i * 7919 + round * 104729) % 1_000_003))),
  };
  for (const [what, make] of Object.entries(groups)) {
    const times = [];
    for (let round = 0; round < ROUNDS; round++) {
      const group = make(round);
      times.push(time(() => planner.plan(group)));
    }
    row(`${what}, ${name}`, times.slice(1), 'ms', what.includes('1,000') ? 20 : undefined);
  }
}

if (!values.quick) {
  const date = new Date().toISOString().slice(0, 10);
  const facts = machineFacts();
  mkdirSync(values.out, { recursive: true });
  const base = join(values.out, `planning-${date}`);
  writeFileSync(`${base}.json`, `${JSON.stringify({ date, machine: facts, rows }, null, 1)}\n`);
  const lines = [
    `# Tuning and planning, ${date}`,
    '',
    `Median and middle half of ${ROUNDS} rounds, \`node bench/planning.js\`. ${facts.cpu}, ${facts.cores} cores, Node ${facts.node}, load ${facts.loadAverage}.`,
    '',
    '| what | median | middle half | target | |',
    '| --- | ---: | ---: | ---: | --- |',
    ...rows.map(
      ({ what, value, low, high, unit, target, ok }) =>
        `| ${what} | ${value} ${unit} | ${low}-${high} | ${target === undefined ? '-' : `${target} ${unit}`} | ${ok === null ? '' : ok ? 'met' : 'MISSED'} |`,
    ),
  ];
  writeFileSync(`${base}.md`, `${lines.join('\n')}\n`);
  console.log(`\nwritten: ${base}.json, ${base}.md`);
}
if (rows.some(({ ok }) => ok === false)) process.exitCode = 1;

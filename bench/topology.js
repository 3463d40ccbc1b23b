/**
 * Times the topology part on the machines of test/golden: searches, and the way from thousands of ranks' documents to
 * connected channels. There is no peer to compare with here (the C library does not time these steps); the bounds are
 * targets, and the result says whether they hold on this machine.
 *
 * usage: node bench/topology.js [--out FOLDER] [--quick]
 *   --quick   one repetition, no slow machines, no files: to see that everything runs
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeCluster } from '../dist/topology/cluster.js';
import { describeDomains } from '../dist/topology/domains.js';
import { searchGraphs } from '../dist/topology/search/search-all.js';
import { topologySettings } from '../dist/topology/settings.js';
import { cloneElement, element } from '../dist/topology/xml/element.js';
import { fuseTopologies } from '../dist/topology/xml/fuse.js';
import { readXml } from '../dist/topology/xml/read.js';
import { machineFacts } from './machine.js';

const { values } = parseArgs({
  options: {
    out: { type: 'string', default: fileURLToPath(new URL('results', import.meta.url)) },
    quick: { type: 'boolean', default: false },
  },
});
const GOLDEN = fileURLToPath(new URL('../test/golden/', import.meta.url));
const NVSWITCH_MACHINE = 'azure-ndv5-h100x8-8x400g';

/** Milliseconds of one call. */
function time(work) {
  const start = performance.now();
  work();
  return performance.now() - start;
}

const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
const load = (machine) =>
  readXml(readFileSync(join(GOLDEN, machine, 'topo.xml'), 'utf8'), { root: 'system' }).root;
const machines = readdirSync(GOLDEN, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && readdirSync(join(GOLDEN, entry.name)).includes('golden.json.gz'))
  .map(({ name }) => name);

const rows = [];
function row(what, ms, target, detail = '') {
  const ok = ms <= target;
  rows.push({ what, ms: Math.round(ms * 10) / 10, target, ok, detail });
  console.log(`${ok ? 'ok  ' : 'MISS'} ${what}: ${ms.toFixed(1)} ms (target ${target} ms) ${detail}`);
}

/** All searches of one domain, warm. */
function searches(machine, nodes) {
  const settings = topologySettings({});
  const root = load(machine);
  const gpus = describeDomains(root, {
    settings,
    nRanks: 1_000_000,
    nvls: false,
    collnet: false,
    mnnvl: false,
  }).reduce((sum, { ranks }) => sum + ranks.length, 0);
  const options = { settings, nRanks: gpus * nodes, nvls: true, collnet: false, mnnvl: false };
  const [{ system }] = describeDomains(root, options);
  const times = [];
  for (let i = 0; i < (values.quick ? 3 : 31); i++) {
    times.push(time(() => searchGraphs(system, { settings, nvls: true, collnet: false })));
  }
  return median(times.slice(1));
}

row('search, 8 GPUs with NVSwitch and 8 NICs, one node', searches(NVSWITCH_MACHINE, 1), 50);
row('search, 8 GPUs with NVSwitch and 8 NICs, two nodes', searches(NVSWITCH_MACHINE, 2), 50);

let slowest = { ms: 0, machine: '' };
for (const machine of machines) {
  const xml = load(machine);
  const ms = time(() => describeCluster({ nodes: [{ xml }] }));
  if (ms > slowest.ms) slowest = { ms, machine };
}
row('slowest single-node machine, from document to channels', slowest.ms, 1000, slowest.machine);

/** Seconds of the native search for the variants that exhaust their step budgets, times three, in milliseconds. */
const SLOW = [
  { machine: 'gb200-nvl72-tray', trays: 9, nodes: 2, target: 30_000 },
  { machine: 'gb200-nvl72-tray', trays: 2, nodes: 2, target: 18_000 },
  { machine: 'syn-mlopart-x4x2', trays: 1, nodes: 2, target: 18_000 },
  { machine: 'syn-bcm5-2level-h100x8-4x400g', trays: 1, nodes: 2, target: 18_000 },
];
for (const { machine, trays, nodes, target } of values.quick ? [] : SLOW) {
  const xml = trays === 1 ? load(machine) : clique(machine, trays);
  const ms = time(() =>
    describeCluster({ nodes: Array.from({ length: nodes }, () => ({ xml })), mnnvl: trays > 1 }),
  );
  row(`${nodes} nodes of ${trays} x ${machine}`, ms, target);
}

/** A document of several trays of one NVLink domain. */
function clique(machine, trays) {
  const parts = Array.from({ length: trays }, (_, tray) => {
    const root = load(machine);
    const gpus = countGpus(root);
    return hostOf(root, tray, gpus);
  });
  return element(
    'system',
    { version: 1 },
    parts.flatMap(({ children }) => children),
  );
}

function countGpus({ name, children }) {
  return (name === 'gpu' ? 1 : 0) + children.reduce((sum, child) => sum + countGpus(child), 0);
}

/** The same host under another number: other hash, further ranks. */
function hostOf(root, host, gpus) {
  const copy = cloneElement(root);
  const visit = ({ name, attributes, children }) => {
    if (name === 'cpu') attributes.set('host_hash', `0x${(0x1000 + host).toString(16)}`);
    if (name === 'gpu') attributes.set('rank', String(Number(attributes.get('rank')) + host * gpus));
    children.forEach(visit);
  };
  visit(copy);
  return copy;
}

/** What each rank of a host would contribute: its own GPU and all NICs. */
function perRank(root) {
  const gpus = countGpus(root);
  return Array.from({ length: gpus }, (_, rank) => {
    const copy = cloneElement(root);
    const keep = (node) => {
      node.children = node.children.filter((child) => {
        keep(child);
        const other = child.children.some(
          ({ name, attributes }) => name === 'gpu' && attributes.get('rank') !== String(rank),
        );
        return !other;
      });
    };
    keep(copy);
    return copy;
  });
}

const NODES = 1024;
const single = perRank(load(NVSWITCH_MACHINE));
const documents = Array.from({ length: NODES }, () => single.map(cloneElement));
globalThis.gc?.();
const before = process.memoryUsage.rss();
const fuse = [];
const connect = [];
for (let i = 0; i < (values.quick ? 1 : 5); i++) {
  let nodes;
  fuse.push(
    time(() => {
      nodes = documents.map((parts) => fuseTopologies(parts));
    }),
  );
  // Equal hosts are one object, as a rank would keep them after comparing.
  const [xml] = nodes;
  connect.push(time(() => describeCluster({ nodes: nodes.map(() => ({ xml })) })));
}
const megabytes = Math.round(process.memoryUsage.rss() / 1e6);
row(
  `${NODES} nodes of 8 GPUs: fuse ${NODES * 8} documents and connect`,
  median(fuse) + median(connect),
  2000,
  `fuse ${median(fuse).toFixed(0)} ms, describe and connect ${median(connect).toFixed(0)} ms, ${megabytes} MB (${Math.round(before / 1e6)} MB of them documents and start)`,
);
if (megabytes > 1000) rows.at(-1).ok = false;

if (!values.quick) {
  const day = new Date().toISOString().slice(0, 10);
  mkdirSync(values.out, { recursive: true });
  const facts = machineFacts();
  writeFileSync(join(values.out, `topology-${day}.json`), `${JSON.stringify({ facts, rows }, null, 2)}\n`);
  const page = [
    `# Topology, ${day}`,
    '',
    '| what | ms | target | |',
    '| --- | ---: | ---: | --- |',
    ...rows.map(
      ({ what, ms, target, ok, detail }) =>
        `| ${what} | ${ms} | ${target} | ${ok ? 'met' : 'missed'} ${detail} |`,
    ),
    '',
  ];
  writeFileSync(join(values.out, `topology-${day}.md`), page.join('\n'));
}
if (rows.some(({ ok }) => !ok)) console.log('A target was missed; see above.');

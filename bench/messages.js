/**
 * Compares tutti's messages on host memory with Open MPI's (shared memory): send and receive around the ring, gather and
 * scatter. The programs take turns, round after round; the table shows medians. With --out it writes raw times and a page.
 *
 * usage: node bench/messages.js [--ranks 2] [--calls sendrecv,gather,scatter] [--sizes 8,4096,...] [--rounds 7] [--scale 1]
 *                               [--sockets] [--out FOLDER]
 *   --sizes   bytes that a rank sends, or of a block
 *   --scale   factor of the iterations
 *   --sockets everybody over TCP, as on different machines; prints and writes no files
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readTimes, runOpenMpi, runTutti } from './host/contestants.js';
import { machineFacts } from './machine.js';
import { buildPeers, REMEDY } from './peers/build.js';

const { values } = parseArgs({
  options: {
    ranks: { type: 'string', default: '2' },
    calls: { type: 'string', default: 'sendrecv,gather,scatter' },
    sizes: { type: 'string', default: '8,1024,8192,16384,65536,262144,1048576,8388608' },
    rounds: { type: 'string', default: '7' },
    scale: { type: 'string', default: '1' },
    sockets: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
});

const ranks = Number(values.ranks);
const { sockets } = values;
const rounds = Number(values.rounds);
/** About so many bytes per loop, and bounds of its iterations: short loops, many rounds. */
const LOOP = { bytes: 400e6, most: 20_000, least: 20 };
const plan = values.sizes.split(',').map((text) => {
  const size = Number(text);
  const many = Math.min(LOOP.most, Math.max(LOOP.least, Math.round(LOOP.bytes / (size + 4096))));
  const iterations = Math.max(1, Math.round(many * Number(values.scale)));
  return { size, warmup: Math.max(2, Math.round(iterations / 4)), iterations };
});
// All of it twice, and the second time counts: a just-in-time compiler is done by then.
const text = [...plan, ...plan]
  .map(({ size, warmup, iterations }) => `${size}:${warmup}:${iterations}`)
  .join();

const { path: binary, missing } = buildPeers().openmpiMessages;
if (missing !== undefined) throw new Error(`${missing}\n  ${REMEDY}`);
const program = fileURLToPath(new URL('tutti-messages.js', import.meta.url));
const oversubscribed = ranks > availableParallelism();

const contestants = {
  openmpi: (what) => runOpenMpi({ binary, ranks, text, oversubscribed, sockets, what }),
  windows: (what) => runTutti({ section: 'windows', ranks, text, program, sockets, what }),
  arrays: (what) => runTutti({ section: 'arrays', ranks, text, program, sockets, what }),
};

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const times = {};
const lines = [];
for (const call of values.calls.split(',')) {
  const own = (times[call] = Object.fromEntries(
    Object.keys(contestants).map((name) => [name, plan.map(() => [])]),
  ));
  for (let round = 0; round < rounds; round++) {
    for (const [name, run] of Object.entries(contestants)) {
      const found = readTimes(await run([call]), plan);
      for (const [i, { size }] of plan.entries()) own[name][i].push(found.get(size));
    }
  }
  lines.push(`\n${call}, ${ranks} ranks, us (median of ${rounds} rounds; times faster than Open MPI)\n`);
  lines.push('| bytes | Open MPI | windows | arrays |', '| --: | --: | --: | --: |');
  plan.forEach(({ size }, i) => {
    const peer = median(own.openmpi[i]);
    const cell = (name) => {
      const us = median(own[name][i]);
      return `${us.toFixed(2)} (${(peer / us).toFixed(2)})`;
    };
    lines.push(`| ${size} | ${peer.toFixed(2)} | ${cell('windows')} | ${cell('arrays')} |`);
  });
}
console.log(lines.join('\n'));
if (values.out !== undefined && !sockets) {
  const machine = machineFacts();
  const name = join(values.out, `messages-${ranks}-ranks-${new Date().toISOString().slice(0, 10)}`);
  mkdirSync(values.out, { recursive: true });
  writeFileSync(`${name}.json`, `${JSON.stringify({ machine, ranks, rounds, plan, times }, null, 1)}\n`);
  const facts = Object.entries(machine).map(([key, value]) => `- ${key}: ${JSON.stringify(value)}`);
  writeFileSync(`${name}.md`, `# Messages on host memory\n\n${facts.join('\n')}\n${lines.join('\n')}\n`);
}

/**
 * Makes the constants of a file that `tutti tune --fit` wrote the standard ones; or those that fit the times which
 * `bench/choice.js` wrote on one or several machines, such as one with a core for every rank and one without.
 *
 * usage: node scripts/standard-constants.js FILE                  (of tutti tune --fit)
 *        node scripts/standard-constants.js --measured FILE ...   (of bench/choice.js)
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { CANDIDATES, candidateName } from '../dist/tuning/host/candidates.js';
import { STANDARD_CONSTANTS } from '../dist/tuning/host/constants.js';
import { fitTable } from '../dist/tuning/host/fit.js';
import { fitQuality } from '../dist/tuning/host/fit-quality.js';

const USAGE = 'usage: node scripts/standard-constants.js FILE | --measured FILE ...';
const [first, ...files] = process.argv.slice(2);
if (first === undefined || (first === '--measured' && files.length === 0)) throw new Error(USAGE);
const read = (path) => JSON.parse(readFileSync(path, 'utf8'));
const { window, socket, source } = first === '--measured' ? fitted(files.map(read)) : taken(read(first));

function taken({ cpu, cores, ranks, window, socket }) {
  return { window, socket, source: `\`tutti tune --fit\` on ${cpu}, ${cores} cores, with ${ranks} ranks` };
}

function fitted(documents) {
  const byName = new Map(CANDIDATES.map((one) => [candidateName(one), one]));
  const times = documents.flatMap(({ machine, summaries }) =>
    summaries.map(({ collective, ranks, bytes, candidate, median }) => ({
      candidate: byName.get(candidate),
      call: { collective, ranks, bytes },
      cores: machine.cores,
      microseconds: median,
    })),
  );
  const window = fitTable(STANDARD_CONSTANTS.window, times, 'window');
  const { calls, good, medianError } = fitQuality(window, times, 'window');
  console.log(
    `${good} of ${calls} choices within 10 %, predictions off by ${Math.round(100 * medianError)} %`,
  );
  const machines = documents.map(({ machine, summaries }) => {
    const ranks = [...new Set(summaries.map((one) => one.ranks))].join(', ');
    return `an ${machine.cpu} with ${machine.cores} cores and ${ranks} ranks`;
  });
  const source = ['a fit to the times of bench/choice.js on', ...new Set(machines)].join('\n * - ');
  return { window, socket: STANDARD_CONSTANTS.socket, source };
}

const numbers = ({ alone, crowded, bandwidth }) =>
  `row(${[alone.start, alone.step, crowded.start, crowded.step, ...bandwidth].join(', ')})`;
const key = (name) => (/^\w+$/.test(name) ? name : `'${name}'`);
const table = (name, collectives) => {
  const rows = Object.entries(collectives).map(([collective, candidates]) => {
    const own = Object.entries(candidates).map(
      ([candidate, one]) => `    ${key(candidate)}: ${numbers(one)},\n`,
    );
    return `  ${collective}: {\n${own.join('')}  },\n`;
  });
  return `export const ${name}: HostTable = {\n${rows.join('')}};\n`;
};

const target = new URL('../src/tuning/host/standard-constants.ts', import.meta.url);
writeFileSync(
  target,
  `/**
 * Standard constants of the host's cost model, written here by scripts/standard-constants.js. Source:
 * ${source}.
 */
// biome-ignore-all lint/suspicious/noApproximativeNumericConstant: they are measured, whatever they resemble
import type { CandidateConstants, HostTable } from './cost.js';

/** Microseconds of start and step alone, of start and step crowded, and GB/s at each of KNOTS. */
const row = (
  start: number,
  step: number,
  crowdedStart: number,
  crowdedStep: number,
  near: number,
  shared: number,
  far: number,
): CandidateConstants => ({
  alone: { start, step },
  crowded: { start: crowdedStart, step: crowdedStep },
  bandwidth: [near, shared, far],
});

${table('STANDARD_WINDOW', window)}
${table('STANDARD_SOCKET', socket)}`,
);
console.log(`written: ${target.pathname}`);

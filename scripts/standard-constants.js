/**
 * Makes the constants of a file that `tutti tune --fit` wrote the standard ones.
 *
 * usage: node scripts/standard-constants.js FILE
 */
import { readFileSync, writeFileSync } from 'node:fs';

const [path] = process.argv.slice(2);
if (path === undefined) throw new Error('usage: node scripts/standard-constants.js FILE');
const { cpu, cores, ranks, window, socket } = JSON.parse(readFileSync(path, 'utf8'));

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
 * Standard constants of the host's cost model, as \`tutti tune --fit\` found them and scripts/standard-constants.js wrote
 * them here: ${cpu}, ${cores} cores, with ${ranks} ranks.
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

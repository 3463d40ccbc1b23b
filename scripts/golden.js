/**
 * Compares this library's topology, searches, channels, cost model, decisions and placements with golden data, number
 * by number.
 *
 * usage: npm run golden -- FOLDER... [options]
 *
 * FOLDER is a machine's folder (topo.xml and golden*.json.gz) or a folder of such folders; test/golden/README.md
 * describes the files. Prints a table and ends with status 1 if anything differs, nothing was found, or a file
 * cannot be read.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { register } from 'node:module';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';

const OPTIONS = {
  machine: { type: 'string', multiple: true },
  file: { type: 'string', multiple: true },
  aspect: { type: 'string', multiple: true },
  jobs: { type: 'string' },
  json: { type: 'string' },
  verbose: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
};

const HELP = `usage: npm run golden -- FOLDER... [options]
  FOLDER          a machine's folder, or a folder of machines
  --machine TEXT  only machines whose name contains TEXT; may be repeated
  --file TEXT     only golden files whose name contains TEXT; may be repeated
  --aspect NAME   compare only NAME ('search' stands for all search-...); may be repeated
  --jobs N        threads; default: number of cores
  --json FILE     write all results to FILE
  --verbose       say each file as it is done; show differences of every file
  aspects: `;

/** Files whose differences are shown without --verbose. */
const SHOWN_FILES = 10;

const { folders, options } = readArguments();
const threads = readJobs();
if (folders.length === 0 && !options.help) fail('no FOLDER given, for example test/golden');
if (!existsSync(new URL('../dist/topology', import.meta.url)))
  fail('there is no dist/topology; npm run build first');
register('./golden-loader.js', import.meta.url);
const { ASPECTS, aspectsNamed } = await import('../test/topology/golden/aspects.ts');
const { findMachines } = await import('../test/topology/golden/folder.ts');
const { jobsOf } = await import('../test/topology/golden/jobs.ts');
const { checkAll } = await import('../test/topology/golden/pool.ts');
const { differenceLines, isEqual, resultTable } = await import('../test/topology/golden/table.ts');

if (options.help) {
  console.log(HELP + ASPECTS.join(', '));
  process.exit(0);
}
const aspects = readAspects();
const jobs = readFolders();
const results = await checkAll(jobs, aspects, threads, (result) => {
  if (options.verbose) console.log(`${result.machine}/${result.file} ${result.seconds.toFixed(2)} s`);
});
results.sort((a, b) => jobs.findIndex((job) => sameFile(job, a)) - jobs.findIndex((job) => sameFile(job, b)));
const unequal = results.filter((result) => !isEqual(result));
for (const result of options.verbose ? unequal : unequal.slice(0, SHOWN_FILES)) {
  for (const line of differenceLines(result)) console.log(line);
}
if (!options.verbose && unequal.length > SHOWN_FILES) {
  console.log(`differences of ${unequal.length - SHOWN_FILES} more files: --verbose shows them`);
}
console.log(resultTable(results));
console.log(`${results.length - unequal.length} of ${results.length} files equal in ${aspects.join(', ')}`);
if (options.json) writeFileSync(options.json, `${JSON.stringify({ aspects, results }, null, 1)}\n`);
if (unequal.length > 0) process.exitCode = 1;

function readArguments() {
  try {
    const { positionals, values } = parseArgs({ options: OPTIONS, allowPositionals: true });
    return { folders: positionals, options: values };
  } catch (error) {
    return fail(error.message);
  }
}

function readAspects() {
  if (options.aspect === undefined) return ASPECTS;
  return options.aspect.flatMap((word) => {
    const named = aspectsNamed(word);
    return named.length > 0 ? named : fail(`no aspect '${word}'; there are ${ASPECTS.join(', ')}`);
  });
}

function readJobs() {
  if (options.jobs === undefined) return availableParallelism();
  const count = Number(options.jobs);
  return Number.isInteger(count) && count > 0
    ? count
    : fail(`--jobs ${options.jobs} is not a number of threads`);
}

function readFolders() {
  const contains = (text, parts) => parts === undefined || parts.some((part) => text.includes(part));
  let machines;
  try {
    machines = folders.flatMap((folder) => findMachines(folder));
  } catch (error) {
    fail(error.message);
  }
  const found = jobsOf(machines.filter(({ name }) => contains(name, options.machine))).filter(({ file }) =>
    contains(file, options.file),
  );
  if (found.length === 0) fail('no golden file is left by --machine and --file');
  return found;
}

function sameFile(a, b) {
  return a.folder === b.folder && a.file === b.file;
}

function fail(text) {
  console.error(`golden: ${text}`);
  process.exit(2);
}

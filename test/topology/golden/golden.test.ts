/**
 * Our topology, searches, channels, cost model, decisions and placements against NCCL's, for every golden file, number by number, on all cores.
 * `npm run golden -- test/golden` does the same by hand, for one machine or one aspect too.
 */
import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ASPECTS } from './aspects.js';
import type { FileResult } from './check.js';
import { findMachines } from './folder.js';
import { jobsOf, readIndex } from './jobs.js';
import { checkAll } from './pool.js';
import { differenceLines, isEqual, resultTable } from './table.js';

const DATA = fileURLToPath(new URL('../../golden', import.meta.url));

/** Milliseconds for all files together; two cores need about a fifth of it. */
const LIMIT_MS = 480_000;

const machines = findMachines(DATA);
const jobs = jobsOf(machines);

/** Results of a machine, settled when its last file is done. */
interface Pending {
  readonly results: Promise<readonly FileResult[]>;
  readonly done: (result: FileResult) => void;
}

function pendingResults(count: number): Pending {
  const results: FileResult[] = [];
  const { promise, resolve } = promiseWithResolver<readonly FileResult[]>();
  const done = (result: FileResult) => {
    results.push(result);
    if (results.length === count) resolve(results);
  };
  return { results: promise, done };
}

function promiseWithResolver<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

const pending = new Map(machines.map(({ name, files }) => [name, pendingResults(files.length)]));
let everything: Promise<FileResult[]>;

beforeAll(() => {
  everything = checkAll(jobs, ASPECTS, availableParallelism(), (result) =>
    pending.get(result.machine)!.done(result),
  );
});

afterAll(async () => {
  console.log(resultTable(await everything));
}, LIMIT_MS);

describe('the golden data', () => {
  it('is all that index.json lists, no more and no less', () => {
    const listed = readIndex(DATA).map(({ machine, file }) => `${machine}/${file}`);
    const found = machines.flatMap(({ name, files }) => files.map((file) => `${name}/${file}`));
    expect(found.length).toBeGreaterThan(0);
    expect(found.sort()).toEqual(listed.sort());
  });
});

describe('every number of topology, paths, searches, channels, cost model and decisions is that of NCCL', () => {
  const inOrder = [...new Set(jobs.map(({ machine }) => machine))];

  it.each(inOrder)(
    '%s [C04-06, C04-09, C04-10, C04-12, C04-13, C04-14, C04-18, C04-20, C04-21, C04-24, C05-21, C05-22, C05-23, C06-15, C06-16]',
    async (machine) => {
      const results = await pending.get(machine)!.results;
      expect(results.flatMap(differenceLines)).toEqual([]);
      expect(results.every(isEqual)).toBe(true);
    },
    LIMIT_MS,
  );

  it('and every file was compared in all aspects that it has', async () => {
    const results = await everything;
    expect(results.map(({ folder, file }) => `${basename(folder)}/${file}`).sort()).toEqual(
      jobs.map(({ machine, file }) => `${machine}/${file}`).sort(),
    );
    const ranks = new Map(readIndex(DATA).map(({ machine, file, nRanks }) => [`${machine}/${file}`, nRanks]));
    for (const { machine, file, aspects } of results) {
      const compared = aspects.map(({ aspect }) => aspect);
      // One rank has nothing to decide.
      const lacking = ranks.get(`${machine}/${file}`) === 1 ? ['decisions', 'placements'] : [];
      const always = ASPECTS.filter((aspect) => !['collnet', 'nvls', ...lacking].includes(aspect));
      expect(compared, `${machine}/${file}`).toEqual(expect.arrayContaining(always));
    }
    for (const aspect of ASPECTS) {
      expect(results.some((result) => result.aspects.some((done) => done.aspect === aspect))).toBe(true);
    }
  });
});

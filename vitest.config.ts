/**
 * Test runner settings. Tests import the built package (#src/* is dist/*), so what ships is what is tested.
 *
 * Three groups, one after the other: `pure` computes in one thread each, two files at a time; `golden` computes on all
 * cores; `ranks` starts processes, sockets and threads that wait for each other, one file at a time, because its time
 * limits mean something only when a machine of two cores is not shared with another test.
 */
import { defineConfig } from 'vitest/config';

/** Tests that need nothing but a processor; commands that start no ranks are among them. */
const PURE = [
  'test/bench/**/*.test.ts',
  'test/cli/kernel.test.ts',
  'test/cli/perf/[!c]*.test.ts', // all but command.test.ts
  'test/cli/topo/**/*.test.ts',
  'test/cli/tune/**/*.test.ts',
  'test/collectives/**/*.test.ts',
  'test/doctor/**/*.test.ts',
  'test/kernel/**/*.test.ts',
  'test/planning/**/*.test.ts',
  'test/tuning/**/*.test.ts',
  'test/verifier/**/*.test.ts',
  'test/topology/**/*.test.ts', // all but GOLDEN
  'test/ci.test.ts',
  'test/docs.test.ts',
  'test/environment.test.ts',
  'test/layers.test.ts',
  'test/requirements.test.ts',
  'test/text.test.ts',
];

/** Tests that start a thread on every core. */
const GOLDEN = ['test/topology/golden/golden.test.ts'];

/** What was fitted to a developer's machine must not change what is tested. */
const env = { TUTTI_TUNING_FILE: 'none' };

const common = { pool: 'forks', testTimeout: 60_000, hookTimeout: 60_000, env } as const;

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...common,
          name: 'pure',
          include: PURE,
          exclude: GOLDEN,
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: { ...common, name: 'golden', include: GOLDEN, maxWorkers: 1, sequence: { groupOrder: 1 } },
      },
      {
        test: {
          ...common,
          name: 'ranks',
          include: ['test/**/*.test.ts'],
          exclude: [...PURE, ...GOLDEN],
          maxWorkers: 1,
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});

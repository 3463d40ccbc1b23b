/** Without MPI, mpirun starts nccl-tests many times, each alone as rank 0 of 1. */

import { hostsOfRun } from '../../model/bench.js';
import { grouped } from '../../model/grouped.js';
import { distinctPlaces } from '../../model/place.js';
import { some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const ncclTestsNotOneJob: Rule = {
  id: 'nccl-tests-not-one-job',
  causes: ['slows'],
  looksFor: 'processes of nccl-tests that each believe to be rank 0: built without MPI, or with another one',
  example: [
    example(
      'out.txt',
      '+ mpirun -np 2 ./all_reduce_perf -b 8M -e 8M -g 1',
      '# Collective test starting: all_reduce_perf',
      '#  Rank  0 Group  0 Pid   8821 on   n1 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB',
      '# Collective test starting: all_reduce_perf',
      '#  Rank  0 Group  0 Pid   8822 on   n1 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB',
    ),
  ],
  references: ['nccl-tests: README, MPI=1'],
  find(job) {
    const byFile = grouped(job.benches, ({ at }) => at.file);
    return [...byFile.values()].flatMap((runs): Finding[] => {
      const starts = runs.filter(({ devices }) => devices.length > 0);
      const pids = new Set(starts.flatMap(({ devices }) => devices.map(({ pid, host }) => `${host}:${pid}`)));
      // All begin with rank 0, and the next began before the last one was done.
      const isAllZero = starts.every(({ devices }) => devices.some(({ rank }) => rank === 0));
      const together = starts.filter((run, i) => {
        const next = starts[i + 1];
        // Older versions of the program end with the average.
        const end = run.concluded ?? run.average?.at;
        const isDone = end !== undefined && (next === undefined || end.line < next.at.line);
        return !isDone || i === starts.length - 1;
      });
      if (starts.length < 2 || !isAllZero || together.length < 2 || pids.size < 2) return [];
      const program = starts[0]!.program;
      const hosts = [...new Set(starts.flatMap(hostsOfRun))].sort();
      const command = starts[0]!.command;
      const asked = command?.processes;
      const last = starts.at(-1)!.devices.length * starts.length - 1;
      return [
        {
          severity: 'error',
          confidence: 'certain',
          text: `${starts.length} processes of ${program ?? 'the program'} run each on its own, as rank 0 of 1: this is not one job`,
          culprit: { program, processes: starts.length, hosts },
          evidence: distinctPlaces([
            asked === undefined ? undefined : command!.at,
            ...some(
              starts.map(({ devices }) => devices[0]!.at),
              64,
            ),
            ...some(
              runs.flatMap(({ average }) => (average === undefined ? [] : [average.at])),
              64,
            ),
          ]),
          repair: `Build nccl-tests with MPI=1 against the MPI that the launcher belongs to (make clean first) and check that the device list shows ranks 0 to ${last}.`,
          workaround: null,
        },
      ];
    });
  },
};

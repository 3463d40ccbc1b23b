/** A copy of a log that is cut in the middle of a line shows nothing of what came then. */
import { breaksOff, failuresAfter } from '../queries.js';
import type { Finding, Rule } from '../rule.js';

export const logBreaksOff: Rule = {
  id: 'log-breaks-off',
  looksFor: 'a log that is cut in the middle of a line before the set-up ends: what came then is not known',
  example: [
    {
      name: 'n1.log',
      text: 'n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START\nn1:10:11 [0] NCCL INFO Setting aff',
    },
  ],
  references: [],
  find: (job) =>
    job.files.flatMap((file): Finding[] => {
      const inFile = job.processes.filter((process) => process.last.file === file.name);
      const open = inFile.filter(
        (process) =>
          breaksOff(job, process) &&
          failuresAfter(process, undefined).length === 0 &&
          !process.members.some(({ completed, destroyed }) => completed ?? destroyed),
      );
      const at = file.last;
      if (open.length === 0 || at === undefined) return [];
      return [
        {
          severity: 'info',
          confidence: 'certain',
          text: `${file.name} breaks off in line ${at.line}, during the set-up of ${open.length === 1 ? 'a process' : `${open.length} processes`}: what came then cannot be told`,
          culprit: { file: file.name, line: at.line },
          evidence: [at],
          repair: 'Give the whole log.',
          workaround: null,
        },
      ];
    }),
};

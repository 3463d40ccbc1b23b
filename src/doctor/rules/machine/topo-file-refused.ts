/** A topology file that cannot be read as one. */
import { example, type Finding, type Rule } from '../rule.js';

export const topoFileRefused: Rule = {
  id: 'topo-file-refused',
  causes: ['blocks', 'slows'],
  looksFor: 'a topology file that NCCL cannot read, or of which it ignores parts',
  example: [
    example(
      'topo.xml',
      '<system version="2">',
      '  <cpu numaid="0" affinity="ffffffff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="17"/>',
      '</system>',
    ),
  ],
  references: ['NCCL user guide: NCCL_TOPO_FILE'],
  find: (job) =>
    job.files.flatMap((file): Finding[] => {
      const refused = file.refusedTopology;
      if (refused === undefined) return [];
      return [
        {
          severity: 'error',
          confidence: 'certain',
          text: refused.text,
          culprit: { file: file.name },
          evidence: [{ file: file.name, line: refused.line }],
          repair: 'Correct the file, or remove NCCL_TOPO_FILE.',
          workaround: null,
        },
      ];
    }),
};

/** An allocator that keeps more and more memory of a GPU although the program gives all of it back. */
import { grouped } from '../../model/grouped.js';
import { some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

/** Samples that make a series. */
const SERIES = 4;
/** Share of what is kept below which a program has given its memory back. */
const FREE = 0.1;
/** Growth of what is kept over the series. */
const GROWTH = 1.2;

const gibibytes = (bytes: number): string => (bytes / 2 ** 30).toFixed(2);

export const allocatorGrowth: Rule = {
  id: 'allocator-growth',
  causes: ['kills', 'slows'],
  looksFor:
    'a series of samples in which the reserved GPU memory grows while the allocated one returns to nothing',
  example: [
    example(
      'train.log',
      'step 1: reserved 0.80 GB, allocated 0.80 GB',
      'step 2: reserved 1.04 GB, allocated 0.00 GB',
      'step 3: reserved 1.24 GB, allocated 0.00 GB',
      'step 4: reserved 1.24 GB, allocated 0.00 GB',
    ),
  ],
  references: ['PyTorch: CUDA memory management, PYTORCH_CUDA_ALLOC_CONF'],
  find(job) {
    const series = grouped(job.memory, ({ at, rank }) => `${at.file}\0${rank}`);
    const found = [...series.values()].flatMap((list): Finding[] => {
      const [first] = list;
      const last = list.at(-1);
      if (first === undefined || last === undefined || list.length < SERIES) return [];
      const empty = list.filter(({ allocated, reserved }) => allocated < FREE * reserved);
      const isGrowing = list.every(({ reserved }, i) => i === 0 || reserved >= list[i - 1]!.reserved);
      if (!isGrowing || last.reserved < GROWTH * first.reserved || empty.length * 2 < list.length) return [];
      // What the program took in the meantime is given back: the growth is of the allocator.
      if (!empty.includes(last)) return [];
      return [
        {
          severity: 'warning',
          confidence: 'possible',
          text: `reserved GPU memory${first.rank === undefined ? '' : ` of rank ${first.rank}`} grew from ${gibibytes(first.reserved)} to ${gibibytes(last.reserved)} GiB over ${list.length} samples, while the program gave its memory back`,
          culprit: {
            ...(first.rank === undefined ? {} : { rank: first.rank }),
            reservedBytes: last.reserved,
            allocatedBytes: last.allocated,
          },
          evidence: some([first.at, ...empty.slice(0, 6).map(({ at }) => at), last.at]),
          repair:
            'In this order: a newer CUDA and framework; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (or max_split_size_mb) against fragments; look for shapes or registrations that change from step to step.',
          workaround:
            'Emptying the cache (torch.cuda.empty_cache()) frees the memory and costs time at every call.',
        },
      ];
    });
    return found.slice(0, 1);
  },
};

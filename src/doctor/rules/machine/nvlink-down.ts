/** NVLinks that are inactive although others of the GPU, or of its neighbours, are active. */

import type { GpuLinks } from '../../model/machine.js';
import { nvlinkOf } from '../gpu-models.js';
import { some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const nvlinkDown: Rule = {
  id: 'nvlink-down',
  causes: ['kills', 'slows'],
  looksFor: 'NVLinks that are inactive although others of the GPU, or of its neighbours, are active',
  example: [
    example(
      'nvlink.txt',
      'GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0)',
      '\t Link 0: 25 GB/s',
      '\t Link 1: <inactive>',
    ),
  ],
  references: ['nvidia-smi nvlink -s'],
  find(job) {
    const isActive = (GBs: number | undefined): boolean => GBs !== undefined && GBs > 0;
    const upOf = ({ links }: GpuLinks): number => links.filter(({ GBs }) => isActive(GBs)).length;
    return job.links.flatMap((gpu): Finding[] => {
      const down = gpu.links.filter(({ GBs }) => !isActive(GBs));
      const up = upOf(gpu);
      const same = job.links.filter(({ name, host }) => name === gpu.name && host === gpu.host);
      // Boards that wire fewer links show all GPUs alike, and cards without a bridge have none: only on boards with
      // switches is every link of a GPU in use.
      const isOnBoard = nvlinkOf(gpu.name) !== undefined;
      const isOdd = isOnBoard
        ? same.length === 1 || same.some((one) => upOf(one) !== up)
        : same.some((one) => upOf(one) > up) && up > 0;
      if (down.length === 0 || !isOdd || (up === 0 && same.every((one) => upOf(one) === 0))) return [];
      return [
        {
          severity: 'error',
          confidence: 'certain',
          text: `GPU ${gpu.gpu}${gpu.host === undefined ? '' : ` of ${gpu.host}`} has ${down.length} inactive NVLink${down.length === 1 ? '' : 's'} of ${gpu.links.length}`,
          culprit: {
            ...(gpu.host === undefined ? {} : { host: gpu.host }),
            gpu: gpu.gpu,
            links: down.map(({ index }) => index),
          },
          evidence: some(down.map(({ at }) => at)),
          repair:
            'Reset the GPU and restart the fabric manager; if the links stay down, the board or the bridge is to be replaced.',
          workaround: null,
        },
      ];
    });
  },
};

/** NVLinks that are inactive although others of the GPU, or of its neighbours, are active. */
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
    const most = Math.max(
      0,
      ...job.links.map(({ links }) => links.filter(({ GBs }) => isActive(GBs)).length),
    );
    return job.links.flatMap((gpu): Finding[] => {
      const down = gpu.links.filter(({ GBs }) => !isActive(GBs));
      const up = gpu.links.length - down.length;
      // Boards that wire fewer links show all GPUs alike.
      const isAlike = job.links.every(({ links }) => links.filter(({ GBs }) => isActive(GBs)).length === up);
      if (down.length === 0 || most === 0 || (isAlike && job.links.length > 1)) return [];
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

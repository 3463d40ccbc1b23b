/** Uncorrectable errors of the memory of a GPU, as nvidia-smi counts them. */
import { firstOfEach } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const gpuMemoryErrors: Rule = {
  id: 'gpu-memory-errors',
  causes: ['kills', 'hangs'],
  looksFor: 'GPUs with uncorrectable errors of their memory since the driver was loaded',
  example: [
    example(
      'nvidia-smi.txt',
      '| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |',
      '|   3  NVIDIA H100 80GB HBM3          On  |   00000000:5D:00.0 Off |                    7 |',
    ),
  ],
  references: ['nvidia-smi', 'vendor: GPU memory error management'],
  find: (job) =>
    firstOfEach(
      job.kernelEvents.flatMap((event) => (event.kind === 'gpuMemory' ? [event] : [])),
      ({ host, device }) => `${host} ${device}`,
    ).map(
      ({ host, device, gpu, count, at }): Finding => ({
        severity: 'warning',
        confidence: 'likely',
        text: `GPU ${gpu} (${device})${host === undefined ? '' : ` of ${host}`} had ${count} uncorrectable memory error${count === 1 ? '' : 's'}`,
        culprit: { ...(host === undefined ? {} : { host }), gpu, device, count },
        evidence: [at],
        repair:
          'See nvidia-smi -q -d ECC,ROW_REMAPPER and dmesg (Xid 48, 63, 64, 94, 95); reset the GPU when no job runs, and replace it if the errors come back.',
        workaround: null,
      }),
    ),
};

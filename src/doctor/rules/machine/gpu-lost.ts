/** A GPU that the driver lists and cannot reach any more. */
import { firstOfEach } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const gpuLost: Rule = {
  id: 'gpu-lost',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'a GPU that nvidia-smi cannot reach',
  example: [
    example(
      'nvidia-smi.txt',
      'GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0)',
      'Unable to determine the device handle for GPU 0000:8B:00.0: GPU is lost. Reboot the system to recover this GPU',
    ),
  ],
  references: ['nvidia-smi', 'vendor: Xid errors'],
  find: (job) =>
    firstOfEach(
      job.kernelEvents.flatMap((event) => (event.kind === 'gpuLost' ? [event] : [])),
      ({ host, device }) => `${host} ${device}`,
    ).map(
      ({ host, device, text, at }): Finding => ({
        severity: 'error',
        confidence: 'certain',
        text: `the driver cannot reach GPU ${device}${host === undefined ? '' : ` of ${host}`}: ${text}`,
        culprit: { ...(host === undefined ? {} : { host }), device },
        evidence: [at],
        repair:
          'Look into dmesg for its Xid, restart the machine, and look at power, heat and seating if it goes away again; until then keep the host out of jobs.',
        workaround: null,
      }),
    ),
};

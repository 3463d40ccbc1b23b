/** A GPU that is too hot, or gets too little power, lowers its clocks, and all others wait for it. */
import { grouped } from '../../model/grouped.js';
import { listed, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const gpuThrottled: Rule = {
  id: 'gpu-throttled',
  causes: ['slows'],
  looksFor: 'GPUs whose clocks are lowered by heat, or by the power supply',
  example: [
    example(
      'nvidia-smi.txt',
      'GPU 00000000:61:00.0',
      '    Clocks Event Reasons',
      '        SW Power Cap                      : Not Active',
      '        HW Slowdown                       : Active',
      '            HW Thermal Slowdown           : Active',
    ),
  ],
  references: ['nvidia-smi: clocks event reasons'],
  find(job) {
    const slowed = job.kernelEvents.flatMap((event) => (event.kind === 'gpuSlowed' ? [event] : []));
    const byGpu = grouped(slowed, ({ host, device }) => `${host ?? ''} ${device}`);
    return [...byGpu.values()].map((events): Finding => {
      const { host, device } = events[0]!;
      const reasons = [...new Set(events.map(({ reason }) => reason))];
      const isHeat = reasons.some((reason) => reason.includes('Thermal'));
      return {
        severity: 'warning',
        confidence: 'likely',
        text: `GPU ${device}${host === undefined ? '' : ` of ${host}`} lowers its clocks${isHeat ? ' for heat' : ''}: ${listed(reasons)}`,
        culprit: { ...(host === undefined ? {} : { host }), device, reasons },
        evidence: some(events.map(({ at }) => at)),
        repair: isHeat
          ? 'Look at fans, air flow, the temperature of the room or the cooling liquid, and at dust; until then keep jobs off this GPU, since all others wait for it.'
          : 'Look at the power supplies of the machine and their limits (the management controller), and at nvidia-smi -q -d POWER.',
        workaround: null,
      };
    });
  },
};

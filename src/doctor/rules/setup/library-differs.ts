/** A program that was built with one NCCL and loads another. */
import { distinctPlaces } from '../../model/place.js';
import { example, type Rule } from '../rule.js';

const numbers = (version: string): string => /^\d+\.\d+(?:\.\d+)?/.exec(version)?.[0] ?? '';

export const libraryDiffers: Rule = {
  id: 'library-differs',
  causes: ['blocks', 'kills'],
  looksFor: 'a framework that brings one version of NCCL along while the job loads another',
  example: [
    example('pip.txt', 'nvidia-nccl-cu12         2.26.2'),
    example('rank0.log', 'NCCL version 2.18.5+cuda12.2'),
  ],
  references: ['NCCL user guide: troubleshooting, library versions'],
  find(job) {
    const brought = job.values.filter(({ name }) => name === 'framework.nccl');
    const loaded = [
      ...job.processes.flatMap(({ version }) => version ?? []),
      ...job.bareVersions.map(({ value, at }) => ({ value, at })),
    ];
    const [own] = brought;
    const other = loaded.find(({ value }) => numbers(value) !== numbers(own?.value ?? value));
    // Several environments may be listed together.
    const isOne = new Set(brought.map(({ value }) => numbers(value))).size === 1;
    if (own === undefined || other === undefined || !isOne) return [];
    const isOlder = compare(numbers(other.value), numbers(own.value)) < 0;
    return [
      {
        severity: isOlder ? 'warning' : 'info',
        confidence: 'possible',
        text: `the framework brings NCCL ${numbers(own.value)} along, and the job loads ${numbers(other.value)}`,
        culprit: { bundled: numbers(own.value), loaded: numbers(other.value) },
        evidence: distinctPlaces([own.at, other.at]),
        repair:
          'See which libnccl.so.2 is loaded (ldd, LD_DEBUG=libs): take the one of the system out of LD_LIBRARY_PATH and LD_PRELOAD, or let all hosts load the same one on purpose.',
        workaround: null,
      },
    ];
  },
};

/** Which of two versions is newer, number by number. */
function compare(a: string, b: string): number {
  const [x, y] = [a.split('.').map(Number), b.split('.').map(Number)];
  for (let i = 0; i < 3; i++) {
    const difference = (x[i] ?? 0) - (y[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

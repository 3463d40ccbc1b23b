/** `nvidia-smi -q`, with -d PERFORMANCE: why clocks of a GPU are lowered. */
import { type FileContext, here, kind, type LineReader } from '../file-context.js';

const GPU = /^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$/;
/** What hardware and heat force; caps of power and idle GPUs are as they should be. */
const REASON =
  /^\s+(HW Slowdown|HW Thermal Slowdown|HW Power Brake Slowdown|SW Thermal Slowdown)\s+: Active\s*$/;

export function gpuClockReader(context: FileContext): LineReader {
  let device: string | undefined;
  return (line) => {
    if (line.length > 200) return false;
    const gpu = line.startsWith('GPU ') ? GPU.exec(line) : null;
    if (gpu !== null) {
      device = gpu[1]!.toLowerCase();
      return kind(context, 'nvidia-smi');
    }
    if (!line.includes('Slowdown')) return false;
    const found = REASON.exec(line);
    if (found === null) return false;
    context.job.kernelEvents.push({
      host: context.host,
      at: here(context),
      kind: 'gpuSlowed',
      device: device ?? '',
      reason: found[1]!,
    });
    return kind(context, 'nvidia-smi');
  };
}

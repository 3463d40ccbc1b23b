/**
 * `nvidia-smi`, with -L and nvlink -s: GPUs, errors of their memory, and the speed of their NVLinks.
 */
import type { GpuLinks } from '../../model/machine.js';
import { detached } from '../detached.js';
import { type FileContext, here, kind, type LineReader } from '../file-context.js';

const GPU = /^GPU (\d+): (.+?) \(UUID: /;
const LOST = /Unable to determine the device handle for (?:GPU ?)?(?:\d+: )?([0-9A-Fa-f:.]+?):? ([A-Z].*)$/;
const LINK = /^\s+Link (\d+): (?:([\d.]+) GB\/s|(<?inactive>?|N\/A|<?not supported>?))/i;

const TABLE = /^\| NVIDIA-SMI \d/;
/** First line of a GPU in the table; it ends in the uncorrectable errors of its memory. */
const TABLE_GPU =
  /^\| {1,3}(\d+) {2}(\S.*?) {2,}(?:On|Off|N\/A) *\| *([0-9A-Fa-f:.]+) +\S+ *\| *(\d+|N\/A|Off|ERR!) *\|/;

/** `nvidia-smi nvlink -e`. */
const LINK_ERRORS = /^\s+Link (\d+): (Replay|Recovery|CRC) Errors: (\d+)\s*$/;

export function gpuReader(context: FileContext): LineReader {
  let gpu: GpuLinks | undefined;
  let row: { readonly gpu: number; readonly device: string } | undefined;
  const inTable = (line: string): boolean => {
    if (TABLE.test(line)) {
      row = undefined;
      return kind(context, 'nvidia-smi');
    }
    const found = TABLE_GPU.exec(line);
    if (found !== null) {
      row = { gpu: Number(found[1]), device: found[3]!.toLowerCase() };
      const count = Number(found[4]);
      if (count > 0)
        context.job.kernelEvents.push({
          host: context.host,
          at: here(context),
          kind: 'gpuMemory',
          ...row,
          count,
        });
    }
    if (line.includes('ERR!') && row !== undefined) {
      context.job.kernelEvents.push({
        host: context.host,
        at: here(context),
        kind: 'gpuLost',
        device: row.device,
        text: `nvidia-smi shows ERR! for GPU ${row.gpu}`,
      });
      row = undefined;
    }
    return found !== null && kind(context, 'nvidia-smi');
  };
  return (line) => {
    if (line.startsWith('| ') && line.length < 300) return inTable(line);
    const lost = line.includes('Unable to determine the device handle')
      ? LOST.exec(line.slice(0, 300))
      : null;
    if (lost !== null) {
      context.job.kernelEvents.push({
        host: context.host,
        at: here(context),
        kind: 'gpuLost',
        device: lost[1]!,
        text: detached(lost[2]!.trim()),
      });
      return kind(context, 'nvidia-smi');
    }
    const found = line.startsWith('GPU ') ? GPU.exec(line.slice(0, 300)) : null;
    if (found !== null) {
      gpu = { host: context.host, at: here(context), gpu: Number(found[1]), name: found[2]!, links: [] };
      context.job.links.push(gpu);
      return kind(context, 'nvidia-smi');
    }
    if (gpu === undefined || !line.includes('Link ')) return false;
    const errors = LINK_ERRORS.exec(line.slice(0, 100));
    if (errors !== null) {
      context.job.counters.push({
        host: context.host,
        at: here(context),
        name: `nvlink_${errors[2]!.toLowerCase()}_errors`,
        value: Number(errors[3]),
        of: `GPU ${gpu.gpu} NVLink ${errors[1]}`,
      });
      return true;
    }
    const link = LINK.exec(line.slice(0, 100));
    if (link === null) return false;
    gpu.links.push({
      index: Number(link[1]),
      GBs: link[2] === undefined ? undefined : Number(link[2]),
      at: here(context),
    });
    return true;
  };
}

/** `dcgmi diag`: tests of GPUs that failed. */
import { type FileContext, here, kind, type LineReader } from '../file-context.js';

const ROW = /^\| ([A-Z][\w /-]{2,40}?) +\| (Pass|Fail|Skip|Warn)\b(?: - (.{1,60}?))? *\|$/;

export function diagnosticReader(context: FileContext): LineReader {
  let isDcgm = false;
  return (line) => {
    if (!line.startsWith('|') || line.length > 200) return false;
    isDcgm ||= /^\| Diagnostic +\| Result\b/.test(line);
    const found = isDcgm ? ROW.exec(line) : null;
    if (found === null) return false;
    if (found[2] === 'Fail')
      context.job.kernelEvents.push({
        host: context.host,
        at: here(context),
        kind: 'diagnosticFailed',
        test: found[1]!,
        of: found[3],
      });
    return kind(context, 'dcgmi');
  };
}

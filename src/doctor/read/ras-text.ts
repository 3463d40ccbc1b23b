/**
 * The text of NCCL's RAS status (`ncclras`): errors and warnings by section.
 */
import type { RasCommunicator, RasCount, RasProcess, RasRank, RasReport } from '../model/ras.js';
import { type FileContext, here, kind, type LineReader } from './file-context.js';

const VERSION = /^NCCL version (\S+) compiled with CUDA/;
const PROCESS = /^ {2}Process (\d+) on node (\S+) managing GPUs? (.+)$/;
const COMMUNICATOR = /^#(\d+)-(\d+) \(([0-9a-f]+)\) (\w+)/;
const RANK =
  /^ {2}(?:Rank|The missing rank:) (\d+)(?: has status \w+)? -- (?:GPU (\S+)(?: \(NVML \d+\))? managed by process (\d+) on node (\S+)|\[)/;
const COUNTS = /^ {2}Communicator ranks have different (\w+) operation counts/;
const LAUNCHED = /^ {2}(\d+) ranks? (?:has|have) launched up to operation (\d+)/;
const NOT_LAUNCHED = /^ {2}(\d+) ranks? (?:has|have) not launched any/;
const ONE_LAUNCHED =
  /^ {2}Rank (\d+) has launched up to operation (\d+)(?: -- GPU (\S+).*? process (\d+) on node (\S+))?/;
const TIMEOUTS = /^ {2}Encountered (\d+) communication timeouts?/;

export function rasReader(context: FileContext): LineReader {
  let report: RasReport | undefined;
  let section: 'incomplete' | 'dead' | 'communicator' | undefined;
  let heading = '';
  let communicator: RasCommunicator | undefined;
  let count: RasCount | undefined;

  const rank = (found: RegExpExecArray): RasRank => ({
    rank: Number(found[1]),
    gpu: found[2],
    pid: found[3] === undefined ? undefined : Number(found[3]),
    host: found[4],
    at: here(context),
  });

  const detail = (line: string, current: RasReport): boolean => {
    const process = PROCESS.exec(line);
    if (process !== null) {
      const one: RasProcess = {
        pid: Number(process[1]),
        host: process[2]!,
        gpus: process[3]!,
        at: here(context),
      };
      if (section === 'dead') current.dead.push(one);
      else current.incomplete.push(one);
      return true;
    }
    const timeouts = TIMEOUTS.exec(line);
    if (timeouts !== null) {
      current.timeouts = { count: Number(timeouts[1]), at: here(context) };
      return true;
    }
    if (section === 'dead' && line.includes('considered dead')) current.deadAt.push(here(context));
    if (communicator === undefined || section !== 'communicator') return line.startsWith('  ');
    return communicatorDetail(line, communicator);
  };

  const communicatorDetail = (line: string, current: RasCommunicator): boolean => {
    if (line.startsWith('  Missing communicator data')) {
      current.missing = { ranks: [], at: here(context) };
      return true;
    }
    const counts = COUNTS.exec(line);
    if (counts !== null) {
      current.mismatches.push({ operation: counts[1]!, counts: [], at: here(context) });
      count = undefined;
      return true;
    }
    const mismatch = current.mismatches.at(-1);
    const launched = LAUNCHED.exec(line) ?? NOT_LAUNCHED.exec(line);
    if (launched !== null && mismatch !== undefined) {
      count = {
        ranks: Number(launched[1]),
        operation: Number(launched[2] ?? 0),
        listed: [],
        at: here(context),
      };
      mismatch.counts.push(count);
      return true;
    }
    const single = ONE_LAUNCHED.exec(line);
    if (single !== null && mismatch !== undefined) {
      const one: RasRank = {
        rank: Number(single[1]),
        gpu: single[3],
        pid: single[4] === undefined ? undefined : Number(single[4]),
        host: single[5],
        at: here(context),
      };
      mismatch.counts.push({ ranks: 1, operation: Number(single[2]), listed: [one], at: here(context) });
      return true;
    }
    const found = RANK.exec(line);
    if (found !== null) {
      if (count !== undefined) count.listed.push(rank(found));
      else current.missing?.ranks.push(rank(found));
      return true;
    }
    if (heading === 'ERROR' && line.startsWith('  ')) {
      current.errors.push({ text: line.trim(), at: here(context) });
      return true;
    }
    return line.startsWith('  ');
  };

  return (line) => {
    const version = line.startsWith('NCCL version ') ? VERSION.exec(line) : null;
    if (version !== null || (report === undefined && /^Job summary$/.test(line))) {
      report = {
        at: here(context),
        version: version?.[1],
        dead: [],
        deadAt: [],
        incomplete: [],
        communicators: [],
        timeouts: undefined,
      };
      context.job.ras.push(report);
      section = undefined;
      return kind(context, 'RAS');
    }
    const title = COMMUNICATOR.exec(line);
    if (title !== null && report === undefined) {
      // The beginning of the report is cut off.
      report = {
        at: here(context),
        version: undefined,
        dead: [],
        deadAt: [],
        incomplete: [],
        communicators: [],
        timeouts: undefined,
      };
      context.job.ras.push(report);
      kind(context, 'RAS');
    }
    if (report === undefined) return false;
    if (title !== null) {
      section = 'communicator';
      heading = title[4]!;
      count = undefined;
      communicator = report.communicators.find(({ hash }) => hash === title[3]);
      if (communicator === undefined) {
        communicator = { hash: title[3]!, at: here(context), missing: undefined, errors: [], mismatches: [] };
        report.communicators.push(communicator);
      }
      return true;
    }
    if (/^(?:INCOMPLETE|DEAD|TIMEOUT)$/.test(line)) {
      section = line === 'DEAD' ? 'dead' : line === 'INCOMPLETE' ? 'incomplete' : undefined;
      communicator = undefined;
      return true;
    }
    return line.startsWith('  ') && detail(line, report);
  };
}

/**
 * Lines of PyTorch, of launchers and of schedulers: time-outs, exceptions, ends of processes.
 */
import type { FrameworkEvent } from '../model/framework.js';
import { detached } from './detached.js';
import { type FileContext, here, kind, type LineReader } from './file-context.js';

const RANK_PREFIX = /^\[(?:rank|default)?(\d+)\]: ?/;
const WATCHDOG =
  /(?:\[Rank (\d+)\].{0,80}?)?Watchdog caught collective operation timeout: WorkNCCL\((?:SeqNum=(\d+))?(?:, )?(?:OpType=(\w+))?/;
const NUMEL = /NumelIn=(\d+)/;
const PROGRESS =
  /\[PG (?:ID )?(\S+)(?: PG GUID (\S+))? Rank (\d+)\].{0,200}?last enqueued (?:NCCL )?work: (-?\d+), last completed (?:NCCL )?work: (-?\d+)/;
const RAN_FOR = /ran for (\d+) milliseconds/;
const EXCEPTION = /^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt|OutOfMemory\w*)): ?(.*)$/;
const OUT_OF_MEMORY = /CUDA out of memory|OutOfMemory|HIP out of memory/;
const GPU = /\bGPU (\d+)\b/;
const PID = /\b[Pp]rocess (\d+) has\b|\(pid: (\d+)\)|\bPID (\d+)\b/;
const NCCL_ERROR = /NCCL error in: \S+?, (.+)$/;
const EXIT_CODE = /\bfailed \(exitcode: (-?\d+)\) local_rank: \d+ \(pid: (\d+)\)/;
const ROOT_CAUSE = /^ *exitcode *: (-?\d+) \(pid: (\d+)\)/;
const ROOT_RANK = /^ *rank *: (\d+) \(local_rank: \d+\)/;
const ROOT_HOST = /^ *host *: (\S+)/;
const SRUN = /^srun: error: ([\w.-]+): tasks? (\d+)(?:[-,\d]*): (.+)$/;
const MPIRUN = /process rank (\d+) with PID (\d+) on node ([\w.-]+) exited on signal (\d+)/;
const CANCELLED = /^slurmstepd: error: \*\*\* .* CANCELLED AT .*$/;
const SIGNALS: Readonly<Record<string, number>> = {
  Killed: 9,
  'Segmentation fault': 11,
  Aborted: 6,
  'Bus error': 7,
};

/** Names of ncclResult_t, before a sentence about it. */
const NCCL_RESULT = /^(?:what\(\): +)?(nccl(?:\w+Error|InvalidUsage|InvalidArgument|InProgress)): (.*)$/;
const LAST_ERROR = /^Last error: *(.*)$/;
const NCCL_VERSION = /NCCL version (\d+[\d.]+)/;
/** The kernel ended a step of slurm for its memory. */
const OOM_KILL = /oom_kill event|OOM Killed|oom-kill/i;

const MAX_EVENTS = 5000;

/** A message of NCCL is one line; what follows in a stack trace is not it. */
const NO_MESSAGE = /^(?:Traceback|Exception raised from|frame #\d| {2}File |\s*$)/;

export function frameworkReader(context: FileContext): LineReader {
  let rootRank: number | undefined;
  let rootHost: string | undefined;
  /** Ranks whose next line is the message that `Last error:` announces. */
  const announced = new Set<number | undefined>();
  const add = (event: FrameworkEvent): true => {
    if (context.job.events.length < MAX_EVENTS) context.job.events.push(event);
    return kind(context, 'framework');
  };
  return (whole) => {
    const prefix = RANK_PREFIX.exec(whole);
    const line = prefix === null ? whole : whole.slice(prefix[0].length);
    const base = {
      rank: prefix === null ? undefined : Number(prefix[1]),
      host: context.host,
      at: here(context),
    };
    if (announced.size > 0 && announced.delete(base.rank) && !NO_MESSAGE.test(line))
      return add({ ...base, kind: 'lastError', text: detached(line.trim().slice(0, 500)) });
    if (line.startsWith('Last error:')) {
      const text = LAST_ERROR.exec(line.slice(0, 600))?.[1]?.trim() ?? '';
      if (text !== '') return add({ ...base, kind: 'lastError', text: detached(text) });
      announced.add(base.rank);
      return kind(context, 'framework');
    }
    const result = line.startsWith('nccl') ? NCCL_RESULT.exec(line.slice(0, 600)) : null;
    if (result !== null)
      return add({
        ...base,
        kind: 'ncclError',
        text: detached(`${result[1]}: ${result[2]}`.trim()),
        version: undefined,
      });
    if (line.startsWith('slurmstepd: error: ') && OOM_KILL.test(line)) {
      context.job.kernelEvents.push({
        kind: 'outOfMemory',
        host: context.host,
        at: here(context),
        pid: undefined,
        text: detached(line.slice(0, 200)),
      });
      return kind(context, 'framework');
    }
    if (line.includes('Watchdog caught')) {
      const found = WATCHDOG.exec(line.slice(0, 1000));
      if (found === null || line.includes('what():') || line.includes('terminated with exception'))
        return false;
      const ran = RAN_FOR.exec(line)?.[1];
      const numel = NUMEL.exec(line)?.[1];
      return add({
        ...base,
        kind: 'watchdog',
        rank: found[1] === undefined ? base.rank : Number(found[1]),
        sequence: found[2] === undefined ? undefined : Number(found[2]),
        operation: found[3],
        elements: numel === undefined ? undefined : Number(numel),
        milliseconds: ran === undefined ? undefined : Number(ran),
      });
    }
    if (line.includes('last enqueued ')) {
      const found = PROGRESS.exec(line.slice(0, 1000));
      if (found === null) return false;
      return add({
        ...base,
        kind: 'progress',
        rank: Number(found[3]),
        group: found[2] ?? found[1]!,
        enqueued: Number(found[4]),
        completed: Number(found[5]),
      });
    }
    if (line.includes('NCCL error in')) {
      const found = NCCL_ERROR.exec(line.slice(0, 1000));
      const version = NCCL_VERSION.exec(line.slice(0, 1000))?.[1];
      return found !== null && add({ ...base, kind: 'ncclError', text: found[1]!, version });
    }
    const exception = /^[A-Za-z]/.test(line) ? EXCEPTION.exec(line.slice(0, 1000)) : null;
    if (exception !== null) {
      const [, type, text] = exception as unknown as [string, string, string];
      const pid = PID.exec(text);
      const gpu = GPU.exec(text)?.[1];
      return add({
        ...base,
        kind: 'exception',
        type,
        text: text.slice(0, 300),
        isOutOfMemory: OUT_OF_MEMORY.test(line),
        gpu: gpu === undefined ? undefined : Number(gpu),
        pid: pid === null ? undefined : Number(pid[1] ?? pid[2] ?? pid[3]),
      });
    }
    return exits(line, base, add, {
      rank: (value) => {
        rootRank = value;
      },
      host: (value) => {
        rootHost = value;
      },
      get: () => ({ rank: rootRank, host: rootHost }),
    });
  };
}

interface RootCause {
  rank(value: number): void;
  host(value: string): void;
  get(): { rank: number | undefined; host: string | undefined };
}

/** Ends of processes, as launchers report them. */
function exits(
  line: string,
  base: Pick<FrameworkEvent, 'rank' | 'host' | 'at'>,
  add: (event: FrameworkEvent) => true,
  root: RootCause,
): boolean {
  if (line.length > 1000) return false;
  if (line.includes('exitcode')) {
    const found = EXIT_CODE.exec(line) ?? ROOT_CAUSE.exec(line);
    if (found === null) return false;
    const code = Number(found[1]);
    const cause = ROOT_CAUSE.test(line) ? root.get() : { rank: undefined, host: undefined };
    return add({
      ...base,
      rank: cause.rank ?? base.rank,
      host: cause.host ?? base.host,
      kind: 'exit',
      signal: code < 0 ? -code : undefined,
      code: code < 0 ? undefined : code,
      pid: Number(found[2]),
    });
  }
  const rank = ROOT_RANK.exec(line);
  if (rank !== null) root.rank(Number(rank[1]));
  const host = ROOT_HOST.exec(line);
  if (host !== null) root.host(host[1]!);
  if (line.startsWith('srun: error: ')) {
    const found = SRUN.exec(line);
    if (found === null) return false;
    const signal = Object.entries(SIGNALS).find(([name]) => found[3]!.includes(name))?.[1];
    const code = /exit code (\d+)/.exec(found[3]!)?.[1];
    return add({
      ...base,
      rank: Number(found[2]),
      host: found[1],
      kind: 'exit',
      signal,
      code: code === undefined ? undefined : Number(code),
      pid: undefined,
    });
  }
  const mpirun = line.includes('exited on signal') ? MPIRUN.exec(line) : null;
  if (mpirun !== null) {
    return add({
      ...base,
      rank: Number(mpirun[1]),
      host: mpirun[3],
      kind: 'exit',
      signal: Number(mpirun[4]),
      code: undefined,
      pid: Number(mpirun[2]),
    });
  }
  if (CANCELLED.test(line)) return add({ ...base, kind: 'cancelled', text: line.slice(0, 300) });
  return false;
}

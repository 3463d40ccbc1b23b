/**
 * Lines of PyTorch, of launchers and of schedulers: time-outs, exceptions, ends of processes.
 */
import type { FrameworkEvent } from '../model/framework.js';
import { detached } from './detached.js';
import { type FileContext, here, kind, type LineReader } from './file-context.js';

const RANK_PREFIX = /^\[(?:rank|default)?(\d+)\]: ?/;
const WATCHDOG =
  /(?:\[(?:PG (?:ID )?([^\]]{1,200}?) )?Rank (\d+)\].{0,80}?)?Watchdog caught collective operation timeout: WorkNCCL\((?:SeqNum=(\d+))?(?:, )?(?:OpType=(\w+))?/;
const NUMEL = /NumelIn=(\d+)/;
const PROGRESS =
  /\[PG (?:ID )?([^\]]{1,200}?) Rank (\d+)\].{0,300}?[Ll]ast enqueued (?:NCCL )?work: (-?\d+), last completed (?:NCCL )?work: (-?\d+)/;
const RAN_FOR = /ran for (\d+) milliseconds/;
const EXCEPTION = /^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt|OutOfMemory\w*)|gaierror): ?(.*)$/;
const OUT_OF_MEMORY = /CUDA out of memory|OutOfMemory|HIP out of memory/;
const GPU = /\bGPU (\d+)\b/;
const PID = /\b[Pp]rocess (\d+) has\b|\(pid: (\d+)\)|\bPID (\d+)\b/;
/** nccl-tests: `node9: Test CUDA failure common.cu:958 'invalid device ordinal'`. */
const TEST_FAILURE = /(?:^|: )Test (CUDA|NCCL) failure ([\w./-]+:\d+) '([^']+)'/;
const NCCL_ERROR = /NCCL error in: \S+?, (.+)$/;
const HEARTBEAT =
  /(?:\[PG (?:ID )?[^\]]{1,200}? Rank (\d+)\].{0,300}?)?(?:Heartbeat monitor timed out|watchdog got stuck for (\d+) seconds)/;
/** `kubectl exec` and `docker run` tell what their program ended with. */
const COMMAND_EXIT =
  /^command terminated with (?:non-zero )?exit code:? (\d+)|terminated with exit code (\d+)$/;
/** `kubectl describe pod` and `kubectl get pods`. */
const POD_NAME = /^Name: +(\S+)$/;
const POD_KILLED = /^ *Reason: +OOMKilled\b/;
const POD_ROW = /^(\S+) +\d+\/\d+ +(OOMKilled)\b/;
const EXIT_CODE = /\bfailed \(exitcode: (-?\d+)\) local_rank: \d+ \(pid: (\d+)\)/;
const ROOT_CAUSE = /^ *exitcode *: (-?\d+) \(pid: (\d+)\)/;
const ROOT_RANK = /^ *rank *: (\d+) \(local_rank: \d+\)/;
const ROOT_HOST = /^ *host *: (\S+)/;
const SRUN = /^srun: error: ([\w.-]+): tasks? ([\d,-]+): (.+)$/;
const MPIRUN = /process rank (\d+) with PID (\d+) on node ([\w.-]+) exited on signal (\d+)/;
const CANCELLED = /^(?:slurmstepd|srun|sbatch): (?:error: )?\*\*\* .* CANCELLED AT .*$/;
/** The scheduler lost a machine; the second form does not say which. */
const NODE_FAILURE = /^(?:srun|slurmstepd|salloc): error: (?:Node failure on (\S+)|.* DUE TO NODE FAILURE)/;
/** mpirun: the second line names the machine. */
const DAEMON = /^ *Remote daemon: \[\[\d+,\d+\],\d+\] on node (\S+)/;
/** What launchers and schedulers say when they begin to end a job: the ends behind it are their doing. */
const CLEAN_UP =
  /^srun: (?:Terminating (?:StepId|job step)|Job step aborted|got SIGCONT|forcing job termination|interrupt)|^slurmstepd: error: \*\*\* |^(?:srun: error: )?Node failure on|DUE TO NODE FAILURE|Sending process \d+ closing signal|^mpirun: (?:abort is already in progress|killing job|Forwarding signal)/;
/** An end from outside: torchrun and Python report the signals of people and schedulers as exceptions. */
const FROM_OUTSIDE = /^SignalException$|^KeyboardInterrupt$/;
const SIGNALS: Readonly<Record<string, number>> = {
  Killed: 9,
  'Segmentation fault': 11,
  Aborted: 6,
  'Bus error': 7,
  Terminated: 15,
  Interrupt: 2,
  Hangup: 1,
};

/** Shells tell an end by a signal as 128 and its number. */
const SHELL_SIGNALS: Readonly<Record<number, number>> = {
  129: 1,
  130: 2,
  134: 6,
  135: 7,
  137: 9,
  139: 11,
  143: 15,
};

/** Ranks of `0-3,7`; so many that nobody lists them are cut off. */
function taskList(text: string): number[] {
  const found: number[] = [];
  for (const part of text.split(',')) {
    const [first, last = first] = part.split('-').map(Number);
    for (let rank = first!; rank <= last! && found.length < 4096; rank++) found.push(rank);
  }
  return found;
}

/** Signals by which launchers and schedulers end processes. */
const FROM_LAUNCHERS: ReadonlySet<number> = new Set([1, 2, 9, 15]);

/** Output of a program that runs: steps, epochs, losses. */
const GOES_ON = /\b(?:step|steps|iter|iteration|epoch|loss|it\/s|samples\/s|tokens\/s)\b.{0,20}\d/i;
const SUCCESS =
  /\b(?:training|train|job|run|fine-?tuning|evaluation|program|script)\b.{0,40}\b(?:finished|complete|completed|done|succeeded|successful|successfully)\b/i;
const NO_SUCCESS = /\b(?:not|un\w+|fail\w*|errors?|abort\w*|before|until|never|exception)\b/i;

/** Names of ncclResult_t, before a sentence about it. */
const NCCL_RESULT = /^(?:what\(\): +)?(nccl(?:\w+Error|InvalidUsage|InvalidArgument|InProgress)): (.*)$/;
const LAST_ERROR = /^Last error: *(.*)$/;
const NCCL_VERSION = /NCCL version (\d+[\d.]+)/;
/** The kernel ended a step of slurm for its memory. */
const OOM_KILL = /oom_kill event|OOM Killed|oom-kill/i;

const MAX_EVENTS = 5000;

type Exception = Extract<FrameworkEvent, { kind: 'exception' }>;

/** A message of NCCL is one line; what follows in a stack trace is not it. */
const NO_MESSAGE = /^(?:Traceback|Exception raised from|frame #\d| {2}File |\s*$)/;

/** `1 PG GUID 3(tp)` by the number that is the same in all processes: PG ID counts the groups of one process. */
const groupName = (text: string): string => /PG GUID (.+)$/.exec(text)?.[1] ?? text;

export function frameworkReader(context: FileContext): LineReader {
  const pods = podReader(context);
  /** Ends of processes without a rank, by number of the process: tables of launchers tell it later. */
  const nameless = new Map<number, number>();
  let rootRank: number | undefined;
  let rootHost: string | undefined;
  /** The launcher has begun to end the job. */
  let isEnding = false;
  const work = new Work();
  const after = new AfterExceptions();
  /** Ranks whose next line is the message that `Last error:` announces. */
  const announced = new Set<number | undefined>();
  const { events } = context.job;
  const add = (event: FrameworkEvent): true => {
    if (event.kind === 'exit' && event.pid !== undefined) {
      const index = nameless.get(event.pid);
      const earlier = index === undefined ? undefined : events[index];
      if (earlier !== undefined && event.rank !== undefined) {
        events[index!] = { ...earlier, rank: event.rank, host: earlier.host ?? event.host };
        nameless.delete(event.pid);
      } else if (earlier === undefined && event.rank === undefined && events.length < MAX_EVENTS)
        nameless.set(event.pid, events.length);
    }
    if (events.length < MAX_EVENTS) events.push(event);
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
    isEnding ||= CLEAN_UP.test(line.slice(0, 300));
    after.see(base.rank, line, context.line);
    work.see(line, context.line);
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
      const groupRank = found[2] === undefined ? undefined : Number(found[2]);
      return add({
        ...base,
        kind: 'watchdog',
        // `[rank7]:` names the process; the rank in the text is that in its group.
        rank: base.rank ?? groupRank,
        group: found[1] === undefined ? undefined : groupName(found[1]),
        groupRank,
        sequence: found[3] === undefined ? undefined : Number(found[3]),
        operation: found[4],
        elements: numel === undefined ? undefined : Number(numel),
        milliseconds: ran === undefined ? undefined : Number(ran),
      });
    }
    if (line.includes('eartbeat monitor timed out') || line.includes('watchdog got stuck')) {
      const found = HEARTBEAT.exec(line.slice(0, 1000));
      if (found === null) return false;
      return add({
        ...base,
        kind: 'heartbeat',
        rank: base.rank ?? (found[1] === undefined ? undefined : Number(found[1])),
        seconds: found[2] === undefined ? undefined : Number(found[2]),
      });
    }
    if (line.includes('ast enqueued ')) {
      const found = PROGRESS.exec(line.slice(0, 1000));
      if (found === null) return false;
      return add({
        ...base,
        kind: 'progress',
        rank: base.rank ?? Number(found[2]),
        group: groupName(found[1]!),
        enqueued: Number(found[3]),
        completed: Number(found[4]),
      });
    }
    const test = line.includes('Test ') ? TEST_FAILURE.exec(line.slice(0, 500)) : null;
    if (test !== null) {
      const [, library, , text = ''] = test;
      if (library === 'NCCL')
        return add({ ...base, kind: 'ncclError', text: detached(text), version: undefined });
      return add({
        ...base,
        kind: 'exception',
        type: 'a failure of CUDA',
        text: detached(text),
        isOutOfMemory: /out of memory/.test(text),
        gpu: undefined,
        pid: undefined,
        after: after.begin(base.rank, context.line),
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
      if (FROM_OUTSIDE.test(type))
        return add({
          ...base,
          kind: 'cancelled',
          text: detached(line.slice(0, 300)),
          isAtWork: work.isSeen,
        });
      return add({
        ...base,
        kind: 'exception',
        type,
        text: text.slice(0, 300),
        isOutOfMemory: OUT_OF_MEMORY.test(line),
        gpu: gpu === undefined ? undefined : Number(gpu),
        pid: pid === null ? undefined : Number(pid[1] ?? pid[2] ?? pid[3]),
        after: after.begin(base.rank, context.line),
      });
    }
    if (pods(line)) return true;
    const ended = line.includes('terminated with') ? COMMAND_EXIT.exec(line.slice(0, 300)) : null;
    if (ended !== null) {
      const code = Number(ended[1] ?? ended[2]);
      const signal = SHELL_SIGNALS[code];
      return add({
        ...base,
        kind: 'exit',
        signal,
        code: signal === undefined ? code : undefined,
        pid: undefined,
      });
    }
    return exits(
      line,
      base,
      add,
      { isEnding, isAtWork: work.isSeen },
      {
        rank: (value) => {
          rootRank = value;
        },
        host: (value) => {
          rootHost = value;
        },
        get: () => ({ rank: rootRank, host: rootHost }),
      },
    );
  };
}

/** Containers that Kubernetes ended for their memory: the pod takes the place of the host. */
function podReader(context: FileContext): LineReader {
  let pod: string | undefined;
  return (line) => {
    if (line.length > 300) return false;
    pod = POD_NAME.exec(line)?.[1] ?? pod;
    const row = line.includes('OOMKilled') ? POD_ROW.exec(line) : null;
    if (row === null && !POD_KILLED.test(line)) return false;
    context.job.kernelEvents.push({
      kind: 'outOfMemory',
      host: row?.[1] ?? pod ?? context.host,
      at: here(context),
      pid: undefined,
      text: 'OOMKilled: the container reached its memory limit (cgroup)',
    });
    return kind(context, 'kubectl');
  };
}

/** Exceptions that are looked after: the last ones. */
const MAX_FOLLOWED = 64;

/** What stands behind exceptions: a program that goes on, or comes to its end, had handled them. */
class AfterExceptions {
  readonly #open: { readonly rank: number | undefined; readonly after: Exception['after'] }[] = [];
  #line = 0;

  begin(rank: number | undefined, line: number): Exception['after'] {
    const after = { progress: 0, isSuccess: false };
    this.#line = line;
    this.#open.push({ rank, after });
    if (this.#open.length > MAX_FOLLOWED) this.#open.shift();
    return after;
  }

  /** A line may come several times, with less and less before it. */
  see(rank: number | undefined, line: string, number: number): void {
    if (this.#open.length === 0 || line.length > 1000) return;
    const isSuccess = SUCCESS.test(line) && !NO_SUCCESS.test(line);
    const isProgress = number > this.#line && GOES_ON.test(line) && !NO_SUCCESS.test(line);
    if (!isSuccess && !isProgress) return;
    for (const one of this.#open) {
      if (one.rank !== undefined && one.rank !== rank) continue;
      one.after.isSuccess ||= isSuccess;
      if (isProgress) one.after.progress++;
    }
    this.#line = number;
  }
}

/** Lines of progress from which on a program was at work. */
const STEPS = 3;

/** Whether the output shows steps of a program. */
class Work {
  #steps = 0;
  #line = 0;

  get isSeen(): boolean {
    return this.#steps >= STEPS;
  }

  /** A line may come several times, with less and less before it. */
  see(line: string, number: number): void {
    if (this.isSeen || number <= this.#line || line.length > 1000 || line.includes(' NCCL ')) return;
    if (!GOES_ON.test(line) || NO_SUCCESS.test(line)) return;
    this.#steps++;
    this.#line = number;
  }
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
  { isEnding, isAtWork }: { readonly isEnding: boolean; readonly isAtWork: boolean },
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
  const lost = line.includes('ode failure') || line.includes('NODE FAILURE') ? NODE_FAILURE.exec(line) : null;
  if (lost !== null) return add({ ...base, host: lost[1], kind: 'nodeFailure' });
  const daemon = line.includes('Remote daemon:') ? DAEMON.exec(line) : null;
  if (daemon !== null) return add({ ...base, host: daemon[1], kind: 'nodeFailure', isDaemon: true });
  if (line.startsWith('srun: error: ')) {
    const found = SRUN.exec(line);
    if (found !== null) {
      const said = /exit code (\d+)/.exec(found[3]!)?.[1];
      const code = said === undefined ? undefined : Number(said);
      const signal =
        Object.entries(SIGNALS).find(([name]) => found[3]!.includes(name))?.[1] ?? SHELL_SIGNALS[code ?? 0];
      const ranks = taskList(found[2]!);
      return add({
        ...base,
        rank: ranks.length === 1 ? ranks[0] : undefined,
        host: found[1],
        kind: 'exit',
        signal,
        code: signal === undefined ? code : undefined,
        pid: undefined,
        ...(ranks.length > 1 ? { ranks } : {}),
        isCleanUp: isEnding && signal !== undefined && FROM_LAUNCHERS.has(signal),
      });
    }
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
  if (CANCELLED.test(line)) return add({ ...base, kind: 'cancelled', text: line.slice(0, 300), isAtWork });
  return false;
}

/** A rank that ended while the others waited for it. */
import type { FrameworkEvent } from '../../model/framework.js';
import type { Job } from '../../model/job.js';
import { distinctPlaces } from '../../model/place.js';
import { rankOf } from '../../model/process.js';
import { firstOfEach, listed, waitingMembers } from '../queries.js';
import { remedyOf } from '../remedies.js';
import { example, type Finding, type Rule } from '../rule.js';
import { isHandled } from './handled-exceptions.js';
import { watchdogs } from './watchdogs.js';

type Exception = Extract<FrameworkEvent, { kind: 'exception' }>;

/** Exceptions that tell of another's death, or of the end that the launcher made. */
const SECONDARY =
  /DistBackendError|ChildFailedError|SignalException|KeyboardInterrupt|DistNetworkError|DistStoreError/;

function deathsInLogs(job: Job): Finding[] {
  const waiting = watchdogs(job);
  const isFelt =
    waiting.length > 0 ||
    job.events.some(({ kind }) => kind === 'ncclError') ||
    job.processes.some((process) => process.troubles.some(({ trouble }) => trouble.kind === 'peerClosed'));
  const primary = job.events.flatMap((event) =>
    event.kind === 'exception' &&
    event.rank !== undefined &&
    !SECONDARY.test(event.type) &&
    !isHandled(job, event)
      ? [event]
      : [],
  );
  const found: Finding[] = [];
  // A rank that reports a time-out itself was alive when the others were.
  for (const event of firstOfEach(primary, ({ rank }) => rank)) {
    if (waiting.some(({ rank }) => rank === event.rank)) continue;
    if (!event.isOutOfMemory && !isFelt) continue;
    found.push(exceptionFinding(job, primary.findLast(({ rank }) => rank === event.rank)!));
  }
  if (found.length > 0) return found;
  const exits = job.events.flatMap((event) => (event.kind === 'exit' ? [event] : []));
  // Watchdogs and exceptions end a process by SIGABRT, launchers the rest by SIGTERM.
  const killed = exits.filter(
    ({ signal, isCleanUp }) =>
      signal !== undefined &&
      signal !== 15 &&
      signal !== 6 &&
      signal !== 2 &&
      signal !== 1 &&
      isCleanUp !== true,
  );
  // A machine that is gone takes its processes with it, and the scheduler ends the others.
  if (job.events.some(({ kind }) => kind === 'nodeFailure')) return [];
  if (killed.length === 0) return killedByKernel(job);
  return firstOfEach(killed, ({ rank, pid }) => rank ?? pid)
    .slice(0, 1)
    .map((event): Finding => {
      const kernel = job.kernelEvents.find(
        (one) => one.kind === 'outOfMemory' && (event.pid === undefined || one.pid === event.pid),
      );
      const who =
        event.rank !== undefined
          ? `rank ${event.rank}`
          : event.ranks !== undefined
            ? `rank ${listed(event.ranks)}`
            : event.pid !== undefined
              ? `process ${event.pid}`
              : 'a process';
      const host = event.host ?? kernel?.host;
      const isKilled = event.signal === 9;
      return {
        severity: 'error',
        confidence: kernel !== undefined || !isKilled ? 'certain' : 'likely',
        text: `${who}${host === undefined ? '' : ` on ${host}`} was ended by signal ${event.signal}${!isKilled ? '' : kernel === undefined ? ', which a process does not do to itself: the kernel does when memory runs out, or somebody else did' : ': the kernel killed it because memory ran out'}`,
        culprit: {
          ...(event.rank === undefined ? {} : { rank: event.rank }),
          ...(event.ranks === undefined ? {} : { ranks: event.ranks.slice(0, 64) }),
          ...(host === undefined ? {} : { host }),
          ...(event.pid === undefined ? {} : { pid: event.pid }),
          signal: event.signal,
        },
        evidence: distinctPlaces([event.at, kernel?.at]),
        repair:
          kernel !== undefined
            ? `${kernel.kind === 'outOfMemory' && /MEMCG|cgroup|oom_kill event|OOMKilled/i.test(kernel.text) ? 'Raise the memory limit of the container or job step (docker --memory, limits.memory, --mem of Slurm)' : 'Give the job more memory'}, or use fewer workers per process${kernel.kind === 'outOfMemory' && kernel.pid !== undefined ? '; the kernel’s line names the process' : ''}.`
            : isKilled
              ? `Look into dmesg${event.host === undefined ? ' of the host' : ` of ${event.host}`} for the out-of-memory killer: where it names the process, give the job more memory or fewer workers per process; where not, ask who or what ended it.`
              : 'Find the crash in the core file or the stack trace of that process.',
        workaround: null,
      };
    });
}

/** Machines that the scheduler lost. */
function lostNodes(job: Job): Finding[] {
  const lost = job.events.flatMap((event) => (event.kind === 'nodeFailure' ? [event] : []));
  const named = lost.filter(({ host }) => host !== undefined);
  return firstOfEach(named.length > 0 ? named : lost, ({ host }) => host).map(
    ({ host, at, isDaemon }): Finding => {
      const other = lost.find((one) => one.host === undefined);
      const who = host ?? 'a node of the job';
      return {
        severity: 'error',
        confidence: 'certain',
        text: isDaemon
          ? `${who} was lost: its daemon of mpirun no longer answers, and the job was ended`
          : `${who} failed: the scheduler lost it and ended the job`,
        culprit: host === undefined ? {} : { host },
        evidence: distinctPlaces([at, other?.at]),
        repair: `Find out why ${who} went away (its console or management controller, dmesg after it is back${isDaemon ? ', the network between it and the first node' : ', the log of slurmctld'}), and keep it out of jobs until then${host === undefined || isDaemon ? '' : ` (--exclude=${host})`}.`,
        workaround: null,
      };
    },
  );
}

/** Processes that only the kernel's log tells of: of this job where a log has their number. */
function killedByKernel(job: Job): Finding[] {
  const isOurs = ({ pid, host }: { pid: number | undefined; host: string | undefined }): boolean =>
    pid === undefined ||
    !job.processes.some((one) => !one.isQuoted && (host === undefined || one.host === host)) ||
    job.processes.some((one) => one.pid === pid && (host === undefined || one.host === host));
  // Where the logs of a host name its processes and nothing failed, the kernel killed another program.
  const isUnharmed =
    job.events.every(({ kind }) => kind === 'progress') &&
    job.processes.every(({ troubles }) => troubles.every(({ isWarning }) => !isWarning)) &&
    waitingMembers(job).length === 0;
  const killed = job.kernelEvents.flatMap((event) =>
    event.kind === 'outOfMemory' && (isOurs(event) || !isUnharmed) ? [event] : [],
  );
  return firstOfEach(killed, ({ pid }) => pid).map(({ pid, host, at, text }): Finding => {
    const process = job.processes.find((one) => one.pid === pid && (host === undefined || one.host === host));
    const rank = process === undefined ? undefined : rankOf(process);
    const where = process?.host ?? host;
    return {
      severity: 'error',
      confidence: process === undefined ? 'likely' : 'certain',
      text: `the kernel killed ${pid === undefined ? 'a process' : `process ${pid}`}${rank === undefined ? '' : ` (rank ${rank})`}${where === undefined ? '' : ` on ${where}`} because memory ran out`,
      culprit: {
        ...(rank === undefined ? {} : { rank }),
        ...(pid === undefined ? {} : { pid }),
        ...(where === undefined ? {} : { host: where }),
        text: text.trim().slice(0, 120),
      },
      evidence: [at],
      repair: /cgroup|oom_kill event/i.test(text)
        ? 'Raise the memory limit of the container or job step (docker --memory, limits.memory, --mem of Slurm), or use fewer workers per process.'
        : 'Give the job more memory or fewer workers per process; see in dmesg which process took it, and whether the killed one belonged to this job.',
      workaround: null,
    };
  });
}

/** The type of an exception alone says little. */
function saidBy({ type, text }: Exception, cause: string | undefined): string {
  const said = text.length > 120 ? `${text.slice(0, 117)}...` : text;
  return `${type}${said === '' ? '' : `: ${said}`}${cause === undefined ? '' : `; ${cause}`}`;
}

function exceptionFinding(job: Job, event: Exception): Finding {
  const after = job.events.find(
    (one) => one.rank === event.rank && one.at.file === event.at.file && one.at.line > event.at.line,
  );
  const where = event.host === undefined ? '' : ` on ${event.host}`;
  const remedy = remedyOf(event.text);
  return {
    severity: 'error',
    confidence: 'certain',
    text: `rank ${event.rank}${where} died: ${event.isOutOfMemory ? 'its GPU ran out of memory' : saidBy(event, remedy?.cause)}`,
    culprit: {
      rank: event.rank,
      ...(event.host === undefined ? {} : { host: event.host }),
      ...(event.gpu === undefined ? {} : { gpu: event.gpu }),
      ...(event.pid === undefined ? {} : { pid: event.pid }),
    },
    evidence: distinctPlaces([event.at, after?.at]),
    repair: event.isOutOfMemory
      ? `Cure the out-of-memory on rank ${event.rank} (smaller batch or activation memory; see why this rank needs more than the others) and let the job end at once when one rank fails.`
      : remedy !== undefined
        ? remedy.repair
        : `Cure the ${event.type} on rank ${event.rank} and let the job end at once when one rank fails.`,
    workaround: watchdogs(job).length === 0 ? null : 'A longer watchdog time-out only delays the end.',
  };
}

/** Processes that RAS misses and does not call dead: they may be frozen, or not there yet. */
function silentInRas(job: Job): Finding[] {
  return job.ras.flatMap(({ dead, communicators }): Finding[] =>
    dead.length > 0
      ? []
      : communicators.flatMap(({ hash, missing }) =>
          (missing?.ranks ?? []).map((rank): Finding => {
            const who = `rank ${rank.rank}${rank.pid === undefined ? '' : ` (process ${rank.pid} on ${rank.host})`}`;
            return {
              severity: 'error',
              confidence: 'likely',
              text: `${who} gives RAS no data about its communicator: it ended, or is frozen`,
              culprit: {
                rank: rank.rank,
                ...(rank.pid === undefined ? {} : { pid: rank.pid, host: rank.host }),
                comm: hash,
              },
              evidence: distinctPlaces([missing!.at, rank.at]),
              repair: `See whether ${who} still runs, and take its stack (py-spy, gdb); ask RAS again after a minute.`,
              workaround: null,
            };
          }),
        ),
  );
}

function deathsInRas(job: Job): Finding[] {
  return job.ras.flatMap((report): Finding[] =>
    report.dead.map((process) => {
      const communicator = report.communicators.find(({ missing }) =>
        missing?.ranks.some(({ pid }) => pid === process.pid),
      );
      const rank = communicator?.missing?.ranks.find(({ pid }) => pid === process.pid);
      const other = report.incomplete.find(({ pid }) => pid === process.pid);
      const gpu = /^\d+/.exec(rank?.gpu ?? process.gpus)?.[0];
      return {
        severity: 'error',
        confidence: 'certain',
        text: `process ${process.pid} on ${process.host}${rank === undefined ? '' : ` (rank ${rank.rank})`} no longer answers: RAS considers it dead`,
        culprit: {
          ...(rank === undefined ? {} : { rank: rank.rank }),
          pid: process.pid,
          host: process.host,
          ...(gpu === undefined ? {} : { gpu: Number(gpu) }),
          ...(communicator === undefined ? {} : { comm: communicator.hash }),
        },
        evidence: distinctPlaces([...report.deadAt, process.at, other?.at, rank?.at]),
        repair: `Find out on ${process.host} why process ${process.pid} ended or froze (dmesg for Xid and the out-of-memory killer, its standard error), then restart the job or shrink the communicator without ${rank === undefined ? 'it' : `rank ${rank.rank}`}.`,
        workaround: null,
      };
    }),
  );
}

export const rankDied: Rule = {
  id: 'rank-died',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'a rank that ended, by an exception, a signal, or as RAS sees it, while the others waited',
  example: [
    example(
      'node-b.out',
      '[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 1 has a total capacity of 79.11 GiB. Process 7781 has 77.88 GiB memory in use.',
      '[rank4]:[E1021 14:32:09.090880213 ProcessGroupNCCL.cpp:632] [Rank 4] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=50313, OpType=_ALLGATHER_BASE, NumelIn=8404992, NumelOut=67239936, Timeout(ms)=600000) ran for 600017 milliseconds before timing out.',
    ),
  ],
  references: ['PyTorch: ProcessGroupNCCL watchdog', 'NCCL user guide: RAS'],
  find: (job) => [...deathsInRas(job), ...silentInRas(job), ...lostNodes(job), ...deathsInLogs(job)],
};

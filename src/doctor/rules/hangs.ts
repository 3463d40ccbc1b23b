/** Who makes the others wait: ranks that died, are behind, disagree, or never aborted. */
import type { DumpedOperation, RankDump } from '../model/dump.js';
import type { FrameworkEvent } from '../model/framework.js';
import type { Job } from '../model/job.js';
import { distinctPlaces, type Place } from '../model/place.js';
import { type Member, type NcclProcess, rankOf } from '../model/process.js';
import type { RasCount } from '../model/ras.js';
import { firstOfEach, listed, some, waitingMembers } from './queries.js';
import { reportedGroups } from './reported-operations.js';
import { example, type Finding, type Rule } from './rule.js';

type Exception = Extract<FrameworkEvent, { kind: 'exception' }>;

const watchdogs = (job: Job) => job.events.flatMap((event) => (event.kind === 'watchdog' ? [event] : []));

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
    event.kind === 'exception' && event.rank !== undefined && !SECONDARY.test(event.type) ? [event] : [],
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
  const killed = exits.filter(({ signal }) => signal !== undefined && signal !== 15 && signal !== 6);
  if (killed.length === 0) return killedByKernel(job);
  return firstOfEach(killed, ({ rank, pid }) => rank ?? pid)
    .slice(0, 1)
    .map((event): Finding => {
      const kernel = job.kernelEvents.find(
        (one) => one.kind === 'outOfMemory' && (event.pid === undefined || one.pid === event.pid),
      );
      const who = event.rank === undefined ? `process ${event.pid ?? '?'}` : `rank ${event.rank}`;
      const isKilled = event.signal === 9;
      return {
        severity: 'error',
        confidence: kernel !== undefined || !isKilled ? 'certain' : 'likely',
        text: `${who}${event.host === undefined ? '' : ` on ${event.host}`} was ended by signal ${event.signal}${!isKilled ? '' : kernel === undefined ? ', as by the kernel when memory runs out' : ': the kernel killed it because memory ran out'}`,
        culprit: {
          ...(event.rank === undefined ? {} : { rank: event.rank }),
          ...(event.host === undefined ? {} : { host: event.host }),
          ...(event.pid === undefined ? {} : { pid: event.pid }),
          signal: event.signal,
        },
        evidence: distinctPlaces([event.at, kernel?.at]),
        repair: isKilled
          ? 'Look into dmesg of the host for the out-of-memory killer, and give the job more memory or fewer workers per process.'
          : 'Find the crash in the core file or the stack trace of that process.',
        workaround: null,
      };
    });
}

/** Processes that only the kernel's log tells of: of this job where a log has their number. */
function killedByKernel(job: Job): Finding[] {
  const killed = job.kernelEvents.flatMap((event) => (event.kind === 'outOfMemory' ? [event] : []));
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
      repair:
        'Give the job more memory or fewer workers per process; see in dmesg which process took it, and whether the killed one belonged to this job.',
      workaround: null,
    };
  });
}

function exceptionFinding(job: Job, event: Exception): Finding {
  const after = job.events.find(
    (one) => one.rank === event.rank && one.at.file === event.at.file && one.at.line > event.at.line,
  );
  const where = event.host === undefined ? '' : ` on ${event.host}`;
  return {
    severity: 'error',
    confidence: 'certain',
    text: `rank ${event.rank}${where} died: ${event.isOutOfMemory ? 'its GPU ran out of memory' : event.type}`,
    culprit: {
      rank: event.rank,
      ...(event.host === undefined ? {} : { host: event.host }),
      ...(event.gpu === undefined ? {} : { gpu: event.gpu }),
      ...(event.pid === undefined ? {} : { pid: event.pid }),
    },
    evidence: distinctPlaces([event.at, after?.at]),
    repair: event.isOutOfMemory
      ? `Cure the out-of-memory on rank ${event.rank} (smaller batch or activation memory; see why this rank needs more than the others) and let the job end at once when one rank fails.`
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
  find: (job) => [...deathsInRas(job), ...silentInRas(job), ...deathsInLogs(job)],
};

export const rasError: Rule = {
  id: 'ras-error',
  causes: ['kills', 'hangs'],
  looksFor: 'communicators in which RAS saw errors of initialisation or asynchronous errors',
  example: [
    example(
      'ncclras.txt',
      'NCCL version 2.28.9 compiled with CUDA 13.0',
      '#0-0 (7d20c4be5f91a386) ERROR',
      '  Asynchronous errors on 2 ranks',
    ),
  ],
  references: ['NCCL user guide: RAS'],
  explainedBy: ['rank-died', 'xid', 'ib-port-flap'],
  find: (job) =>
    job.ras.flatMap(({ communicators }) =>
      communicators.flatMap(({ hash, errors }): Finding[] =>
        errors.length === 0
          ? []
          : [
              {
                severity: 'error',
                confidence: 'likely',
                text: `communicator ${hash}: ${errors[0]!.text}`,
                culprit: { comm: hash },
                evidence: some(errors.map(({ at }) => at)),
                repair:
                  'Look for the first warning (NCCL WARN) in the logs of the ranks with errors; abort the communicator on all ranks and make a new one.',
                workaround: null,
                why: 'operations fail when a rank or a link is gone',
              },
            ],
      ),
    ),
};

export const rasTimeout: Rule = {
  id: 'ras-timeout',
  looksFor: 'time-outs of a RAS query',
  example: [
    example(
      'ncclras.txt',
      'NCCL version 2.28.9 compiled with CUDA 13.0',
      'Warnings',
      '========',
      '',
      'TIMEOUT',
      '  Encountered 2 communication timeouts while gathering communicator data',
    ),
  ],
  references: ['NCCL user guide: RAS'],
  explainedBy: ['rank-died'],
  find: (job) =>
    job.ras.flatMap(({ timeouts }): Finding[] =>
      timeouts === undefined
        ? []
        : [
            {
              severity: 'warning',
              confidence: 'possible',
              text: `RAS met ${timeouts.count} time-outs while it collected data`,
              culprit: { timeouts: timeouts.count },
              evidence: [timeouts.at],
              repair: 'Ask again with a longer time-out (ncclras -t 30) and with -v.',
              workaround: null,
              why: 'the query waited for the dead process',
            },
          ],
    ),
};

/** Ranks of a mismatch by whether they are behind the highest count. */
function behind(counts: readonly RasCount[]) {
  const top = Math.max(...counts.map(({ operation }) => operation));
  const ahead = counts.filter(({ operation }) => operation === top);
  const late = counts.filter(({ operation }) => operation < top);
  const ranksOf = (list: readonly RasCount[]): number[] | undefined =>
    list.every(({ ranks, listed: names }) => names.length === ranks)
      ? list.flatMap(({ listed: names }) => names.map(({ rank }) => rank))
      : undefined;
  return { top, ahead, late, lateRanks: ranksOf(late), aheadRanks: ranksOf(ahead) };
}

const sum = (counts: readonly RasCount[]): number => counts.reduce((total, { ranks }) => total + ranks, 0);

export const ranksBehind: Rule = {
  id: 'ranks-behind',
  causes: ['blocks', 'hangs'],
  looksFor: 'ranks that launched fewer operations than others of their communicator, as RAS counts them',
  example: [
    example(
      'ncclras.txt',
      'NCCL version 2.27.5 compiled with CUDA 12.9',
      '#0-0 (7d20c4be5f91a386) MISMATCH',
      '  Communicator ranks have different AllReduce operation counts',
      '  7 ranks have launched up to operation 41',
      '  1 ranks have launched up to operation 40',
      '  Rank 3 -- GPU 3 managed by process 771 on node 10.0.0.14',
    ),
  ],
  references: ['NCCL user guide: RAS'],
  find: (job) =>
    job.ras.flatMap(({ communicators }) =>
      communicators.flatMap(({ hash, mismatches }) =>
        mismatches.flatMap(({ operation, counts, at }): Finding[] => {
          if (counts.length < 2) return [];
          const { top, ahead, late, lateRanks, aheadRanks } = behind(counts);
          if (late.length === 0) return [];
          const who =
            lateRanks !== undefined
              ? lateRanks
              : aheadRanks !== undefined
                ? `all but ${aheadRanks.length < 2 ? aheadRanks.join('') : `${aheadRanks.slice(0, -1).join(', ')} and ${aheadRanks.at(-1)}`}`
                : `${sum(late)} ranks`;
          const whoText = Array.isArray(who) ? `rank ${listed(who)}` : who;
          return [
            {
              severity: 'error',
              confidence: 'likely',
              text: `${sum(late)} rank${sum(late) === 1 ? '' : 's'} (${whoText}) have not called ${operation} ${top}, in which ${sum(ahead)} wait`,
              culprit: { comm: hash, operation, missing: top, ranksBehind: who },
              evidence: distinctPlaces([
                at,
                ...[...late, ...ahead].flatMap((count) => [count.at, ...count.listed.map((one) => one.at)]),
              ]).slice(0, 24),
              repair: `Look at what ${whoText} do before ${operation} ${top} (data loading, another communicator, an exception)${aheadRanks === undefined ? '' : `; ask again with VERBOSE STATUS and take their stacks, not those of rank ${listed(aheadRanks)}`}.`,
              workaround: null,
            },
          ];
        }),
      ),
    ),
};

const isOpen = ({ state }: DumpedOperation): boolean => state !== 'completed';

/** The operation that a rank waits in: the first that is not completed. */
const waitingIn = (dump: RankDump): DumpedOperation | undefined => dump.operations.find(isOpen);

const sizeOfGroup = (list: readonly RankDump[]): number =>
  Math.max(list.length, ...list.map(({ size }) => size ?? 0));

/** Ranks that called an operation and have not started it, while others are in it: something before it holds their stream. */
function blockedRanks(list: readonly RankDump[], sequence: number): Finding[] {
  const there = list.flatMap((dump) => {
    const operation = dump.operations.find((one) => one.sequence === sequence);
    return operation === undefined ? [] : [{ dump, operation }];
  });
  const blocked = there.filter(({ operation }) => operation.state === 'queued');
  const started = there.filter(({ operation }) => operation.state === 'started');
  const [first] = blocked;
  if (first === undefined || started.length === 0 || blocked.length >= started.length) return [];
  const ranks = blocked.map(({ dump }) => dump.rank);
  const { dump, operation } = first;
  return [
    {
      severity: 'error',
      confidence: 'likely',
      text: `rank ${listed(ranks)}${dump.host === undefined ? '' : ` on ${dump.host}`} called ${operation.name} ${sequence} and has not started it; ${started.length} others are in it`,
      culprit: {
        ...(blocked.length === 1 ? { rank: dump.rank } : { ranks }),
        ...(dump.host === undefined ? {} : { host: dump.host }),
        missingSeq: sequence,
        communicator: dump.communicator,
      },
      evidence: distinctPlaces([
        ...some(blocked.map((one) => one.operation.at)),
        ...some(started.map((one) => one.operation.at)),
      ]),
      repair: `See what runs on the stream of rank ${listed(ranks)} before it: a kernel that does not end, a wait for an event, or another communicator’s operation in another order.`,
      workaround: null,
    },
  ];
}

export const rankBehind: Rule = {
  id: 'rank-behind',
  causes: ['blocks', 'hangs'],
  looksFor: 'a rank that completed everything it called and has not called what the others wait in',
  example: [
    example(
      'dumps.json',
      '{ "ranks": [',
      '  { "rank": 0, "group": "g", "ops": [ { "seq": 7, "op": "all_reduce", "count": 8, "state": "completed" },',
      '                                      { "seq": 8, "op": "all_reduce", "count": 8, "state": "started" } ] },',
      '  { "rank": 1, "group": "g", "ops": [ { "seq": 7, "op": "all_reduce", "count": 8, "state": "completed" } ] }',
      '] }',
    ),
  ],
  references: ['PyTorch: flight recorder'],
  find: (job) =>
    reportedGroups(job).flatMap((list): Finding[] => {
      const waiting = list.flatMap((dump) => {
        const operation = waitingIn(dump);
        return operation === undefined ? [] : [{ dump, operation }];
      });
      if (waiting.length === 0) return [];
      const missing = Math.min(...waiting.map(({ operation }) => operation.sequence));
      const late = list.filter(({ operations }) => (operations.at(-1)?.sequence ?? 0) < missing);
      if (late.length === 0) return blockedRanks(list, missing);
      const first = waiting.find(({ operation }) => operation.sequence === missing)!.operation;
      const [one] = late;
      const last = one!.operations.at(-1)!;
      const ranks = late.map(({ rank }) => rank);
      return [
        {
          severity: 'error',
          confidence: list.length >= sizeOfGroup(list) ? 'certain' : 'likely',
          text: `rank ${listed(ranks)}${one!.host === undefined ? '' : ` on ${one!.host}`} never called ${first.name} ${missing}, in which ${waiting.length} rank${waiting.length === 1 ? ' waits' : 's wait'}`,
          culprit: {
            ...(late.length === 1 ? { rank: one!.rank } : { ranks }),
            ...(one!.host === undefined ? {} : { host: one!.host }),
            lastSeq: last.sequence,
            missingSeq: missing,
            communicator: one!.communicator,
          },
          evidence: distinctPlaces([
            ...some(late.map(({ operations }) => operations.at(-1)!.at)),
            ...some(
              waiting
                .filter(({ operation }) => operation.sequence === missing)
                .map(({ operation }) => operation.at),
            ),
          ]),
          repair: `Look at rank ${listed(ranks)} after operation ${last.sequence} (host stack, data loader, exception); it never called ${first.name} ${missing}.`,
          workaround: null,
        },
      ];
    }),
};

/** The value that most ranks have; undefined where no value has a majority. */
function majority<T>(values: readonly T[]): T | undefined {
  const counts = new Map<T, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  const [top, second] = [...counts].sort((a, b) => b[1] - a[1]);
  return top !== undefined && (second === undefined || top[1] > second[1]) ? top[0] : undefined;
}

/** Collectives in which ranks may pass different counts. */
const UNEVEN = /send|recv|all_?to_?all|alltoall|gather_?v|scatter_?v|barrier/i;

const fraction = (part: number, whole: number): string => {
  for (let below = 2; below <= 12; below++) {
    const above = (part / whole) * below;
    if (Math.abs(above - Math.round(above)) < 1e-9 && above > 0)
      return ` is ${Math.round(above)}/${below} of ${whole}`;
  }
  return ` is not ${whole}`;
};

export const collectiveSizeMismatch: Rule = {
  id: 'collective-size-mismatch',
  causes: ['kills', 'hangs'],
  looksFor: 'ranks in the same operation with different counts, types or operations',
  example: [
    example(
      'dumps.json',
      '{ "ranks": [',
      '  { "rank": 0, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "dtype": "float32", "count": 96, "state": "started" } ] },',
      '  { "rank": 1, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "dtype": "float32", "count": 96, "state": "started" } ] },',
      '  { "rank": 2, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "dtype": "float32", "count": 80, "state": "started" } ] }',
      '] }',
    ),
  ],
  references: ['PyTorch: flight recorder'],
  find: (job) => reportedGroups(job).flatMap((list) => mismatchIn(list, 'count')),
};

export const collectiveOrderMismatch: Rule = {
  id: 'collective-order-mismatch',
  causes: ['kills', 'hangs'],
  looksFor: 'ranks that call different operations at the same place of a communicator’s sequence',
  example: [
    example(
      'dumps.json',
      '{ "ranks": [',
      '  { "rank": 0, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "count": 96, "state": "started" } ] },',
      '  { "rank": 1, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "count": 96, "state": "started" } ] },',
      '  { "rank": 2, "group": "g", "ops": [ { "seq": 8, "op": "all_gather", "count": 96, "state": "started" } ] }',
      '] }',
    ),
  ],
  references: ['NCCL user guide: collective operations'],
  find: (job) => {
    const found = reportedGroups(job).flatMap((list) => mismatchIn(list, 'operation'));
    return found.length > 0 ? found : reportedGroups(job).flatMap(aheadOf);
  },
};

/** Collectives that no rank can complete before all have called them. */
const NEEDS_ALL = /all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier/i;

/**
 * Ranks that went past an operation that the others wait in. Where every rank needs every other, no rank can: what it
 * completed with that number was another operation.
 */
function aheadOf(list: readonly RankDump[]): Finding[] {
  const waiting = list.flatMap((dump) => {
    const operation = waitingIn(dump);
    return operation === undefined ? [] : [{ dump, operation }];
  });
  const first = Math.min(...waiting.map(({ operation }) => operation.sequence));
  const stuck = waiting.filter(({ operation }) => operation.sequence === first);
  const ahead = waiting.filter(({ operation }) => operation.sequence > first);
  const name = stuck[0]?.operation.name ?? '';
  const isMost = stuck.length > ahead.length;
  // Without names nothing tells whether a rank can end the operation alone.
  if (ahead.length === 0 || !isMost || !NEEDS_ALL.test(name)) return [];
  const { dump, operation } = ahead[0]!;
  const ranks = ahead.map((one) => one.dump.rank);
  return [
    {
      severity: 'error',
      confidence: 'likely',
      text: `rank ${listed(ranks)} is out of step: it waits in ${operation.name} ${operation.sequence}, and ${stuck.length} others in ${name} ${first}, which no rank can complete without it`,
      culprit: {
        ...(ranks.length === 1 ? { rank: dump.rank } : { ranks }),
        ...(dump.host === undefined ? {} : { host: dump.host }),
        seq: operation.sequence,
        operation: operation.name,
        expected: `${name} ${first}`,
      },
      evidence: distinctPlaces([
        ...some(ahead.flatMap((one) => one.dump.operations.map(({ at }) => at))),
        ...some(stuck.map((one) => one.operation.at)),
      ]),
      repair: `See what rank ${listed(ranks)} called as operation ${first} and before (a branch, a loop of another length, a second group): it did not call the same operations in the same order; a flight recorder on all ranks (TORCH_NCCL_TRACE_BUFFER_SIZE=2000) shows where they part.`,
      workaround: null,
    },
  ];
}

export const collectiveTypeMismatch: Rule = {
  id: 'collective-type-mismatch',
  causes: ['kills', 'hangs'],
  looksFor: 'ranks in the same operation with different element types',
  example: [
    example(
      'dumps.json',
      '{ "ranks": [',
      '  { "rank": 0, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "dtype": "float32", "count": 96, "state": "started" } ] },',
      '  { "rank": 1, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "dtype": "float32", "count": 96, "state": "started" } ] },',
      '  { "rank": 2, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "dtype": "float16", "count": 96, "state": "started" } ] }',
      '] }',
    ),
  ],
  references: ['NCCL user guide: collective operations'],
  find: (job) => reportedGroups(job).flatMap((list) => mismatchIn(list, 'type')),
};

export const deviceOrWireStuck: Rule = {
  id: 'device-or-wire-stuck',
  causes: ['hangs'],
  looksFor: 'an operation that all ranks started alike and none finished: the fault is below the program',
  example: [
    example(
      'dumps.json',
      '{ "world_size": 2, "ranks": [',
      '  { "rank": 0, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "count": 96, "state": "started" } ] },',
      '  { "rank": 1, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "count": 96, "state": "started" } ] }',
      '] }',
    ),
  ],
  references: ['PyTorch: flight recorder'],
  explainedBy: [
    'collective-size-mismatch',
    'collective-order-mismatch',
    'collective-type-mismatch',
    'rank-behind',
    'ib-port-flap',
    'ib-retry-exceeded',
    'xid',
    'pcie-acs-redirect',
    'roce-packet-loss',
    'rank-died',
  ],
  find: (job) =>
    reportedGroups(job).flatMap((list): Finding[] => {
      const open = list.map(waitingIn);
      const [first] = open;
      const isStuck = open.every((one) => one?.sequence === first?.sequence && one?.state === 'started');
      // A dump that was not taken because of a hang shows an ordinary moment.
      const isWhole = list.length >= sizeOfGroup(list);
      if (first === undefined || !isStuck || !isWhole) return [];
      return [
        {
          severity: 'error',
          confidence: 'likely',
          text: `all ${list.length} ranks started ${first.name} ${first.sequence} with the same arguments, and none finished it`,
          culprit: { communicator: list[0]!.communicator, seq: first.sequence, operation: first.name },
          evidence: some(open.map((one) => one!.at)),
          repair:
            'Look below the program: errors of GPUs (dmesg, Xid), of adapters and links (port events, retransmissions), PCIe access control, and the log with NCCL_DEBUG=WARN.',
          workaround: null,
          why: 'ranks that disagree do not get past the operation',
        },
      ];
    }),
};

/** Ranks that differ in one respect in the first operation that is not completed everywhere. */
function mismatchIn(list: readonly RankDump[], wanted: 'operation' | 'type' | 'count'): Finding[] {
  // The first operation that is not completed everywhere: ranks that disagree do not get past it.
  const open = list.flatMap((dump) => waitingIn(dump)?.sequence ?? []);
  if (open.length === 0) return [];
  const sequence = Math.min(...open);
  const there = list.flatMap((dump) => {
    const operation = dump.operations.find((one) => one.sequence === sequence);
    return operation === undefined ? [] : [{ dump, operation }];
  });
  if (there.length < 2) return [];
  const keys = [
    (one: DumpedOperation) => one.name,
    (one: DumpedOperation) => one.type,
    (one: DumpedOperation) => (UNEVEN.test(one.name) ? '' : one.size),
  ];
  const names = ['operation', 'type', 'count'] as const;
  const wrong = keys.findIndex((key) => new Set(there.map(({ operation }) => key(operation))).size > 1);
  if (wrong < 0) return [];
  const key = keys[wrong]!;
  const usual = majority(there.map(({ operation }) => key(operation)));
  const odd = usual === undefined ? there : there.filter(({ operation }) => key(operation) !== usual);
  const { dump, operation } = odd[0]!;
  const other = there.find((one) => key(one.operation) !== key(operation))!;
  const expected = other.operation.elements;
  const what = names[wrong]!;
  if (what !== wanted) return [];
  const ranks = odd.map((one) => one.dump.rank);
  const part =
    wrong === 2 && expected !== undefined && operation.elements !== undefined && operation.elements < expected
      ? `: ${operation.elements}${fraction(operation.elements, expected)}, look for a short last batch that is not dropped or padded`
      : '';
  return [
    {
      severity: 'error',
      confidence: 'certain',
      text:
        odd.length === there.length
          ? `ranks ${listed(ranks)} disagree about the ${what} of operation ${sequence}: ${String(key(operation))} and ${String(key(other.operation))}`
          : `rank ${listed(ranks)} calls operation ${sequence} with another ${what} (${String(key(operation))}) than the others (${String(key(other.operation))})`,
      culprit: {
        ...(odd.length === 1 ? { rank: dump.rank } : { ranks }),
        ...(dump.host === undefined ? {} : { host: dump.host }),
        seq: sequence,
        ...(wrong === 2 && operation.elements !== undefined
          ? { elements: operation.elements, expected }
          : { [what]: key(operation), expected: key(other.operation) }),
      },
      evidence: distinctPlaces([
        ...some(odd.map((one) => one.operation.at)),
        ...some(there.filter((one) => !odd.includes(one)).map((one) => one.operation.at)),
      ]),
      repair: `Make rank ${listed(ranks)} pass the same ${what}${part}.`,
      workaround: null,
    },
  ];
}

export const watchdogTimeout: Rule = {
  id: 'watchdog-timeout',
  causes: ['hangs'],
  looksFor: 'collectives that did not finish in time, with no fault that explains it',
  example: [
    example(
      'node-a.out',
      '[rank2]:[E1021 14:32:09.114402911 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=50313, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.',
    ),
  ],
  references: ['PyTorch: TORCH_NCCL_ASYNC_ERROR_HANDLING, flight recorder'],
  explainedBy: { effects: ['blocks', 'kills', 'hangs'] },
  find(job) {
    const lines: Place[] = [
      ...watchdogs(job).map(({ at }) => at),
      ...job.dumps.flatMap(({ reason }) =>
        reason !== undefined && /time-?out/i.test(reason.text) ? [reason.at] : [],
      ),
    ];
    if (lines.length === 0) return [];
    const told = watchdogs(job);
    const ranks = [...new Set(told.flatMap(({ rank }) => rank ?? []))].sort((a, b) => a - b);
    const sequences = [...new Set(told.flatMap(({ sequence }) => sequence ?? []))];
    const calls = [
      ...new Set(
        told.map(({ operation, sequence }) => [operation ?? 'operation', sequence ?? ''].join(' ').trim()),
      ),
    ];
    const silent = silentRanks(job, ranks);
    return [
      {
        severity: 'error',
        confidence: silent.length > 0 ? 'likely' : 'possible',
        text: `${ranks.length === 0 ? 'ranks' : `rank ${listed(ranks)}`} waited in vain${calls.length === 0 ? '' : ` in ${listed(calls, 3)}`}${silent.length === 0 ? '' : `; rank ${listed(silent)} reports no time-out and is likely the one they wait for`}`,
        culprit: {
          ...(silent.length === 1 ? { rank: silent[0] } : silent.length > 1 ? { missing: silent } : {}),
          ranks: ranks.slice(0, 64),
          sequences: sequences.slice(0, 16),
        },
        evidence: some(lines, 24),
        repair:
          silent.length > 0
            ? `Look at rank ${listed(silent)}: its log and stack (py-spy dump) at that time, exceptions, the data loader; the flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1) tells what it called last.`
            : 'See who is missing: logs of the ranks that report no time-out, the flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1), or ncclras -v while it hangs.',
        workaround: 'A longer time-out only delays the end.',
        why: 'the other ranks waited until the limit',
      },
    ];
  },
};

/** Ranks of which nothing reports a time-out, where most others do. */
function silentRanks(job: Job, waiting: readonly number[]): number[] {
  const known = [
    ...job.events.flatMap(({ rank }) => rank ?? []),
    ...job.processes.flatMap(({ members }) => members.flatMap(({ size }) => (size ?? 1) - 1)),
  ];
  const size = 1 + Math.max(-1, ...known);
  // Groups of some of the ranks, or a log of one rank, leave gaps that mean nothing.
  if (size > 65_536 || waiting.length <= size / 2) return [];
  return Array.from({ length: size }, (_, rank) => rank).filter((rank) => !waiting.includes(rank));
}

interface AbortState {
  readonly process: NcclProcess;
  readonly member: Member;
}

export const abortMissingOnRank: Rule = {
  id: 'abort-missing-on-rank',
  causes: ['blocks', 'hangs'],
  looksFor: 'a rank that never aborts its communicator while the others do and make a new one',
  example: [
    example(
      'w.log',
      'n:1:1 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
      'n:1:1 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init COMPLETE',
      'n:1:1 [0] NCCL INFO comm 0xa0 rank 0 nRanks 2 cudaDev 0 busId 1b000 - Abort START',
      'n:1:1 [0] NCCL INFO ncclCommInitRank comm 0xa1 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0xc5 - Init START',
      'n:2:2 [1] NCCL INFO ncclCommInitRank comm 0xb0 rank 1 nranks 2 cudaDev 1 busId 43000 commId 0x3f - Init START',
      'n:2:2 [1] NCCL INFO ncclCommInitRank comm 0xb0 rank 1 nranks 2 cudaDev 1 busId 43000 commId 0x3f - Init COMPLETE',
    ),
  ],
  references: ['NCCL user guide: ncclCommAbort, fault tolerance'],
  find(job) {
    const byId = new Map<string, AbortState[]>();
    for (const process of job.processes) {
      for (const member of process.members) {
        if (member.commId === undefined || member.started === undefined) continue;
        byId.set(member.commId, [...(byId.get(member.commId) ?? []), { process, member }]);
      }
    }
    return [...byId.values()].flatMap((states): Finding[] => {
      const aborted = states.filter(({ member }) => member.abortStarted !== undefined);
      const silent = states.filter(
        ({ member }) =>
          member.abortStarted === undefined &&
          member.destroyed === undefined &&
          member.completed !== undefined,
      );
      if (aborted.length === 0 || silent.length === 0) return [];
      // The others went on to a communicator that those ranks do not join.
      const waiting = waitingMembers(job).filter(({ process }) =>
        aborted.some((one) => one.process === process),
      );
      const restarted = new Set(waiting.map(({ member }) => member.commId));
      const late = silent.filter(
        ({ process }) => !process.members.some(({ commId }) => restarted.has(commId)),
      );
      if (late.length === 0) return [];
      return late.map(({ process, member }): Finding => {
        const call = member.lastCall;
        const next = aborted
          .flatMap((one) => one.member.lastCall ?? [])
          .find(({ opCount }) => call !== undefined && opCount > call.opCount);
        return {
          severity: 'error',
          confidence: waiting.length > 0 ? 'certain' : 'likely',
          text: `rank ${member.rank} on ${process.host} never aborted; ${aborted.length} other${aborted.length === 1 ? '' : 's'} did${waiting.length > 0 ? ' and wait for it in a new communicator' : ''}`,
          culprit: { rank: member.rank, host: process.host },
          evidence: distinctPlaces([
            call?.at,
            lastOf(job, process),
            ...some(aborted.map((one) => one.member.abortStarted!)),
          ]),
          repair: `Let the failure handler reach rank ${member.rank} too (abort from another thread than the one that waits${next === undefined ? '' : `; rank ${member.rank} is also the one that never called ${next.name} ${next.opCount}`}), and give the new rendezvous a deadline.`,
          workaround: null,
        };
      });
    });
  },
};

/** The last line that a process wrote: of the file, where the file is its own. */
function lastOf(job: Job, process: NcclProcess): Place {
  const file = job.files.find(({ name }) => name === process.last.file);
  return file !== undefined && file.processes.size === 1 && file.last !== undefined
    ? file.last
    : process.last;
}

/**
 * Processes that several files tell of: the same number on the same host is one process where the files name a common
 * communicator, or at most one of them names any. In containers every run has the same numbers, and each run is another process.
 */
import type { Job } from '../model/job.js';
import type { NcclProcess } from '../model/process.js';

/** Joins what the files of each process tell. */
export function joinProcesses(job: Job): void {
  const byNumber = new Map<string, NcclProcess[]>();
  const joined = new Map<NcclProcess, NcclProcess>();
  for (const process of job.processes) {
    const key = `${process.host}:${process.pid}`;
    const known = byNumber.get(key) ?? [];
    const same = known.find((one) => isSame(one, process));
    if (same === undefined) byNumber.set(key, [...known, process]);
    else {
      join(same, process);
      joined.set(process, same);
    }
  }
  if (joined.size === 0) return;
  job.processes.splice(0, job.processes.length, ...job.processes.filter((process) => !joined.has(process)));
  for (const { processes } of job.files) {
    for (const process of [...processes]) {
      const same = joined.get(process);
      if (same === undefined) continue;
      processes.delete(process);
      processes.add(same);
    }
  }
}

const idsOf = ({ members }: NcclProcess): string[] => members.flatMap(({ commId }) => commId ?? []);

function isSame(a: NcclProcess, b: NcclProcess): boolean {
  const ids = new Set(idsOf(a));
  const others = idsOf(b);
  return ids.size === 0 || others.length === 0 || others.some((id) => ids.has(id));
}

/** Adds to a process what another file says of it. */
function join(process: NcclProcess, other: NcclProcess): void {
  process.last = other.last;
  process.version ??= other.version;
  process.cudaDriver ??= other.cudaDriver;
  process.bootstrap ??= other.bootstrap;
  process.hcas ??= other.hcas;
  process.noIbDevice ??= other.noIbDevice;
  process.sockets ??= other.sockets;
  process.network ??= other.network;
  process.rings ??= other.rings;
  process.tree ??= other.tree;
  process.topologyFile ??= other.topologyFile;
  process.multicast ??= other.multicast;
  process.channels ??= other.channels;
  process.moreTroubles += other.moreTroubles;
  for (const [name, value] of other.environment)
    if (!process.environment.has(name)) process.environment.set(name, value);
  for (const [key, edge] of other.connections) {
    const known = process.connections.get(key);
    if (known === undefined) process.connections.set(key, edge);
  }
  process.libraryFailures.push(...other.libraryFailures);
  process.choices.push(...other.choices);
  process.troubles.push(...other.troubles);
  process.failedReturns.push(...other.failedReturns);
  for (const member of other.members) {
    const known = process.members.find(
      ({ comm, commId }) => comm === member.comm && (commId ?? member.commId) === (member.commId ?? commId),
    );
    if (known === undefined) process.members.push(member);
    else fill(known, member);
  }
  const table = other.tuning;
  if (table === undefined || process.tuning !== undefined) return;
  const own = other.members[table.member];
  const place = process.members.findIndex(({ comm }) => comm === own?.comm);
  process.tuning = { ...table, member: Math.max(0, place) };
}

/** The facts of a member that another file lacks. */
function fill<T extends object>(known: T, other: T): void {
  for (const key of Object.keys(other) as (keyof T)[]) known[key] ??= other[key];
}

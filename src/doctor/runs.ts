/**
 * The runs that a collection of files holds: people keep the logs of several attempts together, and a fault belongs to
 * the attempt that shows it.
 *
 * Processes that share a communicator are one group. Groups that use the same GPU in different processes cannot be one
 * run, nor can groups in different folders with other numbers of ranks; everything else may be one, as where a job has
 * communicators inside hosts only. What files say beside logs goes to the run of the processes that it names, of its
 * file up to there, or of its folder; facts of machines hold for all runs.
 */
import { largest, smallest } from './model/extremes.js';
import { communicatorGroups } from './model/groups.js';
import { emptyJob, type FileRecord, type Job } from './model/job.js';
import type { Place } from './model/place.js';
import type { NcclProcess } from './model/process.js';

export interface Run {
  /** Where it is: a folder, or files. */
  readonly name: string;
  readonly job: Job;
}

/** Groups that are compared with each other: more are no attempts of a job. */
const MAX_GROUPS = 500;

/** The runs of a job, in the order in which they begin; the job itself where it is one, or where nothing tells them apart. */
export function runsOf(job: Job): Run[] {
  const groups = communicatorGroups(job.processes).map(groupOf);
  if (groups.length < 2 || groups.length > MAX_GROUPS) return [{ name: '', job }];
  const parts: Part[] = [];
  for (const group of groups) {
    const fitting = parts.filter((part) => part.groups.every((one) => !conflict(one, group)));
    const part =
      fitting.find((one) => [...one.files].some((file) => group.files.has(file))) ?? fitting.at(-1);
    if (part === undefined) parts.push(newPart(group));
    else addGroup(part, group);
  }
  if (parts.length < 2) return [{ name: '', job }];
  // Ranks that are alone in their communicators are runs of their own, or processes that should have been one job.
  const written = new Set(parts.flatMap(({ files }) => [...files]));
  const single = job.processes.filter(
    ({ first, members }) =>
      !written.has(first.file) && members.length > 0 && members.every(({ size }) => size === 1),
  );
  if (single.length > 0) parts.push(newPart(groupOf(single)));
  return new Division(job, parts).runs() ?? [{ name: '', job }];
}

interface Group {
  readonly processes: readonly NcclProcess[];
  /** GPUs by host and bus id. */
  readonly gpus: ReadonlySet<string>;
  readonly files: ReadonlySet<string>;
  readonly folders: ReadonlySet<string>;
  /** Ranks of the largest communicator. */
  readonly size: number;
  readonly isCompleted: boolean;
}

const folderOf = (file: string): string => file.slice(0, Math.max(0, file.lastIndexOf('/')));

function groupOf(processes: readonly NcclProcess[]): Group {
  const members = processes.flatMap((process) => process.members.map((member) => ({ process, member })));
  const files = new Set(processes.flatMap(({ first, last }) => [first.file, last.file]));
  return {
    processes,
    gpus: new Set(
      members.flatMap(({ process, member }) =>
        member.busId === undefined ? [] : [`${process.host} ${member.busId}`],
      ),
    ),
    files,
    folders: new Set([...files].map(folderOf)),
    size: largest(
      members.map(({ member }) => member.size ?? 0),
      0,
    ),
    isCompleted: members.some(({ member }) => member.completed !== undefined),
  };
}

const overlap = <T>(a: ReadonlySet<T>, b: ReadonlySet<T>): boolean => {
  for (const one of a) if (b.has(one)) return true;
  return false;
};

/** They cannot be one run. */
function conflict(a: Group, b: Group): boolean {
  if (overlap(a.gpus, b.gpus)) return true;
  return a.size !== b.size && a.isCompleted && b.isCompleted && !overlap(a.folders, b.folders);
}

/** Groups of one run. */
interface Part {
  readonly groups: Group[];
  readonly processes: Set<NcclProcess>;
  readonly files: Set<string>;
}

function newPart(group: Group): Part {
  const part: Part = { groups: [], processes: new Set(), files: new Set() };
  addGroup(part, group);
  return part;
}

function addGroup(part: Part, group: Group): void {
  part.groups.push(group);
  for (const process of group.processes) part.processes.add(process);
  for (const file of group.files) part.files.add(file);
}

/** Lists of a job whose facts have a place. */
const FACTS = [
  'matrices',
  'pci',
  'gids',
  'ports',
  'links',
  'counters',
  'values',
  'sockets',
  'mounts',
  'modules',
  'interfaces',
  'kernelEvents',
  'commands',
  'memory',
  'pairRows',
  'wireTests',
  'bareVersions',
] as const;

/** Assigns what a job holds to its runs. */
class Division {
  /** Where runs begin in the files that they write to. */
  readonly #starts = new Map<string, { readonly part: Part; readonly line: number }[]>();
  readonly #byProcess = new Map<string, Part | null>();
  readonly #byFolder = new Map<string, Part | null>();

  constructor(
    private readonly job: Job,
    private readonly parts: readonly Part[],
  ) {
    for (const part of parts) {
      for (const file of part.files) {
        const lines = [...part.processes].flatMap(({ first }) => (first.file === file ? [first.line] : []));
        const list = this.#starts.get(file) ?? [];
        list.push({ part, line: smallest(lines, Number.MAX_SAFE_INTEGER) });
        this.#starts.set(
          file,
          list.sort((a, b) => a.line - b.line),
        );
        this.#only(this.#byFolder, folderOf(file), part);
      }
      for (const { host, pid } of part.processes) this.#only(this.#byProcess, `${host}:${pid}`, part);
    }
  }

  /** A key that two runs have tells nothing. */
  #only(map: Map<string, Part | null>, key: string, part: Part): void {
    const known = map.get(key);
    map.set(key, known === undefined || known === part ? part : null);
  }

  #ofPlace({ file, line }: Place): Part | undefined {
    const starts = this.#starts.get(file);
    if (starts !== undefined) return (starts.findLast((one) => one.line <= line) ?? starts[0]!).part;
    for (let folder = folderOf(file); ; folder = folderOf(folder)) {
      const part = this.#byFolder.get(folder);
      if (part !== undefined) return part ?? undefined;
      if (folder === '') return undefined;
    }
  }

  #ofProcess(host: string | undefined, pid: number | undefined): Part | undefined {
    return pid === undefined ? undefined : (this.#byProcess.get(`${host}:${pid}`) ?? undefined);
  }

  /** The runs; undefined where something that belongs to one of them cannot be assigned. */
  runs(): Run[] | undefined {
    const { job } = this;
    const jobs = new Map(this.parts.map((part) => [part, emptyJob()] as const));
    let isAmbiguous = false;
    const give = <T>(
      facts: readonly T[],
      owner: (fact: T) => Part | undefined,
      to: (of: Job) => T[],
    ): void => {
      for (const fact of facts) {
        const part = owner(fact);
        if (part === undefined) isAmbiguous = true;
        else to(jobs.get(part)!).push(fact);
      }
    };
    const partOf = new Map(
      this.parts.flatMap((part) => [...part.processes].map((one) => [one, part] as const)),
    );
    give(
      job.processes,
      (one) => partOf.get(one) ?? this.#ofPlace(one.first),
      (of) => of.processes,
    );
    give(
      job.benches,
      (one) =>
        one.devices.map(({ host, pid }) => this.#ofProcess(host, pid)).find((part) => part !== undefined) ??
        this.#ofPlace(one.at),
      (of) => of.benches,
    );
    give(
      job.ras,
      (one) =>
        [...one.dead, ...one.incomplete, ...one.communicators.flatMap(({ missing }) => missing?.ranks ?? [])]
          .map(({ host, pid }) => this.#ofProcess(host, pid))
          .find((part) => part !== undefined) ?? this.#ofPlace(one.at),
      (of) => of.ras,
    );
    give(
      job.dumps,
      (one) => {
        const at = one.operations[0]?.at ?? one.reason?.at;
        return at && this.#ofPlace(at);
      },
      (of) => of.dumps,
    );
    give(
      job.events,
      (one) => this.#ofProcess(one.host, 'pid' in one ? one.pid : undefined) ?? this.#ofPlace(one.at),
      (of) => of.events,
    );
    if (isAmbiguous) return undefined;
    for (const name of FACTS) {
      type Fact = { readonly at: Place };
      const list = (of: Job): Fact[] => of[name] as Fact[];
      this.#share(list(job), ({ at }) => this.#ofPlace(at), list, jobs);
    }
    this.#share(
      job.topologies,
      ({ file }) => this.#ofPlace({ file, line: 1 }),
      (of) => of.topologies,
      jobs,
    );
    return this.parts.map((part) => {
      const own = jobs.get(part)!;
      own.files.push(...job.files.flatMap((file) => this.#fileOf(file, part) ?? []));
      return { name: this.#nameOf(part), job: own };
    });
  }

  /** Facts without an owner hold for all runs. */
  #share<T>(
    facts: readonly T[],
    owner: (fact: T) => Part | undefined,
    to: (of: Job) => T[],
    jobs: ReadonlyMap<Part, Job>,
  ): void {
    for (const fact of facts) {
      const part = owner(fact);
      for (const [one, job] of jobs) if (part === undefined || part === one) to(job).push(fact);
    }
  }

  /** The file as a run sees it. */
  #fileOf(file: FileRecord, part: Part): FileRecord | undefined {
    const starts = this.#starts.get(file.name);
    if (starts === undefined) {
      const owner = this.#ofPlace({ file: file.name, line: 1 });
      return owner === undefined || owner === part ? file : undefined;
    }
    if (starts.every((one) => one.part !== part)) return undefined;
    // Only the last run of a file is cut off with it.
    const isLast = starts.at(-1)!.part === part;
    return isLast
      ? file
      : {
          ...file,
          endsInLine: false,
          processes: new Set([...file.processes].filter((one) => part.processes.has(one))),
        };
  }

  #nameOf(part: Part): string {
    const own = [...part.files];
    const folders = [...new Set(own.map(folderOf))];
    if (folders.length === 1 && folders[0] !== '' && this.#byFolder.get(folders[0]!) === part)
      return folders[0]!;
    const [file] = own;
    const starts = this.#starts.get(file!)!;
    if (own.length === 1 && starts.length > 1) {
      const line = starts.find((one) => one.part === part)!.line;
      return line === starts[0]!.line ? `the beginning of ${file}` : `${file} from line ${line} on`;
    }
    return own.length <= 2 ? own.join(' and ') : `${own[0]} and ${own.length - 1} other files`;
  }
}

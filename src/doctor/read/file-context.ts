/**
 * What all readers of one file share: the model they add to, where they are, and whose output it seems to be.
 */
import type { BenchRun, CommandLine } from '../model/bench.js';
import type { FileRecord, Job } from '../model/job.js';
import type { Place } from '../model/place.js';
import { type NcclProcess, newProcess } from '../model/process.js';

export interface FileContext {
  readonly job: Job;
  readonly record: FileRecord;
  /** Number of the current line, from 1. */
  line: number;
  /** Host of the last shell prompt. */
  host: string | undefined;
  command: CommandLine | undefined;
  bench: BenchRun | undefined;
}

/** Reads a line that is its own; tells whether it was. */
export type LineReader = (line: string) => boolean;

export const here = (context: FileContext): Place => ({ file: context.record.name, line: context.line });

export const kind = (context: FileContext, name: string): true => {
  context.record.kinds.add(name);
  return true;
};

/** The processes of a job by file, host and number, while files are read. */
export class ProcessTable {
  readonly #byKey = new Map<string, NcclProcess>();

  constructor(private readonly job: Job) {}

  get(host: string, pid: number, context: FileContext): NcclProcess {
    const key = `${host}:${pid}:${context.record.name}`;
    const known = this.#byKey.get(key);
    if (known !== undefined) return known;
    const process = newProcess(host, pid, here(context));
    this.#byKey.set(key, process);
    this.job.processes.push(process);
    return process;
  }
}

/**
 * Verdicts and model as plain data for JSON.
 */
import type { XmlElement } from '../../topology/xml/element.js';
import type { Verdict } from '../diagnose.js';
import { expectations } from '../expected.js';
import type { Job } from '../model/job.js';
import type { Connection, NcclProcess } from '../model/process.js';
import { runsOf } from '../runs.js';
import { outcomeOf } from './outcome.js';
import { jobSummary, notChecked } from './summary.js';

/** The object that `tutti doctor --json` prints. */
export function jsonReport(job: Job, verdicts: readonly Verdict[]) {
  const outcome = outcomeOf(job, verdicts);
  return {
    healthy: outcome === 'healthy',
    outcome,
    verdicts: verdicts.map(({ text, ...verdict }) => ({ ...(plain(verdict) as object), text })),
    runs: runsOf(job).map((run) => ({ name: run.name, summary: jobSummary(run.job) })),
    expected: plain(expectations(job)),
    notChecked: notChecked(job),
    model: modelOf(job),
  };
}

/** The model of a job. Equal edges of a process are summed; topology files are named, not repeated. */
function modelOf(job: Job) {
  const { processes, topologies, files, ...rest } = job;
  return {
    files: files.map(({ name, lines, kinds, problems }) => ({ name, lines, kinds: [...kinds], problems })),
    hosts: [...new Set(processes.flatMap(({ host, isQuoted }) => (isQuoted ? [] : [host])))],
    processes: processes.map(processOf),
    topologies: topologies.map(({ kind, file, root, notes }) => ({
      kind,
      file,
      elements: sizeOf(root),
      notes,
    })),
    ...(plain(rest) as object),
  };
}

function processOf(process: NcclProcess) {
  const { connections, ...rest } = process;
  return { ...(plain(rest) as object), connections: waysOf([...connections.values()]) };
}

/** Edges by way. */
function waysOf(connections: readonly Connection[]) {
  const ways = new Map<
    string,
    { via: string; end: string; gpuDirect: boolean; edges: number; channels: number; at: unknown }
  >();
  for (const { via, end, gpuDirect, channels, at } of connections) {
    const key = `${end} ${via}`;
    const way = ways.get(key) ?? { via, end, gpuDirect, edges: 0, channels: 0, at };
    way.edges++;
    way.channels += channels;
    ways.set(key, way);
  }
  return [...ways.values()];
}

const sizeOf = (root: XmlElement): number =>
  1 + root.children.reduce((count, child) => count + sizeOf(child), 0);

/** Maps as objects, sets as arrays, and nothing that JSON does not know. */
function plain(value: unknown): unknown {
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, one]) => [key, plain(one)]));
  if (value instanceof Set) return [...value].map(plain);
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Float32Array) return [...value];
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)]));
  }
  return value;
}

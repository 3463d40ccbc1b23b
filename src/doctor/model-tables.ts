/**
 * The cost model of a job whose topology file was given: what NCCL would estimate there, with the job's variables and
 * without those that force algorithms or protocols.
 */
import { TuttiError } from '../errors/tutti-error.js';
import { describeCluster } from '../topology/cluster.js';
import type { XmlElement } from '../topology/xml/element.js';
import { tuningInput } from '../tuning/from-topology.js';
import { type TuningTables, tuningTables } from '../tuning/model.js';
import { tuningSettings } from '../tuning/settings.js';
import { constantsOfVersion, MODEL_VERSION } from '../tuning/versions.js';
import { type BenchRun, hostsOfRun } from './model/bench.js';
import type { Job } from './model/job.js';
import type { Place } from './model/place.js';

export interface ModelTables {
  readonly at: Place;
  readonly tables: TuningTables;
  /** Without NCCL_ALGO and NCCL_PROTO, where one of them is set. */
  readonly free: TuningTables | undefined;
}

/** Machines that are computed: more take long, and their alike nodes give no other numbers. */
const MAX_GPUS = 16;
const MAX_HOSTS = 32;

/** Tables for a run, if the only topology file of the job has as many GPUs as each of its hosts has ranks. */
export function modelTables(job: Job, run: BenchRun): ModelTables | undefined {
  const files = job.topologies.filter(({ kind }) => kind === 'system');
  const [file] = files;
  const hosts = hostsOfRun(run).length;
  if (file === undefined || files.length > 1 || hosts === 0 || hosts > MAX_HOSTS) return undefined;
  const gpus = gpusOf(file.root);
  if (gpus === 0 || gpus > MAX_GPUS || gpus * hosts !== run.devices.length) return undefined;
  const process = job.processes.find(({ host }) => run.devices.some((device) => device.host === host));
  const version = process?.version?.value ?? MODEL_VERSION;
  const own = Object.fromEntries([...(process?.environment ?? [])].map(([name, { value }]) => [name, value]));
  const env = { ...constantsOfVersion(version.replace(/\+.*$/, '')).defaults, ...own };
  const nvls = process?.multicast?.value ?? true;
  const { NCCL_ALGO: algo, NCCL_PROTO: proto, ...rest } = env as Record<string, string | undefined>;
  try {
    const of = (variables: Readonly<Record<string, string | undefined>>) => {
      const nodes = Array.from({ length: hosts }, () => ({ xml: file.root }));
      const { comm, settings: topology } = describeCluster({ nodes, env: variables, nvls });
      return tuningTables(tuningInput({ comm, topology, settings: tuningSettings(variables) }));
    };
    const isForced = algo !== undefined || proto !== undefined;
    return {
      at: { file: file.file, line: file.root.line ?? 1 },
      tables: of(env),
      free: isForced ? of(rest) : undefined,
    };
  } catch (error) {
    // A file that describes no machine, as those for virtual machines without their GPUs, predicts nothing.
    if (TuttiError.is(error)) return undefined;
    throw error;
  }
}

const gpusOf = (element: XmlElement): number =>
  (element.name === 'gpu' ? 1 : 0) + element.children.reduce((count, child) => count + gpusOf(child), 0);

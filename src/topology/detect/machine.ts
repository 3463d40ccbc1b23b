/**
 * Everything that detection asks of a machine, live or recorded.
 */
import { cpus, hostname } from 'node:os';
import { listNetworkInterfaces, type NetworkInterface } from '../../system/interfaces.js';
import type { Environment } from '../settings.js';
import { type CpuFacts, cpuFactsWithoutProc, readCpuFacts } from './cpu-facts.js';
import { directoryTree } from './directory-tree.js';
import { hostHashOf } from './host-hash.js';
import { readQueuePairs } from './ib-library.js';
import { type FileTree, MachineFiles } from './machine-files.js';
import type { NvmlFacts } from './nvml-facts.js';
import { readNvml } from './nvml-library.js';

export interface Machine {
  /** For people: `this machine` or the name of a recording. */
  readonly source: string;
  readonly tree: FileTree;
  readonly files: MachineFiles;
  /** Undefined where a recording does not tell. */
  readonly cpu: CpuFacts | undefined;
  /** Undefined where there is no NVIDIA driver. */
  readonly nvml: NvmlFacts | undefined;
  /** Why `nvml` is undefined; empty where it is not. */
  readonly nvmlProblem: string;
  readonly interfaces: readonly NetworkInterface[];
  /** Queue pairs that InfiniBand and RoCE devices can have, by name, as far as they are known. */
  readonly queuePairs: ReadonlyMap<string, number>;
  /** NCCL's hash of the host. */
  readonly hostHash: bigint;
  /** Settings that a recording was made with; detection uses what it is given, this is for the caller to pass on. */
  readonly environment: Environment;
}

/** Has an entry for each InfiniBand and RoCE device. */
const IB_FOLDER = '/sys/class/infiniband';

/** The machine this runs on. On systems without /sys there are a processor and interfaces, and nothing else. */
export function liveMachine(): Machine {
  const tree = directoryTree('/');
  const files = new MachineFiles(tree);
  const { facts, problem } = readNvml();
  const hasProc = files.realPath('/proc/cpuinfo') !== undefined;
  return {
    source: 'this machine',
    tree,
    files,
    cpu: hasProc
      ? readCpuFacts(files, process.arch)
      : cpuFactsWithoutProc(process.arch, cpus()[0]?.model, process.env),
    nvml: facts,
    nvmlProblem: problem,
    interfaces: listNetworkInterfaces(),
    queuePairs: files.names(IB_FOLDER).length > 0 ? readQueuePairs() : new Map(),
    hostHash: hostHashOf(hostname(), files),
    environment: {},
  };
}

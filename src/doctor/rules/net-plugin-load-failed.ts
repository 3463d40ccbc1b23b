/** A network plugin was to be used and could not be loaded. */
import type { Job } from '../model/job.js';
import type { LibraryFailure, NcclProcess } from '../model/process.js';
import { firstOfEach, listed, nodeCount, some, variable } from './queries.js';
import { example, type Rule } from './rule.js';

const base = (path: string): string => path.replace(/^.*\//, '');

/** The library that NCCL tries on its own; that it is missing is normal. */
const isDefault = (library: string): boolean =>
  /^libnccl-(?:net|tuner|profiler|env|gin|rma)\.so/.test(base(library));

/** A library that the plugin needs is missing, or the plugin was asked for by name. */
function isFault(failure: LibraryFailure, process: NcclProcess): boolean {
  const isNeeded = base(failure.missing) !== base(failure.library);
  const isWrong = failure.reason.startsWith('undefined symbol');
  const asked = variable(process, 'NCCL_NET_PLUGIN') ?? '';
  const isAsked =
    asked !== '' && !/^none$/i.test(asked) && failure.library.includes(asked.replace(/^lib|\.so.*$/g, ''));
  return isNeeded || isWrong || (isAsked && !isDefault(failure.library));
}

function faults(job: Job) {
  return job.processes.flatMap((process) =>
    process.libraryFailures.filter((one) => isFault(one, process)).map((failure) => ({ process, failure })),
  );
}

export const netPluginLoadFailed: Rule = {
  id: 'net-plugin-load-failed',
  causes: ['blocks', 'slows'],
  looksFor: 'a network plugin that was asked for, or that is there, and cannot be loaded',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NCCL_NET_PLUGIN set by environment to ofi',
      'n1:10:11 [0] NCCL INFO NET/Plugin: libnccl-net-ofi.so: libfabric.so.1: cannot open shared object file: No such file or directory',
      'n1:10:11 [0] NCCL INFO NET/IB : No device found.',
      'n1:10:11 [0] NCCL INFO Using network Socket',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0',
    ),
  ],
  references: ['NCCL user guide: NCCL_NET_PLUGIN, NCCL_NET'],
  find(job) {
    const found = faults(job);
    const [first] = found;
    if (first === undefined) return [];
    const { failure, process } = first;
    const asked = variable(process, 'NCCL_NET_PLUGIN');
    const isSlow =
      nodeCount(job) > 1 && found.some((one) => (one.process.network?.value ?? 'Socket') === 'Socket');
    const hosts = [...new Set(found.map((one) => one.process.host))];
    const needed = base(failure.missing) !== base(failure.library);
    return [
      {
        severity: isSlow ? 'error' : 'warning',
        confidence: 'certain',
        text: `the network plugin ${base(failure.library)} cannot be loaded on ${listed(hosts)}: ${needed ? `${base(failure.missing)} is missing` : failure.reason}`,
        culprit: {
          library: base(failure.missing),
          plugin: base(failure.library),
          ...(asked === undefined ? {} : { variable: 'NCCL_NET_PLUGIN', value: asked }),
        },
        evidence: some(
          firstOfEach(found, (one) => one.process.host + one.failure.at.file).map((one) => one.failure.at),
        ),
        repair: needed
          ? `Install ${base(failure.missing)} in the image or put its directory into LD_LIBRARY_PATH, then demand the network with NCCL_NET, so that a broken plugin stops the job.`
          : `Install a build of ${base(failure.library)} that fits this system, or take NCCL_NET_PLUGIN away, then demand the network with NCCL_NET.`,
        workaround: null,
      },
    ];
  },
};

export const netSocketFallback: Rule = {
  id: 'net-socket-fallback',
  causes: ['slows'],
  looksFor: 'several hosts over TCP although they have a faster network',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NET/IB : No device found.',
      'n1:10:11 [0] NCCL INFO Using network Socket',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0',
    ),
    example(
      'ibstatus.txt',
      "Infiniband device 'mlx5_0' port 1 status:",
      '\tstate:\t\t 4: ACTIVE',
      '\trate:\t\t 200 Gb/sec (4X HDR)',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_DISABLE, NCCL_IB_HCA, NCCL_NET'],
  explainedBy: ['net-plugin-load-failed', 'env-ib-disabled', 'iface-virtual'],
  find(job) {
    if (nodeCount(job) < 2) return [];
    const over = job.processes.filter(({ network }) => network?.value === 'Socket');
    // Sockets are a fall-back only where something faster is known to be there.
    const hasPorts = job.ports.some(({ state }) => state?.value === 'ACTIVE');
    const hasHcas = job.processes.some(({ hcas }) => hcas !== undefined);
    const hasDevices = job.pci.some(({ text }) => /Infiniband controller|ConnectX/i.test(text));
    const isPlugin = faults(job).length > 0;
    if (over.length === 0 || !(hasPorts || hasHcas || hasDevices || isPlugin)) return [];
    const hosts = [...new Set(over.map(({ host }) => host))];
    const lines = firstOfEach(over, ({ host, network }) => host + network!.at.file);
    const ports = job.ports.flatMap(({ state }) => (state?.value === 'ACTIVE' ? [state.at] : []));
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `${listed(hosts)} use${hosts.length === 1 ? 's' : ''} TCP sockets although a faster network is there`,
        culprit: { hosts, network: 'Socket' },
        evidence: [...some(lines.map(({ network }) => network!.at)), ...some(ports, 4)],
        repair:
          'Make the adapters visible to the job (pass /dev/infiniband into the container, install libibverbs, raise the memlock limit, do not set NCCL_IB_DISABLE) and demand them with NCCL_NET=IB.',
        workaround: null,
        why: 'without plugin and without InfiniBand devices only TCP is left',
      },
    ];
  },
};

/** A network plugin was to be used and could not be loaded. */
import { firstOfEach, listed, nodeCount, some, variable } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { libraryName, pluginFailures } from './plugin-failures.js';

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
    const found = pluginFailures(job);
    const [first] = found;
    if (first === undefined) return [];
    const { failure, process } = first;
    const asked = variable(process, 'NCCL_NET_PLUGIN');
    const isSlow =
      nodeCount(job) > 1 && found.some((one) => (one.process.network?.value ?? 'Socket') === 'Socket');
    const hosts = [...new Set(found.map((one) => one.process.host))];
    const needed = libraryName(failure.missing) !== libraryName(failure.library);
    return [
      {
        severity: isSlow ? 'error' : 'warning',
        confidence: 'certain',
        text: `the network plugin ${libraryName(failure.library)} cannot be loaded on ${listed(hosts)}: ${needed ? `${libraryName(failure.missing)} is missing` : failure.reason}`,
        culprit: {
          library: libraryName(failure.missing),
          plugin: libraryName(failure.library),
          ...(asked === undefined ? {} : { variable: 'NCCL_NET_PLUGIN', value: asked }),
        },
        evidence: some(
          firstOfEach(found, (one) => one.process.host + one.failure.at.file).map((one) => one.failure.at),
        ),
        repair: needed
          ? `Install ${libraryName(failure.missing)} in the image or put its directory into LD_LIBRARY_PATH, then demand the network with NCCL_NET, so that a broken plugin stops the job.`
          : `Install a build of ${libraryName(failure.library)} that fits this system, or take NCCL_NET_PLUGIN away, then demand the network with NCCL_NET.`,
        workaround: null,
      },
    ];
  },
};

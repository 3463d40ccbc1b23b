/** Without a usable adapter NCCL takes TCP and says so in one line only. */
import type { Place } from '../../model/place.js';
import type { NcclProcess } from '../../model/process.js';
import { edges, firstOfEach, listed, nodeCount, some, variable } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { pluginFailures } from './plugin-failures.js';

/** Variables that name adapters, or the provider of a network with a plugin: nobody sets them on hosts without. */
const ADAPTERS = /^(?:NCCL_IB_HCA|FI_PROVIDER|FI_EFA_\w+|OFI_NCCL_\w+)$/;

/** Variables for adapters that images and scripts for all kinds of hosts may have. */
const TUNING = /^(?:NCCL_IB_(?!DISABLE|HCA)\w+|NCCL_NET_GDR_\w+)$/;

const ask = ({ environment }: NcclProcess, names: RegExp): Place[] =>
  [...environment].flatMap(([name, { value, at }]) =>
    names.test(name) && value !== '' && !/^(?:sockets?|tcp)\b/i.test(value) ? [at] : [],
  );

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
  explainedBy: ['net-plugin-load-failed', 'env-ib-disabled', 'iface-virtual', 'net-differs'],
  find(job) {
    const over = job.processes.filter(({ network }) => network?.value === 'Socket');
    // Ranks that reach each other over the network are on several hosts, unless memory is forbidden to them.
    const isAcross = over.some(
      (process) =>
        edges(process).some(({ kind }) => kind === 'NET') &&
        variable(process, 'NCCL_SHM_DISABLE') !== '1' &&
        variable(process, 'NCCL_P2P_DISABLE') !== '1',
    );
    if (nodeCount(job) < 2 && !isAcross) return [];
    // Sockets are a fall-back only where something faster is known to be there.
    const hasPorts = job.ports.some(({ state }) => state?.value === 'ACTIVE');
    const hasHcas = job.processes.some(({ hcas }) => hcas !== undefined);
    const hasDevices = job.pci.some(({ text }) =>
      /Infiniband controller|ConnectX|Elastic Fabric/i.test(text),
    );
    const isPlugin = pluginFailures(job).length > 0;
    const broken = over.flatMap((process) =>
      process.troubles.flatMap(({ trouble, at }) =>
        trouble.kind === 'openDevice' || trouble.kind === 'pluginInit' ? [at] : [],
      ),
    );
    const driverless = job.values.filter(({ name }) => name === 'libibverbs.driverless');
    const named = over.flatMap((process) => ask(process, ADAPTERS));
    const tuned = over.flatMap((process) => ask(process, TUNING));
    const signs = [...broken, ...driverless.map(({ at }) => at), ...named, ...tuned];
    if (over.length === 0 || !(hasPorts || hasHcas || hasDevices || isPlugin || signs.length > 0)) return [];
    const isFast =
      hasPorts ||
      hasHcas ||
      isPlugin ||
      signs.length > tuned.length ||
      job.pci.some(({ text }) => /Infiniband controller|Elastic Fabric/i.test(text));
    const hosts = [...new Set(over.map(({ host }) => host))];
    const lines = firstOfEach(over, ({ host, network }) => host + network!.at.file);
    const ports = job.ports.flatMap(({ state }) => (state?.value === 'ACTIVE' ? [state.at] : []));
    return [
      {
        // Cards that can do RDMA are often used as plain network cards.
        severity: isFast ? 'error' : 'warning',
        confidence: isFast ? 'likely' : 'possible',
        text: `${listed(hosts)} use${hosts.length === 1 ? 's' : ''} TCP sockets although ${hasPorts || hasHcas || hasDevices || isPlugin || broken.length + driverless.length > 0 ? 'a faster network is there' : 'variables ask for a faster network'}`,
        culprit: { hosts, network: 'Socket' },
        evidence: [...some(lines.map(({ network }) => network!.at)), ...some(ports, 4), ...some(signs, 4)],
        repair:
          'Make the adapters, or the plugin of the network (EFA: aws-ofi-nccl), visible to the job (pass /dev/infiniband into the container, install libibverbs, raise the memlock limit, do not set NCCL_IB_DISABLE) and demand them with NCCL_NET=IB.',
        workaround: null,
        why: 'without plugin and without InfiniBand devices only TCP is left',
      },
    ];
  },
};

/** A port that the job asked for is not active. */
import type { Job } from '../../model/job.js';
import { listed, nodeCount, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { missingAdapters } from './nic-missing-on-node.js';

/** Whether NCCL_IB_HCA asks for a port: names are prefixes, `=` asks for exact ones, `^` for all others. */
function selects(value: string | undefined, device: string, port: number): boolean | undefined {
  if (value === undefined) return undefined;
  const isInverse = value.startsWith('^');
  const isExact = /^\^?=/.test(value);
  const isNamed = value
    .replace(/^\^?=?/, '')
    .split(',')
    .some((one) => {
      const [name = '', number] = one.split(':');
      const isDevice = isExact ? name === device : name !== '' && device.startsWith(name);
      return isDevice && (number === undefined || Number(number) === port);
    });
  // That all but some are wanted does not say that one is missed.
  return isInverse ? (isNamed ? false : undefined) : isNamed;
}

/** Hosts of which no port of InfiniBand is active, and links wait for their numbers. */
function withoutSubnetManager(job: Job): Finding[] {
  const fabric = job.ports.filter(({ linkLayer }) => linkLayer === 'InfiniBand');
  const hosts = [...new Set(fabric.map(({ host }) => host))];
  const waiting = hosts.flatMap((host) => {
    const ports = fabric.filter((port) => port.host === host);
    const init = ports.filter(({ state }) => /^INIT/.test(state?.value ?? ''));
    return init.length > 0 && ports.every(({ state }) => state !== undefined && state.value !== 'ACTIVE')
      ? init
      : [];
  });
  if (waiting.length === 0) return [];
  const where = [...new Set(waiting.flatMap(({ host }) => host ?? []))];
  // One host does not need the fabric, and other adapters may carry the job.
  const isMissed = nodeCount(job) > 1 && job.processes.every(({ hcas }) => hcas === undefined);
  const devices = [...new Set(waiting.map(({ device }) => device))];
  return [
    {
      severity: isMissed ? 'error' : 'warning',
      confidence: isMissed ? 'likely' : 'possible',
      text: `no InfiniBand port${where.length === 0 ? '' : ` of ${listed(where)}`} is active: the link${devices.length === 1 ? ' of' : 's of'} ${listed(devices)} ${devices.length === 1 ? 'is' : 'are'} up and ${devices.length === 1 ? 'waits' : 'wait'} for a subnet manager (INIT)`,
      culprit: { ...(where.length === 0 ? {} : { hosts: where }), hcas: devices },
      evidence: some(waiting.flatMap(({ state }) => state?.at ?? [])),
      repair:
        'Start the subnet manager of the fabric (opensm on one host, or that of a switch; sminfo asks for it), and see that the ports become Active.',
      workaround: null,
    },
  ];
}

export const ibPortDown: Rule = {
  id: 'ib-port-down',
  causes: ['blocks', 'kills', 'slows'],
  looksFor:
    'an adapter port that is not active although others of the host are, or a host none of whose ports is',
  example: [
    example(
      'ibstatus.txt',
      "Infiniband device 'mlx5_0' port 1 status:",
      '\tstate:\t\t 4: ACTIVE',
      "Infiniband device 'mlx5_1' port 1 status:",
      '\tstate:\t\t 1: DOWN',
      '\tlink_layer:\t InfiniBand',
    ),
    example('n1.log', 'n1:10:11 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0,mlx5_1'),
  ],
  references: ['ibstat(8)'],
  find(job) {
    const active = job.ports.filter(({ state }) => state?.value === 'ACTIVE');
    // An adapter that NCCL lists on all other hosts is a finding of its own, which shows the state of its port.
    const missing = missingAdapters(job);
    const waiting = withoutSubnetManager(job);
    if (waiting.length > 0) return waiting;
    return job.ports.flatMap((port): Finding[] => {
      const { state, device, host } = port;
      if (state === undefined || state.value === 'ACTIVE' || active.length === 0) return [];
      // Spare ports of machines are down, too: only a port that the job asked for is a fault.
      const isUsed = job.processes.some(
        (process) =>
          selects(process.environment.get('NCCL_IB_HCA')?.value, device, port.port) ??
          (host !== process.host && process.hcas?.value.some(({ name }) => name === device) === true),
      );
      // Ports that nobody needs are disabled: one that looks for its partner, or waits for its number, is to be used.
      const isWanted =
        port.linkLayer === 'InfiniBand' &&
        (/polling/i.test(port.physical ?? '') || /^INIT/.test(state.value));
      if (!isUsed && !isWanted) return [];
      if (missing.some((one) => one.host === host && one.names.includes(device))) return [];
      return [
        {
          severity: isUsed ? 'error' : 'warning',
          confidence: isUsed ? 'likely' : 'possible',
          text: `${host ?? ''} ${device} port ${port.port} is ${state.value}${isUsed ? '' : `, and not disabled as spare ones are${port.physical === undefined ? '' : ` (${port.physical})`}`}`.trim(),
          culprit: { ...(host === undefined ? {} : { host }), hca: device, port: port.port },
          evidence: [state.at],
          repair: `Bring ${device} port ${port.port} up: cable, switch port${/^INIT/.test(state.value) ? ', subnet manager' : ''}.`,
          workaround: null,
        },
      ];
    });
  },
};

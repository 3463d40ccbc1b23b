/** Interfaces of containers and virtual machines have the same addresses on every host and lead nowhere. */
import type { NcclProcess } from '../../model/process.js';
import { firstOfEach, listed, nodeCount, some, variable, waitingMembers } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { failedConnections } from './failed-connections.js';
import { isVirtual } from './subnets.js';

/** A tunnel that was asked for by name, and over which ranks met, is the network of that job. */
function isChosen(process: NcclProcess, name: string): boolean {
  const asked = variable(process, 'NCCL_SOCKET_IFNAME') ?? '';
  const isNamed =
    !asked.startsWith('^') &&
    asked
      .replace(/^=/, '')
      .split(',')
      .some((one) => one !== '' && name.startsWith(one));
  return isNamed && process.members.some(({ completed }) => completed !== undefined);
}

export const ifaceVirtual: Rule = {
  id: 'iface-virtual',
  causes: ['blocks', 'kills', 'hangs', 'slows'],
  looksFor: 'interfaces of containers, virtual machines or tunnels in the list of networks between hosts',
  example: [
    example(
      'n1.log',
      'n1:10:10 [0] NCCL INFO Bootstrap : Using eno1:10.0.0.1<0>',
      'n1:10:11 [0] NCCL INFO NET/Socket : Using [0]eno1:10.0.0.1<0> [1]docker0:172.17.0.1<0>',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0',
      'n1:10:12 [0] misc/socket.cc:525 NCCL WARN socketPollConnect: exceeded timeouts (3)',
    ),
  ],
  references: ['NCCL user guide: NCCL_SOCKET_IFNAME'],
  find(job) {
    if (nodeCount(job) < 2) return [];
    const bad = job.processes.flatMap((process) => {
      const isBad = (name: string): boolean => isVirtual(name) && !isChosen(process, name);
      const list = process.sockets?.value.filter(({ name }) => isBad(name)) ?? [];
      const boot =
        process.bootstrap !== undefined && isBad(process.bootstrap.name) ? [process.bootstrap] : [];
      // Where data goes over InfiniBand, the list of sockets carries nothing.
      const network = process.network?.value ?? (process.hcas === undefined ? 'Socket' : 'IB');
      const isUsed = list.length > 0 && network === 'Socket';
      if (!isUsed && boot.length === 0) return [];
      const at = isUsed ? process.sockets!.at : boot[0]!.at;
      return [{ process, names: [...(isUsed ? list : []), ...boot].map(({ name }) => name), at }];
    });
    if (bad.length === 0) return [];
    const failed = failedConnections(job);
    const names = [...new Set(bad.flatMap((one) => one.names))];
    const where = [...new Set(bad.map(({ process }) => process.host))];
    const keep = realInterface(bad.map(({ process }) => process));
    const isStuck = failed.length > 0 || waitingMembers(job).length > 0;
    return [
      {
        severity: isStuck ? 'error' : 'warning',
        confidence: failed.length > 0 ? 'certain' : 'likely',
        text: `virtual interfaces are taken as networks between hosts on ${listed(where)}: ${listed(names)}`,
        culprit: { hosts: where, interfaces: names, ...(keep === undefined ? {} : { keep }) },
        evidence: some(firstOfEach(bad, ({ process }) => process.host).map(({ at }) => at)),
        repair:
          keep === undefined
            ? `Set NCCL_SOCKET_IFNAME to the interface that reaches the other hosts; ${listed(names)} ${names.length === 1 ? 'does' : 'do'} not.`
            : `Set NCCL_SOCKET_IFNAME=${keep} on all hosts (or exclude the others: NCCL_SOCKET_IFNAME=^${shortest(names.map(stem)).join(',')}).`,
        workaround: null,
      },
    ];
  },
};

/** `br-3fe1` and `veth7b` by the part that all of their kind have. */
const stem = (name: string): string => /^[a-z]+-?/i.exec(name)?.[0] ?? name;

/** Prefixes without those that another one covers. */
const shortest = (stems: readonly string[]): string[] =>
  [...new Set(stems)].filter((one, _, all) => !all.some((other) => other !== one && one.startsWith(other)));

function realInterface(processes: readonly NcclProcess[]): string | undefined {
  for (const { bootstrap, sockets } of processes) {
    if (bootstrap !== undefined && !isVirtual(bootstrap.name)) return bootstrap.name;
    const real = sockets?.value.find(({ name }) => !isVirtual(name));
    if (real !== undefined) return real.name;
  }
  return undefined;
}

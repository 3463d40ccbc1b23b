/** A host that announces an address of another network is not reached by the others. */
import { distinctPlaces } from '../../model/place.js';
import { firstOfEach, some, waitingMembers } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { failedConnections } from './failed-connections.js';
import { isVirtual, maySameNetwork } from './subnets.js';

export const bootstrapInterfaceMismatch: Rule = {
  id: 'bootstrap-interface-mismatch',
  causes: ['blocks'],
  looksFor: 'one host that announces an address in another network than the others, which cannot reach it',
  example: [
    example(
      'n1.log',
      'n1:10:10 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.1<0>',
      'n1:10:12 [0] misc/socket.cc:577 NCCL WARN socketStartConnect: connect to 192.168.9.3<52291> returned No route to host, exceeded error retry count after 35 attempts',
      'n2:10:10 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.2<0>',
      'n3:10:10 [0] NCCL INFO Bootstrap: Using eth1:192.168.9.3<0>',
    ),
  ],
  references: ['NCCL user guide: NCCL_SOCKET_IFNAME'],
  find(job) {
    const known = firstOfEach(
      job.processes.filter(({ bootstrap }) => bootstrap !== undefined),
      ({ host }) => host,
    );
    if (known.length < 2) return [];
    const failed = failedConnections(job);
    const found: Finding[] = [];
    for (const process of known) {
      const own = process.bootstrap!;
      if (isVirtual(own.name)) continue;
      const others = known.filter((one) => one !== process);
      const apart = others.filter((one) => !maySameNetwork(one.bootstrap!.address, own.address));
      if (apart.length * 2 <= others.length) continue;
      const about = failed.filter(({ trouble }) => trouble.address === own.address);
      // Attempts that were repeated and led to a communicator are no failure.
      const isReached = process.members.some(({ completed }) => completed !== undefined);
      if (isReached && about.every(({ logged }) => !logged.isWarning)) continue;
      // Without a failure, other networks may be routed; a host that everybody waits for is suspicious.
      const isSuspicious =
        about.length > 0 ||
        (others.length > 1 &&
          apart.length === others.length &&
          waitingMembers(job).length > 0 &&
          apart.some((one) => one.bootstrap!.name !== own.name));
      if (!isSuspicious) continue;
      const network = apart[0]!.bootstrap!.address.split('.').slice(0, 2).join('.');
      const warned = about.filter(({ logged }) => logged.isWarning);
      found.push({
        severity: 'error',
        confidence: about.length > 0 ? 'certain' : 'likely',
        text: `${process.host} announces ${own.address} (${own.name}), which is in another network than those of the other hosts`,
        culprit: { host: process.host, interface: own.name, address: own.address },
        evidence: distinctPlaces([
          own.at,
          ...some(
            apart.map((one) => one.bootstrap!.at),
            8,
          ),
          ...some((warned.length > 0 ? warned : about).map(({ at }) => at)),
        ]),
        repair: `Set NCCL_SOCKET_IFNAME to the interface of the ${network}.x.x network on all hosts, and see why ${process.host} does not use it (interface down, or without address).`,
        workaround: null,
      });
    }
    return found;
  },
};

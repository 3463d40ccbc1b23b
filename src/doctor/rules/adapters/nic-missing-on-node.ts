/** One host with fewer adapters slows all, since rings cross every host on the same rails. */
import type { Job } from '../../model/job.js';
import type { IbPort } from '../../model/machine.js';
import { distinctPlaces, type Place } from '../../model/place.js';
import { comparable, listed, type Processes, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

/** Names of adapters that a host's processes use. */
function hcasOf(job: Processes): Map<string, { names: string[]; at: Place }> {
  const found = new Map<string, { names: string[]; at: Place }>();
  for (const { host, hcas } of job.processes) {
    if (hcas === undefined) continue;
    const names = hcas.value.map(({ name, port }) => (port === 1 ? name : `${name}:${port}`));
    const known = found.get(host);
    if (known === undefined || names.length > known.names.length) found.set(host, { names, at: hcas.at });
  }
  return found;
}

export const nicMissingOnNode: Rule = {
  id: 'nic-missing-on-node',
  causes: ['hangs', 'slows'],
  looksFor: 'a host that lists fewer adapters than the others',
  example: [
    example(
      'logs.txt',
      'n1:10:11 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>',
      'n2:10:11 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>',
      'n3:10:11 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.3<0>',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_HCA'],
  find: (job) => comparable(job).flatMap((processes) => missingAmong({ processes }, job.ports)),
};

/** Adapters that hosts lack, by name. */
export const missingAdapters = (job: Job): { host: string; names: readonly string[] }[] =>
  nicMissingOnNode.find(job).map(({ culprit }) => ({
    host: culprit.host as string,
    names:
      (culprit.hcas as readonly string[] | undefined) ??
      (culprit.hca === undefined ? [] : [culprit.hca as string]),
  }));

/** `mlx5_` of `mlx5_0`. */
const kindOf = (name: string): string => name.replace(/\d+(?::\d+)?$/, '');

function missingAmong(job: Processes, ports: readonly IbPort[]): Finding[] {
  const byHost = hcasOf(job);
  if (byHost.size < 2) return [];
  // What most hosts have; of two hosts, the one with more adapters is taken as whole.
  const counts = new Map<number, number>();
  for (const { names } of byHost.values()) counts.set(names.length, (counts.get(names.length) ?? 0) + 1);
  const [usual] = [...counts].sort((a, b) => b[1] - a[1] || b[0] - a[0])[0]!;
  const whole = [...byHost].filter(([, { names }]) => names.length === usual);
  return [...byHost].flatMap(([host, { names, at }]): Finding[] => {
    if (names.length >= usual) return [];
    const everywhere = whole[0]![1].names.filter((name) =>
      whole.every(([, other]) => other.names.includes(name)),
    );
    const missing = everywhere.filter((name) => !names.includes(name));
    const isNamed = missing.length === usual - names.length;
    const down = ports.filter(
      (port) =>
        port.host === host &&
        missing.includes(port.device) &&
        port.state !== undefined &&
        port.state.value !== 'ACTIVE',
    );
    const asked = job.processes.find((one) => one.host === host)?.environment.get('NCCL_IB_HCA');
    // Other kinds of adapters are another kind of machine: that it has fewer is how it was bought.
    const kinds = new Set(everywhere.map(kindOf));
    const isOther = !isNamed && names.every((name) => !kinds.has(kindOf(name)));
    return [
      {
        severity: isOther ? 'warning' : 'error',
        confidence: byHost.size > 2 || isNamed ? 'certain' : 'likely',
        text: `${host} lists ${names.length} adapter${names.length === 1 ? '' : 's'}, the other${whole.length === 1 ? '' : 's'} ${usual}${isNamed ? `: ${listed(missing)} is missing` : ''}${down[0] === undefined ? '' : `; its port is ${down[0].state!.value}${down[0].physical === undefined ? '' : ` (${down[0].physical})`}`}`,
        culprit: {
          host,
          ...(isNamed && missing.length === 1 ? { hca: missing[0] } : isNamed ? { hcas: missing } : {}),
          found: names.length,
          expected: usual,
        },
        evidence: distinctPlaces([
          at,
          ...some(
            whole.map(([, other]) => other.at),
            8,
          ),
          asked?.at,
          ...some(
            down.flatMap(({ state }) => state?.at ?? []),
            8,
          ),
        ]),
        repair:
          down[0] !== undefined
            ? `Bring the port of ${listed(missing)} on ${host} up: cable, transceiver, switch port${/^INIT/.test(down[0].state!.value) ? ', subnet manager' : ''}.`
            : `Find ${isNamed ? listed(missing) : 'the missing adapters'} of ${host} (lspci, ibstat, port state, device passed into the container${asked === undefined ? '' : ', NCCL_IB_HCA'}) and bring the port up.`,
        workaround: isNamed
          ? `Leaving the same adapter out on all nodes (NCCL_IB_HCA=^${missing.join(',')}) keeps the rails aligned, at ${names.length}/${usual} of the bandwidth.`
          : null,
      },
    ];
  });
}

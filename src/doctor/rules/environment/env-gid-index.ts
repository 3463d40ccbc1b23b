/** An index into the table of addresses of a RoCE port that names no address which reaches the peer. */
import type { Job } from '../../model/job.js';
import type { GidEntry } from '../../model/machine.js';
import { distinctPlaces } from '../../model/place.js';
import type { NcclProcess } from '../../model/process.js';
import { isLinkLocal } from '../adapters/gids.js';
import { listed, settings, some, troubles } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

/** The table of a host has no entry with the index that its processes ask for. */
function absentGid(job: Job): Finding[] {
  return settings(job, 'NCCL_IB_GID_INDEX')
    .slice(0, 1)
    .flatMap(({ process, value, at }): Finding[] => {
      // Other adapters of the host, as those for storage, have tables of their own.
      const used = process.hcas?.value.map(({ name }) => name);
      const own = job.gids.filter(
        ({ host, device }) =>
          (host === undefined || host === process.host) && (used === undefined || used.includes(device)),
      );
      const devices = [...new Set(own.map(({ device }) => device))];
      const lacking = devices.filter(
        (device) => !own.some((one) => one.device === device && one.index === Number(value)),
      );
      if (lacking.length === 0 || Number(value) < 0) return [];
      return [
        {
          severity: 'error',
          confidence: 'certain',
          text: `NCCL_IB_GID_INDEX=${value} names an entry that ${listed(lacking)} of ${process.host} does not have`,
          culprit: { variable: 'NCCL_IB_GID_INDEX', value, host: process.host, hca: lacking[0] },
          evidence: [
            at,
            ...some(
              own.filter(({ device }) => lacking.includes(device)).map((one) => one.at),
              8,
            ),
          ],
          repair: `${gidRepair(process.version?.value)} In a container, give it the network of the host.`,
          workaround: null,
        },
      ];
    });
}

export const envGidIndex: Rule = {
  id: 'env-gid-index',
  causes: ['blocks', 'kills'],
  looksFor: 'NCCL_IB_GID_INDEX that names an entry which a port does not have, or a link-local one',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 0.',
      'n1:10:12 [3] misc/ibvwrap.cc:307 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state INIT, next state RTR, local GID index 0, local GID fe80::5aa2, remote GID fe80::5aa3',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_GID_INDEX'],
  find(job) {
    const failed = troubles(job, 'queuePair').filter(({ process }) =>
      process.environment.has('NCCL_IB_GID_INDEX'),
    );
    const [first] = failed;
    if (first === undefined) return absentGid(job);
    const setting = first.process.environment.get('NCCL_IB_GID_INDEX')!;
    if (setting.value === '-1') return [];
    const hosts = [...new Set(failed.map(({ process }) => process.host))];
    const chosen = chosenEntry(job, first.process, Number(setting.value), first.trouble.device);
    const isLocal = first.trouble.localGid?.startsWith('fe80') === true || chosen?.isLocal === true;
    return [
      {
        severity: 'error',
        confidence: isLocal ? 'certain' : 'likely',
        text: `NCCL_IB_GID_INDEX=${setting.value} selects ${isLocal ? 'a link-local address' : 'an entry that does not reach the peer'} on ${listed(hosts)}`,
        culprit: {
          variable: 'NCCL_IB_GID_INDEX',
          value: setting.value,
          host: first.process.host,
          ...(hosts.length > 1 ? { hosts: hosts.slice(0, 16) } : {}),
          ...(chosen?.right === undefined ? {} : { right: chosen.right.index }),
          hca: first.trouble.device,
        },
        evidence: distinctPlaces([
          setting.at,
          ...some(
            failed.map(({ at }) => at),
            4,
          ),
          chosen?.at,
          chosen?.right?.at,
        ]),
        repair: gidRepair(first.process.version?.value, chosen?.right),
        workaround: null,
      },
    ];
  },
};

/** What the tables of a host say of an index: the entry itself, and the one that all its adapters have for RoCE v2. */
function chosenEntry(job: Job, process: NcclProcess, index: number, device: string | undefined) {
  const used = process.hcas?.value.map(({ name }) => name);
  const table = job.gids.filter(
    (one) =>
      (one.host === undefined || one.host === process.host) &&
      (used === undefined || used.includes(one.device)),
  );
  const entry = table.find((one) => one.index === index && (device === undefined || one.device === device));
  if (entry === undefined) return undefined;
  const isRight = (one: GidEntry): boolean => one.version.toLowerCase() === 'v2' && one.ipv4 !== undefined;
  const devices = [...new Set(table.map((one) => one.device))];
  const right = table.find(
    (one) =>
      isRight(one) &&
      devices.every((name) =>
        table.some((other) => other.device === name && other.index === one.index && isRight(other)),
      ),
  );
  return { isLocal: isLinkLocal(entry.gid), at: entry.at, right };
}

/** NCCL chooses the entry itself from 2.21 on. */
function gidRepair(version: string | undefined, right?: GidEntry): string {
  const [major = 0, minor = 0] = (version ?? '').split('.').map(Number);
  if (right !== undefined && version !== undefined && (major < 2 || (major === 2 && minor < 21)))
    return `Set NCCL_IB_GID_INDEX=${right.index}, the RoCE v2 entry with an IPv4 address (${right.ipv4}); see with show_gids that it is ${right.index} on all hosts.`;
  if (version === undefined)
    return 'Unset NCCL_IB_GID_INDEX where NCCL is 2.21 or newer, which finds the RoCE v2 entry with an IPv4 address by itself; for older ones take the index of that entry from show_gids.';
  return major > 2 || minor >= 21
    ? 'Unset NCCL_IB_GID_INDEX: since 2.21 NCCL finds the RoCE v2 entry with an IPv4 address by itself.'
    : `Set NCCL_IB_GID_INDEX to the RoCE v2 entry with an IPv4 address (show_gids); NCCL ${version.replace(/\+.*$/, '')} does not find it by itself.`;
}

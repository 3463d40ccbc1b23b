/** Peer-to-peer is forbidden by a variable although the GPUs could talk directly. */
import type { Job } from '../../model/job.js';
import { distinctPlaces, type Place } from '../../model/place.js';
import { nvlinkOf } from '../gpu-models.js';
import { firstOfEach, listed, settings, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { forbidsPeerAccess } from './peer-access.js';

/** Some machines need it: peer-to-peer that hangs is a fault of the buses (pcie-acs-redirect). */
function nvlinkPlaces(job: Job): Place[] | undefined {
  const isActive = job.links.flatMap(({ links }) => links.filter(({ GBs }) => GBs !== undefined && GBs > 0));
  const inMatrix = job.matrices.flatMap(({ rows }) =>
    rows.filter(({ cells }) => cells.some((cell) => /^NV\d/.test(cell))),
  );
  const inTree = job.processes.flatMap(({ tree }) =>
    tree !== undefined && tree.totalGBs > 100 ? [tree] : [],
  );
  const byModel = [
    ...job.links.map(({ name, at }) => ({ name, at })),
    ...job.benches.flatMap(({ devices }) => devices.map(({ gpu, at }) => ({ name: gpu, at }))),
  ].filter(({ name }) => nvlinkOf(name) !== undefined);
  const all = [isActive, inMatrix, inTree, byModel].flatMap((list) => list.slice(0, 1).map(({ at }) => at));
  return all.length === 0 ? undefined : all;
}

/** GPUs that never have peer access lose nothing. */
function lacksPeerAccess(job: Job): boolean {
  const names = [
    ...job.links.map(({ name }) => name),
    ...job.benches.flatMap(({ devices }) => devices.map(({ gpu }) => gpu)),
  ];
  return names.length > 0 && names.every((name) => /GeForce RTX [45]0\d\d/.test(name));
}

/** Ranks of one communicator on one host, for every such pair. */
function ranksOfHosts(job: Job): number[] {
  const ranks = new Map<string, Set<number>>();
  for (const { host, members } of job.processes) {
    for (const { commId, rank } of members) {
      const key = `${host} ${commId}`;
      if (rank !== undefined) ranks.set(key, (ranks.get(key) ?? new Set()).add(rank));
    }
  }
  return [...ranks.values()].map(({ size }) => size);
}

export const envP2pDisabled: Rule = {
  id: 'env-p2p-disabled',
  causes: ['slows'],
  looksFor: 'NCCL_P2P_DISABLE=1 or NCCL_P2P_LEVEL=LOC: GPUs of a host may not reach each other directly',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1',
      'n1:10:11 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct',
    ),
  ],
  references: ['NCCL user guide: NCCL_P2P_DISABLE, NCCL_P2P_LEVEL'],
  find(job) {
    const found = ['NCCL_P2P_DISABLE', 'NCCL_P2P_LEVEL'].flatMap((name) =>
      settings(job, name)
        .filter(({ value }) => forbidsPeerAccess(name, value))
        .map((one) => ({ name, ...one })),
    );
    // One GPU per host has no peer to lose; a job of several processes does.
    const hasPeers =
      job.processes.every(({ members }) => members.length === 0) ||
      job.processes.some(({ members }) => members.some(({ localRanks }) => (localRanks ?? 2) > 1)) ||
      ranksOfHosts(job).some((count) => count > 1);
    if (found.length === 0 || !hasPeers || lacksPeerAccess(job)) return [];
    const nvlink = nvlinkPlaces(job);
    const isCostly = nvlink !== undefined;
    return firstOfEach(found, ({ name, process }) => `${name}\0${process.host}`)
      .slice(0, 1)
      .map(({ name, value, process }): Finding => {
        const hosts = [...new Set(found.map((one) => one.process.host))];
        return {
          severity: isCostly ? 'error' : 'warning',
          confidence: 'certain',
          text: `${name}=${value} forbids peer-to-peer on ${listed(hosts)}${isCostly ? ': NVLink is there and not used' : ''}`,
          culprit: { host: process.host, ...(hosts.length > 1 ? { hosts } : {}), variable: name, value },
          evidence: distinctPlaces([
            ...some(firstOfEach(found, ({ at }) => at.file).map(({ at }) => at)),
            ...(nvlink ?? []),
          ]),
          repair: `Unset ${name} (job script, image, ~/.nccl.conf, /etc/nccl.conf), so that GPUs use ${isCostly ? 'NVLink' : 'direct peer access'} again.`,
          workaround: null,
        };
      });
  },
};

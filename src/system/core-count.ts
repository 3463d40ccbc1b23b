/**
 * How many processor cores this process may keep busy.
 *
 * The scheduler's affinity mask (which `availableParallelism` honours) and, in containers, the quota of the
 * control group (cgroup v2 `cpu.max`, v1 `cpu.cfs_quota_us`), whichever is less. Waiting policy depends on it:
 * when the ranks of a host outnumber its cores, spinning takes time away from whoever is waited for.
 */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}

/** Cores that the text of `cpu.max` ("QUOTA PERIOD", or "max PERIOD") grants; Infinity when unlimited. */
export function quotaCores(text: string | undefined): number {
  const [quota, period] = (text ?? 'max').split(/\s+/).map(Number);
  const cores = quota! / (period ?? 100_000);
  return cores > 0 ? cores : Number.POSITIVE_INFINITY;
}

function groupQuota(): number {
  // v2: own group and every group above it limit; the mounted root is enough inside a container.
  const group = readText('/proc/self/cgroup')
    ?.split('\n')
    .find((line) => line.startsWith('0::'))
    ?.slice(3);
  let cores = quotaCores(readText('/sys/fs/cgroup/cpu.max'));
  for (let path = group ?? '/'; path !== '/' && path !== ''; path = path.slice(0, path.lastIndexOf('/'))) {
    cores = Math.min(cores, quotaCores(readText(`/sys/fs/cgroup${path}/cpu.max`)));
  }
  const quota = readText('/sys/fs/cgroup/cpu/cpu.cfs_quota_us');
  const period = readText('/sys/fs/cgroup/cpu/cpu.cfs_period_us');
  if (quota !== undefined && period !== undefined) cores = Math.min(cores, quotaCores(`${quota} ${period}`));
  return cores;
}

let count: number | undefined;

/** At least 1; a fractional quota counts as the whole core that it can use for part of the time. */
export function coreCount(): number {
  count ??= Math.max(1, Math.min(availableParallelism(), Math.ceil(groupQuota())));
  return count;
}

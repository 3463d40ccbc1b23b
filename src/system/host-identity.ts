/**
 * Who this machine and this process are: ranks with the same host identity share memory and a clock.
 *
 * Host = host name + boot id of the kernel (two containers of one machine with equal names still differ by
 * name, a rebooted machine differs by boot id), or NCCL_HOSTID alone where set. Process = process id + pid
 * namespace. Source: identity values of NCCL 2.30; the hash itself is ours (first 8 bytes of SHA-256).
 */
import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

function hash64(text: string): bigint {
  return createHash('sha256').update(text).digest().readBigUInt64LE(0);
}

/** Empty where the system does not tell: the identity is then only as good as the other half. */
function orEmpty(read: () => string): string {
  try {
    return read().trim();
  } catch {
    return '';
  }
}

/** 64-bit identity of the host; equal on two ranks means the same node. */
export function hostHash(env: Readonly<Record<string, string | undefined>> = process.env): bigint {
  const given = env.NCCL_HOSTID;
  if (given !== undefined && given !== '') return hash64(`host id ${given}`);
  const bootId = orEmpty(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'));
  return hash64(`host ${hostname()} ${bootId}`);
}

/** 64-bit identity of the process within all pid namespaces of the host. */
export function processHash(): bigint {
  const namespace = orEmpty(() => readlinkSync('/proc/self/ns/pid'));
  return hash64(`process ${process.pid} ${namespace}`);
}

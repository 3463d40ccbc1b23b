/**
 * The number by which topology files tell hosts apart: NCCL's hash of host name and boot id, or of NCCL_HOSTID.
 * (NCCL 2.30.7, utils.cc.)
 */
import { hashText } from '../hash.js';
import { type LogSink, SILENT } from '../log.js';
import type { Environment } from '../settings.js';
import type { MachineFiles } from './machine-files.js';

/** Changes with every boot; the same in all containers of a host. */
export const BOOT_ID = '/proc/sys/kernel/random/boot_id';

/** Hash of a host name and, where it can be read, of the boot id directly behind it. */
export function hostHashOf(hostname: string, files: MachineFiles): bigint {
  return hashText(hostname + (files.text(BOOT_ID) ?? '').trim());
}

/** The hash of NCCL_HOSTID in place of `hash` where that is set. */
export function effectiveHostHash(hash: bigint, env: Environment, log: LogSink = SILENT): bigint {
  const id = env.NCCL_HOSTID;
  if (id === undefined || id === '') return hash;
  log('INFO', 'ENV', `NCCL_HOSTID set by environment to ${id}`);
  return hashText(id);
}

/**
 * Whether the processes of a host may read each other's memory, process_vm_readv(2): found out by doing it, since user,
 * namespaces, containers and security modules all have a say.
 */
import { readFileSync } from 'node:fs';
import { libc } from '../../system/libc.js';
import type { ProcessIdentity } from '../../system/process-liveness.js';
import { COPY_REQUEST, COPY_REQUEST_BYTES, COPY_STATE, serveCopy } from './copy-requests.js';
import type { HostDevice } from './host-device.js';

/** The Yama module restricts reading to ancestors: 1 in this file, unless a process permits it. */
const YAMA_SCOPE = '/proc/sys/kernel/yama/ptrace_scope';

/**
 * Permits what the launcher of this process has started to read its memory, where that takes permission: peers have the
 * same launcher. False where nobody can.
 */
export function permitPeerReads(device: HostDevice): boolean {
  const c = libc();
  if (c === null || device.baseAddress === 0) return false;
  let scope = '0';
  try {
    scope = readFileSync(YAMA_SCOPE, 'latin1').trim();
  } catch {
    // No such module.
  }
  if (scope === '1') c.allowTracer(process.ppid);
  return true;
}

/** What a rank has told of itself: bytes in hexadecimal digits, and where they lie in its process. */
export interface PeerProbe {
  readonly process: ProcessIdentity;
  readonly challenge: string;
  readonly address?: number;
}

/** Whether this process reads at all peers what they say is there. */
export function canReadPeers(device: HostDevice, peers: readonly PeerProbe[]): boolean {
  const scratch = device.allocatePrivate(2 * COPY_REQUEST_BYTES);
  try {
    return peers.every(({ process, challenge, address }) => {
      if (address === undefined) return false;
      const bytes = challenge.length / 2;
      const found = scratch + COPY_REQUEST_BYTES;
      device.u8.fill(0, found, found + bytes);
      const view = device.dataView;
      view.setUint32(scratch + COPY_REQUEST.state, COPY_STATE.asked, true);
      view.setUint32(scratch + COPY_REQUEST.process, process.pid, true);
      view.setBigUint64(scratch + COPY_REQUEST.target, BigInt(device.baseAddress + found), true);
      view.setBigUint64(scratch + COPY_REQUEST.targetBytes, BigInt(bytes), true);
      view.setBigUint64(scratch + COPY_REQUEST.source, BigInt(address), true);
      serveCopy(device, scratch);
      const state = view.getUint32(scratch + COPY_REQUEST.state, true);
      const read = Buffer.from(device.u8.slice(found, found + bytes)).toString('hex');
      return state === COPY_STATE.done && read === challenge;
    });
  } finally {
    device.freePrivate(scratch);
  }
}

/**
 * The root of a job whose ranks know an address rather than a unique id (MPI, Slurm, torchrun, NCCL_COMM_ID).
 *
 * Rank 0 listens at that address. One root per address serves all communicators that the process takes from
 * its environment, one per generation, so that a second call does not race with the port of the first.
 */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { TuttiError } from '../errors/tutti-error.js';
import { Root } from './root.js';
import { formatSocketAddress, isLoopback, type SocketAddress } from './socket-address.js';

const roots = new Map<string, Promise<Root>>();

/**
 * Where to listen so that all ranks which resolve `host` find us. Many systems map their own name to
 * 127.0.1.1; the others resolve it to a real address, so then we listen at all addresses (empty string).
 */
async function bindHost(host: string): Promise<string> {
  if (isIP(host.split('%')[0]!) !== 0 || host === 'localhost') return host;
  let address: string;
  try {
    ({ address } = await lookup(host));
  } catch (cause) {
    throw new TuttiError('systemError', `The host name '${host}' of the root cannot be resolved.`, { cause });
  }
  return isLoopback(address) ? '' : address;
}

async function start(address: SocketAddress, secret: Uint8Array): Promise<Root> {
  return Root.start({ host: await bindHost(address.host), port: address.port, secret, reusable: true });
}

/**
 * Makes sure that the root of this process for `address` runs, until the returned function is called: by then
 * the calling rank has come, and the root lasts as long as its sessions.
 */
export async function launchRoot(address: SocketAddress, secret: Uint8Array): Promise<() => void> {
  const key = `${formatSocketAddress(address)} ${Buffer.from(secret).toString('hex')}`;
  let starting = roots.get(key);
  let root = await starting;
  if (root === undefined || root.closed) {
    // Another caller may have started it while we waited.
    if (roots.get(key) === starting) roots.set(key, start(address, secret));
    starting = roots.get(key)!;
    try {
      root = await starting;
    } catch (error) {
      if (roots.get(key) === starting) roots.delete(key);
      throw error;
    }
  }
  root.retain();
  return () => root.release();
}

/**
 * Which network plugin a machine uses: InfiniBand if it has usable devices, else sockets, or the one that NCCL_NET
 * names. One at a time, as in NCCL. (NCCL 2.30.7, plugin/net.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { NetworkInterface } from '../../system/interfaces.js';
import { type LogSink, SILENT } from '../log.js';
import type { NetPlugin } from '../net-device.js';
import type { Environment } from '../settings.js';
import { type IbOptions, ibPlugin } from './ib-devices.js';
import type { MachineFiles } from './machine-files.js';
import { socketDevices } from './socket-devices.js';

export interface NetPluginOptions extends IbOptions {
  readonly log?: LogSink;
  /** Numeric host of NCCL_COMM_ID where that is set. */
  readonly commIdHost?: string;
}

/**
 * The plugin in use, or none where the machine has no network at all.
 *
 * @throws TuttiError invalidUsage when NCCL_NET names a plugin that does not exist or has no device.
 */
export function netPlugins(
  files: MachineFiles,
  interfaces: readonly NetworkInterface[],
  env: Environment,
  options: NetPluginOptions = {},
): NetPlugin[] {
  const { log = SILENT, commIdHost } = options;
  const wanted = env.NCCL_NET?.toLowerCase() || undefined;
  const isWanted = (name: string) => wanted === undefined || wanted === name.toLowerCase();
  const candidates: readonly (() => NetPlugin)[] = [
    () => ibPlugin(files, env, log, options),
    () => ({
      kind: 'net',
      name: 'Socket',
      devices: socketDevices(files, interfaces, env, log, commIdHost),
    }),
  ];
  for (const candidate of candidates) {
    const plugin = candidate();
    if (plugin.devices.length === 0 || !isWanted(plugin.name)) continue;
    log('INFO', 'INIT', `Using network ${plugin.name}`);
    return [plugin];
  }
  if (wanted !== undefined) {
    throw new TuttiError(
      'invalidUsage',
      `NCCL_NET=${env.NCCL_NET} names no network with a usable device on this machine; known are IB and Socket`,
    );
  }
  return [];
}

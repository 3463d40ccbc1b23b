/**
 * The network devices of the socket transport: one per interface that NCCL_SOCKET_IFNAME lets through.
 * (NCCL 2.30.7, net_socket.cc.)
 */
import { chooseSocketInterfaces, type NetworkInterface } from '../../system/interfaces.js';
import { cInteger } from '../c-integer.js';
import { type LogSink, SILENT } from '../log.js';
import type { NetDevice } from '../net-device.js';
import type { Environment } from '../settings.js';
import type { MachineFiles } from './machine-files.js';

/** Mbit/s of an interface that does not tell, as those of virtual machines. */
const DEFAULT_SPEED = 10_000;

/** Connections per device. */
const MAX_CONNECTIONS = 65_536;

/** Devices in the order of the interfaces; `commIdHost` is the numeric host of NCCL_COMM_ID where that is set. */
export function socketDevices(
  files: MachineFiles,
  interfaces: readonly NetworkInterface[],
  env: Environment,
  log: LogSink = SILENT,
  commIdHost?: string,
): NetDevice[] {
  return chooseSocketInterfaces(interfaces, env, commIdHost).map(({ name }, index) => {
    const pciPath = files.realPath(`/sys/class/net/${name}/device`);
    return {
      name,
      ...(pciPath === undefined ? {} : { pciPath }),
      speed: speedOf(files, name, log),
      port: 0,
      latency: 0,
      guid: BigInt(index),
      maxConnections: MAX_CONNECTIONS,
      gdr: false,
    };
  });
}

function speedOf(files: MachineFiles, name: string, log: LogSink): number {
  const path = `/sys/class/net/${name}/speed`;
  const speed = Number(BigInt.asIntN(32, cInteger(files.text(path) ?? '')));
  if (speed > 0) return speed;
  log('INFO', 'NET', `Could not get speed from ${path}. Defaulting to 10 Gbps.`);
  return DEFAULT_SPEED;
}

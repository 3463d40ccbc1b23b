/**
 * InfiniBand and RoCE adapters: GID tables (`show_gids`), states and rates of ports (`ibstatus`, `ibstat`,
 * `ibv_devinfo`).
 */
import type { IbPort } from '../../model/machine.js';
import { type FileContext, here, kind, type LineReader } from '../file-context.js';

const GID =
  /^(\S+)\s+(\d+)\s+(\d+)\s+([0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7})\s+(?:(\d+\.\d+\.\d+\.\d+)\s+)?(v[12])(?:\s+(\S+))?\s*$/i;

export function gidReader(context: FileContext): LineReader {
  return (line) => {
    if (!line.includes(':') || line.length > 300) return false;
    const found = GID.exec(line);
    if (found === null) return false;
    context.job.gids.push({
      host: context.host,
      at: here(context),
      device: found[1]!,
      port: Number(found[2]),
      index: Number(found[3]),
      gid: found[4]!.toLowerCase(),
      ipv4: found[5],
      version: found[6]!,
      interface: found[7],
    });
    return kind(context, 'GID table');
  };
}

const STATUS = /^Infiniband device '([^']+)' port (\d+) status:/;
const IBSTAT_CA = /^CA '([^']+)'/;
const IBSTAT_PORT = /^\s*Port (\d+):/;
const DEVINFO_CA = /^hca_id:\s*(\S+)/;
const DEVINFO_PORT = /^\s*port:\s*(\d+)/;
const STATE = /^\s*(?:state:\s*(?:\d+: )?(\w+)|State: (\w+)|state:\s+PORT_(\w+))/;
const PHYSICAL = /^\s*(?:phys state:\s*(?:\d+: )?(\w+)|Physical state: (\w+)|phys_state:\s*(\w+))/;
const RATE = /^\s*(?:rate:\s*([\d.]+) Gb\/sec|Rate: ([\d.]+))/;
const LINK_LAYER = /^\s*(?:link_layer|Link layer):\s*(\w+)/;

export function portReader(context: FileContext): LineReader {
  let device = '';
  let port: IbPort | undefined;
  const begin = (number: number): true => {
    port = {
      host: context.host,
      at: here(context),
      device,
      port: number,
      state: undefined,
      physical: undefined,
      rateGbps: undefined,
      linkLayer: undefined,
    };
    context.job.ports.push(port);
    return kind(context, 'adapter status');
  };
  return (line) => {
    if (line.length > 300) return false;
    const status = STATUS.exec(line);
    if (status !== null) {
      device = status[1]!;
      return begin(Number(status[2]));
    }
    const adapter = IBSTAT_CA.exec(line) ?? DEVINFO_CA.exec(line);
    if (adapter !== null) {
      device = adapter[1]!;
      port = undefined;
      return kind(context, 'adapter status');
    }
    if (device === '') return false;
    const number = IBSTAT_PORT.exec(line) ?? DEVINFO_PORT.exec(line);
    if (number !== null) return begin(Number(number[1]));
    if (port === undefined) return false;
    const state = STATE.exec(line);
    if (state !== null) {
      const value = (state[1] ?? state[2] ?? state[3])!.replace(/^PORT_/, '').toUpperCase();
      port.state = { value, at: here(context) };
      return true;
    }
    const physical = PHYSICAL.exec(line);
    if (physical !== null) {
      port.physical = physical[1] ?? physical[2] ?? physical[3];
      return true;
    }
    const rate = RATE.exec(line);
    if (rate !== null) {
      port.rateGbps = { value: Number(rate[1] ?? rate[2]), at: here(context) };
      return true;
    }
    const layer = LINK_LAYER.exec(line);
    if (layer !== null) {
      port.linkLayer = layer[1];
      return true;
    }
    return false;
  };
}

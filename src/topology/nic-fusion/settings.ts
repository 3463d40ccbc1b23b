/** The variables that decide which NICs are joined into virtual ones. (NCCL 2.30.7, topo.cc.) */
import { cInt } from '../c-integer.js';
import { type Dictionary, lookUp } from '../dictionary.js';
import { type LogSink, SILENT } from '../log.js';
import type { Environment } from '../settings.js';
import { PathType } from '../system/path-type.js';
import { type NicDistance, PORT } from './distance.js';

/** A device that a user names: `mlx5_0` or `mlx5_0:1`. */
export interface NamedNic {
  readonly name: string;
  /** Any port, if undefined. */
  readonly port: number | undefined;
}

/** A group that a user asks for. */
export interface ForcedGroup {
  readonly text: string;
  readonly nics: readonly NamedNic[];
}

export interface NicFusionSettings {
  /** NCCL_NET_MERGE_LEVEL: NICs at most this far apart are joined; LOC: none. */
  readonly level: NicDistance;
  /** NCCL_NET_MERGE_POLICY: any NICs, or only those on one rail. */
  readonly policy: 'ALL' | 'RAIL';
  /** NCCL_NET_FORCE_MERGE. */
  readonly forced: readonly ForcedGroup[];
}

const LEVELS: Dictionary<NicDistance> = [
  ['LOC', PathType.LOC],
  ['PORT', PORT],
  ['PIX', PathType.PIX],
  ['PXB', PathType.PXB],
  ['P2C', PathType.P2C],
  ['PXN', PathType.PXN],
  ['PHB', PathType.PHB],
  ['SYS', PathType.SYS],
];

/** Reads the variables. */
export function nicFusionSettings(env: Environment = {}, log: LogSink = SILENT): NicFusionSettings {
  const level = env.NCCL_NET_MERGE_LEVEL;
  return {
    level: level === undefined ? PORT : lookUp(LEVELS, level, PathType.LOC, log),
    policy: policyOf(env.NCCL_NET_MERGE_POLICY, log),
    forced: (env.NCCL_NET_FORCE_MERGE ?? '').split(';').filter(Boolean).map(groupOf),
  };
}

function policyOf(text: string | undefined, log: LogSink): 'ALL' | 'RAIL' {
  const policy = text?.toUpperCase() ?? 'ALL';
  if (policy === 'ALL' || policy === 'RAIL') return policy;
  log('WARN', 'NET', `NCCL_NET_MERGE_POLICY: unknown value '${text}', defaulting to ALL`);
  return 'ALL';
}

function groupOf(text: string): ForcedGroup {
  const nics = text
    .split(',')
    .filter(Boolean)
    .map((item): NamedNic => {
      const at = item.indexOf(':');
      if (at < 0) return { name: item, port: undefined };
      return { name: item.slice(0, at), port: cInt(item.slice(at + 1)) };
    });
  return { text, nics };
}

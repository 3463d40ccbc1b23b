/**
 * What NCCL makes of the texts of its variables where that is not what they say: words it does not know, numbers it
 * cannot read or cuts, variables that another one goes before. NCCL is silent about most of it.
 *
 * The rules are those by which settings.ts and the settings of detection read (NCCL 2.30.7).
 */
import { cInteger } from './c-integer.js';
import { type Environment, MAX_CHANNELS } from './settings.js';
import { PATH_TYPE_NAMES, PathType } from './system/path-type.js';

/** What is wrong with a text that is not empty, and what would be right; undefined if it is read as it says. */
export type Reading = (text: string) => string | undefined;

const NUMBER = /^\s*[+-]?(?:0x[0-9a-f]+|0|[1-9]\d*)$/i;
const OCTAL = /^\s*[+-]?0[0-7]+$/;

/** Any number of 64 bits. */
export const number: Reading = (text) => {
  const value = cInteger(text);
  if (BigInt.asIntN(64, value) !== value) return 'is beyond 64 bits; NCCL takes its default';
  if (OCTAL.test(text)) return `is octal to NCCL, ${value}; without the leading 0 it is decimal`;
  return NUMBER.test(text) ? undefined : `is not a whole number; NCCL reads it as ${value}`;
};

/** A number of which NCCL knows few values. */
const oneOf =
  (...known: readonly number[]): Reading =>
  (text) =>
    number(text) ??
    (known.includes(Number(cInteger(text)))
      ? undefined
      : `has no meaning of its own; NCCL knows ${known.slice(0, -1).join(', ')} and ${known.at(-1)}`);

/** A flag that only 1 sets. */
const onlyOne: Reading = (text) =>
  number(text) ?? ([0n, 1n].includes(cInteger(text)) ? undefined : 'is like 0 to NCCL; 1 sets it');

/** A number that NCCL brings into a range. */
const cut =
  (least: number, most: number): Reading =>
  (text) => {
    const value = cInteger(text);
    const problem = number(text);
    if (problem !== undefined) return problem;
    if (value < least) return `is below ${least}; NCCL takes ${least}`;
    return value > most ? `is above ${most}; NCCL takes ${most}` : undefined;
  };

/** A number of channels that counts if it is above 0. */
const channels: Reading = (text) => {
  const problem = number(text);
  if (problem !== undefined) return problem;
  const value = cInteger(text);
  if (value < 1n) return `is below 1; NCCL ignores it, 1 to ${MAX_CHANNELS} count`;
  return value > MAX_CHANNELS ? `is above ${MAX_CHANNELS}; NCCL takes ${MAX_CHANNELS}` : undefined;
};

const LEVEL_NAMES: readonly string[] = PATH_TYPE_NAMES.slice(0, PathType.SYS + 1);
const LAST_LEVEL_NUMBER = 4;

const level: Reading = (text) => {
  if (LEVEL_NAMES.includes(text)) return undefined;
  if (/^\d+$/.test(text)) {
    return Number(text) > LAST_LEVEL_NUMBER
      ? `is SYS to NCCL; the numbers are 0 to ${LAST_LEVEL_NUMBER}`
      : undefined;
  }
  const meant = text.trim().toUpperCase();
  return LEVEL_NAMES.includes(meant)
    ? `is ignored by NCCL; write ${meant}`
    : `is not a level, NCCL ignores it; give one of ${LEVEL_NAMES.join(', ')}, or 0 to ${LAST_LEVEL_NUMBER}`;
};

const policy: Reading = (text) =>
  /^(?:auto|all)$/i.test(text) || (/^max:/i.test(text) && Number(cInteger(text.slice(4))) > 0)
    ? undefined
    : 'is not a policy, NCCL takes AUTO; give AUTO, ALL or MAX:n with n from 1';

const MERGE_LEVELS = ['LOC', 'PORT', 'PIX', 'PXB', 'P2C', 'PXN', 'PHB', 'SYS'];

const mergeLevel: Reading = (text) =>
  MERGE_LEVELS.some((name) => text.startsWith(name))
    ? undefined
    : `is not a level, NCCL takes LOC; give one of ${MERGE_LEVELS.join(', ')}`;

const family: Reading = (text) =>
  /^AF_INET6?$/.test(text) ? undefined : 'is ignored by NCCL; give AF_INET or AF_INET6';

/** Variables that describe a cluster, from whatever source, and have values rather than names of files. */
export const DESCRIPTION_READINGS: Readonly<Record<string, Reading>> = {
  NCCL_CROSS_NIC: oneOf(0, 1, 2),
  NCCL_NVB_DISABLE: number,
  NCCL_P2P_DISABLE: onlyOne,
  NCCL_P2P_LEVEL: level,
  NCCL_IGNORE_DISABLED_P2P: oneOf(0, 1, 2),
  NCCL_NET_GDR_LEVEL: level,
  NCCL_NET_GDR_READ: oneOf(0, 1),
  NCCL_NET_GDR_C2C: number,
  NCCL_NET_GDR_MLOPART: number,
  NCCL_NET_FORCE_FLUSH: number,
  NCCL_NET_DISABLE_INTRA: onlyOne,
  NCCL_P2P_USE_CUDA_MEMCPY: number,
  NCCL_SHM_DISABLE: onlyOne,
  NCCL_PXN_DISABLE: onlyOne,
  NCCL_PXN_C2C: number,
  NCCL_P2P_PXN_LEVEL: oneOf(0, 1, 2),
  NCCL_NETDEVS_POLICY: policy,
  NCCL_MNNVL_ENABLE: oneOf(0, 1, 2),
  NCCL_MNNVL_UUID: number,
  NCCL_MNNVL_CLIQUE_ID: number,
  NCCL_MNNVL_CROSS_CLIQUE: number,
  NCCL_MNNVL_SCATTER_NETS_ENABLE: number,
  NCCL_MNNVL_RAIL_PER_HOST: number,
  NCCL_NVLS_ENABLE: number,
  NCCL_TOPO_SPLIT_MLOPART: number,
  NCCL_MIN_NCHANNELS: cut(0, MAX_CHANNELS),
  NCCL_MAX_NCHANNELS: cut(1, MAX_CHANNELS),
  NCCL_MIN_NRINGS: cut(0, MAX_CHANNELS),
  NCCL_MAX_NRINGS: cut(1, MAX_CHANNELS),
  NCCL_MIN_CTAS: channels,
  NCCL_MAX_CTAS: channels,
  NCCL_NVLS_NCHANNELS: number,
  NCCL_NCHANNELS_PER_NET_PEER: channels,
  NCCL_MIN_P2P_NCHANNELS: number,
  NCCL_MAX_P2P_NCHANNELS: number,
  NCCL_P2P_PER_CHANNEL_NET_BW: number,
  NCCL_P2P_MAX_PEERS: number,
  NCCL_UNPACK_DOUBLE_NCHANNELS: number,
  NCCL_WORK_ARGS_BYTES: number,
  NCCL_NVLS_CHUNKSIZE: number,
  NCCL_NVLSTREE_MAX_CHUNKSIZE: number,
  NCCL_IGNORE_NET_MISMATCH: number,
  NCCL_IGNORE_COLLNET_MISMATCH: number,
  NCCL_COLLNET_NODE_THRESHOLD: number,
  NCCL_GRAPH_DUMP_FILE_RANK: number,
};

/** Variables that count where a machine is looked at. NCCL itself speaks about the words of others. */
export const DETECTION_READINGS: Readonly<Record<string, Reading>> = {
  NCCL_IB_DISABLE: number,
  NCCL_IB_MERGE_VFS: number,
  NCCL_IB_MERGE_NICS: number,
  NCCL_IB_DEVICE_PCI_ORDER: number,
  NCCL_NET_MERGE_LEVEL: mergeLevel,
  NCCL_SOCKET_FAMILY: family,
  NCCL_TOPO_DUMP_FILE_RANK: number,
};

/** Variables that another one goes before, whatever they say. */
const SHADOWED: readonly (readonly [name: string, by: string, when: (text: string) => boolean])[] = [
  ['NCCL_P2P_LEVEL', 'NCCL_P2P_DISABLE', (text) => cInteger(text) === 1n],
  ['NCCL_MIN_NRINGS', 'NCCL_MIN_NCHANNELS', () => true],
  ['NCCL_MAX_NRINGS', 'NCCL_MAX_NCHANNELS', () => true],
];

/** Sentences on variables that are set to something that NCCL does not take as it stands, without a final stop. */
export function valueNotes(env: Environment, readings: Readonly<Record<string, Reading>>): string[] {
  return Object.entries(readings).flatMap(([name, reading]) => {
    const text = env[name];
    if (text === undefined || text === '') return [];
    const [, by] =
      SHADOWED.find(([own, other, when]) => own === name && env[other] && when(env[other])) ?? [];
    if (by !== undefined) return [`${name}=${text} has no effect: ${by}=${env[by]} goes before it`];
    const problem = reading(text);
    return problem === undefined ? [] : [`${name}=${text} ${problem}`];
  });
}

/**
 * The functions, algorithms and protocols that the cost model knows, in NCCL's order: positions here are NCCL's
 * numbers, index the model's tables and decide ties.
 *
 * (NCCL 2.30.7, nccl_common.h.)
 */

/** Collectives with tuning tables. */
export const NCCL_FUNCTIONS = ['Broadcast', 'Reduce', 'AllGather', 'ReduceScatter', 'AllReduce'] as const;
export type NcclFunction = (typeof NCCL_FUNCTIONS)[number];

export const NCCL_ALGORITHMS = [
  'Tree',
  'Ring',
  'CollNetDirect',
  'CollNetChain',
  'NVLS',
  'NVLSTree',
  'PAT',
] as const;
export type NcclAlgorithm = (typeof NCCL_ALGORITHMS)[number];

export const NCCL_PROTOCOLS = ['LL', 'LL128', 'Simple'] as const;
export type NcclProtocol = (typeof NCCL_PROTOCOLS)[number];

/** Number of a function, algorithm or protocol. */
export const FunctionId: Readonly<Record<NcclFunction, number>> = numbered(NCCL_FUNCTIONS);
export const AlgorithmId: Readonly<Record<NcclAlgorithm, number>> = numbered(NCCL_ALGORITHMS);
export const ProtocolId: Readonly<Record<NcclProtocol, number>> = numbered(NCCL_PROTOCOLS);

/** Cells of a table by algorithm and protocol. */
export const CELLS = NCCL_ALGORITHMS.length * NCCL_PROTOCOLS.length;

/** Place of an algorithm and protocol in a table of CELLS. */
export const cellOf = (algorithm: NcclAlgorithm, protocol: NcclProtocol): number =>
  AlgorithmId[algorithm] * NCCL_PROTOCOLS.length + ProtocolId[protocol];

/** Algorithm and protocol of a cell. */
export const algorithmOf = (cell: number): NcclAlgorithm =>
  NCCL_ALGORITHMS[Math.floor(cell / NCCL_PROTOCOLS.length)]!;
export const protocolOf = (cell: number): NcclProtocol => NCCL_PROTOCOLS[cell % NCCL_PROTOCOLS.length]!;

/** Place of a cell in a table by function, algorithm and protocol. */
export const entryOf = (fn: NcclFunction, algorithm: NcclAlgorithm, protocol: NcclProtocol): number =>
  FunctionId[fn] * CELLS + cellOf(algorithm, protocol);

function numbered<T extends string>(names: readonly T[]): Readonly<Record<T, number>> {
  return Object.fromEntries(names.map((name, number) => [name, number])) as Record<T, number>;
}

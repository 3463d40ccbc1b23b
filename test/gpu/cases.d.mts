import type { CudaCommunicator } from '#src/index.js';

/** A random call of all ranks, see cases.mjs. */
export interface Case {
  readonly collective: string;
  readonly count: number;
}

type How = (comms: readonly CudaCommunicator[], states: unknown, one: Case) => Promise<void>;

export function randomCase(random: unknown, ranks: number, most: number): Case;
export function exactCase(
  random: unknown,
  ranks: number,
  most: number,
  options: { readonly collectives: readonly string[]; readonly averages?: boolean },
): Case;
export function runCase(comms: readonly CudaCommunicator[], one: Case, how?: How): Promise<string[]>;
export const ways: Readonly<Record<'awaited' | 'prepared' | 'graphed', How>>;

export interface RandomNumbers {
  below(n: number): number;
  pick<T>(list: readonly T[]): T;
  chance(p: number): boolean;
  size(most: number): number;
  word(): number;
}
export function randomFrom(seed: number): RandomNumbers;
export const SEED: number;

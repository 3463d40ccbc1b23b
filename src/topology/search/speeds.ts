/**
 * Bandwidths of one channel that a search tries, highest first, GB/s.
 *
 * A list per GPU generation and reach: the values are what whole numbers of channels make of the links of that
 * generation. (NCCL 2.30.7, search.cc.)
 */

const f32 = (values: readonly number[]): readonly number[] => values.map(Math.fround);

const INTRA = f32([40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3]);
const INTER = f32([48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12]);
const INTRA_SM90 = f32([60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3]);
const INTER_SM90 = f32([48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12]);
const INTRA_SM100 = f32([90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18]);
const INTER_SM100 = f32([
  96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12,
]);

/** The speeds for a lowest compute capability (times 10), inside one system or across several. */
export function channelSpeeds(sm: number, inter: boolean): readonly number[] {
  if (sm >= 100) return inter ? INTER_SM100 : INTRA_SM100;
  if (sm >= 90) return inter ? INTER_SM90 : INTRA_SM90;
  return inter ? INTER : INTRA;
}

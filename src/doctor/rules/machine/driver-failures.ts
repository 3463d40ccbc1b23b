/** Failures of CUDA whose reason is the driver. */
import type { Told } from '../queries.js';

/**
 * Failures of CUDA whose reason is the driver, by number and by words: 35 insufficient driver, 222 PTX of a newer
 * compiler, 803 driver library and kernel module of two versions, 804 no forward compatibility on this GPU.
 */
const DRIVER_NUMBERS: ReadonlySet<number> = new Set([35, 222, 803, 804]);

const DRIVER_WORDS =
  /driver version is insufficient|unsupported toolchain|unsupported display driver|forward compatibility/i;

export const isOfDriver = ({ trouble }: Told<'cuda'>): boolean =>
  (trouble.number !== undefined && DRIVER_NUMBERS.has(trouble.number)) || DRIVER_WORDS.test(trouble.reason);

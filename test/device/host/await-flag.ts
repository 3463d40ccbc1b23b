/** The program that waits for a flag: descriptor = address of a doorbell, the flag lies FLAG bytes behind it. */
import { assemble, atomicLoad, constant, done, equal, get, waitUntil } from './tiny-program.js';

export const FLAG = 64;

/** Ends with 0 when the flag is 1, with 1 when the wait is given up. */
export const AWAIT_FLAG = assemble({
  awaitFlag: [...waitUntil([...get(0), ...atomicLoad(FLAG), ...constant(1), ...equal], get(0)), ...done],
});

/**
 * Copies that a program asks the thread that runs it for, because it cannot reach one end: memory outside of the heap, in
 * this process or in another one of the host.
 *
 * A program writes what it wants into a request of its block, sets the state to asked, and waits until that has changed.
 * Its thread looks at the request whenever the block waits (launch.ts). Other processes are only ever read from, by
 * process_vm_readv(2): a peer that has given up may have given its array back, and reading from there does no harm.
 */
import { constants } from 'node:os';
import { libc } from '../../system/libc.js';

/** Byte offsets; two struct iovec of uio.h, so that the system reads what the program has written. */
export const COPY_REQUEST = {
  /** COPY_STATE. */
  state: 0,
  /** Process whose memory the source is; 0 for the own one. */
  process: 4,
  target: 8,
  targetBytes: 16,
  source: 24,
  sourceBytes: 32,
} as const;

export const COPY_REQUEST_BYTES = 64;

export const COPY_STATE = { none: 0, asked: 1, done: 2, failed: 3 } as const;

export interface CopyMemory {
  readonly i32: Int32Array;
  readonly baseAddress: number;
}

function numberAt(i32: Int32Array, address: number): number {
  return (i32[address >>> 2]! >>> 0) + (i32[(address + 4) >>> 2]! >>> 0) * 2 ** 32;
}

function setNumber(i32: Int32Array, address: number, value: number): void {
  i32[address >>> 2] = value;
  i32[(address + 4) >>> 2] = Math.floor(value / 2 ** 32);
}

/** Does what is asked for in the request at an address. False where nothing is, or it cannot be done yet. */
export function serveCopy(memory: CopyMemory, at: number): boolean {
  const { i32 } = memory;
  if (i32[at >>> 2] !== COPY_STATE.asked) return false;
  const state = serve(memory, at);
  if (state === COPY_STATE.asked) return false;
  Atomics.store(i32, at >>> 2, state);
  return true;
}

/** The state afterwards. */
function serve({ i32, baseAddress }: CopyMemory, at: number): number {
  const c = libc();
  if (c === null) return COPY_STATE.failed;
  const process = i32[(at + COPY_REQUEST.process) >>> 2]!;
  const target = numberAt(i32, at + COPY_REQUEST.target);
  const source = numberAt(i32, at + COPY_REQUEST.source);
  const bytes = numberAt(i32, at + COPY_REQUEST.targetBytes);
  if (process === 0) {
    c.memcpy(target, source, bytes);
    return COPY_STATE.done;
  }
  const local = baseAddress + at + COPY_REQUEST.target;
  const remote = baseAddress + at + COPY_REQUEST.source;
  // A call moves 2 GiB at most.
  for (let done = 0; done < bytes; ) {
    setNumber(i32, at + COPY_REQUEST.target, target + done);
    setNumber(i32, at + COPY_REQUEST.targetBytes, bytes - done);
    setNumber(i32, at + COPY_REQUEST.source, source + done);
    setNumber(i32, at + COPY_REQUEST.sourceBytes, bytes - done);
    const moved = c.processRead(process, local, remote);
    if (moved <= 0) {
      setNumber(i32, at + COPY_REQUEST.target, target);
      setNumber(i32, at + COPY_REQUEST.source, source);
      setNumber(i32, at + COPY_REQUEST.targetBytes, bytes);
      // A process that is gone: whoever waits finds that out, and says which.
      return moved < 0 && c.errno() === constants.errno.ESRCH ? COPY_STATE.asked : COPY_STATE.failed;
    }
    done += moved;
  }
  return COPY_STATE.done;
}

/** Operations of calls that repeat, by what they do with which addresses: the least recently made go first. */
import { CudaOperation, type DeviceCall } from './cuda-operation.js';
import type { CudaTeam } from './cuda-team.js';
import type { DeviceBuffer } from './device-buffer.js';

/** Operations that are kept: more than a program repeats between two of the same. */
const MOST = 256;

export class KeptOperations {
  readonly #team: CudaTeam;
  readonly #kept = new Map<string, CudaOperation>();

  constructor(team: CudaTeam) {
    this.#team = team;
  }

  /** The operation of a call, a kept one if it was made before. */
  of(call: DeviceCall): CudaOperation {
    const { collective, type, op, root, count, send, recv } = call;
    const key = `${collective} ${type} ${op} ${root} ${count} ${send?.address} ${recv?.address}`;
    let operation = this.#kept.get(key);
    if (operation !== undefined) return operation;
    operation = new CudaOperation(this.#team, call);
    if (this.#kept.size >= MOST) this.#kept.delete(this.#kept.keys().next().value!);
    this.#kept.set(key, operation);
    return operation;
  }

  /** Forgets what works on a buffer's memory. */
  forget(buffer: DeviceBuffer): void {
    for (const [key, operation] of this.#kept) if (operation.uses(buffer)) this.#kept.delete(key);
  }

  clear(): void {
    this.#kept.clear();
  }
}

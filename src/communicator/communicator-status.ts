/** How a communicator is, for programs that look from time to time instead of awaiting promises. */
import type { ErrorCode } from '../errors/tutti-error.js';

/**
 * `inProgress` while calls of this rank, `finalize` or `close` are under way, the code of the failure after one, else
 * `success`: what ncclCommGetAsyncError tells.
 */
export type CommunicatorStatus = 'success' | 'inProgress' | ErrorCode;

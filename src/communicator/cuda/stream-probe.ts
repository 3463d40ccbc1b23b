/** Asks the driver, from the watchdog's thread, whether there is work in streams. */
import type { DriverFunctions } from '../../device/cuda/driver-functions.js';
import { openDriverLibrary } from '../../device/cuda/driver-library.js';

let functions: DriverFunctions | undefined;

/**
 * Whether any of the streams of a context is busy, or has not come to one of the events yet. The context, the streams and
 * the events must live. Throws without a driver.
 */
export function areBusy(context: number, streams: readonly number[], events: readonly number[]): boolean {
  functions ??= openDriverLibrary();
  const { cuCtxSetCurrent, cuStreamQuery, cuEventQuery } = functions;
  cuCtxSetCurrent(context);
  try {
    // Whatever is not success: there is something to be ended, or ending it does no harm.
    return (
      streams.some((stream) => cuStreamQuery(stream) !== 0) ||
      events.some((event) => cuEventQuery(event) !== 0)
    );
  } finally {
    // The context may go before the next question.
    cuCtxSetCurrent(0);
  }
}

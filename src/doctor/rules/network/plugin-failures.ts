/** Network plugins that could not be loaded, apart from those that NCCL only tries. */
import type { Job } from '../../model/job.js';
import type { LibraryFailure, NcclProcess } from '../../model/process.js';
import { variable } from '../queries.js';

export const libraryName = (path: string): string => path.replace(/^.*\//, '');

/** The library that NCCL tries on its own; that it is missing is normal. */
const isDefault = (library: string): boolean =>
  /^libnccl-(?:net|tuner|profiler|env|gin|rma)\.so/.test(libraryName(library));

/** A library that the plugin needs is missing, or the plugin was asked for by name. */
function isFault(failure: LibraryFailure, process: NcclProcess): boolean {
  const isNeeded = libraryName(failure.missing) !== libraryName(failure.library);
  const isWrong = failure.reason.startsWith('undefined symbol');
  const asked = variable(process, 'NCCL_NET_PLUGIN') ?? '';
  const isAsked =
    asked !== '' && !/^none$/i.test(asked) && failure.library.includes(asked.replace(/^lib|\.so.*$/g, ''));
  // NCCL tries several names of a plugin; one that opens is enough.
  const network = process.network?.value ?? 'Socket';
  const isLoaded = network !== 'Socket' && network !== 'IB';
  return isNeeded || isWrong || (isAsked && !isLoaded && !isDefault(failure.library));
}

export function pluginFailures(job: Job) {
  return job.processes.flatMap((process) =>
    process.libraryFailures.filter((one) => isFault(one, process)).map((failure) => ({ process, failure })),
  );
}

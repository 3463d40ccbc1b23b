/**
 * The host's cost model as a communicator uses it: constants and cores that all its ranks have agreed on.
 */
import { type Candidate, candidateName } from './candidates.js';
import { type HostConstants, STANDARD_CONSTANTS } from './constants.js';
import { featuresOf, type HostCall, type HostPath, type Prediction, predict } from './cost.js';

export interface HostModel {
  readonly constants: HostConstants;
  /** Cores of a host, as rank 0 counts them. */
  readonly cores: number;
  /** Where the constants are from, for explanations: the name of a file, or undefined for the standard ones. */
  readonly source: string | undefined;
}

/** Standard constants on so many cores. */
export function standardModel(cores: number): HostModel {
  return { constants: STANDARD_CONSTANTS, cores, source: undefined };
}

/** What a candidate is predicted to take. */
export function predictOnHost(
  { constants, cores }: HostModel,
  candidate: Candidate,
  call: HostCall,
  path: HostPath,
): Prediction {
  const own = constants[path][call.collective][candidateName(candidate)]!;
  return predict(featuresOf(candidate, call, cores, path), own);
}

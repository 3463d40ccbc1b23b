/**
 * GPU architectures that PTX can be generated for, and what each of them can do.
 *
 * PTX for one architecture also runs on all later ones (the driver compiles it again), so a driver that meets a
 * newer GPU than this table takes the newest entry. Numbers: PTX ISA, table of `.target` directives.
 */

import { TuttiError } from '../../errors/tutti-error.js';

/** A version of the PTX language, major x 10 + minor: 6.3 is 63. */
export type PtxVersion = number;

/** The lowest language version that knows each architecture. */
const FIRST_VERSION = {
  sm_70: 60,
  sm_72: 61,
  sm_75: 63,
  sm_80: 70,
  sm_86: 71,
  sm_87: 74,
  sm_89: 78,
  sm_90: 78,
  sm_100: 86,
  sm_103: 88,
  sm_120: 87,
  sm_121: 88,
} as const satisfies Record<string, PtxVersion>;

export type PtxArchitecture = keyof typeof FIRST_VERSION;

export const PTX_ARCHITECTURES = Object.keys(FIRST_VERSION) as readonly PtxArchitecture[];

/** The lowest language version that knows the architecture. */
export function firstVersion(arch: PtxArchitecture): PtxVersion {
  return FIRST_VERSION[arch];
}

/** Compute capability, major x 10 + minor: 90 for sm_90. */
export function capability(arch: PtxArchitecture): number {
  return Number(arch.slice(3));
}

/** The architecture that `text` names; throws `invalidArgument` with the list of those there are. */
export function requireArchitecture(text: string): PtxArchitecture {
  if (Object.hasOwn(FIRST_VERSION, text)) return text as PtxArchitecture;
  throw new TuttiError(
    'invalidArgument',
    `'${text}' is no GPU architecture of the ptx target; choose from ${PTX_ARCHITECTURES.join(', ')}`,
  );
}

/**
 * The newest known architecture whose PTX runs on a GPU of compute capability `major.minor`; throws
 * `invalidArgument` for GPUs before 7.0, which lack the memory model that the programs rely on.
 */
export function architectureFor(major: number, minor: number): PtxArchitecture {
  const found = PTX_ARCHITECTURES.filter((arch) => capability(arch) <= major * 10 + minor).at(-1);
  if (found !== undefined) return found;
  throw new TuttiError(
    'invalidArgument',
    `a GPU of compute capability ${major}.${minor} is too old: 7.0 (Volta) or newer is needed`,
  );
}

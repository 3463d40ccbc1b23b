/**
 * Architecture, vendor and model of the processor, as NCCL takes them from the CPUID instruction.
 *
 * JavaScript cannot execute CPUID, but the kernel shows the same registers in /proc/cpuinfo, in a form of its own:
 * there, family = base family, plus the extended family if the base is 15; NCCL computes base + 16 x extended. Both
 * agree for every family below 15 (all Intel, Zhaoxin and Centaur processors of today), where the extended family is
 * zero. AMD's families from 16 on have base 15, so the extended part can be recovered: 23 (Zen 2) is 15 + 8 and
 * becomes 143, 25 (Zen 3 and 4) is 15 + 10 and becomes 175. The model is base + 16 x extended in both.
 * (NCCL 2.30.7, xml.cc; Linux, arch/x86/lib/cpu.c.)
 */
import type { MachineFiles } from './machine-files.js';

export interface CpuFacts {
  /** `x86_64`, `arm64`, `ppc64`; other processors by Node's name. */
  readonly arch: string;
  /** Twelve characters, x86 only. */
  readonly vendor?: string;
  readonly family?: number;
  readonly model?: number;
  /** Name of the product, for people. */
  readonly name?: string;
}

/** NCCL's names of the architectures it knows, by Node's. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'x86_64', arm64: 'arm64', ppc64: 'ppc64' };

/** Base family that says: look at the extended family too. */
const EXTENDED = 15;

/** What a plain base family and an extended one make of the number that the kernel prints. */
export function ncclFamily(kernelFamily: number): number {
  return kernelFamily < EXTENDED ? kernelFamily : EXTENDED + ((kernelFamily - EXTENDED) << 4);
}

/**
 * Facts of the machine whose files are given. Undefined if they do not say which processor it has; `nodeArch` (Node's
 * name of the architecture) stands in where that is known otherwise.
 */
export function readCpuFacts(files: MachineFiles, nodeArch?: string): CpuFacts | undefined {
  const text = files.text('/proc/cpuinfo') ?? '';
  // Values keep their blanks: the vendor of some Zhaoxin processors starts and ends with two.
  const value = (key: string): string | undefined =>
    new RegExp(`^${key}\\t*(?: *\\t)*: ?(.*)$`, 'm').exec(text)?.[1]?.slice(0, MAX_VALUE);
  const vendor = value('vendor_id');
  const family = integer(value('cpu family'));
  const model = integer(value('model'));
  const arch =
    nodeArch !== undefined
      ? (ARCHITECTURES[nodeArch] ?? nodeArch)
      : vendor !== undefined && family !== undefined
        ? 'x86_64'
        : value('CPU implementer') !== undefined
          ? 'arm64'
          : /^POWER/.test(value('cpu') ?? '')
            ? 'ppc64'
            : undefined;
  if (arch === undefined) return undefined;
  const name = value('model name') ?? value('cpu');
  if (arch !== 'x86_64') return { arch, ...(name === undefined ? {} : { name }) };
  return {
    arch,
    ...(vendor === undefined ? {} : { vendor }),
    ...(family === undefined ? {} : { family: ncclFamily(family) }),
    ...(model === undefined ? {} : { model }),
    ...(name === undefined ? {} : { name }),
  };
}

/** Characters of a value that a topology file can hold. */
const MAX_VALUE = 253;

const integer = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined;

/** Facts of this machine where there is no /proc: as far as Windows and macOS tell, families as NCCL would print them. */
export function cpuFactsWithoutProc(
  nodeArch: string,
  name: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): CpuFacts {
  const arch = ARCHITECTURES[nodeArch] ?? nodeArch;
  const product = name === undefined ? {} : { name: name.slice(0, MAX_VALUE) };
  if (arch !== 'x86_64') return { arch, ...product };
  // Windows: `Intel64 Family 6 Model 158 Stepping 10, GenuineIntel`.
  const [, family, model, vendor] =
    /Family (\d{1,9}) Model (\d{1,9}).*, *(\S{12})$/.exec(env.PROCESSOR_IDENTIFIER ?? '') ?? [];
  const maker = vendor ?? (/Intel/.test(name ?? '') ? 'GenuineIntel' : 'AuthenticAMD');
  return {
    arch,
    vendor: maker,
    family: ncclFamily(Number(family ?? 0)),
    model: Number(model ?? 0),
    ...product,
  };
}

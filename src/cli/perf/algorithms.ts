/**
 * `--algo` and `--proto`: which algorithms and protocols a run measures, one after the other with a table each.
 *
 * Only the measured collective is restricted: what perf itself exchanges between the ranks takes whatever is usual.
 */
import type { Collective } from '../../collectives/control-block.js';
import { ALGORITHMS, type Algorithm, isDirect, protocolsOf, supports } from '../../collectives/registry.js';
import type { CommunicatorOptions } from '../../communicator/settings.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { GPU_ALGORITHMS, GPU_PROTOCOLS, type GpuAlgorithm } from '../../tuning/gpu-selection.js';
import { functionName, hostChoices } from '../../tuning/host-choices.js';
import { NCCL_PROTOCOLS } from '../../tuning/names.js';
import { EACH } from './options.js';
import type { PerfDevice } from './role.js';
import type { CollectiveName } from './sizes.js';

/** One table: values of --algo and --proto, absent where nobody asked. */
export interface Variant {
  readonly algo?: string;
  readonly proto?: string;
}

const COLLECTIVE_OF: Partial<Record<CollectiveName, Collective>> = {
  all_reduce: 'allReduce',
  all_gather: 'allGather',
  reduce_scatter: 'reduceScatter',
  broadcast: 'broadcast',
  reduce: 'reduce',
  alltoall: 'allToAll',
};

const isEach = (text: string | undefined): boolean => text?.toLowerCase() === EACH;

/** The tables of a run. `each` gives all pairs of algorithm and protocol that have a program for the collective. */
export function variants(
  collective: CollectiveName,
  { algo, proto }: Variant,
  device: PerfDevice = 'host',
): Variant[] {
  if (!isEach(algo) && !isEach(proto)) return [{ ...keep('algo', algo), ...keep('proto', proto) }];
  const known = COLLECTIVE_OF[collective];
  const there: readonly Algorithm[] = device === 'cuda' ? GPU_ALGORITHMS : ALGORITHMS;
  const able = there.filter((algorithm) => known !== undefined && supports(algorithm, known));
  const algorithms = isEach(algo) ? able : algo === undefined ? able : [named(algo, able, collective)];
  return algorithms.flatMap((algorithm): Variant[] => {
    const all: readonly string[] =
      device === 'cuda' ? GPU_PROTOCOLS[algorithm as GpuAlgorithm] : protocolsOf(algorithm);
    // Direct programs with one protocol have nothing to choose between.
    if (isDirect(algorithm) && all.length === 1) {
      return isEach(proto) || proto === undefined ? [{ algo: algorithm }] : [];
    }
    const protocols = isEach(proto)
      ? all
      : all.filter((one) => proto === undefined || one.toLowerCase() === proto.toLowerCase());
    if (proto === undefined) return [{ algo: algorithm }];
    return protocols.map((protocol) => ({ algo: algorithm, proto: protocol }));
  });
}

/** Throws `invalidArgument` for a choice where there is nothing to choose between. */
export function requireChoices(collective: CollectiveName, { algo, proto }: Variant): void {
  const given = algo === undefined ? proto && '--proto' : '--algo';
  if (given === undefined || COLLECTIVE_OF[collective] !== undefined) return;
  throw new TuttiError('invalidArgument', `${given}: ${collective} has one algorithm only; leave it out`);
}

function named(text: string, able: readonly Algorithm[], collective: CollectiveName): Algorithm {
  const found = able.find((name) => name.toLowerCase() === text.toLowerCase());
  if (found !== undefined) return found;
  throw new TuttiError(
    'invalidArgument',
    `--algo ${text} --proto each: ${collective} has ${able.join(', ')}; give one of them, or each`,
  );
}

const keep = (key: keyof Variant, value: string | undefined): Variant =>
  value === undefined ? {} : { [key]: value };

/**
 * Options of the communicators of a table: the lists given, or those of NCCL_ALGO and NCCL_PROTO, for the measured
 * collective alone.
 *
 * @throws TuttiError invalidUsage for unknown names
 */
export function communicatorOptions(
  collective: CollectiveName,
  { algo, proto }: Variant,
  env: Readonly<Record<string, string | undefined>>,
): CommunicatorOptions {
  const known = COLLECTIVE_OF[collective];
  if (known === undefined) return {};
  // A list of the command line is for what is measured; variables leave out what NCCL has no algorithms for.
  const own = (list: string | undefined) =>
    list === undefined || list === '' || known !== 'allToAll' || list.includes(':')
      ? list
      : `${functionName(known)}:${list}`;
  const lists = { algorithm: own(algo) ?? env.NCCL_ALGO, protocol: own(proto) ?? env.NCCL_PROTO };
  const names = {
    algorithm: algo === undefined ? 'NCCL_ALGO' : '--algo',
    protocol: proto === undefined ? 'NCCL_PROTO' : '--proto',
  };
  const choices = hostChoices(lists, names);
  const allowed = ALGORITHMS.filter((algorithm) => choices.allowsAlgorithm(known, algorithm));
  const protocols = NCCL_PROTOCOLS.filter((protocol) => choices.allowsProtocol(known, protocol));
  const prefix = functionName(known);
  return {
    ...(allowed.length < ALGORITHMS.length && {
      algorithm: `${prefix}:${allowed.length > 0 ? allowed.join(',') : lists.algorithm}`,
    }),
    ...(protocols.length < NCCL_PROTOCOLS.length && {
      protocol: `${prefix}:${protocols.length > 0 ? protocols.join(',') : lists.protocol}`,
    }),
  };
}

/**
 * When a collective is done by copy engines in place of kernels: data only move, nothing is reduced.
 *
 * (NCCL 2.30.7, enqueue.cc.)
 */
import { CtaPolicy } from './cta-policy.js';
import type { TuningSettings } from './settings.js';
import type { Registration } from './symmetric/kernels.js';

export type CopyFunction = 'AllGather' | 'AlltoAll' | 'Scatter' | 'Gather';

export interface CopyEngineFacts {
  /** CUDA driver, 1000 * major + 10 * minor. */
  readonly driver: number;
  readonly nRanks: number;
  readonly nNodes: number;
  readonly localRanks: number;
  /** Ranks that reach each other's memory. */
  readonly lsaRanks: number;
  readonly symmetric: boolean;
  /** The host can start remote copies, with this many contexts. */
  readonly rmaContexts: number;
  /** Lowest compute capability times 10. */
  readonly minSm: number;
  readonly allDirectNvlink: boolean;
  /** `CtaPolicy` bits. */
  readonly ctaPolicy: number;
  readonly settings: TuningSettings;
}

export interface CopyEngineCall {
  readonly function: string;
  /** Elements per rank. */
  readonly count: number;
  readonly registration: Registration;
  /** A window's memory is on the host. */
  readonly hostMemory: boolean;
}

export interface CopyEngineChoice {
  /** Within the team, or within it and along the network. */
  readonly method: 'lsa' | 'hierarchical';
  readonly reason: string;
}

/** First driver whose copy engines can be started in batches: 12.5. */
const MIN_DRIVER = 12050;
/** Lowest compute capability at which copy engines are taken without being asked for. */
const MIN_SM = 100;

const LSA_FUNCTIONS: readonly string[] = [
  'AllGather',
  'AlltoAll',
  'Scatter',
  'Gather',
] satisfies CopyFunction[];
const HIERARCHICAL_FUNCTIONS: readonly string[] = ['AllGather', 'AlltoAll'] satisfies CopyFunction[];

/** How copy engines do a call; undefined if kernels do it. */
export function copyEngineChoice(facts: CopyEngineFacts, call: CopyEngineCall): CopyEngineChoice | undefined {
  const { ctaPolicy, nRanks, minSm, allDirectNvlink, settings } = facts;
  if (nRanks <= 1) return undefined;
  const lsa = hasLsaCopies(facts, call);
  if ((ctaPolicy & CtaPolicy.ZERO) !== 0 && !call.hostMemory) {
    if (lsa) return { method: 'lsa', reason: 'the policy asks for no thread blocks' };
    if (hasHierarchicalCopies(facts, call)) {
      return { method: 'hierarchical', reason: 'the policy asks for no thread blocks' };
    }
  }
  const threshold = settings.symCopyEngineElements;
  const large = call.function === 'AllGather' && call.count > threshold;
  if (lsa && large && minSm >= MIN_SM && allDirectNvlink) {
    return { method: 'lsa', reason: `${call.count} elements per rank are more than ${threshold}` };
  }
  return undefined;
}

function hasLsaCopies(facts: CopyEngineFacts, { function: fn, registration }: CopyEngineCall): boolean {
  return (
    LSA_FUNCTIONS.includes(fn) &&
    facts.driver >= MIN_DRIVER &&
    facts.lsaRanks === facts.nRanks &&
    facts.symmetric &&
    (registration === 'receive' || registration === 'both')
  );
}

function hasHierarchicalCopies(
  facts: CopyEngineFacts,
  { function: fn, registration }: CopyEngineCall,
): boolean {
  const { driver, nNodes, lsaRanks, nRanks, localRanks, symmetric, rmaContexts } = facts;
  return (
    HIERARCHICAL_FUNCTIONS.includes(fn) &&
    driver >= MIN_DRIVER &&
    nNodes > 1 &&
    lsaRanks < nRanks &&
    lsaRanks >= localRanks &&
    symmetric &&
    rmaContexts > 0 &&
    registration === 'both'
  );
}

/**
 * What NCCL makes of the texts of its tuning variables where that is not what they say, as topology/variable-values.ts
 * has it for those of the topology. NCCL_ALGO and NCCL_PROTO are not here: what they say wrong is an error.
 *
 * The rules are those by which this folder reads them (NCCL 2.30.7).
 */
import { cInteger } from '../topology/c-integer.js';
import { number, type Reading } from '../topology/variable-values.js';
import { CtaPolicy } from './cta-policy.js';
import { LL128_THREADS, THREADS, type ThreadBounds, WARP } from './max-threads.js';
import { nearestName } from './nearest-name.js';
import { SYMMETRIC_KERNELS } from './symmetric/kernels.js';
import { THRESHOLD_COUNT } from './thread-thresholds.js';

/** Threads of a block: whole warps between bounds; NCCL's mark of unset, -2, says nothing. */
const threads =
  ({ least, most }: ThreadBounds): Reading =>
  (text) => {
    const problem = number(text);
    if (problem !== undefined) return problem;
    const value = Number(cInteger(text));
    if (value <= 0) return value === -2 ? undefined : 'is below 1; NCCL takes its default';
    if (value % WARP !== 0) return `is no multiple of ${WARP}; NCCL takes ${most}`;
    if (value < least) return `is below ${least}; NCCL takes ${least}`;
    return value > most ? `is above ${most}; NCCL takes ${most}` : undefined;
  };

const thresholds: Reading = (text) => {
  const words = text.trim().split(/\s+/);
  const strange = words.findIndex((word) => !/^[+-]?\d+$/.test(word));
  if (strange >= 0) {
    return `has '${words[strange]}' where NCCL reads an integer; it and what follows keep their defaults`;
  }
  return words.length > THRESHOLD_COUNT
    ? `has ${words.length} numbers; NCCL reads ${THRESHOLD_COUNT}`
    : undefined;
};

const CTA_POLICIES = Object.keys(CtaPolicy);

const ctaPolicy: Reading = (text) => {
  if (/^[0-9]/.test(text)) {
    if (!/^[0-2]/.test(text)) return 'is ignored by NCCL; give 0, 1 or 2';
    return text.length > 1 ? `is ${text[0]} to NCCL, which reads one digit` : undefined;
  }
  const wrong = text.split('|').find((name) => !CTA_POLICIES.includes(name));
  if (wrong === undefined) return undefined;
  const near = nearestName(wrong, CTA_POLICIES);
  const meant = near === undefined ? '' : ` (did you mean ${near}?)`;
  return `has '${wrong}', which NCCL ignores${meant}; give ${CTA_POLICIES.join(', ')}, joined by '|'`;
};

const KERNELS: readonly string[] = SYMMETRIC_KERNELS.map(({ name }) => name);

const symmetricKernel: Reading = (text) => {
  // An empty exclusion is like no list.
  if (KERNELS.includes(text) || text === '^') return undefined;
  const near = nearestName(text, KERNELS);
  const meant = near === undefined ? '' : ` (did you mean ${near}?)`;
  return `is no symmetric kernel${meant}, so none may run`;
};

/** Variables of the choice of algorithm and protocol. */
export const TUNING_READINGS: Readonly<Record<string, Reading>> = {
  NCCL_BUFFSIZE: number,
  NCCL_LL_BUFFSIZE: number,
  NCCL_LL128_BUFFSIZE: number,
  NCCL_NTHREADS: threads(THREADS),
  NCCL_LL128_NTHREADS: threads(LL128_THREADS),
  NCCL_THREAD_THRESHOLDS: thresholds,
  NCCL_LL128_C2C: number,
  NCCL_PAT_ENABLE: number,
  NCCL_NET_OVERHEAD: number,
  NCCL_CTA_POLICY: ctaPolicy,
  NCCL_P2P_NET_CHUNKSIZE: number,
  NCCL_P2P_NVL_CHUNKSIZE: number,
  NCCL_P2P_PCI_CHUNKSIZE: number,
  NCCL_GRAPH_REGISTER: number,
  NCCL_SINGLE_PROC_MEM_REG_ENABLE: number,
  NCCL_SYM_KERNEL: symmetricKernel,
  NCCL_SYM_CTAS: number,
  NCCL_SYM_GIN_KERNELS_ENABLE: number,
  NCCL_SYM_TMA_ENABLE: number,
  NCCL_SYM_NOWIN_ENABLE: number,
  NCCL_SYM_RS_GIN_CHUNK_SIZE: number,
  NCCL_SYM_CE_THRESHOLD: number,
};

/**
 * The NCCL_* variables that steer the cost model, the choice of algorithm and protocol, symmetric kernels and copy
 * engines, read once into plain values.
 *
 * Variables of channel counts (NCCL_MIN_NCHANNELS, NCCL_MAX_CTAS, ...) belong to the topology part, which decides how
 * many channels a communicator has. (NCCL 2.30.7, tuning.cc, sym_kernels.cc, init.cc.)
 */
import { type LogSink, SILENT } from '../topology/log.js';
import type { Environment } from '../topology/settings.js';
import { parseCtaPolicy } from './cta-policy.js';
import { VariableReader } from './variables.js';

export interface TuningSettings {
  /** NCCL_ALGO and NCCL_PROTO as they were set (even to ''), parsed when the tables are computed. */
  readonly algo: string | undefined;
  readonly proto: string | undefined;
  /** NCCL_NTHREADS, NCCL_LL128_NTHREADS: threads of a block. */
  readonly nThreads: number | undefined;
  readonly ll128Threads: number | undefined;
  /** NCCL_THREAD_THRESHOLDS: bytes per thread of Tree LL, LL128, Simple, Ring LL, LL128, Simple. */
  readonly threadThresholds: string | undefined;
  /** NCCL_PAT_ENABLE: 0 never, other values always, 2 by the machine. */
  readonly patEnable: number;
  /** NCCL_NET_OVERHEAD: nanoseconds to post one network operation; undefined: by the CPU. */
  readonly netOverhead: number | undefined;
  /** NCCL_LL128_C2C: LL128 over relays (PXN) from Hopper on. */
  readonly ll128C2c: boolean;
  /** NCCL_CTA_POLICY: `CtaPolicy` bits; undefined leaves it to the communicator's configuration. */
  readonly ctaPolicy: number | undefined;
  /** NCCL_BUFFSIZE, NCCL_LL_BUFFSIZE, NCCL_LL128_BUFFSIZE: bytes of a connection's buffer. */
  readonly simpleBuffer: number | undefined;
  readonly llBuffer: number | undefined;
  readonly ll128Buffer: number | undefined;
  /** NCCL_P2P_NET_CHUNKSIZE, NCCL_P2P_NVL_CHUNKSIZE, NCCL_P2P_PCI_CHUNKSIZE: bytes of a send's step. */
  readonly p2pNetChunk: number;
  readonly p2pNvlinkChunk: number;
  readonly p2pPciChunk: number;
  /** NCCL_GRAPH_REGISTER: buffers of captured calls are registered. */
  readonly graphRegister: boolean;
  /** NCCL_SINGLE_PROC_MEM_REG_ENABLE: buffers may be registered although one process has several ranks. */
  readonly singleProcessRegister: boolean;
  /** NCCL_SYM_KERNEL: the only symmetric kernel that may run. */
  readonly symKernel: string | undefined;
  /** NCCL_SYM_CTAS: blocks of symmetric kernels; 0: by the model. */
  readonly symCtas: number;
  /** NCCL_SYM_GIN_KERNELS_ENABLE, NCCL_SYM_TMA_ENABLE, NCCL_SYM_NOWIN_ENABLE. */
  readonly symGin: boolean;
  readonly symTma: boolean;
  readonly symNoWindow: boolean;
  /** NCCL_SYM_RS_GIN_CHUNK_SIZE: bytes; 0 or less: the default. */
  readonly symGinChunk: number;
  /** NCCL_SYM_CE_THRESHOLD: elements per rank above which an all-gather takes the copy engine. */
  readonly symCopyEngineElements: number;
}

/**
 * Reads the variables.
 *
 * Lists (NCCL_ALGO, NCCL_PROTO, NCCL_THREAD_THRESHOLDS) are kept as text: what they mean depends on the communicator.
 */
export function tuningSettings(env: Environment = {}, log: LogSink = SILENT): TuningSettings {
  const read = new VariableReader(env, log);
  return {
    algo: read.text('NCCL_ALGO'),
    proto: read.text('NCCL_PROTO'),
    nThreads: read.optional('NCCL_NTHREADS'),
    ll128Threads: read.optional('NCCL_LL128_NTHREADS'),
    threadThresholds: read.text('NCCL_THREAD_THRESHOLDS'),
    patEnable: read.integer('NCCL_PAT_ENABLE', 2),
    netOverhead: read.optional('NCCL_NET_OVERHEAD'),
    ll128C2c: read.flag('NCCL_LL128_C2C', true),
    ctaPolicy: parseCtaPolicy(read.text('NCCL_CTA_POLICY'), log),
    simpleBuffer: read.optional('NCCL_BUFFSIZE'),
    llBuffer: read.optional('NCCL_LL_BUFFSIZE'),
    ll128Buffer: read.optional('NCCL_LL128_BUFFSIZE'),
    p2pNetChunk: read.integer('NCCL_P2P_NET_CHUNKSIZE', 131072),
    p2pNvlinkChunk: read.integer('NCCL_P2P_NVL_CHUNKSIZE', 524288),
    p2pPciChunk: read.integer('NCCL_P2P_PCI_CHUNKSIZE', 131072),
    graphRegister: read.flag('NCCL_GRAPH_REGISTER', true),
    singleProcessRegister: read.flag('NCCL_SINGLE_PROC_MEM_REG_ENABLE', false),
    symKernel: read.text('NCCL_SYM_KERNEL'),
    symCtas: read.integer('NCCL_SYM_CTAS', 0),
    symGin: read.flag('NCCL_SYM_GIN_KERNELS_ENABLE', true),
    symTma: read.flag('NCCL_SYM_TMA_ENABLE', false),
    symNoWindow: read.flag('NCCL_SYM_NOWIN_ENABLE', false),
    symGinChunk: read.integer('NCCL_SYM_RS_GIN_CHUNK_SIZE', -1),
    symCopyEngineElements: read.integer('NCCL_SYM_CE_THRESHOLD', 8388608),
  };
}

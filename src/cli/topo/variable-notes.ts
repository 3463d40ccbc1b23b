/**
 * What a user should know of the NCCL_* variables that are set: names that NCCL does not have, values that it does not
 * take as they stand, variables that have no effect on what is asked here.
 *
 * docs/environment.md lists the variables that tutti reads; a test compares the names here with it.
 */
import type { Environment } from '../../topology/settings.js';
import { DESCRIPTION_READINGS, DETECTION_READINGS, valueNotes } from '../../topology/variable-values.js';
import { nearestName } from '../../tuning/nearest-name.js';
import { TUNING_READINGS } from '../../tuning/variable-readings.js';

const PREFIX = 'NCCL_';

/** Names in full from names without their beginning. */
const named = (names: string): readonly string[] =>
  names
    .split(/\s+/)
    .filter(Boolean)
    .map((name) => PREFIX + name);

/** They name files or graphs, which are opened or written whatever is asked. */
const FILE_VARIABLES = named('TOPO_DUMP_FILE GRAPH_FILE GRAPH_DUMP_FILE');

/** Read where a machine is looked at, live or recorded. */
const DETECTION_VARIABLES = named(`
  TOPO_FILE TOPO_DUMP_FILE_RANK HOSTID SOCKET_IFNAME SOCKET_FAMILY
  NET IB_DISABLE IB_HCA IB_MERGE_VFS IB_MERGE_NICS IB_DEVICE_PCI_ORDER NET_MERGE_LEVEL NET_MERGE_POLICY NET_FORCE_MERGE
`);

/** Read by the choice of algorithm and protocol. */
const TUNING_VARIABLES = [...named('ALGO PROTO'), ...Object.keys(TUNING_READINGS)];

/** Of tutti's own communicators and measurements. */
const JOB_VARIABLES = named('COMM_ID COLLNET_ENABLE SOCKET_RETRY_CNT SOCKET_RETRY_SLEEP_MSEC TESTS_MIN_BW');

/** Variables of NCCL that nothing here depends on: its user guide's, and some of its source's that are often set. */
const OTHER_VARIABLES = named(`
  CHECKS_DISABLE CHECK_POINTERS COMM_BLOCKING COMM_SHRINK_SHARE_RESOURCES COMM_SPLIT_SHARE_RESOURCES
  CONF_FILE CUDA_PATH CUMEM_ENABLE CUMEM_HOST_ENABLE DEBUG DEBUG_FILE DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT
  DEBUG_TIMESTAMP_LEVELS DMABUF_ENABLE ENV_PLUGIN GIN_ENABLE GIN_PLUGIN GIN_TYPE GRAPH_MIXING_SUPPORT
  GRAPH_STREAM_ORDERING HOME IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY IB_ADDR_RANGE IB_AR_THRESHOLD IB_CUDA_SUPPORT
  IB_DATA_DIRECT IB_ECE_ENABLE IB_FIFO_TC IB_GID_INDEX IB_MQP_RETRY_ALL IB_PCI_RELAXED_ORDERING IB_PKEY
  IB_QPS_PER_CONNECTION IB_RETRY_CNT IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM IB_SL IB_SPLIT_DATA_ON_QPS IB_TC
  IB_TIMEOUT IB_USE_INLINE IB_WARN_RAIL_LOCAL IGNORE_CPU_AFFINITY IPC_USE_ABSTRACT_SOCKET LAUNCH_MODE
  LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL LOCAL_REGISTER MEM_SYNC_DOMAIN NCHANNELS_PER_PEER NET_PLUGIN
  NET_SHARED_BUFFERS NET_SHARED_COMMS NSOCKS_PERTHREAD NVB_PRECONNECT OOB_NET_ENABLE OOB_NET_IFNAME
  P2P_DIRECT_DISABLE PROFILER_PLUGIN PROGRESS_APPENDOP_FREQ PROXY_APPEND_BATCH_SIZE
  PROXY_DUMP_SIGNAL RAS_ADDR RAS_ENABLE RAS_TIMEOUT_FACTOR ROOT RUNTIME_CONNECT SET_STACK_SIZE SET_THREAD_NAME
  SHM_CUDA_MEMCPY_MODE SHM_LOCALITY SHM_USE_CUDA_MEMCPY SOCKET_NTHREADS SOCKET_POLL_TIMEOUT_MSEC TUNER_PLUGIN
  UID_STAGGER_RATE UID_STAGGER_THRESHOLD VERSION WIN_ENABLE WIN_STRIDE WORK_FIFO_BYTES
`);

/** Variables that tutti reads, by what depends on them, for the test of the page. */
export const READ_VARIABLES: Readonly<Record<string, readonly string[]>> = {
  description: [...Object.keys(DESCRIPTION_READINGS), ...FILE_VARIABLES],
  detection: DETECTION_VARIABLES,
  tuning: TUNING_VARIABLES,
  job: JOB_VARIABLES,
};

const KNOWN = [...Object.values(READ_VARIABLES).flat(), ...OTHER_VARIABLES];

/** Part of the letters of a name that may be wrong. */
const MISSPELLED_PART = 1 / 3;

/**
 * Sentences without a final stop, by name of the variable.
 *
 * @param looksAtMachine a machine is looked at, live or recorded; otherwise topology files tell everything
 * @param tunes variables of the choice of algorithm and protocol have an effect
 */
export function variableNotes(env: Environment, looksAtMachine: boolean, tunes = false): string[] {
  const set = Object.keys(env)
    .filter((name) => /^nccl_/i.test(name) && env[name] !== undefined && env[name] !== '')
    .sort();
  const isSet = (name: string) => set.includes(name);
  return [
    ...set.filter((name) => !KNOWN.includes(name)).flatMap(misspelled),
    ...valueNotes(env, DESCRIPTION_READINGS),
    ...(looksAtMachine
      ? valueNotes(env, DETECTION_READINGS)
      : without(DETECTION_VARIABLES.filter(isSet), ON_FILES)),
    ...(tunes ? valueNotes(env, TUNING_READINGS) : without(TUNING_VARIABLES.filter(isSet), ON_TOPOLOGY)),
  ];
}

const ON_FILES = 'no effect on a topology file, only where a machine is looked at';
const ON_TOPOLOGY = 'no effect on the topology; tutti tune shows what it changes';

const without = (names: readonly string[], why: string): string[] =>
  names.map((name) => `${name} has ${why}`);

function misspelled(name: string): string[] {
  const short = (full: string) => full.slice(PREFIX.length);
  const near = nearestName(short(name), KNOWN.map(short), MISSPELLED_PART);
  return near === undefined ? [] : [`NCCL has no variable ${name} (did you mean ${PREFIX}${near}?)`];
}

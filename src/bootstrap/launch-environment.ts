/**
 * What the launcher of this process says in environment variables: rank, size, place on the host, and where
 * the ranks meet.
 *
 * Launchers are tried from the most specific: `tutti run` (TUTTI_ID), RANK and WORLD_SIZE (torchrun, `tutti run`
 * of another version, scripts), Open MPI, MPICH and its kin (PMI), Slurm. Launchers may be nested (torchrun
 * under srun), the innermost one counts, so variables of two launchers never contradict each other.
 *
 * Where the ranks meet: the unique id of `tutti run`; else NCCL_COMM_ID; else MASTER_ADDR and MASTER_PORT; else,
 * for a job on one host, 127.0.0.1 and a port computed from the job's id; else, under Slurm, the first host
 * of the job. Rank 0 listens there.
 *
 * The secret: TUTTI_SECRET where set. Otherwise it is computed from the launcher's name of the job, which other
 * users of the machine may be able to guess: it keeps jobs apart, not attackers out. Set TUTTI_SECRET to a
 * random text (the same at all ranks) on a machine or network that is shared with people you do not trust.
 */
import { createHash } from 'node:crypto';
import { TuttiError } from '../errors/tutti-error.js';
import { firstSlurmHost, slurmTasksOfNode } from './slurm-lists.js';
import { parsePort, parseSocketAddress, type SocketAddress } from './socket-address.js';
import { decodeUniqueId, parseUniqueId } from './unique-id.js';

export type Environment = Readonly<Record<string, string | undefined>>;

export type Launcher = 'tutti run' | 'torchrun' | 'Open MPI' | 'MPICH' | 'Slurm' | 'RANK and WORLD_SIZE';

export interface LaunchEnvironment {
  rank: number;
  size: number;
  /** Rank among the ranks of this host; undefined when the launcher does not say. */
  localRank: number | undefined;
  /** Number of ranks of this host; undefined when the launcher does not say. */
  localSize: number | undefined;
  launcher: Launcher;
  rendezvous: { kind: 'id'; id: Uint8Array } | ({ kind: 'address' } & SocketAddress);
  /** 32 bytes. */
  secret: Uint8Array;
  /** The secret comes from TUTTI_SECRET or the unique id rather than from the job's name. */
  secretIsStrong: boolean;
}

/** Shortest TUTTI_SECRET, characters: below, guessing is no obstacle. */
const MIN_SECRET_CHARACTERS = 16;
/**
 * Ports for jobs that name none: 20000 to 32767, below the range from which Linux takes the ports of outgoing
 * connections (32768 to 60999), so that none of those is in the way.
 */
const FIRST_JOB_PORT = 20000;
const JOB_PORTS = 12768;

interface Identity {
  launcher: Launcher;
  rank: number;
  size: number;
  localRank: number | undefined;
  localSize: number | undefined;
  /** Names the job, equal at all its ranks; empty when the launcher gives no name. */
  job: string;
  /** Host of rank 0 where known. */
  firstHost: string | undefined;
}

function sha256(...parts: string[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(`${part.length}:${part}`);
  return hash.digest();
}

/** A variable that is set and not empty. */
function get(env: Environment, name: string): string | undefined {
  const value = env[name];
  return value === undefined || value === '' ? undefined : value;
}

function invalid(message: string): TuttiError {
  return new TuttiError('invalidUsage', message);
}

function integer(env: Environment, name: string): number | undefined {
  const text = get(env, name);
  if (text === undefined) return undefined;
  if (!/^\d{1,9}$/.test(text.trim())) {
    throw invalid(
      `${name}='${text}' is not a non-negative integer; the launcher or a script set it wrongly.`,
    );
  }
  return Number(text);
}

/** First of several variables that is set. */
function firstInteger(env: Environment, ...names: string[]): number | undefined {
  for (const name of names) {
    const value = integer(env, name);
    if (value !== undefined) return value;
  }
  return undefined;
}

interface RankVariables {
  launcher: Launcher;
  rank: string;
  size: string;
  localRank: string;
  localSize?: string;
}

/** Rank and size under these names, checked against each other; undefined when neither is set. */
function readRanks(env: Environment, names: RankVariables): Omit<Identity, 'job' | 'firstHost'> | undefined {
  const rank = integer(env, names.rank);
  const size = integer(env, names.size);
  if (rank === undefined || size === undefined) return undefined;
  if (size < 1) throw invalid(`${names.size}=${size}; a job has at least 1 rank.`);
  if (rank >= size) {
    throw invalid(
      `${names.rank}=${rank} contradicts ${names.size}=${size}: ranks are 0 to ${size - 1}. Set both from one launcher.`,
    );
  }
  const localRank = integer(env, names.localRank);
  const localSize = names.localSize === undefined ? undefined : integer(env, names.localSize);
  if (localRank !== undefined && localSize !== undefined && localRank >= localSize) {
    throw invalid(`${names.localRank}=${localRank} contradicts ${names.localSize}=${localSize}.`);
  }
  if (localSize !== undefined && localSize > size) {
    throw invalid(`${names.localSize}=${localSize} contradicts ${names.size}=${size}.`);
  }
  return { launcher: names.launcher, rank, size, localRank, localSize };
}

function readRankAndWorldSize(env: Environment): Identity | undefined {
  const ranks = readRanks(env, {
    launcher: 'RANK and WORLD_SIZE',
    rank: 'RANK',
    size: 'WORLD_SIZE',
    localRank: 'LOCAL_RANK',
    localSize: 'LOCAL_WORLD_SIZE',
  });
  if (ranks === undefined) return undefined;
  const runId = get(env, 'TORCHELASTIC_RUN_ID');
  if (get(env, 'TUTTI_ID') !== undefined) ranks.launcher = 'tutti run';
  else if (runId !== undefined) ranks.launcher = 'torchrun';
  // After an elastic restart ranks of the earlier attempt may still be around: they must not mix in.
  const attempt = get(env, 'TORCHELASTIC_RESTART_COUNT') ?? '';
  const job = runId === undefined ? '' : `torchrun ${runId} ${attempt}`;
  return { ...ranks, job, firstHost: undefined };
}

function readOpenMpi(env: Environment): Identity | undefined {
  const ranks = readRanks(env, {
    launcher: 'Open MPI',
    rank: 'OMPI_COMM_WORLD_RANK',
    size: 'OMPI_COMM_WORLD_SIZE',
    localRank: 'OMPI_COMM_WORLD_LOCAL_RANK',
    localSize: 'OMPI_COMM_WORLD_LOCAL_SIZE',
  });
  if (ranks === undefined) return undefined;
  const name =
    get(env, 'PMIX_NAMESPACE') ??
    get(env, 'OMPI_MCA_ess_base_jobid') ??
    get(env, 'OMPI_MCA_orte_ess_jobid') ??
    get(env, 'OMPI_MCA_orte_hnp_uri');
  // Open MPI 4 draws this key at random for every job; it makes the computed secret hard to guess.
  const key = get(env, 'OMPI_MCA_orte_precondition_transports') ?? '';
  return { ...ranks, job: name === undefined ? '' : `mpi ${name} ${key}`, firstHost: undefined };
}

function readMpich(env: Environment): Identity | undefined {
  const ranks = readRanks(env, {
    launcher: 'MPICH',
    rank: 'PMI_RANK',
    size: 'PMI_SIZE',
    localRank: 'MPI_LOCALRANKID',
    localSize: 'MPI_LOCALNRANKS',
  });
  if (ranks === undefined) return undefined;
  // Hydra names no job; see the parent process in readLaunchEnvironment.
  return { ...ranks, job: '', firstHost: undefined };
}

function readSlurm(env: Environment): Identity | undefined {
  const size = ['SLURM_NTASKS', 'SLURM_NPROCS', 'SLURM_STEP_NUM_TASKS'].find(
    (name) => get(env, name) !== undefined,
  );
  const ranks = readRanks(env, {
    launcher: 'Slurm',
    rank: 'SLURM_PROCID',
    size: size ?? 'SLURM_NTASKS',
    localRank: 'SLURM_LOCALID',
  });
  if (ranks === undefined) return undefined;
  const nodes = firstInteger(env, 'SLURM_STEP_NUM_NODES', 'SLURM_NNODES', 'SLURM_JOB_NUM_NODES');
  const tasks = get(env, 'SLURM_STEP_TASKS_PER_NODE') ?? get(env, 'SLURM_TASKS_PER_NODE');
  const localSize =
    nodes === 1
      ? ranks.size
      : tasks === undefined
        ? undefined
        : slurmTasksOfNode(tasks, integer(env, 'SLURM_NODEID') ?? 0);
  const list =
    get(env, 'SLURM_STEP_NODELIST') ?? get(env, 'SLURM_JOB_NODELIST') ?? get(env, 'SLURM_NODELIST');
  const firstHost = list === undefined ? undefined : firstSlurmHost(list);
  if (list !== undefined && firstHost === undefined) {
    throw invalid(`The Slurm node list '${list}' cannot be read; set MASTER_ADDR to the host of rank 0.`);
  }
  const id = get(env, 'SLURM_JOB_ID') ?? get(env, 'SLURM_JOBID');
  const step = get(env, 'SLURM_STEP_ID') ?? get(env, 'SLURM_STEPID') ?? '';
  return { ...ranks, localSize, firstHost, job: id === undefined ? '' : `slurm ${id} ${step}` };
}

function readIdentity(env: Environment): Identity {
  for (const read of [readRankAndWorldSize, readOpenMpi, readMpich, readSlurm]) {
    const found = read(env);
    if (found !== undefined) return found;
  }
  const halves: readonly (readonly [string, string])[] = [
    ['RANK', 'WORLD_SIZE'],
    ['OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE'],
    ['PMI_RANK', 'PMI_SIZE'],
    ['SLURM_PROCID', 'SLURM_NTASKS'],
  ];
  for (const [rank, size] of halves) {
    const [present, absent] = get(env, rank) !== undefined ? [rank, size] : [size, rank];
    // A shell inside a Slurm allocation knows the number of tasks but is none of them.
    if (present === 'SLURM_NTASKS') continue;
    if (get(env, present) !== undefined) {
      throw invalid(
        `${present}='${env[present]}' is set but ${absent} is not; set both, or start with 'tutti run -n N script.js'.`,
      );
    }
  }
  throw invalid(
    "This process was not started by a launcher that is known: neither RANK and WORLD_SIZE nor variables of Open MPI, MPICH or Slurm are set. Start it with 'tutti run -n N script.js', mpirun, srun or torchrun, or pass a unique id.",
  );
}

function readSecret(
  env: Environment,
  place: string,
  job: string,
): { secret: Uint8Array; secretIsStrong: boolean } {
  const text = get(env, 'TUTTI_SECRET');
  if (text === undefined) {
    return { secret: new Uint8Array(sha256('tutti job secret', job, place)), secretIsStrong: false };
  }
  if (text.length < MIN_SECRET_CHARACTERS) {
    throw invalid(
      `TUTTI_SECRET has ${text.length} characters; at least ${MIN_SECRET_CHARACTERS} are needed. Use random ones, the same at all ranks.`,
    );
  }
  return { secret: new Uint8Array(sha256('tutti secret', text, job)), secretIsStrong: true };
}

function readAddress(env: Environment, identity: Identity, job: string): SocketAddress {
  const commId = get(env, 'NCCL_COMM_ID');
  if (commId !== undefined) return parseSocketAddress(commId, 'NCCL_COMM_ID');

  const onOneHost = identity.localSize === identity.size || identity.size === 1;
  const host = get(env, 'MASTER_ADDR') ?? (onOneHost ? '127.0.0.1' : identity.firstHost);
  if (host === undefined) {
    throw invalid(
      `${identity.launcher} started ${identity.size} ranks but MASTER_ADDR is not set, and where rank 0 runs is not known. Set MASTER_ADDR to the host of rank 0 at all ranks (Open MPI: mpirun -x MASTER_ADDR=host ...).`,
    );
  }
  const portText = get(env, 'MASTER_PORT');
  if (portText === undefined) {
    if (job === '') {
      throw invalid(
        `${identity.launcher} gives the job no name to compute a port from, and MASTER_PORT is not set. Set MASTER_PORT to a free port of ${host} at all ranks.`,
      );
    }
    return { host, port: FIRST_JOB_PORT + (sha256('tutti job port', job).readUInt32LE(0) % JOB_PORTS) };
  }
  const port = parsePort(portText);
  if (port === undefined) throw invalid(`MASTER_PORT='${portText}' is not a port from 1 to 65535.`);
  // The agent's own store listens at MASTER_PORT then.
  const taken = get(env, 'TORCHELASTIC_USE_AGENT_STORE')?.toLowerCase() === 'true';
  if (taken && port === 65535) {
    throw invalid(
      'MASTER_PORT=65535 belongs to the store of torchrun, and no port follows it. Choose a smaller one.',
    );
  }
  return { host, port: taken ? port + 1 : port };
}

/**
 * Reads the launcher's description of this process.
 * @param parentPid id of the parent process: names a job of a launcher that gives no name, whose ranks on one
 * host are children of one process
 * @throws TuttiError invalidUsage that names the variable, its value and the remedy; invalidArgument for a
 * malformed TUTTI_ID or NCCL_COMM_ID
 */
export function readLaunchEnvironment(env: Environment, parentPid?: number): LaunchEnvironment {
  const identity = readIdentity(env);
  const { launcher, rank, size, localRank, localSize } = identity;
  const ranks = { rank, size, localRank, localSize, launcher };
  const idText = get(env, 'TUTTI_ID');
  if (idText !== undefined) {
    const id = parseUniqueId(idText);
    return {
      ...ranks,
      rendezvous: { kind: 'id', id },
      secret: decodeUniqueId(id).secret,
      secretIsStrong: true,
    };
  }
  const byParent = parentPid !== undefined && launcher === 'MPICH' && localSize === size;
  const job = identity.job === '' && byParent ? `parent ${parentPid}` : identity.job;
  const address = readAddress(env, identity, job);
  const place = `${address.host}:${address.port}`;
  return { ...ranks, rendezvous: { kind: 'address', ...address }, ...readSecret(env, place, job) };
}

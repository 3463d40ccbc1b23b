/** Communicators on GPUs of a fake driver, with programs small enough for the interpreter. */
import { onTestFinished } from 'vitest';
import { Bootstrap } from '#src/bootstrap/bootstrap.js';
import { createUniqueId } from '#src/bootstrap/unique-id.js';
import type { AreaSizes } from '#src/collectives/gpu/area.js';
import type { GpuCall, GpuShape, GpuTeam } from '#src/collectives/gpu/call.js';
import { launchOf } from '#src/collectives/gpu/launch.js';
import { MESSAGE_FORM } from '#src/collectives/gpu/message-launch.js';
import { createLocalCudaCommunicators } from '#src/communicator/cuda/create-local.js';
import { CudaCommunicator } from '#src/communicator/cuda/cuda-communicator.js';
import { cuda } from '#src/communicator/cuda/cuda-device-name.js';
import {
  type GpuPrograms,
  gpuProgramsFor,
  type MeetingPrograms,
  type ProgramSettings,
} from '#src/communicator/cuda/gpu-programs.js';
import { openCudaProcessTeam } from '#src/communicator/cuda/process-cuda-team.js';
import type { FindRings } from '#src/communicator/cuda/ring-order.js';
import { resolveSettings } from '#src/communicator/settings.js';
import { CudaDriver } from '#src/device/cuda/driver.js';
import { HostDevice } from '#src/device/host/host-device.js';
import { TuttiError } from '#src/errors/tutti-error.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import type { ConnectorForm } from '#src/planning/gpu-connector-plan.js';
import { FakeDriver, type FakeDriverOptions } from '../../device/cuda/fake-driver.js';

// Machine code of a fake driver must not be found by anybody, nor be left behind.
process.env.TUTTI_CACHE_DIR = '';

const SIZES: AreaSizes = {
  blocks: 12,
  llBlocks: 3,
  llBankBytes: 512,
  ll128BankBytes: 4096,
  lamportBankBytes: 1024,
  pairChannels: 2,
  pairBankBytes: 256,
  pairBank128Bytes: 1024,
  firstBytes: 1024,
  stageBytes: 6144,
};

/** Heap of a rank that takes itself for a process, bytes. */
const HEAP_BYTES = 16 << 20;

/** Data up to this many bytes go as LL lines. */
const LL_BYTES = 256;

/** Programs whose functions the fake driver finds by their names. */
export function fakePrograms(driver: FakeDriver, settings?: ProgramSettings): GpuPrograms {
  const shapeWith = (program: string): GpuShape =>
    program === 'LL'
      ? { program: 'LL', blocks: 2, threads: 8 }
      : { program: 'Direct', blocks: 2, threads: 8, unroll: 2, residency: 1, copies: 'push' };
  const base: MeetingPrograms = {
    sizesFor: () => SIZES,
    agreement: '',
    shapeWith,
    launch: (team: GpuTeam, call: GpuCall) => {
      const small = call.count <= LL_BYTES / 8;
      return launchOf(team, call, shapeWith(small ? 'LL' : 'Direct'), SIZES);
    },
    messages: {
      ...MESSAGE_FORM,
      threads: 8,
      unroll: 2,
      mostLowLatency: 64,
      mostLowLatencyWith128: 64,
      mostLowLatency128: 64,
      smallGrain: 32,
      largeGrain: 128,
      sizes: SIZES,
    },
    text: (launch) => {
      const name = launch.key.replace(/[^A-Za-z0-9]/g, '_');
      driver.programs.set(name, launch.build(interpreterTraits({ threads: 'many', unroll: 2 })));
      return { name, ptx: `.visible .entry ${name}` };
    },
  };
  if (settings === undefined) return base;
  const sized = {
    ...settings,
    asked: { channels: 2, llBytes: 1024, ll128Bytes: 16384, simpleBytes: 512, ...settings.asked },
  };
  return gpuProgramsFor(sized, base, FORM);
}

/** Few threads, and channels for little data. */
const FORM: ConnectorForm = {
  threads: 8,
  leastThreads: 4,
  channelBytes: { LL: 128, LL128: 1920, Simple: 256 },
  grainBytes: { LL: 16, LL128: 480, Simple: 64 },
};

export interface FakeOptions {
  timeoutMs?: number;
  /** Of all ranks, or by rank of processes. */
  check?: boolean | readonly boolean[];
  env?: Readonly<Record<string, string>>;
  /** As NCCL_ALGO and NCCL_PROTO, of all ranks or by rank. */
  algorithm?: string | readonly string[];
  protocol?: string;
  /** In place of looking at this machine. */
  findRings?: FindRings;
  /** Others on the same driver, whose processes these are too. */
  beside?: FakeGpus;
}

/** The settings that a rank's options stand for. */
function settingsOf(options: FakeOptions, rank = 0) {
  const { timeoutMs = 5000, check = false, env = {}, algorithm, protocol } = options;
  const name = typeof algorithm === 'string' ? algorithm : algorithm?.[rank];
  return resolveSettings(
    {
      timeoutMs,
      check: typeof check === 'boolean' ? check : check[rank]!,
      ...(name === undefined ? {} : { algorithm: name }),
      ...(protocol === undefined ? {} : { protocol }),
    },
    env,
  );
}

/** Communicators of ranks on these GPUs that take each other for processes. */
export async function fakeProcesses(
  gpus: readonly number[],
  options: FakeDriverOptions & FakeOptions & { fail?: FakeDriver['failures']; threads?: boolean } = {},
): Promise<FakeGpus> {
  const {
    threads = false,
    timeoutMs = 5000,
    check,
    fail,
    env,
    algorithm,
    protocol,
    findRings,
    beside,
    ...rest
  } = options;
  const fake = beside?.driver ?? new FakeDriver({ gpus: Math.max(...gpus) + 1, ranks: gpus.length, ...rest });
  for (const [name, failure] of fail ?? []) fake.failures.set(name, failure);
  const driver = beside?.cudaDriver ?? new CudaDriver(fake);
  const root = await createUniqueId();
  const { id } = root;
  const hosts: HostDevice[] =
    beside?.hosts ?? gpus.map(() => new HostDevice({ heapBytes: HEAP_BYTES, localRanks: gpus.length }));
  let comms: CudaCommunicator[] = [];
  onTestFinished(async () => {
    await Promise.all(comms.map((comm) => comm.close()));
    if (beside === undefined) await Promise.all(hosts.map((host) => host.close()));
    root.close();
  });
  const opened = await Promise.allSettled(
    gpus.map(async (gpu, rank) => {
      const bootstrap = await Bootstrap.connect({ id, rank, size: gpus.length, timeoutMs: 10_000 });
      const own = threads ? new CudaDriver(fake) : driver;
      const open = () => ({ driver: own, device: own.device(gpu) });
      const settings = settingsOf(options, rank);
      const programs = fakePrograms(fake, settings);
      const host = hosts[rank]!;
      const more = {
        settings,
        programs,
        chunkBytes: 65536,
        identity: threads ? 'one process' : `process of rank ${rank}`,
        host,
        ...(findRings === undefined ? {} : { findRings }),
      };
      return new CudaCommunicator(await openCudaProcessTeam(bootstrap, open, more), timeoutMs);
    }),
  );
  comms = opened.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const errors = opened.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
  if (errors.length > 0) throw new AggregateError(errors);
  return { driver: fake, cudaDriver: driver, comms, hosts };
}

/** Processes whose GPUs do not reach each other's memory, or may not. */
export const apartProcesses: typeof fakeProcesses = (gpus, options) =>
  fakeProcesses(gpus, { ...options, env: { NCCL_P2P_DISABLE: '1' } });

export interface FakeGpus {
  readonly driver: FakeDriver;
  /** The driver layer on top of it, which the communicators use. */
  readonly cudaDriver: CudaDriver;
  readonly comms: CudaCommunicator[];
  /** Heaps of ranks that take each other for processes. */
  readonly hosts?: HostDevice[];
}

/** Communicators of ranks on these GPUs; they are closed at the end of the test. */
export async function fakeGpus(
  gpus: readonly number[],
  options: FakeDriverOptions & FakeOptions = {},
): Promise<FakeGpus> {
  const { timeoutMs = 5000, check, algorithm, protocol, env, findRings, beside, ...rest } = options;
  const driver =
    beside?.driver ?? new FakeDriver({ gpus: Math.max(...gpus) + 1, ranks: gpus.length, ...rest });
  const cudaDriver = beside?.cudaDriver ?? new CudaDriver(driver);
  const comms = await createLocalCudaCommunicators(
    gpus.map((gpu) => cuda(gpu)),
    {
      timeoutMs,
      check: check === true,
      driver: cudaDriver,
      programs: fakePrograms(driver, settingsOf(options)),
      chunkBytes: 65536,
      ...(findRings === undefined ? {} : { findRings }),
    },
  );
  onTestFinished(async () => {
    await Promise.all(comms.map((comm) => comm.close()));
  });
  return { driver, cudaDriver, comms };
}

/** The code of the error that a promise ends with. */
export async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    if (TuttiError.is(error)) return error.code;
    throw error;
  }
  return 'none';
}

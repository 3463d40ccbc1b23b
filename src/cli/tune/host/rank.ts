/**
 * What a rank does while `tutti tune` measures the algorithms of host memory: it goes through calls and sizes, and for
 * each runs all candidates in turn, round after round, so that a disturbance meets all of them.
 *
 * A sample is the mean time of one call in a loop between two barriers, on the rank that took longest. Calls are
 * prepared once and run on arrays of the heap, always the same ones. Ranks agree on everything that steers the loop.
 */
import { isDirect } from '../../../collectives/registry.js';
import { Communicator } from '../../../communicator/communicator.js';
import type { PreparedOperation } from '../../../communicator/prepared-operation.js';
import type { CommunicatorOptions } from '../../../communicator/settings.js';
import {
  type Candidate,
  candidateName,
  candidatesFor,
  type DataCollective,
} from '../../../tuning/host/candidates.js';

export interface HostPlan {
  readonly collectives: readonly DataCollective[];
  /** Bytes of the larger of both arrays of a rank. */
  readonly sizes: readonly number[];
  readonly rounds: number;
  /** Time of a sample, milliseconds; a slow call is one sample by itself. */
  readonly sampleMs: number;
  /** Candidates that take this many times as long as the best are not measured to the end. */
  readonly hopeless: number;
  /** Ranks reach each other through sockets. */
  readonly sockets?: boolean;
}

export interface HostSample {
  readonly ranks: number;
  readonly collective: DataCollective;
  readonly bytes: number;
  readonly candidate: string;
  /** Microseconds per call, round by round. */
  readonly samples: readonly number[];
}

/** Calls of a sample at most: enough for the clock. */
const MOST_CALLS = 4096;

/** Times the length of a sample from which on the next one has fewer calls. */
const TOO_LONG = 8;

/** Rounds after which the least time of a candidate tells whether it is hopeless: one may have been disturbed. */
const SURE_ROUNDS = 3;

/** Samples of full length that are not counted. */
const WARM_LOOPS = 2;

/**
 * Milliseconds that all candidates are run before the first call of a collective is measured. The compilers of JavaScript
 * work in threads of their own then, which take the cores from waiting ranks, and these begin to sleep and wake up late.
 */
const WARM_MS = 300;

/** Runs the plan as a rank of `tutti run`; rank 0 hands out the samples. */
export async function measureAsRank(plan: HostPlan, report: (sample: HostSample) => void): Promise<void> {
  const base = await Communicator.fromEnv();
  const communicators = new Map<string, Communicator>();
  try {
    const candidates = new Map<string, Candidate>();
    for (const collective of plan.collectives) {
      for (const candidate of candidatesFor(collective)) {
        if (plan.sockets === true && candidateName(candidate) !== 'Ring Simple') continue;
        candidates.set(candidateName(candidate), candidate);
      }
    }
    for (const [name, candidate] of candidates) {
      communicators.set(name, await Communicator.fromEnv(onlyCandidate(candidate)));
    }
    const most = Math.max(...plan.sizes) / 4;
    const send = base.alloc(Float32Array, most);
    const recv = base.alloc(Float32Array, most);
    send.fill(1);
    for (const collective of plan.collectives) {
      const names = candidatesFor(collective).map(candidateName);
      for (const [at, bytes] of plan.sizes.entries()) {
        const contestants = names
          .filter((name) => communicators.has(name))
          .map((name) => ({
            name,
            operation: prepare(communicators.get(name)!, collective, bytes, send, recv),
          }));
        const samples = measureCall(base, plan, contestants, at === 0 ? WARM_MS : 0);
        if (base.rank !== 0) continue;
        for (const [candidate, times] of samples) {
          report({ ranks: base.size, collective, bytes, candidate, samples: times });
        }
      }
    }
  } finally {
    for (const communicator of communicators.values()) await communicator.close();
    await base.close();
  }
}

/** Options of a communicator that has no other choice. */
function onlyCandidate({ algorithm, protocol }: Candidate): CommunicatorOptions {
  const list = `${algorithm};alltoall:${algorithm}`;
  return isDirect(algorithm)
    ? { algorithm: list }
    : { algorithm: list, protocol: `${protocol};alltoall:${protocol}` };
}

interface Contestant {
  readonly name: string;
  readonly operation: PreparedOperation;
}

function measureCall(
  base: Communicator,
  plan: HostPlan,
  contestants: readonly Contestant[],
  warmMs: number,
): Map<string, number[]> {
  const cell = Float64Array.of(0);
  /** The time of the slowest rank, which all ranks know then. */
  const agreed = (microseconds: number): number => {
    cell[0] = microseconds;
    base.allReduceSync(cell, cell, { op: 'max' });
    return cell[0]!;
  };
  const time = (operation: PreparedOperation, calls: number): number => {
    base.barrierSync();
    const start = performance.now();
    for (let call = 0; call < calls; call++) operation.run();
    return agreed(((performance.now() - start) * 1e3) / calls);
  };
  const runs = contestants.map((contestant) => ({ ...contestant, calls: 1, least: Infinity }));
  type Run = (typeof runs)[number];
  // A loop that proved too short is doubled, never set by an estimate: a rank that wakes late for the first call of a
  // short loop makes all its calls look slow, and the loop would stay short for that.
  const sampleOf = (run: Run): number => {
    const microseconds = time(run.operation, run.calls);
    run.least = Math.min(run.least, microseconds);
    const parts = (run.calls * microseconds) / (plan.sampleMs * 1e3);
    if (parts <= 0.5 && run.calls < MOST_CALLS) run.calls *= 2;
    else if (parts > TOO_LONG && run.calls > 1) run.calls /= 2;
    return microseconds;
  };
  for (const run of runs) {
    let before: number;
    do {
      before = run.calls;
      sampleOf(run);
    } while (run.calls > before);
  }
  let warm = 0;
  for (let loop = 0; loop < WARM_LOOPS || warm < warmMs; loop++) {
    for (const run of runs) {
      const { calls } = run;
      if (calls > 1 || warm < warmMs) warm += (calls * sampleOf(run)) / 1e3;
    }
  }
  const samples = new Map<string, number[]>(contestants.map(({ name }) => [name, []]));
  for (let round = 0; round < plan.rounds; round++) {
    const best = Math.min(...runs.map(({ least }) => least));
    for (const run of runs) {
      if (round >= SURE_ROUNDS && run.least > plan.hopeless * best) continue;
      samples.get(run.name)!.push(sampleOf(run));
    }
  }
  for (const { operation } of contestants) operation.release();
  return samples;
}

function prepare(
  communicator: Communicator,
  collective: DataCollective,
  bytes: number,
  send: Float32Array,
  recv: Float32Array,
): PreparedOperation {
  const { size, prepare } = communicator;
  const whole = bytes / 4;
  const block = Math.max(1, Math.floor(whole / size));
  switch (collective) {
    case 'allReduce':
      return prepare.allReduce(send.subarray(0, whole), recv.subarray(0, whole));
    case 'reduce':
      return prepare.reduce(send.subarray(0, whole), recv.subarray(0, whole));
    case 'broadcast':
      return prepare.broadcast(send.subarray(0, whole), recv.subarray(0, whole));
    case 'allGather':
      return prepare.allGather(send.subarray(0, block), recv.subarray(0, block * size));
    case 'reduceScatter':
      return prepare.reduceScatter(send.subarray(0, block * size), recv.subarray(0, block));
    case 'allToAll':
      return prepare.allToAll(send.subarray(0, block * size), recv.subarray(0, block * size));
  }
}

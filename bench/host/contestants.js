/**
 * The programs that are compared, each as a way to run it once over a plan and read its times. All print one
 * JSON line `{ size, iterations, us }` per size from rank 0, where us is the slowest rank's mean per call.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** No run of one program takes this long unless it hangs, in ms. */
const TIMEOUT_MS = 300_000;

const cli = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const rankProgram = fileURLToPath(new URL('../tutti-allreduce.js', import.meta.url));

/** A launcher that is told to end gets this long to end its ranks before it is killed, in ms. */
const GRACE_MS = 2_000;

/** Leaders of the process groups that run now, so that an interrupted benchmark leaves nothing behind. */
const running = new Set();

function signalGroup(pid, signal) {
  try {
    process.kill(-pid, signal);
  } catch {
    // The group is gone already.
  }
}

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    for (const pid of running) signalGroup(pid, 'SIGTERM');
    setTimeout(() => {
      for (const pid of running) signalGroup(pid, 'SIGKILL');
      process.exit(1);
    }, GRACE_MS);
  });
}

/** Runs a command in a process group of its own, which `stop` and the time-out end as a whole. */
function start(command, args, env) {
  const child = spawn(command, args, {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const { pid } = child;
  if (pid !== undefined) running.add(pid);
  let out = '';
  let err = '';
  let late = false;
  child.stdout.on('data', (data) => (out += data));
  child.stderr.on('data', (data) => (err += data));
  const stop = () => {
    if (!running.has(pid)) return;
    signalGroup(pid, 'SIGTERM');
    setTimeout(() => running.has(pid) && signalGroup(pid, 'SIGKILL'), GRACE_MS);
  };
  const timer = setTimeout(() => {
    late = true;
    stop();
  }, TIMEOUT_MS);
  const done = new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status, signal) => {
      if (status === 0) resolve(out);
      const how = late
        ? `did not end within ${TIMEOUT_MS / 1000} s`
        : `ended with ${signal ?? `status ${status}`}`;
      reject(new Error(`${command} ${how}\n${err.trim()}`));
    });
  }).finally(() => {
    clearTimeout(timer);
    running.delete(pid);
  });
  return { done, stop };
}

/** Reads the JSON lines; a launcher may put a prefix before them. */
export function readTimes(out, plan) {
  const times = new Map();
  for (const line of out.split('\n')) {
    const json = /\{"size":.*\}/.exec(line)?.[0];
    if (json === undefined) continue;
    const { size, iterations, us } = JSON.parse(json);
    times.set(size, { iterations, us });
  }
  for (const { size, iterations } of plan) {
    const time = times.get(size);
    if (time === undefined) throw new Error(`no time for ${size} bytes in:\n${out.trim()}`);
    if (time.iterations !== iterations || !(time.us > 0)) {
      throw new Error(`${size} bytes: asked for ${iterations} iterations, got ${JSON.stringify(time)}`);
    }
  }
  return new Map(plan.map(({ size }) => [size, times.get(size).us]));
}

/** Has tutti's ranks talk over sockets, as ranks of different machines do. */
const WITHOUT_SHARED_MEMORY = { NCCL_P2P_DISABLE: '1', NCCL_SHM_DISABLE: '1' };

export async function runOpenMpi({ binary, ranks, text, oversubscribed, sockets = false, what = [] }) {
  const folder = mkdtempSync(join(tmpdir(), 'tutti-bench-mpi-'));
  // Shared memory only, or TCP only. A rank that waits gives its core away where ranks outnumber cores, as MPI advises.
  const args = ['-n', String(ranks), '--mca', 'btl', sockets ? 'self,tcp' : 'self,vader'];
  if (oversubscribed) args.push('--oversubscribe', '--bind-to', 'none', '--mca', 'mpi_yield_when_idle', '1');
  // Containers run as root; the launcher refuses that unless told twice.
  const env = { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1', TMPDIR: folder };
  try {
    return await start('mpirun', [...args, binary, ...what, text], env).done;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runGloo({ binary, algorithm, ranks, text }) {
  const folder = mkdtempSync(join(tmpdir(), 'tutti-bench-gloo-'));
  const started = Array.from({ length: ranks }, (_, rank) =>
    start(binary, [String(rank), String(ranks), folder, algorithm, text], {}),
  );
  try {
    const outs = await Promise.all(started.map(({ done }) => done));
    return outs[0];
  } finally {
    for (const { stop } of started) stop();
    await Promise.allSettled(started.map(({ done }) => done));
    rmSync(folder, { recursive: true, force: true });
  }
}

export async function runTutti({ section, ranks, text, sockets = false, program = rankProgram, what = [] }) {
  const args = ['run', '-n', String(ranks), program, ...what, section, text];
  return await start(process.execPath, [cli, ...args], sockets ? WITHOUT_SHARED_MEMORY : {}).done;
}

/**
 * All contestants in the order in which a round runs them.
 * @param {{ openmpi: { path?: string }, gloo: { path?: string } }} peers what build.js made
 */
export function makeContestants(peers) {
  const openmpi = peers.openmpi.path;
  const gloo = peers.gloo.path;
  const run = (runOne, more) => async (job) => readTimes(await runOne({ ...job, ...more }), job.plan);
  return [
    ...(openmpi
      ? [{ id: 'openmpi', name: 'Open MPI', peer: true, run: run(runOpenMpi, { binary: openmpi }) }]
      : []),
    ...(gloo
      ? ['ring', 'bcube'].map((algorithm) => ({
          id: `gloo-${algorithm}`,
          name: `Gloo ${algorithm}`,
          peer: true,
          run: run(runGloo, { binary: gloo, algorithm }),
        }))
      : []),
    { id: 'windows', name: 'tutti windows', peer: false, run: run(runTutti, { section: 'windows' }) },
    { id: 'arrays', name: 'tutti arrays', peer: false, run: run(runTutti, { section: 'arrays' }) },
  ];
}

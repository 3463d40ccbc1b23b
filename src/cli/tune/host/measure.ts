/**
 * Has ranks measure the algorithms of host memory: starts them as processes of `tutti run`, and reads their samples.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { TuttiError } from '../../../errors/tutti-error.js';
import type { HostPlan, HostSample } from './rank.js';

/** First argument of `tutti tune` in the processes that it starts itself; the plan follows as JSON. */
export const RANK_ARGUMENT = 'host-rank';

const MAIN = fileURLToPath(new URL('../../main.js', import.meta.url));

/** Variables that would take candidates away, or change what they cost. */
const UNWANTED = /^(NCCL_|TUTTI_(?!HEAP_BYTES|NO_FFI))/;

/** Longest that a measurement may take, milliseconds: a rank that is killed must not leave the user waiting. */
const TIMEOUT_MS = 300_000;

/**
 * Samples of the plan on so many ranks, in order.
 *
 * @throws TuttiError systemError where a rank failed
 */
export async function measureHost(
  ranks: number,
  plan: HostPlan,
  progress: (sample: HostSample) => void = () => {},
): Promise<HostSample[]> {
  const env: NodeJS.ProcessEnv = {};
  for (const [name, value] of Object.entries(process.env)) if (!UNWANTED.test(name)) env[name] = value;
  if (plan.sockets === true) Object.assign(env, { NCCL_P2P_DISABLE: '1', NCCL_SHM_DISABLE: '1' });
  const child = spawn(
    process.execPath,
    [
      ...[MAIN, 'run', '-n', `${ranks}`, '--no-prefix', '--timeout', `${TIMEOUT_MS / 1000}`, '--'],
      ...[MAIN, 'tune', RANK_ARGUMENT, JSON.stringify(plan)],
    ],
    { env, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', (cause) => {
      reject(
        new TuttiError('systemError', `${ranks} ranks could not be started: ${cause.message}`, { cause }),
      );
    });
    child.once('close', resolve);
  });
  // It has no output then.
  if (child.pid === undefined) await ended;
  const samples: HostSample[] = [];
  let trouble = '';
  child.stderr.on('data', (data: Buffer) => {
    trouble += data.toString();
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const sample = JSON.parse(line) as HostSample;
    samples.push(sample);
    progress(sample);
  }
  const status = await ended;
  if (status !== 0) {
    throw new TuttiError(
      'systemError',
      `measuring with ${ranks} ranks failed (status ${status}): ${trouble.trim()}`,
    );
  }
  return samples;
}

/** The processes that `measureHost` starts: measures, and writes a line of JSON for each sample. */
export async function hostRankCommand(text: string): Promise<number> {
  const { measureAsRank } = await import('./rank.js');
  await measureAsRank(JSON.parse(text) as HostPlan, (sample) => {
    process.stdout.write(`${JSON.stringify(sample)}\n`);
  });
  return 0;
}

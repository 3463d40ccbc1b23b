/** Real launchers and ranks that know an address: rank 0 listens, all meet, more than once. */
import { type ExecFileException, execFile, spawnSync } from 'node:child_process';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { Bootstrap } from '#src/bootstrap/bootstrap.js';

const PROGRAM = fileURLToPath(new URL('./programs/launched.mjs', import.meta.url));

/** Only what a launched process needs: the variables of the test's own launcher must not leak in. */
const CLEAN = { PATH: process.env.PATH, HOME: process.env.HOME };

function execute(
  command: string,
  args: string[],
  env: Record<string, string | undefined>,
): Promise<{ code: number; lines: string[] }> {
  return new Promise((resolve) => {
    execFile(command, args, { env }, (error: ExecFileException | null, stdout, stderr) => {
      const lines = stdout.split('\n').filter((line) => line !== '');
      if (error !== null && lines.length === 0) lines.push(stderr);
      resolve({ code: Number(error?.code ?? 0), lines: lines.sort() });
    });
  });
}

function launcherVersion(command: string): string {
  return spawnSync(command, ['--version'], { encoding: 'utf8' }).stdout ?? '';
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function ranksByHand(size: number, env: Record<string, string>) {
  const runs = Array.from({ length: size }, (_, rank) =>
    execute(process.execPath, [PROGRAM], { ...CLEAN, RANK: `${rank}`, WORLD_SIZE: `${size}`, ...env }),
  );
  return Promise.all(runs);
}

const openMpi = launcherVersion('mpirun').includes('Open MPI');
const hydra = launcherVersion('mpiexec.hydra').includes('HYDRA');
if (!openMpi) console.warn('mpirun of Open MPI is not installed: its test is skipped');
if (!hydra) console.warn('mpiexec.hydra of MPICH is not installed: its test is skipped');

describe('launchers', () => {
  test.skipIf(!openMpi)('ranks that mpirun of Open MPI starts meet without any setting, twice', async () => {
    const args = ['--allow-run-as-root', '--oversubscribe', '-np', '3', process.execPath, PROGRAM];
    const { code, lines } = await execute('mpirun', args, CLEAN);
    const expected = [0, 1, 2].map((rank) => `Open MPI ${rank} local ${rank}/3: r0r1r2`);
    expect({ code, lines }).toEqual({ code: 0, lines: expected.flatMap((line) => [line, line]) });
  });

  test.skipIf(!hydra)('ranks that mpiexec of MPICH starts meet without any setting, twice', async () => {
    const env = { ...CLEAN, LD_LIBRARY_PATH: process.env.LD_LIBRARY_PATH };
    const { code, lines } = await execute('mpiexec.hydra', ['-n', '3', process.execPath, PROGRAM], env);
    const expected = [0, 1, 2].map((rank) => `MPICH ${rank} local ${rank}/3: r0r1r2`);
    expect({ code, lines }).toEqual({ code: 0, lines: expected.flatMap((line) => [line, line]) });
  });

  test('two jobs of Open MPI on one host do not get in touch', async () => {
    // The environment of two jobs, without mpirun.
    const job = (name: string) =>
      Array.from({ length: 2 }, (_, rank) =>
        execute(process.execPath, [PROGRAM], {
          ...CLEAN,
          OMPI_COMM_WORLD_RANK: `${rank}`,
          OMPI_COMM_WORLD_SIZE: '2',
          OMPI_COMM_WORLD_LOCAL_RANK: `${rank}`,
          OMPI_COMM_WORLD_LOCAL_SIZE: '2',
          PMIX_NAMESPACE: `${name}-${process.pid}`,
        }),
      );
    for (const { code, lines } of await Promise.all([...job('a'), ...job('b')])) {
      expect(code).toBe(0);
      for (const line of lines) expect(line).toContain('r0r1');
    }
  });
});

describe('an address in the environment', () => {
  test('MASTER_ADDR and MASTER_PORT, by number and by name, with a secret of the user', async () => {
    for (const host of ['127.0.0.1', 'localhost']) {
      const env = {
        MASTER_ADDR: host,
        MASTER_PORT: `${await freePort()}`,
        TUTTI_SECRET: 'sixteen characters or more',
      };
      for (const { code, lines } of await ranksByHand(2, env)) {
        expect({ code, last: lines.at(-1)?.split(': ')[1] }).toEqual({ code: 0, last: 'r0r1' });
      }
    }
  });

  test('rank 0 may come for the next communicator while rank 1 still leaves the last one', async () => {
    const address = { host: '127.0.0.1', port: await freePort() };
    const join = (rank: number, generation: number) =>
      Bootstrap.connect({
        address,
        secret: new Uint8Array(32).fill(1),
        rank,
        size: 2,
        generation,
        timeoutMs: 3000,
      });
    let [zero, one] = await Promise.all([join(0, 0), join(1, 0)]);
    for (let generation = 1; generation < 10; generation++) {
      await zero.close();
      const next = join(0, generation);
      await one.close();
      [zero, one] = await Promise.all([next, join(1, generation)]);
    }
    await Promise.all([zero.close(), one.close()]);
  });

  test('NCCL_COMM_ID brings ranks together without a shared id [C03-41]', async () => {
    const env = { NCCL_COMM_ID: `127.0.0.1:${await freePort()}` };
    for (const { code, lines } of await ranksByHand(3, env)) {
      expect({ code, last: lines.at(-1)?.split(': ')[1] }).toEqual({ code: 0, last: 'r0r1r2' });
    }
  });

  test('a port that another program uses is named, and nobody hangs', async () => {
    const server = createServer((socket) => void socket.on('error', () => {}).end('hello, wrong number'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const [zero, one] = await ranksByHand(2, { MASTER_ADDR: '127.0.0.1', MASTER_PORT: `${port}` });
    server.close();
    expect(zero!.lines[0]).toContain(`Cannot listen at 127.0.0.1<${port}>: another process uses this port`);
    expect(one!.lines[0]).toContain('is not the expected process');
  });

  test('ranks with different secrets do not meet, and the refused one is told', async () => {
    const address = { MASTER_ADDR: '127.0.0.1', MASTER_PORT: `${await freePort()}`, WORLD_SIZE: '2' };
    const right = execute(process.execPath, [PROGRAM], {
      ...CLEAN,
      ...address,
      RANK: '0',
      TUTTI_SECRET: 'the right secret text',
    });
    const wrong = await execute(process.execPath, [PROGRAM], {
      ...CLEAN,
      ...address,
      RANK: '1',
      TUTTI_SECRET: 'the wrong secret text',
    });
    expect(wrong.lines[0]).toMatch(/^invalidArgument: The secret of the unique id was refused by the root/);
    const late = await execute(process.execPath, [PROGRAM], {
      ...CLEAN,
      ...address,
      RANK: '1',
      TUTTI_SECRET: 'the right secret text',
    });
    expect(late.code).toBe(0);
    expect((await right).code).toBe(0);
  });
});

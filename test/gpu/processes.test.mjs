/** Ranks that are processes, on one GPU and on several: random calls, unequal progress, death and other trouble. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { describe, it } from 'node:test';
import { CudaDriver } from '#src/device/cuda/driver.js';
import { SEED } from './random.mjs';

const { deviceCount } = new CudaDriver();
const CASES = Number(process.env.TUTTI_GPU_CASES ?? 100);
const TEAMS = [[0, 0]];
if (deviceCount > 1) TEAMS.push([0, 1], [1, 0, 1]);
/** Once more as if they did not reach each other's memory. */
const APART = TEAMS.at(-1).slice(0, 2);

/** Algorithms over connections, with their protocols. */
const CONNECTED = [
  ['Ring;AllToAll:Ring', 'LL'],
  ['Ring;AllToAll:Ring', 'LL128'],
  ['Ring;AllToAll:Ring', 'Simple'],
  ['Tree', 'LL128'],
  ['Tree', 'Simple'],
  ['PAT', 'Simple'],
];

let port = 21000 + (process.pid % 4000);

/**
 * Starts a process per rank; `onLine(rank, value, processes)` is told what they report. Resolves with what each
 * reported last, and how it ended.
 */
async function start(gpus, task, args = [], { env = {}, onLine = () => {} } = {}) {
  port += 1;
  const processes = [];
  const ends = gpus.map(
    (gpu, rank) =>
      new Promise((resolve) => {
        const child = spawn(
          process.execPath,
          [new URL('rank.mjs', import.meta.url).pathname, task, ...args],
          {
            env: {
              ...process.env,
              RANK: String(rank),
              WORLD_SIZE: String(gpus.length),
              MASTER_ADDR: '127.0.0.1',
              MASTER_PORT: String(port),
              GPU: String(gpu),
              ...env,
            },
            stdio: ['ignore', 'pipe', 'pipe'],
          },
        );
        processes.push(child);
        const lines = [];
        let rest = '';
        let errors = '';
        child.stdout.on('data', (data) => {
          const parts = (rest + data).split('\n');
          rest = parts.pop();
          for (const part of parts) {
            const value = JSON.parse(part);
            lines.push(value);
            onLine(rank, value, processes);
          }
        });
        child.stderr.on('data', (data) => {
          errors += data;
        });
        child.on('close', (code, signal) => resolve({ last: lines.at(-1), code, signal, errors }));
      }),
  );
  const limit = setTimeout(() => {
    for (const child of processes) child.kill('SIGKILL');
  }, 60_000);
  try {
    return await Promise.all(ends);
  } finally {
    clearTimeout(limit);
  }
}

for (const gpus of [...TEAMS, APART]) {
  const apart = gpus === APART;
  const env = { NCCL_P2P_DISABLE: apart ? '1' : '0' };
  describe(`processes on GPUs ${gpus.join(', ')}${apart ? ' without peer access' : ''}`, () => {
    it(`compute what the reference does (seed ${SEED})`, { timeout: 90_000 }, async () => {
      for (const end of await start(gpus, 'compute', [String(SEED), String(CASES)], { env })) {
        assert.deepEqual(end.last?.result, [], end.errors);
        assert.equal(end.code, 0);
      }
    });

    for (const [NCCL_ALGO, NCCL_PROTO] of CONNECTED) {
      // Areas in memory of the host do not take lines of 128 bytes whole.
      if (apart && NCCL_PROTO === 'LL128') continue;
      it(`compute it with ${NCCL_ALGO} and ${NCCL_PROTO} (seed ${SEED})`, { timeout: 90_000 }, async () => {
        const args = [String(SEED), String(Math.ceil(CASES / 5))];
        const more = { ...env, NCCL_ALGO, NCCL_PROTO };
        for (const end of await start(gpus, 'computeInAnyOrder', args, { env: more })) {
          assert.deepEqual(end.last?.result, [], end.errors);
          assert.equal(end.code, 0);
        }
      });
    }

    it('pass messages in a ring', { timeout: 90_000 }, async () => {
      for (const end of await start(gpus, 'ring', [], { env }))
        assert.deepEqual(end.last?.result, [], end.errors);
    });

    it('use virtual memory of other libraries', { timeout: 90_000 }, async () => {
      for (const end of await start(gpus, 'virtual', [], { env })) {
        assert.deepEqual(end.last?.result, [], end.errors);
      }
    });

    it('go on when one takes memory while others wait for it in a kernel', { timeout: 90_000 }, async () => {
      for (const end of await start(gpus, 'allocateLate', [], { env })) {
        assert.deepEqual(end.last?.result, { late: 'done' }, end.errors);
      }
    });

    for (const [task, when] of [
      ['callForEver', 'when one is killed'],
      ['blockForEver', 'when one is killed while their event loops are blocked'],
      ['blockElsewhere', 'when one is killed while they wait for a stream of another library'],
    ]) {
      it(`fail soon, naming the rank, ${when}`, { timeout: 90_000 }, async () => {
        const victim = gpus.length - 1;
        let killed = false;
        const ends = await start(gpus, task, [], {
          env,
          onLine: (rank, value, processes) => {
            if (rank !== victim || value.ready === undefined || killed) return;
            killed = true;
            setTimeout(() => processes[victim].kill('SIGKILL'), 500);
          },
        });
        ends.forEach(({ last, signal, code, errors }, rank) => {
          if (rank === victim) assert.equal(signal, 'SIGKILL');
          else {
            assert.equal(last?.result?.code, 'remoteError', errors);
            assert.equal(last.result.rank, victim);
            assert.ok(last.result.ms < 8000, `it took ${last.result.ms} ms`);
            assert.equal(code, 0, errors);
          }
        });
      });
    }

    it('are told when another one leaves that they wait for', { timeout: 90_000 }, async () => {
      const [first] = await start(gpus, 'leaveAlone', [], { env });
      assert.equal(first.last?.result?.code, 'remoteError', first.errors);
      assert.match(first.last.result.message, /has closed the communicator/);
    });

    it('end at the time limit, naming the rank, when one does not come', { timeout: 90_000 }, async () => {
      const missing = gpus.length - 1;
      const ends = await start(gpus, 'stayAway', [], { env: { ...env, TIMEOUT_MS: '1500' } });
      const waiting = ends.slice(0, missing).map(({ last }) => last?.result);
      assert.ok(
        waiting.some((result) => result?.code === 'timeout'),
        ends[0].errors,
      );
      for (const result of waiting) {
        assert.equal(result?.rank, missing, result?.message);
        assert.ok(result.ms < 8000);
      }
    });

    it('are told when they call different things', { timeout: 90_000 }, async () => {
      const ends = await start(gpus, 'differ', [], { env });
      const results = ends.map(({ last }) => last?.result);
      for (const [rank, result] of results.entries()) {
        assert.equal(result?.code, 'invalidUsage', ends[rank].errors);
        assert.ok(result.ms < 3000);
      }
      assert.ok(
        results.some(({ message }) =>
          /allReduce of 1000 float32, .* allReduce of 1001 float32|allReduce of 1001 float32, .* allReduce of 1000 float32/.test(
            message,
          ),
        ),
        results[0].message,
      );
    });
  });
}

describe('a process', () => {
  it('is told that there is no such GPU, and so are the others', { timeout: 60_000 }, async () => {
    const ends = await start([0, 99], 'compute');
    for (const { errors, code } of ends) {
      assert.notEqual(code, 0);
      assert.match(errors, /there is no GPU 99/);
    }
  });
});

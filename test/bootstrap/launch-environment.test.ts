/** What launchers say in environment variables, as a pure function. */

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Environment, readLaunchEnvironment } from '#src/bootstrap/launch-environment.js';
import { firstSlurmHost, slurmTasksOfNode } from '#src/bootstrap/slurm-lists.js';
import { parseSocketAddress } from '#src/bootstrap/socket-address.js';
import { encodeUniqueId, formatUniqueId } from '#src/bootstrap/unique-id.js';
import { TuttiError } from '#src/errors/tutti-error.js';

const TORCHRUN = {
  RANK: '5',
  WORLD_SIZE: '8',
  LOCAL_RANK: '1',
  LOCAL_WORLD_SIZE: '4',
  MASTER_ADDR: 'node0',
  MASTER_PORT: '29500',
  TORCHELASTIC_RUN_ID: 'none',
  TORCHELASTIC_RESTART_COUNT: '0',
  TORCHELASTIC_USE_AGENT_STORE: 'True',
};
const OPEN_MPI = {
  OMPI_COMM_WORLD_RANK: '1',
  OMPI_COMM_WORLD_SIZE: '2',
  OMPI_COMM_WORLD_LOCAL_RANK: '1',
  OMPI_COMM_WORLD_LOCAL_SIZE: '2',
  PMIX_NAMESPACE: '296026113',
};
const MPICH = { PMI_RANK: '1', PMI_SIZE: '2', MPI_LOCALRANKID: '1', MPI_LOCALNRANKS: '2' };
const SLURM = {
  SLURM_PROCID: '3',
  SLURM_NTASKS: '6',
  SLURM_LOCALID: '1',
  SLURM_NODEID: '1',
  SLURM_NNODES: '3',
  SLURM_TASKS_PER_NODE: '2(x3)',
  SLURM_JOB_ID: '4711',
  SLURM_STEP_ID: '0',
  SLURM_JOB_NODELIST: 'gpu[07-08,11]-ib,login1',
};

function port(env: Environment, parent?: number): number {
  const { rendezvous } = readLaunchEnvironment(env, parent);
  if (rendezvous.kind !== 'address') throw new Error('an address was expected');
  return rendezvous.port;
}

describe('recognised launchers', () => {
  test('tutti run: the unique id, and its secret', () => {
    const secret = new Uint8Array(32).fill(9);
    const id = encodeUniqueId({ host: '127.0.0.1', port: 4000, secret });
    const env = {
      RANK: '1',
      WORLD_SIZE: '2',
      LOCAL_RANK: '1',
      LOCAL_WORLD_SIZE: '2',
      TUTTI_ID: formatUniqueId(id),
    };
    expect(readLaunchEnvironment(env)).toEqual({
      rank: 1,
      size: 2,
      localRank: 1,
      localSize: 2,
      launcher: 'tutti run',
      rendezvous: { kind: 'id', id },
      secret,
      secretIsStrong: true,
    });
  });

  test("torchrun: the port after MASTER_PORT, which its agent's store has taken", () => {
    expect(readLaunchEnvironment(TORCHRUN)).toMatchObject({
      rank: 5,
      size: 8,
      localRank: 1,
      localSize: 4,
      launcher: 'torchrun',
      rendezvous: { kind: 'address', host: 'node0', port: 29501 },
      secretIsStrong: false,
    });
    expect(port({ ...TORCHRUN, TORCHELASTIC_USE_AGENT_STORE: 'False' })).toBe(29500);
    expect(port({ ...TORCHRUN, TORCHELASTIC_USE_AGENT_STORE: undefined })).toBe(29500);
  });

  test('torchrun: a restarted attempt has another secret', () => {
    const { secret } = readLaunchEnvironment(TORCHRUN);
    expect(readLaunchEnvironment({ ...TORCHRUN, RANK: '2' }).secret).toEqual(secret);
    expect(readLaunchEnvironment({ ...TORCHRUN, TORCHELASTIC_RESTART_COUNT: '1' }).secret).not.toEqual(
      secret,
    );
  });

  test('Open MPI on one host: loop-back and a port of the job', () => {
    const first = readLaunchEnvironment(OPEN_MPI);
    expect(first).toMatchObject({ rank: 1, size: 2, localRank: 1, localSize: 2, launcher: 'Open MPI' });
    expect(first.rendezvous).toMatchObject({ kind: 'address', host: '127.0.0.1' });
    expect(readLaunchEnvironment({ ...OPEN_MPI, OMPI_COMM_WORLD_RANK: '0' })).toMatchObject({
      rendezvous: first.rendezvous,
      secret: first.secret,
    });
    const other = readLaunchEnvironment({ ...OPEN_MPI, PMIX_NAMESPACE: '296026114' });
    expect(other.rendezvous).not.toEqual(first.rendezvous);
    expect(other.secret).not.toEqual(first.secret);
  });

  test('Open MPI 4 without PMIX_NAMESPACE names its job by the address of mpirun', () => {
    const uri = '296026112.0;tcp://192.0.2.2:46233';
    const env = { ...OPEN_MPI, PMIX_NAMESPACE: undefined, OMPI_MCA_orte_hnp_uri: uri };
    expect(port(env)).toBeGreaterThan(0);
    expect(() => port({ ...env, OMPI_MCA_orte_hnp_uri: undefined })).toThrow(/MASTER_PORT is not set/);
  });

  test('Open MPI on several hosts needs MASTER_ADDR and says how to give it', () => {
    const env = { ...OPEN_MPI, OMPI_COMM_WORLD_SIZE: '4' };
    expect(() => readLaunchEnvironment(env)).toThrow(
      /Open MPI started 4 ranks but MASTER_ADDR is not set.*mpirun -x/,
    );
    expect(readLaunchEnvironment({ ...env, MASTER_ADDR: 'head' }).rendezvous).toMatchObject({ host: 'head' });
  });

  test('MPICH on one host: the job is named by the parent process that its ranks share', () => {
    expect(readLaunchEnvironment(MPICH, 77)).toMatchObject({
      rank: 1,
      size: 2,
      launcher: 'MPICH',
      localRank: 1,
    });
    expect(port(MPICH, 77)).toBe(port({ ...MPICH, PMI_RANK: '0', MPI_LOCALRANKID: '0' }, 77));
    expect(port(MPICH, 77)).not.toBe(port(MPICH, 78));
    expect(() => port(MPICH)).toThrow(/MASTER_PORT is not set/);
  });

  test('Slurm: the first host of the job, places from the task counts', () => {
    expect(readLaunchEnvironment(SLURM)).toMatchObject({
      rank: 3,
      size: 6,
      localRank: 1,
      localSize: 2,
      launcher: 'Slurm',
      rendezvous: { kind: 'address', host: 'gpu07-ib' },
    });
    const oneNode = { ...SLURM, SLURM_NNODES: '1', SLURM_LOCALID: '3', SLURM_JOB_NODELIST: 'gpu07' };
    expect(readLaunchEnvironment(oneNode)).toMatchObject({ localSize: 6, rendezvous: { host: '127.0.0.1' } });
    expect(port({ ...SLURM, SLURM_STEP_ID: '1' })).not.toBe(port(SLURM));
    expect(readLaunchEnvironment({ ...SLURM, MASTER_ADDR: 'a', MASTER_PORT: '5000' }).rendezvous).toEqual({
      kind: 'address',
      host: 'a',
      port: 5000,
    });
  });

  test('RANK and WORLD_SIZE of a script, and of torchrun under another launcher, come first', () => {
    const env = { RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: 'h', MASTER_PORT: '1234' };
    expect(readLaunchEnvironment(env)).toMatchObject({
      launcher: 'RANK and WORLD_SIZE',
      localRank: undefined,
      rendezvous: { host: 'h', port: 1234 },
    });
    expect(readLaunchEnvironment({ ...SLURM, ...TORCHRUN })).toMatchObject({ rank: 5, launcher: 'torchrun' });
    expect(readLaunchEnvironment({ ...SLURM, ...OPEN_MPI })).toMatchObject({ launcher: 'Open MPI' });
  });

  test('NCCL_COMM_ID replaces the address [C03-41]', () => {
    expect(readLaunchEnvironment({ ...TORCHRUN, NCCL_COMM_ID: '10.0.0.9:7000' }).rendezvous).toEqual({
      kind: 'address',
      host: '10.0.0.9',
      port: 7000,
    });
    expect(readLaunchEnvironment({ ...OPEN_MPI, NCCL_COMM_ID: '[fe80::1%eth0]:7000' }).rendezvous).toEqual({
      kind: 'address',
      host: 'fe80::1%eth0',
      port: 7000,
    });
  });

  test('ports of jobs lie from 20000 to 32767', () => {
    fc.assert(
      fc.property(fc.nat(), (job) => {
        const found = port({ ...OPEN_MPI, PMIX_NAMESPACE: `${job}` });
        expect(found).toBeGreaterThanOrEqual(20000);
        expect(found).toBeLessThan(32768);
      }),
    );
  });
});

describe('the secret', () => {
  test('TUTTI_SECRET decides it, apart for every job', () => {
    const secret = { TUTTI_SECRET: 'correct horse battery' };
    const first = readLaunchEnvironment({ ...OPEN_MPI, ...secret });
    expect(first.secretIsStrong).toBe(true);
    expect(first.secret).toHaveLength(32);
    expect(readLaunchEnvironment({ ...OPEN_MPI, ...secret, MASTER_ADDR: 'alias' }).secret).toEqual(
      first.secret,
    );
    expect(readLaunchEnvironment({ ...OPEN_MPI, TUTTI_SECRET: 'another horse battery' }).secret).not.toEqual(
      first.secret,
    );
  });

  test('a short TUTTI_SECRET is refused', () => {
    expect(() => readLaunchEnvironment({ ...OPEN_MPI, TUTTI_SECRET: 'short' })).toThrow(
      /TUTTI_SECRET has 5 characters; at least 16/,
    );
  });
});

describe('absent and contradictory values name variable, value and remedy', () => {
  test.each<[Environment, RegExp]>([
    [{}, /not started by a launcher.*tutti run -n N script\.js/],
    [{ SLURM_NTASKS: '4', SLURM_JOB_ID: '1' }, /not started by a launcher/],
    [{ RANK: '0' }, /RANK='0' is set but WORLD_SIZE is not/],
    [{ WORLD_SIZE: '2' }, /WORLD_SIZE='2' is set but RANK is not/],
    [{ OMPI_COMM_WORLD_SIZE: '2' }, /OMPI_COMM_WORLD_SIZE='2' is set but OMPI_COMM_WORLD_RANK is not/],
    [{ SLURM_PROCID: '0' }, /SLURM_PROCID='0' is set but SLURM_NTASKS is not/],
    [{ RANK: 'one', WORLD_SIZE: '2' }, /RANK='one' is not a non-negative integer/],
    [{ RANK: '-1', WORLD_SIZE: '2' }, /RANK='-1'/],
    [{ RANK: '2', WORLD_SIZE: '2' }, /RANK=2 contradicts WORLD_SIZE=2: ranks are 0 to 1/],
    [{ RANK: '0', WORLD_SIZE: '0' }, /WORLD_SIZE=0/],
    [{ ...TORCHRUN, LOCAL_RANK: '4' }, /LOCAL_RANK=4 contradicts LOCAL_WORLD_SIZE=4/],
    [{ ...TORCHRUN, LOCAL_WORLD_SIZE: '9' }, /LOCAL_WORLD_SIZE=9 contradicts WORLD_SIZE=8/],
    [{ ...TORCHRUN, MASTER_ADDR: '' }, /torchrun started 8 ranks but MASTER_ADDR is not set/],
    [{ ...TORCHRUN, MASTER_PORT: '0' }, /MASTER_PORT='0' is not a port from 1 to 65535/],
    [{ ...TORCHRUN, MASTER_PORT: '65536' }, /MASTER_PORT='65536'/],
    [{ ...TORCHRUN, MASTER_PORT: '65535' }, /MASTER_PORT=65535 belongs to the store of torchrun/],
    [{ RANK: '0', WORLD_SIZE: '1' }, /MASTER_PORT is not set\. Set MASTER_PORT to a free port/],
    [{ ...SLURM, SLURM_JOB_NODELIST: 'gpu[07' }, /node list 'gpu\[07' cannot be read; set MASTER_ADDR/],
    [{ ...OPEN_MPI, NCCL_COMM_ID: '10.0.0.1' }, /NCCL_COMM_ID='10\.0\.0\.1' is not an address/],
    [{ RANK: '0', WORLD_SIZE: '1', TUTTI_ID: 'AAAA' }, /not a unique id: it has 3 bytes/],
  ])('case %#', (env, message) => {
    let thrown: unknown;
    try {
      readLaunchEnvironment(env);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(TuttiError);
    expect((thrown as TuttiError).message).toMatch(message);
  });

  test('any mixture of values gives a result or a TuttiError', () => {
    const names = [
      ...new Set([TORCHRUN, OPEN_MPI, MPICH, SLURM].flatMap(Object.keys)),
      'TUTTI_ID',
      'NCCL_COMM_ID',
    ];
    const values = fc.constantFrom('', '0', '1', '4', '70000', 'x', 'n[1-2]', '10.0.0.1:80', 'True', ' 2');
    const entry = fc.tuple(fc.constantFrom(...names), values);
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 14 }), (entries) => {
        try {
          const { rank, size, secret } = readLaunchEnvironment(Object.fromEntries(entries), 1);
          expect(rank).toBeLessThan(size);
          expect(secret).toHaveLength(32);
        } catch (error) {
          if (!TuttiError.is(error)) throw error;
        }
      }),
      { numRuns: 1000 },
    );
  });
});

describe("Slurm's lists", () => {
  test.each([
    ['node1', 'node1'],
    ['node[01-10]', 'node01'],
    ['node[3,5-7],login', 'node3'],
    ['n[1-2]-ib,x', 'n1-ib'],
    ['rack[0-1]node[00-15]', 'rack0node00'],
    ['a.b-c_d,e', 'a.b-c_d'],
    ['node[', undefined],
    ['', undefined],
    ['no de', undefined],
    ['n[a-b]', undefined],
  ])('the first host of %s is %s', (list, host) => {
    expect(firstSlurmHost(list)).toBe(host);
  });

  test.each([
    ['2(x3),1', 0, 2],
    ['2(x3),1', 2, 2],
    ['2(x3),1', 3, 1],
    ['2(x3),1', 4, undefined],
    ['4', 0, 4],
    ['four', 0, undefined],
  ])('tasks %s of node %i: %s', (list, node, tasks) => {
    expect(slurmTasksOfNode(list, node)).toBe(tasks);
  });
});

describe('addresses', () => {
  test.each([
    ['10.0.0.1:80', '10.0.0.1', 80],
    ['node-1.cluster:65535', 'node-1.cluster', 65535],
    ['[::1]:1', '::1', 1],
    ['[fe80::1%eth0]:9', 'fe80::1%eth0', 9],
  ])('%s', (text, host, number) => {
    expect(parseSocketAddress(text, 'X')).toEqual({ host, port: number });
  });

  test.each(['', 'host', 'host:', ':80', 'host:0', 'host:65536', '::1:80', '[host]:80', '[::1]', 'h:80x'])(
    "'%s' is refused",
    (text) => {
      expect(() => parseSocketAddress(text, 'X')).toThrow(TuttiError);
    },
  );
});

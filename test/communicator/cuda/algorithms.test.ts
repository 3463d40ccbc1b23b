/** Rings, trees and PAT asked for on GPUs of a fake driver: results, what is chosen, and what cannot be. */
import { describe, expect, it } from 'vitest';
import { effort } from '../../effort.js';
import { exactCase, runCase, ways } from '../../gpu/cases.mjs';
import { randomFrom } from '../../gpu/random.mjs';
import { fakeGpus, fakeProcesses } from './fake-gpus.js';

/** Whole numbers that every order of additions gives alike. */
const input = (count: number, rank: number) => Float32Array.from({ length: count }, (_, i) => rank + (i % 9));

const SIZES = effort([70], [1, 5, 64, 300, 999]);

/** Lines of 128 bytes are stored by real warps. */
const warpOf = (protocol: string) => (protocol === 'LL128' ? 32 : 4);

type Comms = Awaited<ReturnType<typeof fakeGpus>>['comms'];

async function filled(comms: Comms, count: number) {
  const buffers = comms.map((comm) => comm.alloc(Float32Array, Math.max(1, count)));
  await Promise.all(buffers.map((buffer, rank) => buffer.copyFrom(input(count, rank))));
  return buffers;
}

async function checkAllReduce(comms: Comms, count: number): Promise<void> {
  const buffers = await filled(comms, count);
  await Promise.all(comms.map((comm, rank) => comm.allReduce(buffers[rank]!, buffers[rank]!)));
  const right = Float32Array.from({ length: count }, (_, i) =>
    comms.reduce((sum, _comm, rank) => sum + input(count, rank)[i]!, 0),
  );
  for (const buffer of buffers) expect(await buffer.read()).toEqual(right);
}

async function checkAllGather(comms: Comms, count: number): Promise<void> {
  const sends = await filled(comms, count);
  const recvs = comms.map((comm) => comm.alloc(Float32Array, comms.length * count));
  await Promise.all(comms.map((comm, rank) => comm.allGather(sends[rank]!, recvs[rank]!)));
  const right = Float32Array.from(comms.flatMap((_, rank) => [...input(count, rank)]));
  for (const buffer of recvs) expect(await buffer.read()).toEqual(right);
}

describe.each([
  ['ranks of one process', fakeGpus],
  ['processes', fakeProcesses],
] as const)('%s', (_, open) => {
  it.each([
    ['Ring', 'LL'],
    ['Ring', 'LL128'],
    ['Ring', 'Simple'],
    ['Tree', 'LL'],
    ['Tree', 'LL128'],
    ['Tree', 'Simple'],
    ['TwoShot', 'Simple'],
    ['OneShot', 'LL'],
  ])('reduce with %s and %s where it is asked for', async (algorithm, protocol) => {
    const { comms } = await open([0, 1, 1], { algorithm, protocol, seed: 3, warpSize: warpOf(protocol) });
    for (const count of SIZES) await checkAllReduce(comms, count);
    const [buffer] = await filled(comms, 8);
    const prepared = comms[0]!.prepare.allReduce(buffer!, buffer!);
    const name = { TwoShot: 'Direct', OneShot: 'LL' }[algorithm] ?? `${algorithm} with ${protocol}`;
    expect(prepared.explanation).toBe(
      `${name}: 32 bytes in ${algorithm.endsWith('Shot') ? '2 blocks of 8' : `1 block of ${protocol === 'LL128' ? 32 : 4}`} threads (${algorithm} was asked for)`,
    );
  });

  it('gather with PAT where it is asked for, and refuse what it does not do', async () => {
    const { comms } = await open([0, 1, 1], { algorithm: 'PAT', seed: 4 });
    for (const count of SIZES) await checkAllGather(comms, count);
    const [a] = await filled(comms, 3);
    expect(() => comms[0]!.prepare.allReduce(a!, a!)).toThrow(
      'No algorithm/protocol available for function AllReduce: NCCL_ALGO was set to PAT. PAT does not do AllReduce on GPUs; leave the variable or option out, or add Ring to it',
    );
    const wide = comms[0]!.alloc(Float32Array, 9);
    expect(() => comms[0]!.prepare.reduceScatter(wide, a!, { op: 'avg' })).toThrow('PAT does no averages');
  });
});

describe('random calls', () => {
  const most = ['allReduce', 'allGather', 'reduceScatter', 'broadcast', 'reduce'];
  it.each([
    ['Ring;AllToAll:Ring', 'LL', [...most, 'allToAll']],
    ['Ring;AllToAll:Ring', 'LL128', [...most, 'allToAll']],
    ['Ring;AllToAll:Ring', 'Simple', [...most, 'allToAll']],
    ['Tree', 'LL', ['allReduce']],
    ['Tree', 'LL128', ['allReduce']],
    ['Tree', 'Simple', ['allReduce']],
    ['PAT', 'Simple', ['allGather', 'reduceScatter']],
  ])('are right with %s and %s, in every form of call', async (algorithm, protocol, collectives) => {
    const seed = 11;
    const random = randomFrom(seed);
    const { comms } = await fakeGpus([0, 1, 0], { algorithm, protocol, seed, warpSize: warpOf(protocol) });
    for (let k = 0; k < effort(3, 30); k++) {
      const one = exactCase(random, comms.length, 60, { collectives, averages: algorithm !== 'PAT' });
      const how = [ways.awaited, ways.prepared, ways.graphed][k % 3]!;
      expect(await runCase(comms, one, how), `case ${k} of seed ${seed}`).toEqual([]);
    }
  });
});

describe('GPUs that do not reach each other', () => {
  it.each([
    ['Ring', 'Simple'],
    ['Tree', 'LL'],
  ])('reduce with %s and %s through connections in memory of the host', async (algorithm, protocol) => {
    const access = (a: number, b: number) => a === b;
    const { comms } = await fakeGpus([0, 1, 1], { algorithm, protocol, seed: 5, access });
    expect(comms[0]!.description).toContain('meet in memory of the host');
    expect(comms.map(({ throughHost }) => throughHost)).toEqual([true, true, true]);
    await checkAllReduce(comms, 70);
  });
});

describe('GPUs without whole lines of 128 bytes', () => {
  it.each([
    ['one process', fakeGpus],
    ['processes', fakeProcesses],
  ])('have no slots for LL128, in %s', async (_, make) => {
    const areas: number[] = [];
    for (const wholeLines of [true, false]) {
      const { comms, driver } = await make([0, 1], { algorithm: 'Ring', wholeLines });
      const sizes = [...driver.live.memory.values()].map(({ bytes }) => bytes);
      areas.push(Math.max(...sizes.filter((bytes) => bytes !== 65536)));
      await checkAllReduce(comms, 300);
    }
    // Two channels with 16384 bytes of slots for LL128.
    expect(areas[0]! - areas[1]!).toBe(2 * 16384);
  });
});

describe('lists of algorithms', () => {
  it('go on with what is measured where they leave it', async () => {
    const { comms } = await fakeGpus([0, 1], { algorithm: '^Ring', protocol: '^LL128' });
    const [a] = await filled(comms, 8);
    const { explanation } = comms[0]!.prepare.allReduce(a!, a!);
    expect(explanation).toBe('LL: 32 bytes in 2 blocks of 8 threads (measured to be the fastest)');
  });

  it('choose between connections by what is predicted', async () => {
    const { comms } = await fakeGpus([0, 1, 1, 0], { algorithm: 'Ring,Tree' });
    const [a] = await filled(comms, 8);
    const { explanation } = comms[0]!.prepare.allReduce(a!, a!);
    expect(explanation).toMatch(/^Tree with LL: .* us predicted, .* us with Tree with LL128\)$/);
    await checkAllReduce(comms, 40);
  });

  it('leave calls without a program an error that says what to do', async () => {
    const { comms } = await fakeGpus([0, 1], { algorithm: 'NVLS', protocol: 'Simple' });
    const [a] = await filled(comms, 8);
    expect(() => comms[0]!.prepare.allReduce(a!, a!)).toThrow(
      'NCCL_ALGO was set to NVLS. NCCL_PROTO was set to Simple. NVLS does not do AllReduce on GPUs',
    );
    await expect(comms[0]!.allReduce(a!, a!)).rejects.toMatchObject({ code: 'invalidUsage' });
  });

  it('must be the same at all ranks', async () => {
    const opened = fakeProcesses([0, 1], { algorithm: ['Ring', 'Tree'] });
    const { errors } = (await opened.catch((error) => error)) as AggregateError;
    const message =
      'rank 0 and rank 1 allow different algorithms: NCCL_ALGO=Ring with 2 channels of 1024, 16384, 512 bytes ' +
      'and NCCL_ALGO=Tree with 2 channels of 1024, 16384, 512 bytes; set NCCL_ALGO';
    expect(errors).toHaveLength(2);
    for (const error of errors) expect(String(error)).toContain(message);
  });
});

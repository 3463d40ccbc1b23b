/** Which algorithm runs a call on GPUs, by what lists leave. */
import { describe, expect, it } from 'vitest';
import type { GpuCall, GpuTeam } from '#src/collectives/gpu/call.js';
import { connectorsNeeded, selectOnGpu } from '#src/tuning/gpu-selection.js';
import { hostChoices } from '#src/tuning/host-choices.js';

const pair: GpuTeam = {
  ranks: 2,
  multiprocessors: 132,
  ranksPerDevice: 1,
  addressing: 'plain',
  wholeLines: true,
};
const eight: GpuTeam = { ...pair, ranks: 8 };

const choices = (algorithm?: string, protocol?: string) => hostChoices({ algorithm, protocol });
const call = (count: number, collective: GpuCall['collective'] = 'allReduce'): GpuCall => ({
  collective,
  type: 'float32',
  op: 'sum',
  count,
});
const chosen = (team: GpuTeam, one: GpuCall, algorithm?: string, protocol?: string) => {
  const way = selectOnGpu(team, one, choices(algorithm, protocol));
  return `${way.algorithm} ${way.protocol}`;
};

describe('selectOnGpu', () => {
  it('takes what is measured where lists leave it', () => {
    expect(chosen(pair, call(2))).toBe('OneShot LL');
    expect(chosen(pair, { ...call(1 << 17), type: 'int32' })).toBe('OneShot LL128');
    expect(chosen(pair, call(1 << 17), undefined, 'LL128')).toBe('OneShot LL128');
    // Lamport lines, which count as LL.
    expect(chosen(pair, call(1 << 17))).toBe('OneShot LL');
    expect(chosen(pair, call(1 << 24), '^Ring,Tree')).toBe('TwoShot Simple');
    expect(selectOnGpu(pair, call(2), choices('^Ring')).reason).toBe('measured to be the fastest');
  });

  it('takes another program in which ranks meet before connections', () => {
    expect(chosen(pair, call(2), undefined, 'Simple')).toBe('TwoShot Simple');
    expect(chosen(pair, call(1 << 24), undefined, 'LL')).toBe('OneShot LL');
    expect(chosen(pair, call(2), 'TwoShot,Ring', 'LL')).toBe('TwoShot Simple');
  });

  it('takes the fastest over connections where nothing else is left', () => {
    expect(chosen(eight, call(2), 'Ring,Tree')).toBe('Tree LL');
    expect(chosen(eight, call(1 << 26), 'Ring,Tree')).toBe('Ring LL128');
    expect(chosen(eight, call(1 << 26), 'Ring,Tree', '^LL128')).toBe('Ring Simple');
    expect(chosen(eight, call(1 << 26), 'Ring,Tree', 'LL')).toBe('Ring LL');
    expect(chosen(eight, call(2, 'allGather'), 'Ring,PAT', 'Simple')).toBe('PAT Simple');
    expect(chosen(pair, call(2, 'broadcast'), 'Ring')).toBe('Ring LL');
  });

  it('leaves calls alone that lists do not speak of', () => {
    expect(chosen(pair, call(2, 'allToAll'), 'Ring')).toBe('OneShot LL');
    expect(chosen(pair, call(2, 'allToAll'), 'alltoall:Ring')).toBe('Ring LL');
    expect(chosen(pair, call(2, 'gather'), 'Ring')).toBe('OneShot LL');
  });

  it('says why nothing is left', () => {
    const attempt = (team: GpuTeam, one: GpuCall, algorithm?: string, protocol?: string) => () =>
      selectOnGpu(team, one, choices(algorithm, protocol));
    expect(attempt(pair, call(2, 'broadcast'), 'Tree')).toThrow('Tree does not do Broadcast on GPUs');
    for (const algorithm of ['OneShot', 'Ring', 'Tree']) {
      expect(attempt({ ...pair, wholeLines: false }, call(2), algorithm, 'LL128')).toThrow(
        `${algorithm} does LL128 only where all GPUs are joined by NVLink`,
      );
    }
    expect(attempt(pair, call(2), 'Ring,PAT', '^LL,LL128,Simple')).toThrow('No algorithm/protocol available');
    expect(attempt(pair, { ...call(2, 'reduceScatter'), op: 'avg' }, 'PAT')).toThrow('PAT does no averages');
  });
});

describe('connectorsNeeded', () => {
  it('asks for room where calls can need it, and nowhere else', () => {
    const needed = (...lists: Parameters<typeof choices>) => {
      const { algorithms, protocols } = connectorsNeeded(choices(...lists));
      return [algorithms.join(), protocols.join()];
    };
    expect(needed()).toEqual(['', '']);
    expect(needed('^NVLS', 'LL,Simple')).toEqual(['', '']);
    expect(needed('Ring')).toEqual(['Ring', 'LL,LL128,Simple']);
    expect(needed('Ring', 'LL128')).toEqual(['Ring', 'LL128']);
    expect(needed('PAT')).toEqual(['PAT', 'Simple']);
    expect(needed('allreduce:Tree,Ring;allgather:PAT', '^LL128')).toEqual(['Ring,Tree,PAT', 'LL,Simple']);
    expect(needed('Ring,OneShot')).toEqual(['', '']);
  });
});

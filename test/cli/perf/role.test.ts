/** Where a run measures, and what the process is in it. */
import { describe, expect, it } from 'vitest';
import { parsePerfOptions } from '#src/cli/perf/options.js';
import { deviceOf, roleOf } from '#src/cli/perf/role.js';

const parse = (line: string) => parsePerfOptions(line.split(' ').filter((word) => word !== ''));
const device = (line: string, gpus: number) => deviceOf(parse(line), () => gpus);
const role = (line: string, where: 'host' | 'cuda', gpus = 0, env = {}) =>
  roleOf(parse(line), where, env, () => gpus);

describe('device of a run', () => {
  it('is what was asked for, else GPUs where there are any', () => {
    expect(device('--device host', 8)).toBe('host');
    expect(device('--device cuda', 0)).toBe('cuda');
    expect(device('', 1)).toBe('cuda');
    expect(device('', 0)).toBe('host');
  });

  it('follows options that only one device has', () => {
    expect(device('-g 2', 0)).toBe('cuda');
    expect(device('-G 2', 0)).toBe('cuda');
    expect(device('-t 2', 4)).toBe('host');
    expect(device('--memory array', 4)).toBe('host');
  });
});

describe('role of the process', () => {
  it('has all ranks for threads and for GPUs of one process', () => {
    expect(role('-t 3', 'host')).toEqual({ kind: 'all', ranks: 3 });
    expect(role('-g 3', 'cuda', 8)).toEqual({ kind: 'all', ranks: 3 });
    expect(role('-g 3 -n 1', 'cuda', 8)).toEqual({ kind: 'all', ranks: 3 });
  });

  it('takes all GPUs when nobody says how many, and two ranks at least', () => {
    expect(role('', 'cuda', 8)).toEqual({ kind: 'all', ranks: 8 });
    expect(role('', 'cuda', 1)).toEqual({ kind: 'all', ranks: 2 });
  });

  it('starts processes, and is a rank under a launcher', () => {
    expect(role('-n 4', 'cuda', 8)).toEqual({ kind: 'parent', processes: 4 });
    expect(role('-n 4', 'host')).toEqual({ kind: 'parent', processes: 4 });
    const launched = { RANK: '1', WORLD_SIZE: '2', MASTER_ADDR: 'localhost', MASTER_PORT: '1234' };
    expect(role('', 'cuda', 8, launched)).toEqual({ kind: 'rank' });
    expect(() => role('-n 2 -t 2', 'host')).toThrow('ranks are either processes (-n) or threads');
  });
});

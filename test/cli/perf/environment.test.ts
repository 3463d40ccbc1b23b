import { describe, expect, it } from 'vitest';
import { hostRankPlace, reportedEnvironment, requiredBusBandwidth } from '#src/cli/perf/environment.js';

describe('environment of a perf run', () => {
  it('requires the bandwidth of NCCL_TESTS_MIN_BW, and none when unset or -1', () => {
    expect(requiredBusBandwidth({ NCCL_TESTS_MIN_BW: '12.5' })).toBe(12.5);
    expect(requiredBusBandwidth({ NCCL_TESTS_MIN_BW: '-1' })).toBeUndefined();
    expect(requiredBusBandwidth({ NCCL_TESTS_MIN_BW: ' ' })).toBeUndefined();
    expect(requiredBusBandwidth({})).toBeUndefined();
    expect(() => requiredBusBandwidth({ NCCL_TESTS_MIN_BW: 'fast' })).toThrow("'fast' is not a number");
  });

  it('reports only variables of the library', () => {
    const env = { TUTTI_B: '2', NCCL_A: '1', SECRET: 'x', XNCCL_A: 'y', NCCL_GONE: undefined };
    expect(reportedEnvironment(env)).toEqual(['NCCL_A=1', 'TUTTI_B=2']);
  });

  it('describes ranks of this host', () => {
    const place = hostRankPlace(3, 1, 42);
    expect(place).toMatchObject({ rank: 3, device: 1, pid: 42, address: 'host' });
    expect(place.model).not.toBe('');
  });
});

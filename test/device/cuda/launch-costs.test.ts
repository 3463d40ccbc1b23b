import { describe, expect, it } from 'vitest';
import { LaunchCosts } from '#src/device/cuda/launch-costs.js';

/** Launches that take so many microseconds each, in turns. */
function launch(
  costs: LaunchCosts,
  clock: { ms: number },
  took: readonly number[],
  asGraph: boolean,
  most = 50,
) {
  let timed = 0;
  for (const us of took) {
    const began = costs.begin();
    clock.ms += us / 1e3;
    if (began === 0) continue;
    timed += 1;
    costs.end(began, asGraph, most);
  }
  return timed;
}

function costsOf(): { costs: LaunchCosts; clock: { ms: number } } {
  const clock = { ms: 1000 };
  return { clock, costs: new LaunchCosts(() => clock.ms) };
}

/** So many launches of the same kind; one in ten is held up. */
const launches = (count: number, us: number) =>
  Array.from({ length: count }, (_, i) => (i % 10 === 3 ? 400 : us));

describe('what launches cost the host', () => {
  it('comes near to what kernels take, however long some are held up', () => {
    for (const us of [0.8, 2.6, 4.5, 7]) {
      const { costs, clock } = costsOf();
      launch(costs, clock, launches(1000, us), false);
      expect(Math.abs(costs.kernel / us - 1)).toBeLessThan(0.15);
    }
  });

  it('is known from graphs too, which take 1.4 us less', () => {
    const { costs, clock } = costsOf();
    launch(costs, clock, launches(1000, 1.3), true);
    expect(costs.kernel).toBeGreaterThan(2.5);
    expect(costs.kernel).toBeLessThan(3);
  });

  it('follows a processor that becomes slower', () => {
    const { costs, clock } = costsOf();
    launch(costs, clock, launches(500, 2.6), false);
    launch(costs, clock, launches(500, 4), false);
    expect(Math.abs(costs.kernel / 4 - 1)).toBeLessThan(0.15);
  });

  it('learns nothing from graphs that waited for the GPU', () => {
    const { costs, clock } = costsOf();
    const before = costs.kernel;
    launch(costs, clock, launches(500, 3.5), true, 3.4);
    expect(costs.kernel).toBe(before);
  });

  it('looks at the clock for one launch of eight', () => {
    const { costs, clock } = costsOf();
    expect(launch(costs, clock, launches(800, 3), false)).toBe(100);
  });
});

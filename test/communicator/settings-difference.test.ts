/** What is told where ranks have different settings. */
import { expect, it } from 'vitest';
import { settingsDifference } from '#src/communicator/settings-difference.js';

it('names what differs with both values, also inside groups, and nothing else', () => {
  const one = { channels: 1, algorithm: 'Ring', switches: { bytes: 4096, nvls: true }, check: false };
  const other = { channels: 2, algorithm: 'Ring', switches: { bytes: 8192, nvls: true }, check: false };
  expect(settingsDifference(JSON.stringify(one), JSON.stringify(other))).toBe(
    'channels (1 and 2), switches.bytes (4096 and 8192)',
  );
  const { check: _, ...older } = one;
  expect(settingsDifference(JSON.stringify(older), JSON.stringify(one))).toBe('check (none and false)');
});

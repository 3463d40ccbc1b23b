/** Time limits that are fair to a busy process. */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Deadline, formatDuration, startTimer } from '#src/bootstrap/deadline.js';
import { formatRanks } from '#src/bootstrap/rank-list.js';

test('what arrived while the process was busy counts, although the limit has passed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tutti-deadline-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const sent = join(folder, 'sent');
  const echo = spawn('sh', ['-c', 'read start; echo there; : > "$0"', sent]);
  const order: string[] = [];
  echo.stdout.on('data', () => order.push('data'));
  const struck = new Promise<void>((resolve) => {
    echo.stdin.write('start\n', () => {
      const end = performance.now() + 150;
      startTimer(100, () => {
        order.push('limit');
        resolve();
      });
      // Busy until the limit has passed and the data is there, however long the other process takes.
      while (performance.now() < end || !existsSync(sent));
    });
  });
  await struck;
  expect(order).toEqual(['data', 'limit']);
});

test('a cancelled limit does not strike, even when it was about to', async () => {
  let struck = false;
  const cancel = startTimer(0, () => {
    struck = true;
  });
  await new Promise<void>((resolve) =>
    setTimeout(() => {
      cancel();
      resolve();
    }, 0),
  );
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(struck).toBe(false);
});

test('a deadline counts down and stays at 0', async () => {
  expect(new Deadline(1e6).leftMs).toBeGreaterThan(9e5);
  expect(new Deadline(1e6).leftMs).toBeLessThanOrEqual(1e6);
  const deadline = new Deadline(30);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(deadline.leftMs).toBe(0);
});

test.each([
  [1, '1 ms'],
  [999.6, '1000 ms'],
  [1000, '1 s'],
  [1250, '1.3 s'],
  [120_000, '120 s'],
])('%d ms is written %s', (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});

test.each([
  [[3], 'rank 3'],
  [[0, 1], 'ranks 0, 1'],
  [[0, 2, 3, 4, 9], 'ranks 0, 2-4, 9'],
  [
    Array.from({ length: 50 }, (_, index) => 2 * index),
    `ranks ${Array.from({ length: 20 }, (_, i) => 2 * i).join(', ')} and 30 more`,
  ],
])('rank lists fold runs and stay short: case %#', (ranks, text) => {
  expect(formatRanks(ranks)).toBe(text);
});

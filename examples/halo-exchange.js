/**
 * Heat in a ring: every rank has a part of the ring and exchanges the cells at its borders with its neighbours before
 * each step. Messages that depend on each other are sent and received in one group; it is prepared once here, since every
 * step exchanges the same cells.
 *
 *     npx tutti run -n 4 examples/halo-exchange.js [STEPS]
 *
 * Prints the hottest and the coldest cell. The exit status is 1 when the heat is not what one rank alone would compute.
 */
import assert from 'node:assert/strict';
import { Communicator } from 'tutti';

const steps = Number(process.argv[2] ?? 200);
const CELLS = 64;

const comm = await Communicator.fromEnv();
const { rank, size } = comm;
const left = (rank + size - 1) % size;
const right = (rank + 1) % size;

// The own cells, with one cell of each neighbour at the ends.
const heat = comm.alloc(Float64Array, CELLS + 2);
if (rank === 0) heat[1] = 1000;
const cell = (i) => heat.subarray(i, i + 1);

const exchange = comm.prepare.group(() => {
  comm.send(cell(1), left);
  comm.send(cell(CELLS), right);
  comm.recv(cell(CELLS + 1), right);
  comm.recv(cell(0), left);
});
const step = (cells, n) => {
  const before = cells.slice();
  for (let i = 1; i <= n; i++) cells[i] = before[i] + 0.25 * (before[i - 1] - 2 * before[i] + before[i + 1]);
};
for (let i = 0; i < steps; i++) {
  exchange.run();
  step(heat, CELLS);
}

// The root puts the parts together, and compares.
const whole = rank === 0 ? new Float64Array(size * CELLS) : null;
await comm.gather(heat.subarray(1, CELLS + 1), whole, { root: 0 });
if (whole !== null) {
  const alone = new Float64Array(size * CELLS + 2);
  alone[1] = 1000;
  for (let i = 0; i < steps; i++) {
    alone[0] = alone.at(-2);
    alone[alone.length - 1] = alone[1];
    step(alone, size * CELLS);
  }
  assert.deepEqual(whole, alone.subarray(1, -1).slice());
  console.log(`hottest ${Math.max(...whole).toFixed(3)}, coldest ${Math.min(...whole).toFixed(3)}`);
}
await comm.close();

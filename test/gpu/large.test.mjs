/**
 * All-reduces of two ranks that are large enough for an exchange, whose buffers differ in all that makes it go another way:
 * in place on one rank or both, off alignment alike or differently.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CudaDriver } from '#src/device/cuda/driver.js';
import { createLocalCommunicators, cuda } from '#src/index.js';

const { deviceCount } = new CudaDriver();
const TEAMS = [[0, 0]];
if (deviceCount > 1) TEAMS.push([0, 1]);

/** A little more than where the exchange begins, and no whole number of anything. */
const COUNT = (25 << 18) + 1237;
const GUARD = 8;
const POISON = 77;

/** By rank: where the send and receive buffers begin, in elements; in place where the second is missing. */
const WAYS = {
  'out of place': [
    [0, 4],
    [4, 0],
  ],
  'off alignment alike': [
    [1, 1],
    [5, 1],
  ],
  'off alignment differently': [
    [1, 3],
    [2, 0],
  ],
  'in place on one rank': [[0, 0], [0]],
  'in place': [[0], [3]],
};

const elementAt = (i, rank) => ((i * 31) % 1021) + rank * ((i * 7) % 509);

async function makeRank(comm, Class, rank, [sendAt, recvAt]) {
  const total = COUNT + 2 * GUARD;
  const content = new Class(total).fill(POISON);
  for (let i = 0; i < COUNT; i++) content[sendAt + i] = elementAt(i, rank);
  const send = comm.alloc(Class, total);
  await send.copyFrom(content);
  if (recvAt === undefined) return { memories: [send], send, recv: send, sendAt, recvAt: sendAt };
  const recv = comm.alloc(Class, total);
  await recv.copyFrom(new Class(total).fill(POISON));
  return { memories: [send, recv], send, recv, sendAt, recvAt };
}

/** What is wrong in a rank's receive buffer and around it, if anything. */
async function findWrong({ recv, recvAt }) {
  const found = await recv.read();
  return found.findIndex((value, at) => {
    const i = at - recvAt;
    const isInside = i >= 0 && i < COUNT;
    return value !== (isInside ? elementAt(i, 0) + elementAt(i, 1) : POISON);
  });
}

for (const team of TEAMS) {
  describe(`large all-reduces of ranks on GPUs ${team.join(', ')}`, () => {
    for (const [way, places] of Object.entries(WAYS)) {
      it(`are right ${way}, floats and integers, again and again`, { timeout: 60_000 }, async () => {
        const comms = await createLocalCommunicators(
          team.map((gpu) => cuda(gpu)),
          { timeoutMs: 10_000 },
        );
        try {
          for (const Class of [Float32Array, Int32Array, Float32Array]) {
            const ranks = await Promise.all(
              comms.map((comm, rank) => makeRank(comm, Class, rank, places[rank])),
            );
            const part = (memory, at) => memory.subarray(at, at + COUNT);
            await Promise.all(
              comms.map((comm, rank) => {
                const { send, recv, sendAt, recvAt } = ranks[rank];
                const input = part(send, sendAt);
                return comm.allReduce(input, send === recv ? input : part(recv, recvAt), { op: 'sum' });
              }),
            );
            for (const [rank, one] of ranks.entries()) {
              assert.equal(await findWrong(one), -1, `an element of rank ${rank}, ${Class.name}`);
              for (const memory of one.memories) memory.free();
            }
          }
        } finally {
          await Promise.all(comms.map((comm) => comm.close()));
        }
      });
    }
  });
}

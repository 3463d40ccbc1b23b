/** What peers say about memory may be garbage: an error names them, or nothing happens; nobody hangs or crashes. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type PeerMessage, PeerMessages } from '#src/communicator/cuda/peer-messages.js';
import { TuttiError } from '#src/errors/tutti-error.js';
import { effort } from '../../effort.js';
import { fakeProcesses } from './fake-gpus.js';

const number = fc.oneof(fc.integer({ min: -2, max: 3 }), fc.constant(4096), fc.double(), fc.string());
const message = fc.oneof(
  fc.record(
    {
      type: fc.constantFrom('map', 'mapped', 'unmap', 'unmapped', 'leaving', 'else'),
      slot: number,
      handle: fc.oneof(fc.constant(''), fc.base64String()),
      address: number,
      operations: number,
      problem: fc.string(),
    },
    { requiredKeys: ['type'] },
  ),
  fc.jsonValue(),
);

it(
  'messages of a peer that make no sense',
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 4 }), async (messages) => {
        const sent: PeerMessages[] = [];
        const { send } = PeerMessages.prototype;
        PeerMessages.prototype.send = function (peer, one) {
          if (!sent.includes(this)) sent.push(this);
          send.call(this, peer, one);
        };
        try {
          const { comms, driver } = await fakeProcesses([0, 1], { timeoutMs: 500 });
          const buffers = comms.map((comm) => comm.alloc(Int32Array, 4));
          await Promise.all(comms.map((comm) => comm.synchronize()));
          for (const one of messages) send.call(sent[0]!, sent[0]!.peers[0]!, one as PeerMessage);
          const ends = await Promise.allSettled(
            comms.map(async (comm, rank) => {
              const large = comm.alloc(Int32Array, 30_000);
              await comm.allReduce(buffers[rank]!, buffers[rank]!);
              large.free();
            }),
          );
          for (const end of ends) {
            if (end.status === 'rejected') expect(TuttiError.is(end.reason), String(end.reason)).toBe(true);
          }
          await Promise.all(comms.map((comm) => comm.close()));
          expect(driver.leaks).toEqual([]);
        } finally {
          PeerMessages.prototype.send = send;
        }
      }),
      { numRuns: effort(5, 100) },
    );
  },
  effort(60_000, 300_000),
);

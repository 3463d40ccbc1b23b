/** Control messages survive their encoding, and broken bytes are errors rather than wrong values. */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  type CheckIn,
  decodeCheckIn,
  decodeFromRoot,
  decodeToRoot,
  encodeCheckIn,
  encodeFromRoot,
  encodeGatheredBody,
  encodeGatheredHead,
  encodeToRoot,
  type FromRoot,
  type ToRoot,
} from '#src/bootstrap/control-message.js';
import { TuttiError } from '#src/errors/tutti-error.js';

const u32 = fc.nat(0xffffffff);
const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const i32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const text = fc.string({ unit: 'grapheme', maxLength: 300 });
const error = fc.record({
  code: fc.constantFrom('timeout' as const, 'remoteError' as const, 'invalidArgument' as const),
  rank: i32,
  message: text,
});

const place = {
  processId: u32,
  hostHash: u64,
  hostName: text,
  listenHost: text,
  listenPort: fc.nat(65535),
};

const checkIns: fc.Arbitrary<CheckIn> = fc.record({
  rank: i32,
  size: i32,
  generation: u32,
  timeoutMs: u32,
  processNonce: u64,
  ...place,
});

const toRoot: fc.Arbitrary<ToRoot> = fc.oneof(
  fc.record({
    type: fc.constant('contribute' as const),
    ticket: u32,
    sequence: u32,
    timeoutMs: u32,
    label: text,
    among: fc.array(u32),
    bytes: fc.uint8Array({ maxLength: 2000 }),
  }),
  fc.record({ type: fc.constant('abort' as const), reason: text }),
  fc.constant({ type: 'goodbye' as const }),
);

const members = fc
  .array(fc.record(place), { maxLength: 20 })
  .map((places) => places.map((each, rank) => ({ ...each, rank })));

const fromRoot: fc.Arbitrary<Exclude<FromRoot, { type: 'gathered' }>> = fc.oneof(
  fc.record({ type: fc.constant('welcome' as const), rootRank: i32, members }),
  fc.record({ type: fc.constant('refused' as const), error }),
  fc.record({ type: fc.constant('failed' as const), ticket: u32, error }),
  fc.record({ type: fc.constantFrom('lost' as const, 'aborted' as const), rank: u32, reason: text }),
  fc.record({ type: fc.constant('left' as const), rank: u32 }),
);

test('every message is read as it was written', () => {
  const roundTrip = <T>(messages: fc.Arbitrary<T>, again: (message: T) => T): void =>
    fc.assert(
      fc.property(messages, (message) => {
        expect(again(message)).toEqual(message);
      }),
    );
  roundTrip(checkIns, (message) => decodeCheckIn(encodeCheckIn(message)));
  roundTrip(toRoot, (message) => decodeToRoot(encodeToRoot(message)));
  roundTrip<FromRoot>(fromRoot as fc.Arbitrary<FromRoot>, (message) =>
    decodeFromRoot(encodeFromRoot(message as Exclude<FromRoot, { type: 'gathered' }>)),
  );
  fc.assert(
    fc.property(u32, fc.array(fc.uint8Array({ maxLength: 700 })), (ticket, parts) => {
      const bytes = Buffer.concat([encodeGatheredHead(ticket), encodeGatheredBody(parts)]);
      expect(decodeFromRoot(bytes)).toEqual({ type: 'gathered', ticket, parts });
    }),
  );
});

test('a message that is cut or too long is an error', () => {
  fc.assert(
    fc.property(toRoot, fc.nat(), (message, cut) => {
      const bytes = encodeToRoot(message);
      expect(() => decodeToRoot(bytes.subarray(0, cut % bytes.length))).toThrow(TuttiError);
      expect(() => decodeToRoot(Buffer.concat([bytes, Uint8Array.of(0)]))).toThrow(TuttiError);
    }),
  );
});

test('arbitrary bytes give a message or a TuttiError, nothing else', () => {
  fc.assert(
    fc.property(fc.nat(30), fc.uint8Array({ maxLength: 80 }), (type, rest) => {
      for (const decode of [decodeToRoot, decodeFromRoot, decodeCheckIn]) {
        try {
          decode(Uint8Array.of(type, ...rest));
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(TuttiError);
        }
      }
    }),
  );
});

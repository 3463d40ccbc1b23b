/**
 * Messages on host memory in the interpreter, under adversarial schedules with strong and weak memory: every byte arrives,
 * nothing is read before it is published, nobody waits for ever; whatever ranks cut their batches into.
 */
import { describe, expect, it } from 'vitest';
import { ControlBlock, MAX_POOLS } from '#src/collectives/control-block.js';
import {
  Inbox,
  inboxOffset,
  MESSAGE_SLOTS,
  type MessageLayout,
  messagePoolBytes,
  Outbox,
  outboxOffset,
  slotStride,
} from '#src/collectives/message-memory.js';
import { hostMessages, STATUS_WRONG_MESSAGE } from '#src/collectives/messages.js';
import { explore } from '#src/kernel/interpreter/explore.js';
import { type Launch, Machine, type MachineOptions } from '#src/kernel/interpreter/machine.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import {
  encodeMessageWork,
  type HostMessage,
  type MessagePlaces,
  messageStreams,
  messageWorkBytes,
  mostParts,
  partsOf,
  roundsOf,
} from '#src/planning/message-plan.js';
import { effort } from '../effort.js';
import { pick, random } from './random-call.js';

/** Slots as small as they can be, and chunks of which a message has several. */
const SLOT_BYTES = 224;
const PROGRAM = hostMessages(interpreterTraits({ threads: 'one' }), { parts: 3, least: 64, most: 128 });

const POOL_WORD = ControlBlock.fields.pools.offset + 4 * (MAX_POOLS - 1);
const PAGE = 4096;
const BUFFERS = 16384;
const GUARD = 0xa5;

interface Transfer {
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
  /** What the receiver expects, where that is something else. */
  readonly expected?: number;
}

interface Placed extends HostMessage {
  readonly address: number;
}

class MessageTeam {
  readonly machine: Machine;
  readonly launches: Launch[] = [];
  readonly #layout: MessageLayout;
  readonly #controls: number[] = [];
  readonly #segments: number[] = [];
  readonly #used: number[] = [];
  readonly #streams: ReturnType<Machine['stream']>[] = [];
  readonly #direct: boolean;

  /** `start` is the number of the last fragment of all pairs, as if so many had been sent before. */
  constructor(options: MachineOptions, ranks: number, direct: boolean, start = 0) {
    this.machine = new Machine({ warpSize: 4, ...options });
    this.#direct = direct;
    this.#layout = { ranks, slotBytes: SLOT_BYTES };
    for (let rank = 0; rank < ranks; rank++) {
      const pool = messagePoolBytes(this.#layout);
      this.#controls.push(this.machine.region(`control ${rank}`, POOL_WORD + 4, rank, { zeroed: true }));
      this.#segments.push(
        this.machine.region(`segment ${rank}`, PAGE + pool + BUFFERS, rank, { zeroed: true }),
      );
      this.#used.push(PAGE + pool);
      this.#streams.push(this.machine.stream(rank));
      this.machine.write('u32', this.#controls[rank]! + POOL_WORD, PAGE | 1);
      for (let peer = 0; start !== 0 && peer < ranks; peer++) this.#begin(rank, peer, start);
    }
  }

  #begin(rank: number, peer: number, start: number): void {
    const pool = this.#segments[rank]! + PAGE;
    const outbox = pool + outboxOffset(this.#layout, peer);
    for (const field of ['credit', 'sent', 'seen'] as const) {
      this.machine.write('u32', outbox + Outbox.fields[field].offset, start);
    }
    const inbox = this.inbox(rank, peer);
    this.machine.write('u32', inbox + Inbox.fields.received.offset, start);
    for (let slot = 0; slot < MESSAGE_SLOTS; slot++) {
      // What was there last is no number that is due.
      this.machine.write('u32', inbox + Inbox.size + slot * slotStride(this.#layout), start - MESSAGE_SLOTS);
    }
  }

  inbox(rank: number, from: number): number {
    return this.#segments[rank]! + PAGE + inboxOffset(this.#layout, from);
  }

  #buffer(rank: number, bytes: number): number {
    const at = this.#used[rank]!;
    this.#used[rank] = Math.ceil((at + bytes + 16) / 16) * 16;
    return this.#segments[rank]! + at;
  }

  #places(rank: number): MessagePlaces {
    return {
      layout: this.#layout,
      rank,
      control: this.#controls[rank]!,
      segment: this.#segments[rank]!,
      pool: this.#segments[rank]! + PAGE,
      poolWord: POOL_WORD,
      direct: this.#direct,
      base: 0,
      indexAt: () => rank,
      peer: (peer) => {
        const control = this.#controls[peer]!;
        return { control, segment: this.#segments[peer]!, doorbell: control, process: 0 };
      },
    };
  }

  /** Queues transfers; rank r moves `roundBytes[r]` bytes of each stream at a time. Gives the check of the outcome. */
  queue(transfers: readonly Transfer[], roundBytes: readonly number[], next: () => number): () => void {
    const { machine } = this;
    const lists: Placed[][] = roundBytes.map(() => []);
    const checks = transfers.map(({ from, to, bytes, expected = bytes }, i) => {
      const data = Uint8Array.from({ length: bytes }, () => Math.floor(next() * 256));
      const source = this.#buffer(from, bytes);
      machine.writeArray(source, data);
      const target = this.#buffer(to, expected);
      machine.writeArray(target, new Uint8Array(expected + 16).fill(GUARD));
      lists[from]!.push({ kind: 'send', peer: to, bytes, purpose: 'send', address: source });
      lists[to]!.push({ kind: 'recv', peer: from, bytes: expected, purpose: 'send', address: target });
      return () => {
        const found = machine.readArray(target, Uint8Array, bytes + 1);
        expect([...found], `transfer ${i} from ${from} to ${to}`).toEqual([...data, GUARD]);
      };
    });
    lists.forEach((list, rank) => {
      const streams = messageStreams(rank, list);
      const size = roundBytes[rank]!;
      const rounds = roundsOf(streams, size);
      for (let round = 0; round < rounds && streams.length > 0; round++) {
        const parts = streams.map((one) =>
          partsOf(one, round, rounds, size).map(({ message, target, from, bytes }) => ({
            address: message.address + from,
            target: target === undefined ? 0 : target.address + from,
            outside: 0,
            outsideTarget: 0,
            bytes,
            total: message.bytes,
            isFirst: from === 0,
            purpose: message.purpose,
          })),
        );
        const room = messageWorkBytes(streams.length, mostParts(streams));
        const descriptor = machine.region('work', room, rank, { zeroed: true });
        machine.writeArray(descriptor, encodeMessageWork(descriptor, this.#places(rank), streams, parts));
        this.launches.push(this.#streams[rank]!.launch(PROGRAM, { descriptor, blocks: streams.length }));
      }
    });
    return () => {
      for (const check of checks) check();
    };
  }
}

const SIZES = [0, 1, 17, 100, SLOT_BYTES, SLOT_BYTES + 1, 400, 700];

function scenario(ranks: number, direct: boolean) {
  return (options: MachineOptions & { seed: number }) => {
    const next = random(options.seed + 1);
    // Numbers that are about to begin again from 0, now and then.
    const team = new MessageTeam(options, ranks, direct, pick([0, 2 ** 32 - 3], next));
    const checks = Array.from({ length: 2 }, () => {
      const transfers = Array.from({ length: 1 + Math.floor(next() * 5) }, () => ({
        from: Math.floor(next() * ranks),
        to: Math.floor(next() * ranks),
        bytes: pick(SIZES, next),
      }));
      const rounds = Array.from({ length: ranks }, () => pick([Number.POSITIVE_INFINITY, 64, 300], next));
      return team.queue(transfers, rounds, next);
    });
    team.machine.run();
    for (const { statuses } of team.launches) expect(statuses.every((status) => status === 0)).toBe(true);
    for (const check of checks) check();
  };
}

describe('messages arrive under every schedule', () => {
  for (const ranks of [2, 3]) {
    it(`from buffer to buffer, ${ranks} ranks`, () => {
      expect(explore(scenario(ranks, true), { seeds: effort(60, 1000) })).toBeGreaterThan(100);
    });
    it(`through slots alone, ${ranks} ranks`, () => {
      expect(explore(scenario(ranks, false), { seeds: effort(40, 500) })).toBeGreaterThan(50);
    });
  }

  it('and more of them than there are slots', () => {
    const run = (options: MachineOptions & { seed: number }) => {
      const next = random(options.seed + 1);
      const team = new MessageTeam(options, 2, true);
      const transfers = Array.from({ length: MESSAGE_SLOTS + 13 }, () => ({
        from: 0,
        to: 1,
        bytes: pick([3, 300], next),
      }));
      const check = team.queue(transfers, [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY], next);
      team.machine.run();
      check();
    };
    explore(run, { seeds: effort(10, 100) });
  });
});

describe('a message of another size', () => {
  it.each([
    [10, 20],
    [600, 20],
    [20, 600],
  ])('%i bytes instead of %i ends the receiver, which remembers what it wanted', (bytes, expected) => {
    const run = (options: MachineOptions & { seed: number }) => {
      const team = new MessageTeam(options, 2, true);
      const all = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
      team.queue([{ from: 0, to: 1, bytes, expected }], all, random(1));
      // The sender of a large one waits until somebody ends its wait.
      team.machine.abort(0, { atStep: 100_000 });
      team.machine.run();
      expect(team.launches[1]!.statuses).toEqual([STATUS_WRONG_MESSAGE]);
      const inbox = team.inbox(1, 0);
      expect(team.machine.read('u64', inbox + Inbox.fields.wantedBytes.offset)).toBe(BigInt(expected));
      expect(team.machine.read('u32', inbox + Inbox.fields.fault.offset)).toBe(1);
    };
    explore(run, { seeds: 3 });
  });
});

/**
 * Sends and receives on host memory: batches of messages between pairs of ranks, all under way at the same time.
 *
 * One block does the messages of one peer and direction, in order. The program is compiled to be resumable, so that the
 * thread of a rank takes turns between its blocks: all ranks may send before any receives.
 *
 * - What fits a slot of the receiver's inbox is written there at once, and the sender goes on.
 * - Of a larger fragment the sender publishes where it is. When the receiver has come, it says where the bytes belong,
 *   and both copy chunks, whoever is free: a root that gathers is helped by those that send, and has its own hands
 *   full otherwise.
 * - Arrays outside of the heap are not reached by programs. A sender says where in its process they are, and a receiver
 *   has the thread that runs it copy (CopyRequest); the sender waits.
 * - Where ranks do not reach each other's buffers, a message goes through the slots, fragment by fragment.
 *
 * A rank may offer less than a whole message at a time (arrays that move through staging in pieces): the sender then
 * publishes smaller fragments, and a receiver takes a part of a fragment and the rest later.
 *
 * Source: eager and rendezvous protocols of message-passing libraries; chunks from a common counter (self-scheduling).
 */

import { type KernelBuilder, kernel, type Value } from '../kernel/builder.js';
import type { Program, Traits } from '../kernel/ir.js';
import { array, struct } from '../kernel/layout.js';
import { POOL_STATE } from './connected-work.js';
import { CREDIT_BATCH, Inbox, MESSAGE_SLOTS, Outbox, SharedCopy, Slot } from './message-memory.js';
import { reduceCopy } from './reduce-copy.js';

/** Status of a program that got a message other than the one that was due; `fault` of the inbox tells where. */
export const STATUS_WRONG_MESSAGE = 17;

/** Status of a program for which memory could not be read; the state of the request tells of which block. */
export const STATUS_NOT_READ = 18;

/** A copy that the thread which runs the program is asked for; as device/host/copy-requests.ts has it. */
export const CopyRequest = struct('CopyRequest', {
  /** COPY_STATE. */
  state: 'u32',
  /** Process whose memory the source is; 0 for the own one. */
  process: 'u32',
  target: 'u64',
  targetBytes: 'u64',
  source: 'u64',
  sourceBytes: 'u64',
  gap: array('u8', 24),
});

export const COPY_STATE = { none: 0, asked: 1, done: 2, failed: 3 } as const;

/** Up to so many bytes packets of our own are faster than a call to the engine's memory copy. */
const PACKET_COPY_BYTES = 256;

export interface MessageChunk {
  /** Parts of a fragment. */
  readonly parts: number;
  /** Bytes of a part, multiples of 64. */
  readonly least: number;
  readonly most: number;
}

/**
 * Chunks in which both ends copy a fragment: a part of it, so that neither end waits long for the other's last chunk,
 * and large enough that taking a chunk on costs little beside copying it.
 */
export const MESSAGE_CHUNK: MessageChunk = { parts: 8, least: 16384, most: 262144 };

/** What a block does. */
export const MESSAGE_BLOCKS = { send: 0, receive: 1, copy: 2 } as const;

export const MessageWork = struct('MessageWork', {
  /** Own control block: the doorbell that waits sleep on. */
  control: 'ptr',
  /** MessageBlock per block. */
  blocks: 'ptr',
  /** Own segment: what offsets that others get are counted from. */
  segment: 'ptr',
  /** CopyRequest per block. */
  requests: 'ptr',
  /** Address in the process of the heap's first byte. */
  base: 'u64',
  /** Byte offset of the word in every control block that says where the rank's pool is. */
  poolWord: 'u32',
  /** 1 where ranks reach each other's buffers. */
  direct: 'u32',
  /** Bytes that a slot holds, and from one to the next. */
  slotBytes: 'u64',
  slotStride: 'u64',
});

/** The messages of one peer and direction. */
export const MessageBlock = struct('MessageBlock', {
  /** MESSAGE_BLOCKS. */
  kind: 'u32',
  parts: 'u32',
  /** Messages that begin with one of them. */
  begins: 'u32',
  /** MessagePart per part, in order. */
  firstPart: 'ptr',
  peerControl: 'ptr',
  peerSegment: 'ptr',
  peerDoorbell: 'ptr',
  /** Process of the peer. */
  process: 'u32',
  /** Own Outbox to the peer, or Inbox from it. */
  own: 'ptr',
  /** Offset in the peer's pool of its Inbox or Outbox for this rank. */
  remote: 'u64',
});

/** A message, or what of it is moved in this run. */
export const MessagePart = struct('MessagePart', {
  address: 'ptr',
  /** Of copies: where to. */
  target: 'ptr',
  /** Addresses in the process instead of these, for arrays outside of the heap; else 0. */
  outside: 'u64',
  outsideTarget: 'u64',
  bytes: 'u64',
  /** Bytes of the whole message. */
  total: 'u64',
  /** MESSAGE_PURPOSES. */
  purpose: 'u32',
});

/** Copies by packets when there are few bytes. */
function copyBytes(k: KernelBuilder, to: Value<'ptr'>, from: Value<'ptr'>, bytes: Value<'u64'>): void {
  k.if(
    bytes.le(PACKET_COPY_BYTES),
    () => {
      reduceCopy(k, {
        sources: [from],
        targets: [to],
        bytes,
        elementBytes: 1,
        combine: ([packet]) => packet!,
      });
    },
    () => k.copy(to, from, bytes),
  );
}

class MessageProgram {
  readonly #k: KernelBuilder;
  readonly #work: Value<'ptr'>;
  readonly #chunk: MessageChunk;
  readonly #block: Value<'ptr'>;

  constructor(k: KernelBuilder, work: Value<'ptr'>, chunk: MessageChunk) {
    this.#k = k;
    this.#chunk = chunk;
    this.#work = work;
    k.sleepOn(k.field(work, MessageWork, 'control'));
    this.#block = k.field(work, MessageWork, 'blocks').offset(k.blockIndex.mul(MessageBlock.size));
  }

  build(): void {
    const k = this.#k;
    const kind = k.field(this.#block, MessageBlock, 'kind');
    k.if(kind.eq(MESSAGE_BLOCKS.copy), () => {
      this.#parts((part) => {
        const bytes = k.field(part, MessagePart, 'bytes');
        const target = k.field(part, MessagePart, 'target');
        const address = k.field(part, MessagePart, 'address');
        const [from, to] = (['outside', 'outsideTarget'] as const).map((name) =>
          k.field(part, MessagePart, name),
        ) as [Value<'u64'>, Value<'u64'>];
        k.if(
          from.or(to).ne(0),
          () => {
            const source = k.select(from.ne(0), from, this.#process(address));
            this.#request(k.u32(0), source, k.select(to.ne(0), to, this.#process(target)), bytes);
          },
          () => copyBytes(k, target, address, bytes),
        );
      });
      k.return();
    });
    k.if(
      kind.eq(MESSAGE_BLOCKS.send),
      () => this.#send(),
      () => this.#receive(),
    );
  }

  #parts(body: (part: Value<'ptr'>) => void): void {
    const k = this.#k;
    const first = k.field(this.#block, MessageBlock, 'firstPart');
    const end = first.offset(k.field(this.#block, MessageBlock, 'parts').mul(MessagePart.size));
    k.for(first, end, MessagePart.size, body);
  }

  /** Address in the process of an address of the heap. */
  #process(address: Value<'ptr'>): Value<'u64'> {
    return this.#k.field(this.#work, MessageWork, 'base').add(address.cast('u64'));
  }

  /** Has the thread copy between addresses of processes, and waits for it. Ends the program where that fails. */
  #request(process: Value<'u32'>, from: Value<'u64'>, to: Value<'u64'>, bytes: Value<'u64'>): void {
    const k = this.#k;
    const request = k.field(this.#work, MessageWork, 'requests').offset(k.blockIndex.mul(CopyRequest.size));
    k.setField(request, CopyRequest, 'process', process);
    k.setField(request, CopyRequest, 'target', to);
    k.setField(request, CopyRequest, 'targetBytes', bytes);
    k.setField(request, CopyRequest, 'source', from);
    k.setField(request, CopyRequest, 'sourceBytes', bytes);
    k.setField(request, CopyRequest, 'state', COPY_STATE.asked, { order: 'release' });
    const state = () => k.field(request, CopyRequest, 'state', 0, { order: 'acquire' });
    k.wait(() => state().ne(COPY_STATE.asked));
    k.if(state().eq(COPY_STATE.failed), () => k.return(STATUS_NOT_READ));
  }

  /** What the peer has for this rank, once it has announced its pool. */
  #remote(): Value<'ptr'> {
    const k = this.#k;
    const word = k
      .field(this.#block, MessageBlock, 'peerControl')
      .offset(k.field(this.#work, MessageWork, 'poolWord'));
    const read = () => k.load('u32', word, { order: 'acquire' });
    k.wait(() => read().ne(POOL_STATE.none));
    const offset = read().and(~3 >>> 0);
    return k
      .field(this.#block, MessageBlock, 'peerSegment')
      .offset(offset)
      .offset(k.field(this.#block, MessageBlock, 'remote'));
  }

  get #begins(): Value<'u32'> {
    return this.#k.field(this.#block, MessageBlock, 'begins');
  }

  #wake(): void {
    this.#k.wake(this.#k.field(this.#block, MessageBlock, 'peerDoorbell'));
  }

  /** Slot of the fragment after `number`, of the inbox at an address. */
  #slot(inbox: Value<'ptr'>, number: Value<'u32'>): Value<'ptr'> {
    const k = this.#k;
    const index = number.and(MESSAGE_SLOTS - 1).cast('u64');
    return inbox.offset(index.mul(k.field(this.#work, MessageWork, 'slotStride'))).offset(Inbox.size);
  }

  #send(): void {
    const k = this.#k;
    const own = k.field(this.#block, MessageBlock, 'own');
    // Before anything is waited for: others look whether this rank has come so far.
    k.setField(own, Outbox, 'begun', k.field(own, Outbox, 'begun').add(this.#begins));
    k.setField(own, Outbox, 'busy', 1);
    const inbox = this.#remote();
    const slotBytes = k.field(this.#work, MessageWork, 'slotBytes');
    const isDirect = k.field(this.#work, MessageWork, 'direct').ne(0);
    const sent = k.variable('u32', k.field(own, Outbox, 'sent'));
    const seen = k.variable('u32', k.field(own, Outbox, 'seen'));
    /** Whether the peer has taken a fragment. */
    const isTaken = (number: Value<'u32'>) =>
      k.field(own, Outbox, 'credit', 0, { order: 'acquire' }).sub(number).bitcast('i32').ge(0);
    const publish = (slot: Value<'ptr'>, number: Value<'u32'>) => {
      k.setField(slot, Slot, 'number', number, { order: 'release' });
      // Also read by whoever carries the fragment, where ranks do not share memory.
      k.if(
        isDirect,
        () => k.setField(own, Outbox, 'sent', number),
        () => k.setField(own, Outbox, 'sent', number, { order: 'release' }),
      );
      sent.set(number);
      this.#wake();
    };

    this.#parts((part) => {
      const address = k.field(part, MessagePart, 'address');
      const outside = k.field(part, MessagePart, 'outside');
      const bytes = k.field(part, MessagePart, 'bytes');
      const done = k.variable('u64', 0);
      k.loop((loop) => {
        const at = done.value;
        const rest = bytes.sub(at);
        const number = sent.value.add(1);
        const needed = number.sub(MESSAGE_SLOTS);
        k.if(seen.value.sub(needed).bitcast('i32').lt(0), () => {
          k.wait(() => isTaken(needed));
          seen.set(k.field(own, Outbox, 'credit', 0, { order: 'acquire' }));
          k.setField(own, Outbox, 'seen', seen.value);
        });
        const slot = this.#slot(inbox, sent.value);
        const from = address.offset(at);
        k.setField(slot, Slot, 'purpose', k.field(part, MessagePart, 'purpose'));
        k.setField(slot, Slot, 'total', k.field(part, MessagePart, 'total'));
        k.if(
          isDirect.and(rest.gt(slotBytes)),
          () => {
            const segment = k.field(this.#work, MessageWork, 'segment').cast('u64');
            k.setField(slot, Slot, 'bytes', rest);
            const isForeign = outside.ne(0);
            k.setField(slot, Slot, 'source', k.select(isForeign, outside, from.cast('u64').sub(segment)));
            k.setField(slot, SharedCopy, 'isForeign', isForeign.cast('u32'));
            // What earlier bytes have left there must not look like an answer.
            k.setField(slot, SharedCopy, 'accepted', number.sub(1));
            k.setField(slot, SharedCopy, 'claimed', 0);
            k.setField(slot, SharedCopy, 'copied', 0);
            publish(slot, number);
            const isAccepted = () =>
              k.field(slot, SharedCopy, 'accepted', 0, { order: 'acquire' }).eq(number);
            k.wait(() => isAccepted().or(isTaken(number)));
            k.if(isAccepted(), () => {
              const target = k
                .field(this.#block, MessageBlock, 'peerSegment')
                .offset(k.field(slot, SharedCopy, 'target'));
              this.#copyTogether(slot, target, from, rest);
            });
            k.wait(() => isTaken(number));
            done.set(bytes);
          },
          () => {
            const moved = rest.min(slotBytes);
            k.setField(slot, Slot, 'bytes', moved);
            copyBytes(k, slot.offset(Slot.size), from, moved);
            publish(slot, number);
            done.set(at.add(moved));
          },
        );
        k.if(done.value.ge(bytes), () => loop.break());
      });
    });
    k.setField(own, Outbox, 'busy', 0);
  }

  /** Copies chunks until nobody has to take one on any more. */
  #copyTogether(slot: Value<'ptr'>, to: Value<'ptr'>, from: Value<'ptr'>, bytes: Value<'u64'>): void {
    const k = this.#k;
    const chunk = bytes
      .div(this.#chunk.parts)
      .max(this.#chunk.least)
      .min(this.#chunk.most)
      .and(~63n & 0xffff_ffffn);
    const claimed = k.fieldAddress(slot, SharedCopy, 'claimed');
    const copied = k.fieldAddress(slot, SharedCopy, 'copied');
    k.loop((loop) => {
      const at = k.atomic('add', 'u32', claimed, 1).cast('u64').mul(chunk);
      k.if(at.ge(bytes), () => loop.break());
      k.copy(to.offset(at), from.offset(at), chunk.min(bytes.sub(at)));
      k.atomic('add', 'u32', copied, 1);
    });
    const all = bytes.add(chunk).sub(1).div(chunk).cast('u32');
    k.wait(() => k.load('u32', copied, { order: 'acquire' }).eq(all));
  }

  #receive(): void {
    const k = this.#k;
    const own = k.field(this.#block, MessageBlock, 'own');
    k.setField(own, Inbox, 'begun', k.field(own, Inbox, 'begun').add(this.#begins));
    k.setField(own, Inbox, 'busy', 1);
    const outbox = this.#remote();
    const slotBytes = k.field(this.#work, MessageWork, 'slotBytes');
    const received = k.variable('u32', k.field(own, Inbox, 'received'));
    const taken = k.variable('u64', k.field(own, Inbox, 'taken'));

    this.#parts((part) => {
      const address = k.field(part, MessagePart, 'address');
      const outside = k.field(part, MessagePart, 'outside');
      const bytes = k.field(part, MessagePart, 'bytes');
      const total = k.field(part, MessagePart, 'total');
      const purpose = k.field(part, MessagePart, 'purpose');
      const done = k.variable('u64', 0);
      k.loop((loop) => {
        const at = done.value;
        const number = received.value.add(1);
        const slot = this.#slot(own, received.value);
        k.wait(() => k.field(slot, Slot, 'number', 0, { order: 'acquire' }).eq(number));
        const isDue = k
          .field(slot, Slot, 'total')
          .eq(total)
          .and(k.field(slot, Slot, 'purpose').eq(purpose));
        k.if(isDue.not(), () => {
          k.setField(own, Inbox, 'wantedBytes', total);
          k.setField(own, Inbox, 'wantedPurpose', purpose);
          k.setField(own, Inbox, 'fault', 1);
          k.return(STATUS_WRONG_MESSAGE);
        });
        const size = k.field(slot, Slot, 'bytes');
        const skip = taken.value;
        const moved = size.sub(skip).min(bytes.sub(at));
        const to = address.offset(at);
        const isHere = size.le(slotBytes);
        const inSlot = slot.offset(skip).offset(Slot.size);
        const isForeign = isHere.not().and(k.field(slot, SharedCopy, 'isForeign').ne(0));
        const source = k.field(slot, Slot, 'source').add(skip);
        const from = k.field(this.#block, MessageBlock, 'peerSegment').offset(source);
        k.if(
          outside.ne(0).or(isForeign),
          () => {
            const process = k.field(this.#block, MessageBlock, 'process');
            const mapped = this.#process(k.select(isHere, inSlot, from));
            this.#request(
              k.select(isForeign, process, 0),
              k.select(isForeign, source, mapped),
              k.select(outside.ne(0), outside.add(at), this.#process(to)),
              moved,
            );
          },
          () =>
            k.if(
              isHere,
              () => copyBytes(k, to, inSlot, moved),
              () => {
                k.if(
                  moved.eq(size),
                  () => {
                    const segment = k.field(this.#work, MessageWork, 'segment').cast('u64');
                    k.setField(slot, SharedCopy, 'target', to.cast('u64').sub(segment));
                    k.setField(slot, SharedCopy, 'accepted', number, { order: 'release' });
                    this.#wake();
                    this.#copyTogether(slot, to, from, size);
                  },
                  () => k.copy(to, from, moved),
                );
              },
            ),
        );
        done.set(at.add(moved));
        k.if(
          skip.add(moved).ge(size),
          () => {
            taken.set(0);
            received.set(number);
            k.setField(own, Inbox, 'taken', 0);
            k.setField(own, Inbox, 'received', number);
            k.if(size.gt(slotBytes).or(number.and(CREDIT_BATCH - 1).eq(0)), () => {
              k.setField(outbox, Outbox, 'credit', number, { order: 'release' });
              this.#wake();
            });
          },
          () => {
            taken.set(skip.add(moved));
            k.setField(own, Inbox, 'taken', skip.add(moved));
          },
        );
        k.if(done.value.ge(bytes), () => loop.break());
      });
    });
    k.setField(own, Inbox, 'busy', 0);
  }
}

/** The program of batches of sends and receives; its descriptor is MessageWork. */
export function hostMessages(traits: Traits, chunk: MessageChunk = MESSAGE_CHUNK): Program {
  return kernel('host_messages', traits, (k, work) => new MessageProgram(k, work, chunk).build());
}

/**
 * Carries the rings of one rank over the network, so that its programs find neighbours in memory.
 *
 * A program fills the slots of a mirror as if it were its successor's memory. The proxy sends each slice to the
 * successor's proxy, which writes it into the slot of its own rank and moves the tail there; credits travel
 * back on the same connection. A slot is sent from where it is: the program does not fill it again before its
 * credit has come, and that comes when the other end has all of its bytes. So no more than the slots of a
 * connection are ever under way, which bounds what waits in a socket.
 *
 * A neighbour that is lost, says nonsense or reports trouble sets the rank's abort word; the trouble is passed on
 * around the ring, from thread to thread, since the ranks' own threads may be blocked in an operation.
 *
 * Source: NCCL 2.30's proxy of the network transport (slots, sizes, credits).
 */
import type { Socket } from 'node:net';
import { TuttiError } from '../../errors/tutti-error.js';
import { FrameReader } from './frame-reader.js';
import { encodeLinkFrame, FRAME_BYTES, type LinkFrame, type Side } from './link-frame.js';
import type { LinkSocket } from './link-socket.js';
import type { RingChannelAddresses, RingMemory } from './ring-memory.js';
import { RollCall, type RollCallNote, type RollCallOptions } from './roll-call.js';

/**
 * Most steps that a program may go beyond its published tail with its next slice: two of a slice, and up to three
 * by which counters are rounded up at its start. While there is credit for so many, it cannot wait for credit.
 */
const NEXT_STEPS = 5;

/** Slices up to so many bytes are about latency: their credits are returned only when somebody may need them. */
const SMALL_SLICE = 4096;

/** Writes of up to so many bytes are put together first: copying costs less than a list of buffers. */
const JOINED_BYTES = 2048;

/** Longest wait for the neighbours' farewell, ms: they are about to say it. */
const FAREWELL_MS = 1000;
/** The same after a failure, when they may be gone. */
const FAILED_FAREWELL_MS = 200;

export interface RingProxyOptions {
  readonly memory: RingMemory;
  readonly channels: readonly RingChannelAddresses[];
  /** Lets the rank's waiting programs look again. */
  readonly wake: () => void;
  /**
   * Word of the rank's trouble, 0 for none, and how to set it: false when it was set before.
   * Its values are not interpreted here.
   */
  readonly trouble: { read(): number; raise(word: number): boolean; isValid(word: number): boolean };
  /** Words for what neighbours can do to us. */
  readonly words: Readonly<Record<'lost' | 'corrupt' | 'closed', Readonly<Record<Side, number>>>>;
  /** For finding out who keeps this rank waiting. */
  readonly rollCall: Pick<RollCallOptions, 'ranks' | 'isWaiting' | 'calls' | 'report' | 'patienceMs'> & {
    readonly size: number;
  };
  /** Trouble that was not known before, with words for people. */
  readonly onTrouble: (word: number, detail: string) => void;
}

interface Channel {
  readonly addresses: RingChannelAddresses;
  /** Steps of the mirror that have been sent, and credits that have come back for them. */
  sent: number;
  credited: number;
  /** Steps that have come, and credits returned for them. */
  received: number;
  returned: number;
  /** The last slice that came was small. */
  small: boolean;
}

interface Neighbour {
  readonly socket: Socket;
  /** It has said that it leaves: the end of its connection is no loss. */
  saidGoodbye: boolean;
  readonly closed: Promise<void>;
}

function refuse(what: string): TuttiError {
  return new TuttiError('remoteError', what);
}

const SUSPICIONS = [undefined, 'silent', 'absent'] as const;

function encodeNote(note: RollCallNote): Uint8Array {
  switch (note.kind) {
    case 'probe':
      return encodeLinkFrame('probe');
    case 'state':
      return encodeLinkFrame('state', 0, note.calls >>> 0, note.waiting ? 1 : 0);
    case 'suspect': {
      const { rank, kind } = note.suspicion;
      return encodeLinkFrame('suspect', 0, rank, SUSPICIONS.indexOf(kind));
    }
  }
}

/** Undefined for frames of other kinds, and for a suspicion that makes no sense. */
function decodeNote({ kind, bytes, step }: LinkFrame, size: number): RollCallNote | undefined {
  if (kind === 'probe') return { kind };
  if (kind === 'state') return { kind, calls: bytes | 0, waiting: step === 1 };
  const what = SUSPICIONS[step];
  if (kind !== 'suspect' || what === undefined || bytes >= size) return undefined;
  return { kind, suspicion: { rank: bytes, kind: what } };
}

export class RingProxy {
  readonly #options: RingProxyOptions;
  readonly #memory: RingMemory;
  readonly #channels: Channel[];
  readonly #neighbours: Record<Side, Neighbour>;
  readonly #rollCall: RollCall;
  /** Trouble that the neighbours have been told of. */
  #told = 0;
  /** Something came that a program may wait for. */
  #wakeDue = false;
  #closing: Promise<void> | undefined;

  constructor(options: RingProxyOptions, links: Readonly<Record<Side, LinkSocket>>) {
    this.#options = options;
    this.#memory = options.memory;
    this.#channels = options.channels.map((addresses) => ({
      addresses,
      sent: 0,
      credited: 0,
      received: 0,
      returned: 0,
      small: false,
    }));
    this.#neighbours = { next: this.#meet('next', links.next), prev: this.#meet('prev', links.prev) };
    this.#rollCall = new RollCall({
      ...options.rollCall,
      send: (side, note) => this.#write(side, encodeNote(note)),
    });
    links.prev.start(new FrameReader(this.#dataSink), (error) => this.#corrupt('prev', error));
    links.next.start(new FrameReader(this.#creditSink), (error) => this.#corrupt('next', error));
  }

  #meet(side: Side, { socket }: LinkSocket): Neighbour {
    const closed = new Promise<void>((resolve) => {
      let reason = 'its connection ended without a goodbye';
      socket.on('error', (error) => {
        reason = `its connection failed: ${error.message}`;
      });
      const onClose = () => {
        this.#lost(side, reason);
        resolve();
      };
      if (socket.closed) queueMicrotask(onClose);
      else socket.once('close', onClose);
    });
    return { socket, saidGoodbye: false, closed };
  }

  /** To be called every now and then: looks, and asks who is missing when nothing comes for a while. */
  tick(): void {
    if (this.#closing !== undefined) return;
    this.look();
    this.#rollCall.tick();
  }

  // ---- own memory to the network ----

  /** Sends whatever the programs have published since the last look. */
  look(): void {
    if (this.#closing !== undefined) return;
    this.#passTroubleOn();
    this.#send();
  }

  #send(): void {
    const { tail } = this.#memory.layout;
    for (let index = 0; index < this.#channels.length; index++) {
      const channel = this.#channels[index]!;
      if (this.#memory.hasMoved(channel.addresses.outgoing + tail, channel.sent)) {
        this.#sendSlices(index, channel);
      }
      this.#returnCredit(index, channel);
    }
  }

  #returnCredit(index: number, channel: Channel): void {
    const head = channel.addresses.credits + this.#memory.layout.head;
    if (!this.#memory.hasMoved(head, channel.returned)) return;
    const enough = channel.received + NEXT_STEPS <= channel.returned + this.#memory.layout.steps;
    if (channel.small && enough) return;
    channel.returned = this.#memory.counter(head);
    this.#write('prev', encodeLinkFrame('credit', index, 0, channel.returned));
  }

  #sendSlices(index: number, channel: Channel): void {
    const { layout } = this.#memory;
    const { outgoing } = channel.addresses;
    const tail = this.#memory.counter(outgoing + layout.tail);
    const parts: Uint8Array[] = [];
    let total = 0;
    // Steps that are further back than there are slots were skipped: programs round their counters up.
    let step = Math.max(channel.sent, tail - layout.steps);
    let bytes = this.#memory.sliceBytes(outgoing, step);
    while (step < tail) {
      let end = step + 1;
      let following: number | undefined;
      while (end < tail) {
        following = this.#memory.sliceBytes(outgoing, end);
        if (following !== undefined) break;
        end++;
      }
      if (bytes !== undefined) {
        parts.push(encodeLinkFrame('data', index, bytes, step, end));
        if (bytes > 0) parts.push(this.#memory.slice(outgoing, step, bytes));
        total += FRAME_BYTES + bytes;
      }
      step = end;
      bytes = following;
    }
    channel.sent = tail;
    if (total <= JOINED_BYTES) {
      if (total > 0) this.#write('next', Buffer.concat(parts, total));
      return;
    }
    const { socket } = this.#neighbours.next;
    socket.cork();
    for (const part of parts) this.#write('next', part);
    socket.uncork();
  }

  #write(side: Side, bytes: Uint8Array): void {
    const { socket } = this.#neighbours[side];
    if (socket.writable) socket.write(bytes);
  }

  // ---- from the network into own memory ----

  readonly #dataSink = {
    accept: (frame: LinkFrame): Uint8Array | undefined => {
      if (frame.kind !== 'data') return this.#acceptNote(frame);
      const channel = this.#channelOf(frame);
      const { steps, slotBytes } = this.#memory.layout;
      const { step, tail, bytes } = frame;
      const returned = this.#memory.counter(channel.addresses.credits + this.#memory.layout.head);
      if (step < channel.received || tail <= step || tail > returned + steps) {
        throw refuse(
          `it sent steps ${step} to ${tail} of channel ${frame.channel}; ${channel.received} to ${returned + steps} were due`,
        );
      }
      const room = Math.min(tail - step, steps - (step & (steps - 1))) * slotBytes;
      if (bytes > room) throw refuse(`it sent ${bytes} bytes for step ${step}; ${room} have room`);
      return this.#memory.slice(channel.addresses.receiver, step, bytes);
    },
    complete: (frame: LinkFrame): void => {
      if (frame.kind !== 'data') {
        this.#completeNote('prev', frame);
        return;
      }
      const channel = this.#channels[frame.channel]!;
      channel.received = frame.tail;
      channel.small = frame.bytes <= SMALL_SLICE;
      this.#memory.setCounter(channel.addresses.receiver + this.#memory.layout.tail, frame.tail);
      this.#returnCredit(frame.channel, channel);
      this.#wakeDue = true;
    },
    settle: (): void => this.#settle(),
  };

  readonly #creditSink = {
    accept: (frame: LinkFrame): undefined => {
      if (frame.kind !== 'credit') return this.#acceptNote(frame);
      const channel = this.#channelOf(frame);
      // Programs round up, so a credit may run ahead of the data, but by less than all slots.
      const most = channel.sent + this.#memory.layout.steps;
      if (frame.step < channel.credited || frame.step > most) {
        throw refuse(
          `it returned credit ${frame.step} on channel ${frame.channel}; ${channel.credited} to ${most} were due`,
        );
      }
    },
    complete: (frame: LinkFrame): void => {
      if (frame.kind !== 'credit') {
        this.#completeNote('next', frame);
        return;
      }
      const channel = this.#channels[frame.channel]!;
      const before = channel.credited;
      const { head, tail, steps } = this.#memory.layout;
      channel.credited = frame.step;
      this.#memory.setCounter(channel.addresses.sender + head, frame.step);
      // Looked at after the head was set: a program that goes on from here sees the new head by itself.
      const published = this.#memory.counter(channel.addresses.outgoing + tail);
      if (published + NEXT_STEPS > before + steps) this.#wakeDue = true;
    },
    settle: (): void => this.#settle(),
  };

  /** Wakes the programs once for all frames that came together. */
  #settle(): void {
    if (!this.#wakeDue) return;
    this.#wakeDue = false;
    this.#rollCall.progressed();
    this.#options.wake();
  }

  #channelOf(frame: LinkFrame): Channel {
    const channel = this.#channels[frame.channel];
    if (channel !== undefined) return channel;
    throw refuse(`it sent a frame for channel ${frame.channel} of ${this.#channels.length}`);
  }

  #acceptNote(frame: LinkFrame): undefined {
    if (frame.kind === 'goodbye' || decodeNote(frame, this.#options.rollCall.size) !== undefined) return;
    if (frame.kind === 'trouble' && this.#options.trouble.isValid(frame.bytes)) return;
    throw refuse(`it sent a frame of kind ${frame.kind} that has no place here`);
  }

  #completeNote(from: Side, frame: LinkFrame): void {
    const note = decodeNote(frame, this.#options.rollCall.size);
    if (note !== undefined) {
      if (this.#closing === undefined) this.#rollCall.hear(from, note);
      return;
    }
    if (frame.kind === 'trouble') {
      this.#meetTrouble(
        frame.bytes,
        `reported by the ${from === 'prev' ? 'predecessor' : 'successor'} in the ring`,
        from,
      );
      return;
    }
    this.#neighbours[from].saidGoodbye = true;
    // All ranks meet before they close, so a program that still waits waits in vain. All ranks know of a
    // closing without us.
    if (this.#closing === undefined) {
      this.#raise(this.#options.words.closed[from], 'it has closed its communicator');
    }
  }

  // ---- trouble ----

  /** Tells the neighbours, all but one, that this rank gives up, whatever the reason; they pass it on. */
  tell(word: number, except?: Side): void {
    if (this.#told !== 0) return;
    this.#told = word;
    for (const side of ['next', 'prev'] as const) {
      if (side !== except) this.#write(side, encodeLinkFrame('trouble', 0, word));
    }
  }

  /** Passes on what somebody else has set the rank's trouble to. */
  #passTroubleOn(): void {
    const word = this.#options.trouble.read();
    const { closed } = this.#options.words;
    if (word !== 0 && word !== closed.next && word !== closed.prev) this.tell(word);
  }

  /** Trouble that comes from a side: told first, since the process may end when it learns of it. */
  #meetTrouble(word: number, detail: string, from: Side): void {
    if (this.#closing !== undefined) return;
    this.tell(this.#options.trouble.read() || word, from);
    this.#raise(word, detail);
  }

  #raise(word: number, detail: string): void {
    const isNew = this.#options.trouble.raise(word);
    this.#options.wake();
    if (isNew) this.#options.onTrouble(word, detail);
  }

  #lost(side: Side, reason: string): void {
    if (!this.#neighbours[side].saidGoodbye) {
      this.#meetTrouble(this.#options.words.lost[side], reason, side);
    }
  }

  /** The connection is cut by now. */
  #corrupt(side: Side, error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.#meetTrouble(this.#options.words.corrupt[side], reason, side);
  }

  // ---- the end ----

  /** Lets what is under way arrive, says goodbye, and ends both connections within a second or so. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const failed = this.#told !== 0;
    if (!failed) this.#send();
    const sides = Object.values(this.#neighbours);
    this.#write('next', encodeLinkFrame('goodbye'));
    this.#write('prev', encodeLinkFrame('goodbye'));
    for (const { socket } of sides) socket.end();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, failed ? FAILED_FAREWELL_MS : FAREWELL_MS);
    });
    await Promise.race([Promise.all(sides.map(({ closed }) => closed)), late]);
    clearTimeout(timer);
    for (const { socket } of sides) socket.destroy();
  }
}

/**
 * Carries the rings of one rank over the network, so that its programs find neighbours in memory.
 *
 * A program fills the slots of a mirror as if it were its successor's memory. The proxy sends each slice to the
 * successor's proxy, which writes it into the slot of its own rank and moves the tail there; credits travel
 * back on the same connection (ring-carrier.ts).
 *
 * A neighbour that is lost, says nonsense or reports trouble sets the rank's abort word; the trouble is passed on
 * around the ring, from thread to thread, since the ranks' own threads may be blocked in an operation.
 *
 * Source: NCCL 2.30's proxy of the network transport (slots, sizes, credits).
 */
import type { Socket } from 'node:net';
import { CarrierState, RING_LINKS } from './carrier-state.js';
import { SocketOutput } from './frame-output.js';
import { FrameReader } from './frame-reader.js';
import { encodeLinkFrame, type LinkFrame, type Side } from './link-frame.js';
import type { LinkSocket } from './link-socket.js';
import { RingCarrier, refuse } from './ring-carrier.js';
import type { RingChannelAddresses, RingMemory } from './ring-memory.js';
import { RollCall, type RollCallNote, type RollCallOptions } from './roll-call.js';

/** Longest wait for the neighbours' farewell, ms: they are about to say it. */
const FAREWELL_MS = 1000;
/** The same after a failure, when they may be gone. */
const FAILED_FAREWELL_MS = 200;

export interface RingProxyOptions {
  readonly memory: RingMemory;
  readonly channels: readonly RingChannelAddresses[];
  /** Shared with programs that carry while they wait; left out where none does. */
  readonly state?: CarrierState;
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

interface Neighbour {
  readonly socket: Socket;
  /** It has said that it leaves: the end of its connection is no loss. */
  saidGoodbye: boolean;
  readonly closed: Promise<void>;
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
  readonly #carrier: RingCarrier;
  readonly #neighbours: Record<Side, Neighbour>;
  readonly #rollCall: RollCall;
  /** Trouble that the neighbours have been told of. */
  #told = 0;
  /** Something came that a program may wait for. */
  #wakeDue = false;
  #closing: Promise<void> | undefined;

  constructor(options: RingProxyOptions, links: Readonly<Record<Side, LinkSocket>>) {
    this.#options = options;
    this.#neighbours = { next: this.#meet('next', links.next), prev: this.#meet('prev', links.prev) };
    this.#rollCall = new RollCall({
      ...options.rollCall,
      send: (side, note) => this.#write(side, encodeNote(note)),
    });
    const { channels, memory } = options;
    const state = options.state ?? CarrierState.own({ channels: channels.length, links: 2 });
    this.#carrier = new RingCarrier(
      memory,
      channels,
      state,
      {
        next: new SocketOutput(links.next.socket),
        prev: new SocketOutput(links.prev.socket),
      },
      this.#isPair,
    );
    const [prev, next] = [state.link(RING_LINKS.prev), state.link(RING_LINKS.next)];
    links.prev.start(new FrameReader(this.#dataSink, prev), (error) => this.#corrupt('prev', error));
    links.next.start(new FrameReader(this.#creditSink, next), (error) => this.#corrupt('next', error));
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
    this.#carrier.send();
  }

  #write(side: Side, bytes: Uint8Array): void {
    const { socket } = this.#neighbours[side];
    if (socket.writable) socket.write(bytes);
  }

  // ---- from the network into own memory ----

  /** Both neighbours are one rank, whose credits come with its slices. */
  get #isPair(): boolean {
    return this.#options.rollCall.size === 2;
  }

  readonly #dataSink = {
    accept: (frame: LinkFrame): Uint8Array | undefined => {
      if (frame.kind === 'data') return this.#carrier.acceptData(frame);
      if (frame.kind !== 'credit' || !this.#isPair) return this.#acceptNote(frame);
      this.#carrier.acceptCredit(frame);
      return undefined;
    },
    complete: (frame: LinkFrame): void => {
      if (frame.kind === 'data') {
        this.#carrier.completeData(frame);
        this.#wakeDue = true;
      } else this.#completeOther('prev', frame);
    },
    settle: (): void => this.#settle(),
  };

  readonly #creditSink = {
    accept: (frame: LinkFrame): undefined => {
      if (frame.kind !== 'credit' || this.#isPair) return this.#acceptNote(frame);
      this.#carrier.acceptCredit(frame);
    },
    complete: (frame: LinkFrame): void => this.#completeOther('next', frame),
    settle: (): void => this.#settle(),
  };

  #completeOther(from: Side, frame: LinkFrame): void {
    if (frame.kind !== 'credit') this.#completeNote(from, frame);
    else if (this.#carrier.completeCredit(frame)) this.#wakeDue = true;
  }

  /** A frame that a program has received and left to the proxy. Throws when it has no place here. */
  receiveNote(from: Side, frame: LinkFrame): void {
    this.#acceptNote(frame);
    this.#completeNote(from, frame);
  }

  /** Programs have received something. */
  progressed(): void {
    this.#rollCall.progressed();
  }

  /** Wakes the programs once for all frames that came together. */
  #settle(): void {
    this.#carrier.flushCredits();
    if (!this.#wakeDue) return;
    this.#wakeDue = false;
    this.#rollCall.progressed();
    this.#options.wake();
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
    if (!failed) this.#carrier.send();
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

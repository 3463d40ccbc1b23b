/**
 * Carries the messages between this rank and one peer over a connection of their own, in both directions.
 *
 * A fragment goes from the slot that the program filled into the slot that it is for; its slot is not filled again before
 * the peer's credit has come, so no more than the slots of an inbox are under way. The end that opened the connection
 * says so when it is ready, and the other sends nothing before: it would come with the end of the handshake. A link that breaks without a goodbye,
 * or on which something comes that was not due, is trouble.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { FrameReader } from './frame-reader.js';
import { encodeLinkFrame, type LinkFrame } from './link-frame.js';
import type { LinkSocket } from './link-socket.js';
import type { MessageLinkAddresses, MessageMemory } from './message-memory.js';

export interface MessageLinkOptions {
  readonly memory: MessageMemory;
  readonly addresses: MessageLinkAddresses;
  /** This end opened the connection. */
  readonly hasOpened: boolean;
  /** Lets the rank's waiting programs look again. */
  readonly wake: () => void;
  /** The peer is gone, or sends nonsense. */
  readonly onTrouble: (kind: 'lost' | 'corrupt', reason: string) => void;
}

export class MessageLink {
  readonly #options: MessageLinkOptions;
  readonly #link: LinkSocket;
  /** Fragments that have been carried, that have come, and credit that has been returned and got: 32-bit counters. */
  #carried = 0;
  #received = 0;
  #returned = 0;
  #credited = 0;
  #wakeDue = false;
  #isOpen: boolean;
  #isEnding = false;

  constructor(options: MessageLinkOptions, link: LinkSocket) {
    this.#options = options;
    this.#link = link;
    this.#isOpen = options.hasOpened;
    const { socket } = link;
    let reason = 'its connection for messages ended without a goodbye';
    socket.on('error', (error) => {
      reason = `its connection for messages failed: ${error.message}`;
    });
    const onClose = () => {
      if (!this.#isEnding) this.#options.onTrouble('lost', reason);
    };
    // One that waited for this rank may have been closed meanwhile.
    if (socket.closed) queueMicrotask(onClose);
    else socket.once('close', onClose);
    link.start(new FrameReader(this.#sink), (error) => {
      this.#isEnding = true;
      this.#options.onTrouble('corrupt', error instanceof Error ? error.message : String(error));
    });
    if (options.hasOpened) socket.write(encodeLinkFrame('probe'));
    this.look();
  }

  /** Sends whatever the program has published since the last look. */
  look(): void {
    const { memory, addresses } = this.#options;
    const { socket } = this.#link;
    if (!this.#isOpen || !socket.writable) return;
    const sent = memory.counter(addresses.sent);
    const taken = memory.counter(addresses.mirrorCredit);
    if (sent === this.#carried && taken === this.#returned) return;
    socket.cork();
    while (this.#carried !== sent) {
      const number = (this.#carried + 1) | 0;
      const { purpose, total, bytes } = memory.fragment(addresses.mirrorSlots, number);
      socket.write(encodeLinkFrame('data', purpose, bytes, total, number >>> 0));
      if (bytes > 0) socket.write(memory.data(addresses.mirrorSlots, number, bytes));
      this.#carried = number;
    }
    if (taken !== this.#returned) {
      this.#returned = taken;
      socket.write(encodeLinkFrame('credit', 0, 0, taken >>> 0));
    }
    socket.uncork();
  }

  readonly #sink = {
    accept: (frame: LinkFrame): Uint8Array | undefined => {
      const { memory, addresses } = this.#options;
      if (frame.kind === 'credit') {
        // Nobody takes more than was sent, nor less than before.
        const ahead = (frame.step - this.#credited) | 0;
        if (ahead < 0 || ((this.#carried - frame.step) | 0) < 0) {
          throw refuse(
            `it returned credit ${frame.step}; ${this.#credited >>> 0} to ${this.#carried >>> 0} were due`,
          );
        }
        return undefined;
      }
      if (frame.kind === 'goodbye' || (frame.kind === 'probe' && !this.#options.hasOpened)) return undefined;
      if (frame.kind !== 'data') throw refuse(`it sent a frame of kind ${frame.kind} that has no place here`);
      const due = (this.#received + 1) >>> 0;
      const { slots, slotBytes } = memory.layout;
      const room = (memory.counter(addresses.mirrorCredit) + slots - due) | 0;
      if (frame.tail !== due || room < 0) throw refuse(`it sent fragment ${frame.tail}, ${due} was due`);
      if (frame.bytes > slotBytes)
        throw refuse(`it sent a fragment of ${frame.bytes} bytes; ${slotBytes} have room`);
      return memory.data(addresses.slots, due, frame.bytes);
    },
    complete: (frame: LinkFrame): void => {
      const { memory, addresses } = this.#options;
      if (frame.kind === 'goodbye') {
        this.#isEnding = true;
        return;
      }
      if (frame.kind === 'probe') {
        this.#isOpen = true;
        this.look();
        return;
      }
      this.#wakeDue = true;
      if (frame.kind === 'credit') {
        this.#credited = frame.step | 0;
        memory.setCounter(addresses.credit, this.#credited);
        return;
      }
      const { channel: purpose, step: total, bytes, tail } = frame;
      this.#received = tail | 0;
      memory.publish(addresses.slots, tail | 0, { purpose, total, bytes });
    },
    settle: (): void => {
      if (!this.#wakeDue) return;
      this.#wakeDue = false;
      this.#options.wake();
    },
  };

  /** Lets what is under way arrive, says goodbye and ends the connection. */
  close(): void {
    this.look();
    this.#isEnding = true;
    const { socket } = this.#link;
    if (socket.writable) socket.end(encodeLinkFrame('goodbye'));
  }

  destroy(): void {
    this.#isEnding = true;
    this.#link.socket.destroy();
  }
}

function refuse(what: string): TuttiError {
  return new TuttiError('remoteError', what);
}

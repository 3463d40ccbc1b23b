/**
 * Carries the messages between this rank and one peer over a connection of their own, in both directions
 * (message-carrier.ts).
 *
 * The end that opened the connection says so when it is ready, and the other sends nothing before: it would come with
 * the end of the handshake. A link that breaks without a goodbye, or on which something comes that was not due, is
 * trouble.
 */
import { CarrierState, FIRST_MESSAGE_LINK, type LinkState } from './carrier-state.js';
import { SocketOutput } from './frame-output.js';
import { FrameReader } from './frame-reader.js';
import { encodeLinkFrame, type LinkFrame } from './link-frame.js';
import type { LinkSocket } from './link-socket.js';
import { MessageCarrier } from './message-carrier.js';
import type { MessageLinkAddresses, MessageMemory } from './message-memory.js';

export interface MessageLinkOptions {
  readonly memory: MessageMemory;
  readonly addresses: MessageLinkAddresses;
  /** Shared with programs that carry while they wait; left out where none does. */
  readonly state?: LinkState;
  /** This end opened the connection. */
  readonly hasOpened: boolean;
  /** Lets the rank's waiting programs look again. */
  readonly wake: () => void;
  /** From now on the peer takes what is sent. */
  readonly onOpen?: () => void;
  /** The peer is gone, or sends nonsense. */
  readonly onTrouble: (kind: 'lost' | 'corrupt', reason: string) => void;
}

export class MessageLink {
  readonly #options: MessageLinkOptions;
  readonly #link: LinkSocket;
  readonly #carrier: MessageCarrier;
  #wakeDue = false;
  #isOpen: boolean;
  #isEnding = false;

  constructor(options: MessageLinkOptions, link: LinkSocket) {
    this.#options = options;
    this.#link = link;
    this.#isOpen = options.hasOpened;
    const { socket } = link;
    const links = FIRST_MESSAGE_LINK + 1;
    const state = options.state ?? CarrierState.own({ channels: 0, links }).link(FIRST_MESSAGE_LINK);
    this.#carrier = new MessageCarrier(options.memory, options.addresses, state, new SocketOutput(socket));
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
    link.start(new FrameReader(this.#sink, state), (error) => {
      this.#isEnding = true;
      this.#options.onTrouble('corrupt', error instanceof Error ? error.message : String(error));
    });
    if (options.hasOpened) socket.write(encodeLinkFrame('probe'));
    this.look();
  }

  /** Both ends have said that they are ready, and neither has said goodbye. */
  get isOpen(): boolean {
    return this.#isOpen && !this.#isEnding;
  }

  /** Sends whatever the program has published since the last look. */
  look(): void {
    if (this.#isOpen && this.#link.socket.writable) this.#carrier.send();
  }

  readonly #sink = {
    accept: (frame: LinkFrame): Uint8Array | undefined => {
      if (frame.kind === 'goodbye' || (frame.kind === 'probe' && !this.#options.hasOpened)) return undefined;
      return this.#carrier.accept(frame);
    },
    complete: (frame: LinkFrame): void => {
      if (frame.kind === 'goodbye') {
        this.#isEnding = true;
        return;
      }
      if (frame.kind === 'probe') {
        this.#isOpen = true;
        this.#options.onOpen?.();
        this.look();
        return;
      }
      this.#wakeDue = true;
      this.#carrier.complete(frame);
    },
    settle: (): void => {
      if (!this.#wakeDue) return;
      this.#wakeDue = false;
      this.#options.wake();
    },
  };

  /** A frame that a program has received and left to the proxy. Throws when it has no place here. */
  receiveNote(frame: LinkFrame): void {
    this.#sink.accept(frame);
    this.#sink.complete(frame);
  }

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

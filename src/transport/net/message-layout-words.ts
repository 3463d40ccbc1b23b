/** Where messages with peers lie, as words of the state that the proxy shares with programs. */
import { type CarrierState, LINK, type LinkState, STATE } from './carrier-state.js';
import type { MessageLinkAddresses, MessageLinkLayout } from './message-memory.js';

const LAYOUT = [
  'slots',
  'slotStride',
  'slotBytes',
  'number',
  'purpose',
  'total',
  'bytes',
  'data',
] as const satisfies (keyof MessageLinkLayout)[];

const PLACES = [
  'sent',
  'credit',
  'slots',
  'mirrorSlots',
  'mirrorCredit',
] as const satisfies (keyof MessageLinkAddresses)[];

function write<K extends string>(
  i32: Int32Array,
  at: number,
  names: readonly K[],
  values: Readonly<Record<K, number>>,
): void {
  for (const [index, name] of names.entries()) i32[at + index] = values[name];
}

function read<K extends string>(i32: Int32Array, at: number, names: readonly K[]): Record<K, number> {
  return Object.fromEntries(names.map((name, index) => [name, i32[at + index]! >>> 0])) as Record<K, number>;
}

/** The layout is the same for all peers. */
export function writeMessageLayout(state: CarrierState, layout: MessageLinkLayout): void {
  write(state.i32, state.word('owner') + STATE.messageLayout, LAYOUT, layout);
}

export function readMessageLayout(state: CarrierState): MessageLinkLayout {
  return read(state.i32, state.word('owner') + STATE.messageLayout, LAYOUT);
}

export function writePlaces({ i32, word }: LinkState, places: MessageLinkAddresses): void {
  write(i32, word + LINK.places, PLACES, places);
}

export function readPlaces({ i32, word }: LinkState): MessageLinkAddresses {
  return read(i32, word + LINK.places, PLACES);
}

/**
 * What to launch for a batch of sends and receives, and its descriptors.
 *
 * The two ends of a message agree on its channels because those depend on its size and the team alone. A batch of many
 * messages becomes several launches; the k-th message of a pair and direction goes into the same one at both ends.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import type { Program, Traits } from '../../kernel/ir.js';
import { CHUNK128_BYTES } from '../warp-chunk.js';
import { type AreaSizes, GPU_AREA, LINE_BYTES } from './area.js';
import type { GpuTeam } from './call.js';
import { messages } from './messages.js';
import { MAX_MESSAGE_GROUPS, MAX_MESSAGES, messageWork } from './work.js';

/** One send or receive as one of its two ends sees it. */
export interface GpuMessage {
  readonly kind: 'send' | 'recv';
  readonly peer: number;
  readonly bytes: number;
  readonly address: number | bigint;
  /** Of a receive: the name of the buffer (names.ts); `STAGED` where the sender cannot reach it. */
  readonly name?: number | bigint;
}

/** How messages are cut; tests make it small. */
export interface MessageForm {
  readonly threads: number;
  readonly unroll: number;
  readonly mostLowLatency: number;
  /** The same where lines of 128 bytes arrive whole: LL and LL128. */
  readonly mostLowLatencyWith128: number;
  readonly mostLowLatency128: number;
  /** Bytes that are worth a channel: of small messages, one line per thread; of large ones, a few packets each. */
  readonly smallGrain: number;
  readonly grain128: number;
  readonly largeGrain: number;
  readonly sizes: AreaSizes;
  readonly roundMask?: number;
}

export const MESSAGE_FORM: MessageForm = {
  threads: 512,
  unroll: 8,
  mostLowLatency: 256 * 1024,
  mostLowLatencyWith128: 128 * 1024,
  mostLowLatency128: 2 * 1024 * 1024,
  smallGrain: 2048,
  grain128: 8192,
  largeGrain: 32768,
  sizes: GPU_AREA,
};

export interface MessageLaunch {
  /** Equal keys mean equal programs. */
  readonly key: string;
  readonly blocks: number;
  readonly threads: number;
  /** Whether it may begin before the launch before is over; see GpuLaunch. */
  readonly overlap: boolean;
  /** Options of the ptx target for the program, besides the architecture. */
  readonly compile: {
    readonly threads: number;
    readonly blocksPerMultiprocessor: number;
    readonly descriptorBytes: number;
  };
  build(traits: Traits): Program;
  /** Writes the descriptor. `areas` by rank, as this rank addresses them; `maps` as in GpuArguments. */
  write(view: DataView, base: number, areas: readonly (number | bigint)[], maps?: number | bigint): void;
}

const WARP = 32;

/** Shares of channels are whole lines of the second-level cache. */
const GRAIN = 128;

/** Channels of a message of so many bytes: equal at both ends. All groups of a batch fit the GPU at the same time. */
function channelsOf(team: GpuTeam, bytes: number, form: MessageForm): number {
  // Messages of a rank with itself wait for nobody.
  const groups = 2 * Math.max(1, team.ranks - 1) * team.ranksPerDevice;
  const most = Math.max(1, Math.min(form.sizes.pairChannels, Math.floor(team.multiprocessors / groups)));
  return Math.min(most, Math.max(1, Math.ceil(bytes / grainOf(team, bytes, form))));
}

/** Whether there are LL128 lines: whole warps store them. */
function has128({ wholeLines }: GpuTeam, { threads }: MessageForm): boolean {
  return wholeLines && threads % WARP === 0;
}

function mostLowLatencyOf(team: GpuTeam, form: MessageForm): number {
  return has128(team, form) ? form.mostLowLatencyWith128 : form.mostLowLatency;
}

function grainOf(team: GpuTeam, bytes: number, form: MessageForm): number {
  if (bytes <= mostLowLatencyOf(team, form)) return form.smallGrain;
  return has128(team, form) && bytes <= form.mostLowLatency128 ? form.grain128 : form.largeGrain;
}

interface Message {
  readonly bytes: number;
  readonly address: number | bigint;
  readonly name: number | bigint;
}

interface Group {
  readonly who: number;
  readonly messages: Message[];
}

function requireMessage(team: GpuTeam, { peer, bytes, kind, name }: GpuMessage): void {
  const refuse = (what: string): never => {
    throw new TuttiError('invalidArgument', what);
  };
  if (!Number.isInteger(peer) || peer < 0 || peer >= team.ranks) {
    refuse(`a message with rank ${peer}; ranks are 0 to ${team.ranks - 1}`);
  }
  if (!Number.isSafeInteger(bytes) || bytes < 0)
    refuse(`a message of ${bytes} bytes; a number from 0 is needed`);
  if (kind === 'recv' && name === undefined)
    refuse(`a receive from rank ${peer} without a name of its buffer`);
}

/** The messages by peer and direction, in their order; those of a rank with itself as pairs of addresses. */
function groupsOf(team: GpuTeam, self: number, list: readonly GpuMessage[]): Group[] {
  const groups = new Map<number, Message[]>();
  const own: { send: GpuMessage[]; recv: GpuMessage[] } = { send: [], recv: [] };
  for (const message of list) {
    requireMessage(team, message);
    const { kind, peer, bytes, address, name = 0 } = message;
    if (peer === self) own[kind].push(message);
    if (bytes === 0 || peer === self) continue;
    const who = 2 * peer + (kind === 'recv' ? 1 : 0);
    const group = groups.get(who);
    if (group === undefined) groups.set(who, [{ bytes, address, name }]);
    else group.push({ bytes, address, name });
  }
  if (own.send.length !== own.recv.length || own.send.some(({ bytes }, i) => bytes !== own.recv[i]!.bytes)) {
    throw new TuttiError(
      'invalidUsage',
      `rank ${self} sends itself ${own.send.length} messages and receives ${own.recv.length} in one group, or their sizes differ; put both, of one size, into one group()`,
      { rank: self },
    );
  }
  const copies = own.send
    .map(({ bytes, address }, i) => ({ bytes, address, name: own.recv[i]!.address }))
    .filter(({ bytes }) => bytes > 0);
  if (copies.length > 0) groups.set(2 * self, copies);
  return [...groups].map(([who, ofGroup]) => ({ who, messages: ofGroup }));
}

/** The launches of a batch of messages of rank `self`, in order; none where nothing moves. */
export function gpuMessages(
  team: GpuTeam,
  self: number,
  list: readonly GpuMessage[],
  form: MessageForm = MESSAGE_FORM,
): MessageLaunch[] {
  const groups = groupsOf(team, self, list);
  const perLaunch = Math.max(
    1,
    Math.floor(MAX_MESSAGES / MAX_MESSAGE_GROUPS),
    Math.floor(MAX_MESSAGES / (2 * team.ranks)),
  );
  const launches: MessageLaunch[] = [];
  for (let from = 0; groups.some(({ messages: m }) => m.length > from); from += perLaunch) {
    const part = groups
      .map(({ who, messages: m }) => ({ who, messages: m.slice(from, from + perLaunch) }))
      .filter(({ messages: m }) => m.length > 0);
    launches.push(launchOf(team, self, part, form));
  }
  return launches;
}

/** Throws `internalError` where threads have no lines of their own in a bank: rounds would overwrite each other. */
function requireLines({ threads, sizes }: MessageForm, wholeLines: boolean): void {
  const require = (bank: number, bytes: number) => {
    if (bank >= bytes) return;
    throw new TuttiError(
      'internalError',
      `banks of ${bank} bytes for messages; ${threads} threads need ${bytes}`,
    );
  };
  require(sizes.pairBankBytes, threads * LINE_BYTES);
  if (wholeLines) require(sizes.pairBank128Bytes, (threads / WARP) * CHUNK128_BYTES);
}

/** Launches that take long gain nothing by overlapping (shape.ts). */
const BRIEF_BYTES = 8 * 1024 * 1024;
const isBrief = ({ bytes }: Message): boolean => bytes < BRIEF_BYTES;

function launchOf(team: GpuTeam, self: number, groups: readonly Group[], form: MessageForm): MessageLaunch {
  const { ranks, addressing } = team;
  const wholeLines = has128(team, form);
  requireLines(form, wholeLines);
  const { threads, unroll, mostLowLatency128, sizes, roundMask } = form;
  const work = messageWork(ranks);
  const blocksOf = ({ messages: m }: Group) =>
    Math.max(...m.map(({ bytes }) => channelsOf(team, bytes, form)));
  const extra = roundMask === undefined ? {} : { roundMask };
  const parameters = {
    ranks,
    addressing,
    threads,
    unroll,
    mostLowLatency: mostLowLatencyOf(team, form),
    mostLowLatency128,
    wholeLines,
    sizes,
    ...extra,
  };
  return {
    key: ['Messages', ranks, addressing, threads, unroll, wholeLines ? 'LL128' : 'LL'].join('/'),
    blocks: groups.reduce((sum, group) => sum + blocksOf(group), 0),
    threads,
    overlap: team.ranksPerDevice === 1 && groups.every(({ messages: m }) => m.every(isBrief)),
    compile: { threads, blocksPerMultiprocessor: 1, descriptorBytes: work.size },
    build: (traits) => messages(traits, parameters),
    write: (view, base, areas, maps = 0) => {
      const at = work.at(view, base);
      at.set('maps', maps).set('self', self);
      areas.forEach((area, rank) => {
        at.set('areas', area, (rank - self + ranks) % ranks);
      });
      let block = 0;
      let message = 0;
      groups.forEach((group, g) => {
        at.set('who', group.who, g).set('firstBlock', block, g).set('firstMessage', message, g);
        for (const { bytes, address, name } of group.messages) {
          const share = Math.ceil(bytes / (channelsOf(team, bytes, form) * GRAIN)) * GRAIN;
          at.set('address', address, message).set('name', name, message);
          at.set('bytes', bytes, message).set('share', share, message);
          at.set('channels', Math.ceil(bytes / share), message);
          message++;
        }
        block += blocksOf(group);
      });
      at.set('firstBlock', block, groups.length).set('firstMessage', message, groups.length);
    },
  };
}

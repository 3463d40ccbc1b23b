/**
 * The watchdog's thread. It looks at the boards of this process's ranks: one that has work on its GPU and shows no sign
 * of life has a blocked event loop. Then this thread does what that one cannot: it looks after the processes of the
 * peers and the time limit, and sets the abort words, which ends the kernels.
 */
import { type MessagePort, workerData } from 'node:worker_threads';
import { isAlive, type ProcessIdentity } from '../../system/process-liveness.js';
import { encodeTrouble, type Trouble } from '../team.js';
import { RankBoard } from './rank-board.js';

/** Milliseconds between two looks. */
const LOOK_MS = 100;

/** A rank without a sign of life for so long is taken for blocked, ms: far longer than a turn of an event loop. */
const BLOCKED_MS = 500;

/** A rank to look after. */
export interface Watched {
  readonly rank: number;
  readonly heap: SharedArrayBuffer;
  /** Addresses in the heap of its board, and of all boards that can be reached. */
  readonly board: number;
  readonly boards: readonly number[];
  /** 0: no limit. */
  readonly timeoutMs: number;
  readonly context: number;
  readonly streams: readonly number[];
  /** Ranks of other processes. */
  readonly peers: readonly { readonly rank: number; readonly process: ProcessIdentity }[];
}

export interface WatchdogStart {
  readonly port: MessagePort;
  /** Module with `areBusy` of stream-probe.ts. */
  readonly probe: string;
}

export type ToWatchdog =
  | { readonly kind: 'add'; readonly id: number; readonly watched: Watched }
  /** A mark in a stream of another library is behind work of the rank. */
  | { readonly kind: 'event'; readonly id: number; readonly event: number }
  | { readonly kind: 'remove'; readonly id: number };

type Probe = Pick<typeof import('./stream-probe.js'), 'areBusy'>;

interface State {
  readonly watched: Watched;
  readonly i32: Int32Array;
  readonly events: number[];
  beat: number;
  /** When the rank last showed a sign of life. */
  since: number;
  /** Its streams are idle, or its kernels were ended: nothing to do until it lives again. */
  settled: boolean;
}

const { port, probe } = workerData as WatchdogStart;
const states = new Map<number, State>();
const loaded = import(probe) as Promise<Probe>;
const { abort: ABORT, beat: BEAT, pending: PENDING } = RankBoard.fields;
const word = (board: number, { offset }: { offset: number }) => (board + offset) >>> 2;

function raise({ watched, i32 }: State, trouble: Trouble): void {
  for (const board of watched.boards) {
    Atomics.compareExchange(i32, word(board, ABORT), 0, encodeTrouble(trouble));
  }
}

function isBusy({ areBusy }: Probe, { watched: { context, streams }, events }: State): boolean {
  try {
    return areBusy(context, streams, events);
  } catch {
    return false;
  }
}

function look(asks: Probe, state: State, now: number): void {
  const { watched, i32 } = state;
  const beat = Atomics.load(i32, word(watched.board, BEAT));
  if (beat !== state.beat || Atomics.load(i32, word(watched.board, PENDING)) === 0) {
    Object.assign(state, { beat, since: now, settled: false });
    return;
  }
  const silent = now - state.since;
  if (state.settled || silent < BLOCKED_MS) return;
  const dead = watched.peers.find(({ process }) => !isAlive(process));
  const overdue = watched.timeoutMs > 0 && silent > watched.timeoutMs + LOOK_MS;
  if (dead === undefined && !overdue) return;
  state.settled = true;
  if (!isBusy(asks, state)) return;
  raise(
    state,
    dead === undefined
      ? { kind: 'stalled', culprit: watched.rank }
      : { kind: 'peerDied', culprit: dead.rank },
  );
}

port.on('message', (message: ToWatchdog) => {
  if (message.kind === 'add') {
    const { id, watched } = message;
    const i32 = new Int32Array(watched.heap);
    states.set(id, { watched, i32, events: [], beat: 0, since: performance.now(), settled: false });
  } else if (message.kind === 'event') {
    states.get(message.id)?.events.push(message.event);
  } else {
    states.delete(message.id);
    port.postMessage(message.id);
  }
});

loaded.then(
  (asks) => {
    setInterval(() => {
      const now = performance.now();
      for (const state of states.values()) look(asks, state, now);
    }, LOOK_MS);
  },
  () => {},
);

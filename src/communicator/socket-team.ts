/**
 * Teams whose ranks do not share memory: rings over sockets.
 *
 * Ring programs write to their neighbours' memory. Here the neighbours are played by mirrors in the rank's own
 * heap, one pair per channel, and a proxy thread carries what appears in them over TCP (see
 * transport/net/ring-proxy.ts). The doorbell that programs ring for a neighbour is the proxy's.
 */

import type { Bootstrap } from '../bootstrap/bootstrap.js';
import { readRetryRule } from '../bootstrap/dial.js';
import type { SocketAddress } from '../bootstrap/socket-address.js';
import { ControlBlock } from '../collectives/control-block.js';
import { CONTROL_BYTES, ReceiverControl, SenderControl, STEPS } from '../collectives/ring-connection.js';
import { DOORBELL_BYTES } from '../device/host/doorbell.js';
import type { HostDevice } from '../device/host/host-device.js';
import type { WaitPeer } from '../device/host/waiting.js';
import { errorText } from '../errors/error-text.js';
import { type ErrorCode, TuttiError } from '../errors/tutti-error.js';
import { libc } from '../system/libc.js';
import type { CarriedNetwork } from '../transport/net/carried-network.js';
import { CarrierState, FIRST_MESSAGE_LINK } from '../transport/net/carrier-state.js';
import type { RingChannelAddresses, RingLayout } from '../transport/net/ring-memory.js';
import type { HostModel } from '../tuning/host/host-model.js';
import { bufferOffsets, type RankAreaShape, receiverOffset, senderOffset } from './rank-area.js';
import type { Settings } from './settings.js';
import { SocketProxy } from './socket-proxy.js';
import { decodeSuspicion } from './suspicion.js';
import { decodeTrouble, encodeTrouble, type Team, type Trouble } from './team.js';

/** Purpose of the key that proxies prove themselves with. */
const KEY_PURPOSE = 'ring proxies';

export interface SocketTeamParts {
  readonly bootstrap: Bootstrap;
  readonly device: HostDevice;
  readonly settings: Settings;
  readonly model: HostModel;
  /** Own area (see rank-area.ts); belongs to the team from now on, unless opening it fails. */
  readonly area: number;
  readonly localSize: number;
  readonly peers: readonly WaitPeer[];
  readonly control: Pick<Team, 'allGather' | 'barrier' | 'onTrouble' | 'tell'>;
  /** Why memory is not shared. */
  readonly reason: string;
}

function layoutOf(shape: RankAreaShape): RingLayout {
  return {
    head: SenderControl.fields.head.offset,
    tail: ReceiverControl.fields.tail.offset,
    sizes: ReceiverControl.fields.size.offset,
    slots: bufferOffsets(shape).simple,
    steps: STEPS,
    slotBytes: shape.simpleBytes / STEPS,
  };
}

/** Everybody's bytes as JSON, in rank order. */
async function exchange<T>(control: SocketTeamParts['control'], label: string, own: T): Promise<T[]> {
  const all = await control.allGather(new TextEncoder().encode(JSON.stringify(own)), label);
  return all.map((bytes) => JSON.parse(new TextDecoder().decode(bytes)) as T);
}

/** How a rank's part of opening the team ended. */
interface Outcome<T> {
  readonly value?: T;
  readonly problem?: { readonly code: ErrorCode; readonly message: string; readonly rank?: number };
}

/**
 * Does a step that can fail at one rank alone, and lets all ranks know: they go on together, or all throw the
 * error of the first rank that had one.
 */
async function together<T>(parts: SocketTeamParts, label: string, act: () => Promise<T>): Promise<T[]> {
  let own: Outcome<T>;
  let failure: TuttiError | undefined;
  try {
    own = { value: await act() };
  } catch (error) {
    failure = TuttiError.is(error) ? error : new TuttiError('systemError', errorText(error));
    const { code, message, rank } = failure;
    own = { problem: { code, message, ...(rank === undefined ? {} : { rank }) } };
  }
  const outcomes = await exchange(parts.control, label, own);
  if (failure !== undefined) throw failure;
  outcomes.forEach(({ problem }, at) => {
    if (problem === undefined) return;
    const { code, message, rank = at } = problem;
    throw new TuttiError(code, `rank ${at} cannot reach its neighbours: ${message}`, { rank });
  });
  return outcomes.map(({ value }) => value!);
}

/** Rejects when the bootstrap loses a rank or is aborted; `stop` ends the listening. */
function watchLosses(bootstrap: Bootstrap): { readonly lost: Promise<never>; stop(): void } {
  const stops: (() => void)[] = [];
  const lost = new Promise<never>((_, reject) => {
    const report = (what: string) => (rank: number, reason: string) =>
      reject(new TuttiError('remoteError', `rank ${rank} ${what}: ${reason}`, { rank }));
    stops.push(bootstrap.onPeerLost(report('was lost while the ranks were connecting')));
    stops.push(bootstrap.onAbort(report('aborted while the ranks were connecting')));
  });
  lost.catch(() => {});
  return {
    lost,
    stop: () => {
      for (const stop of stops) stop();
    },
  };
}

export async function openSocketTeam(parts: SocketTeamParts): Promise<Team> {
  const { bootstrap, device, settings, model, area, localSize, peers, control, reason } = parts;
  const { rank, size } = bootstrap;
  const { shape } = settings;
  const listeners: ((trouble: Trouble, detail?: string) => void)[] = [];
  const report = (trouble: Trouble, detail?: string) => {
    for (const listener of listeners) listener(trouble, detail);
  };
  const prev = (rank + size - 1) % size;

  const mirrorBytes = CONTROL_BYTES + bufferOffsets(shape).simple + shape.simpleBytes;
  const memory: number[] = [];
  let proxy: SocketProxy | undefined;
  let addresses: readonly SocketAddress[] = [];
  const giveBack = () => {
    for (const address of memory.splice(0)) device.free(address);
  };
  try {
    const doorbell = device.allocate(DOORBELL_BYTES);
    const suspicion = device.allocate(4);
    memory.push(doorbell, suspicion);
    const links = FIRST_MESSAGE_LINK + size;
    const stateBytes = CarrierState.bytes({ channels: shape.channels, links });
    const state = device.allocate(stateBytes, 64);
    memory.push(state);
    const channels: RingChannelAddresses[] = [];
    for (let channel = 0; channel < shape.channels; channel++) {
      const mirror = device.allocate(mirrorBytes, CONTROL_BYTES);
      memory.push(mirror);
      channels.push({
        sender: area + senderOffset(shape, channel),
        receiver: area + receiverOffset(shape, channel),
        credits: mirror,
        outgoing: mirror + CONTROL_BYTES,
      });
    }
    const network: CarriedNetwork = {
      state,
      links,
      layout: layoutOf(shape),
      pair: size === 2,
      channels,
      doorbell,
    };
    const isCarried = size > 1 && device.baseAddress !== 0 && libc() !== null;
    if (size > 1) {
      const started = new SocketProxy(
        {
          buffer: device.buffer,
          baseAddress: device.baseAddress,
          network,
          control: area,
          calls: area + ControlBlock.fields.ringCalls.offset,
          suspicion,
          rank,
          size,
          key: bootstrap.deriveKey(KEY_PURPOSE),
          host: bootstrap.members[rank]!.listenHost,
        },
        (word, detail) => {
          const trouble = decodeTrouble(word);
          if (trouble !== undefined) report(trouble, detail);
        },
        (error) => report({ kind: 'aborted', culprit: rank }, error.message),
      );
      proxy = started;
      const { lost, stop } = watchLosses(bootstrap);
      const orLost = <T>(act: Promise<T>): Promise<T> => Promise.race([act, lost]);
      try {
        addresses = await together<SocketAddress>(parts, 'proxy addresses', () =>
          orLost(started.listening()),
        );
        const retry = readRetryRule(process.env);
        await together(parts, 'proxy connections', () =>
          orLost(started.connect(addresses[prev]!, settings.initTimeoutMs, retry)),
        );
        // Nobody sends before everybody is connected; a proxy that runs later finds the bytes in its socket.
        await orLost(started.run());
      } finally {
        stop();
      }
    }
    return {
      rank,
      size,
      device,
      localSize,
      shared: false,
      sharesThread: false,
      description: `${size} processes, rings over TCP (${reason})`,
      shape,
      model,
      area,
      areas: [],
      segments: [],
      peers,
      suspect: () => decodeSuspicion(Atomics.load(device.i32, suspicion >>> 2)),
      links: (channel) => ({
        nextReceiver: channels[channel]!.outgoing,
        prevSender: channels[channel]!.credits,
        nextDoorbell: doorbell,
        prevDoorbell: doorbell,
      }),
      carrier: doorbell,
      ...(isCarried ? { network } : {}),
      carryMessages: (peer, layout, places) => {
        const retry = readRetryRule(process.env);
        const timeoutMs = settings.initTimeoutMs;
        proxy?.carryMessages({ peer, address: addresses[peer]!, timeoutMs, retry, layout, places });
      },
      extend: (bytes, align) => {
        const address = device.allocate(bytes, align);
        memory.push(address);
        return address;
      },
      allGather: control.allGather,
      barrier: control.barrier,
      onTrouble: (listener) => {
        listeners.push(listener);
        control.onTrouble(listener);
      },
      tell: (trouble) => {
        proxy?.tell(encodeTrouble(trouble));
        control.tell(trouble);
      },
      close: async () => {
        await proxy?.close();
        await bootstrap.close();
        giveBack();
        device.free(area);
      },
    };
  } catch (error) {
    await proxy?.close();
    giveBack();
    throw error;
  }
}

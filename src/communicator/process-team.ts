/**
 * Teams of ranks in different processes of one host that map each other's memory, or, where they cannot,
 * reach each other over sockets.
 *
 * All ranks take the same way: each says what it could do, and memory is shared only when every rank could map
 * every other. A mapping is trusted after a challenge went through it: every rank writes random bytes into its
 * area, and every peer must read the very same.
 */

import { randomBytes } from 'node:crypto';
import type { Bootstrap } from '../bootstrap/bootstrap.js';
import { HostDevice, type PeerWindow } from '../device/host/host-device.js';
import { canReadPeers, permitPeerReads } from '../device/host/peer-reads.js';
import type { WaitPeer } from '../device/host/waiting.js';
import { errorText } from '../errors/error-text.js';
import { TuttiError } from '../errors/tutti-error.js';
import { ownIdentity, type ProcessIdentity } from '../system/process-liveness.js';
import { decodeAnnouncement, encodeAnnouncement } from '../system/shared-memory.js';
import type { HostModel } from '../tuning/host/host-model.js';
import { readHostModel } from './host-constants-file.js';
import { exchange, processControl } from './process-control.js';
import { rankAreaBytes, receiverOffset, senderOffset } from './rank-area.js';
import type { Settings } from './settings.js';
import { settingsDifference } from './settings-difference.js';
import { openSocketTeam } from './socket-team.js';
import type { RingLinks, Team } from './team.js';

/** Bytes of the challenge, written where the ring's control structures begin (nobody uses them yet). */
const CHALLENGE_BYTES = 16;

/** What a rank tells the others about itself. Plain JSON: it is sent once. */
interface Introduction {
  readonly process: ProcessIdentity;
  /** Announcement of the segment; absent with the reason why this rank cannot share memory. */
  readonly segment?: string;
  readonly reason?: string;
  /** Offset of the rank's area in its segment. */
  readonly area: number;
  readonly challenge: string;
  /** Where the challenge lies in the rank's process; absent where that is not known or nobody is to look there. */
  readonly address?: number;
  /** Of the cost model, from rank 0 for all. */
  readonly model?: HostModel;
  /** Why rank 0 has none. */
  readonly modelProblem?: string;
  /** Buffer sizes, channels, algorithm, protocol and check, which must be equal everywhere. */
  readonly settings: string;
}

function settingsKey(settings: Settings): string {
  const { shape, choices, ranksPerNode, switches, check } = settings;
  const { algorithm = 'auto', protocol = 'auto' } = choices;
  const perNode = ranksPerNode ?? 'auto';
  return JSON.stringify({ ...shape, algorithm, protocol, ranksPerNode: perNode, switches, check });
}

/** The cost model, or why there is none: the other ranks are told in either case. */
function ownModel(): Pick<Introduction, 'model' | 'modelProblem'> {
  try {
    return { model: readHostModel(process.env) };
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    return { modelProblem: error.message };
  }
}

/** Brings the ranks of a bootstrap together, over shared memory when all of them can. */
export async function openProcessTeam(bootstrap: Bootstrap, settings: Settings): Promise<Team> {
  const { rank, size } = bootstrap;
  const { shape } = settings;
  const localSize = bootstrap.members.filter(
    ({ hostHash }) => hostHash === bootstrap.members[rank]!.hostHash,
  ).length;
  const device = HostDevice.shared({ localRanks: localSize });
  const area = device.allocate(rankAreaBytes(shape), 4096);
  const windows: PeerWindow[] = [];
  const extensions: number[] = [];
  const giveBack = () => {
    for (const window of windows.splice(0)) window.close();
    for (const address of [area, ...extensions.splice(0)]) device.free(address);
  };
  try {
    const challenge = randomBytes(CHALLENGE_BYTES);
    device.u8.set(challenge, area + senderOffset(shape, 0));
    const announcement = device.announcement;
    const oneHost = localSize === size;
    const refusal = settings.sockets
      ? 'sockets were asked for'
      : !oneHost
        ? 'the ranks are on different hosts'
        : announcement === undefined
          ? device.windows.reason
          : undefined;
    const readable = refusal === undefined && settings.peerReads && permitPeerReads(device);
    const introductions = await exchange<Introduction>(bootstrap, 'introduction', {
      process: ownIdentity(),
      ...(refusal === undefined && announcement !== undefined
        ? { segment: new TextDecoder().decode(encodeAnnouncement(announcement)) }
        : { reason: refusal ?? 'no segment' }),
      area: area - device.segmentBase,
      challenge: challenge.toString('hex'),
      ...(readable && { address: device.baseAddress + area + senderOffset(shape, 0) }),
      settings: settingsKey(settings),
      ...(rank === 0 && ownModel()),
    });
    const { model, modelProblem } = introductions[0]!;
    if (model === undefined) {
      throw new TuttiError('invalidUsage', modelProblem ?? 'rank 0 has sent no cost model', { rank: 0 });
    }
    introductions.forEach((other, peer) => {
      if (other.settings !== introductions[0]!.settings) {
        throw new TuttiError(
          'invalidUsage',
          `ranks 0 and ${peer} have different settings: ${settingsDifference(introductions[0]!.settings, other.settings)}; ` +
            'set the same options and variables (NCCL_*, TUTTI_*) on all ranks',
          { rank: peer },
        );
      }
    });
    const peers: WaitPeer[] = oneHost
      ? introductions.flatMap((other, peer) =>
          peer === rank ? [] : [{ rank: peer, process: other.process }],
        )
      : [];

    const segments: number[] = [];
    let problem = introductions.find((other) => other.segment === undefined)?.reason;
    if (problem === undefined) {
      try {
        for (const other of introductions) {
          const window = device.openWindow(decodeAnnouncement(new TextEncoder().encode(other.segment!)));
          windows.push(window);
          segments.push(window.base);
        }
        introductions.forEach((other, peer) => {
          const at = segments[peer]! + other.area + senderOffset(shape, 0);
          const seen = Buffer.from(device.u8.slice(at, at + CHALLENGE_BYTES)).toString('hex');
          if (seen !== other.challenge) {
            throw new TuttiError(
              'systemError',
              `the memory of rank ${peer} does not show through its window`,
              {
                rank: peer,
              },
            );
          }
        });
      } catch (error) {
        problem = errorText(error);
      }
    }
    const problems = await exchange<{ problem?: string; reads: boolean }>(bootstrap, 'windows', {
      ...(problem !== undefined && { problem }),
      reads: problem === undefined && canReadPeers(device, introductions),
    });
    const shared = problems.every((other) => other.problem === undefined);
    device.u8.fill(0, area + senderOffset(shape, 0), area + senderOffset(shape, 0) + CHALLENGE_BYTES);
    // Nobody may use an area before its owner has wiped the challenge.
    await bootstrap.barrier('ready');
    device.unlinkSegment();

    // From here on the time limit is that of operations.
    const control = processControl(bootstrap, settings.timeoutMs);
    if (!shared) {
      const reason = problems.find((other) => other.problem !== undefined)?.problem ?? 'unknown';
      for (const window of windows.splice(0)) window.close();
      return await openSocketTeam({
        bootstrap,
        device,
        settings,
        model,
        area,
        localSize,
        peers,
        control,
        reason,
      });
    }
    const reads = problems.every((other) => other.reads);
    const areas = introductions.map((other, peer) => segments[peer]! + other.area);
    const next = (rank + 1) % size;
    const prev = (rank + size - 1) % size;
    return {
      rank,
      size,
      device,
      localSize,
      shared: true,
      sharesThread: false,
      description: `${size} processes of one host, memory shared`,
      shape,
      model,
      area,
      areas,
      segments,
      ...(reads && { processes: introductions.map((other) => other.process.pid) }),
      peers,
      links: (channel): RingLinks => ({
        nextReceiver: areas[next]! + receiverOffset(shape, channel),
        prevSender: areas[prev]! + senderOffset(shape, channel),
        nextDoorbell: areas[next]!,
        prevDoorbell: areas[prev]!,
      }),
      extend: (bytes, align) => {
        const address = device.allocate(bytes, align);
        extensions.push(address);
        return address;
      },
      ...control,
      close: async () => {
        await bootstrap.close();
        giveBack();
      },
    };
  } catch (error) {
    giveBack();
    await bootstrap.close().catch(() => {});
    throw error;
  }
}

/** Whole groups on real machines: topology, decisions and partition together, for many thousand random groups. */
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { largestChunk } from '#src/planning/chunk-size.js';
import { CommunicatorPlanner } from '#src/planning/communicator-planner.js';
import { type PlannedTask, PROTOCOL_GRAIN, usesCollnet, usesNvls } from '#src/planning/nccl-task.js';
import { MIN_CHANNEL_TRAFFIC, taskTraffic } from '#src/planning/partition.js';
import { fitsBudget, planBudget } from '#src/planning/plan-budget.js';
import type { GroupCollective, Plan, PlannedCollective } from '#src/planning/plan-group.js';
import { describeCluster } from '#src/topology/cluster.js';
import { readXml } from '#src/topology/xml/read.js';
import { tuningInput } from '#src/tuning/from-topology.js';
import { tuningTables } from '#src/tuning/model.js';
import { tuningSettings } from '#src/tuning/settings.js';
import type { TunerPlugin } from '#src/tuning/tuner.js';
import { effort } from '../effort.js';
import { readTopology } from '../topology/golden/folder.js';
import { anyGroup } from './any-group.js';

const SEED = Number(process.env.TUTTI_SEED ?? Date.now() % 1_000_000);

interface Machine {
  readonly name: string;
  readonly nodes: number;
  readonly collnet?: boolean;
  readonly env?: Readonly<Record<string, string>>;
}

function planners({ name, nodes, collnet = false, env = {} }: Machine, tuner?: TunerPlugin) {
  const folder = fileURLToPath(new URL(`../golden/${name}`, import.meta.url));
  const { root: xml } = readXml(readTopology(folder), { root: 'system' });
  const node = { xml };
  const { comm, settings } = describeCluster({
    nodes: Array.from({ length: nodes }, () => node),
    env,
    collnet,
  });
  const view = { comm, topology: settings, settings: tuningSettings(env) };
  const tables = tuningTables(tuningInput(view), tuner === undefined ? {} : { tuner });
  const of = (rank: number) => new CommunicatorPlanner({ comm, tables, rank });
  return { tables, first: of(0), last: of(comm.nRanks - 1) };
}

const MACHINES: readonly Machine[] = [
  { name: 'azure-ndv5-h100x8-8x400g', nodes: 1 },
  { name: 'azure-ndv5-h100x8-8x400g', nodes: 4 },
  { name: 'azure-ndv5-h100x8-8x400g', nodes: 2, collnet: true },
  { name: 'dgx-a100-8x200g', nodes: 2 },
  { name: 'rtx4090-x2-one-root-intel', nodes: 1 },
  { name: 'gh200-x1-1x400g', nodes: 4 },
  { name: 'l40s-x4-2socket-2x200g', nodes: 2, env: { NCCL_MAX_NCHANNELS: '3' } },
];

/** Groups over all machines. */
const GROUPS = effort(20_000, 100_000);

function plannedTask({ task, decision }: PlannedCollective): PlannedTask {
  const bytewise = task.function === 'Broadcast' || task.function === 'AllGather';
  return {
    function: task.function,
    algorithm: decision.algorithm,
    protocol: decision.protocol,
    count: bytewise ? task.count * task.elementBytes : task.count,
    elementBytes: bytewise ? 1 : task.elementBytes,
    maxChannels: decision.maxChannels,
    warps: decision.warps,
  };
}

/** What is wrong with the plans of a group; empty if nothing is. */
function faults(
  plans: readonly Plan[],
  group: readonly GroupCollective[],
  planner: CommunicatorPlanner,
): string[] {
  const found: string[] = [];
  const { communicator: comm } = planner;
  const times = new Map<GroupCollective, number>();
  const once = (task: GroupCollective) => times.set(task, (times.get(task) ?? 0) + 1);
  for (const plan of plans) {
    if (!fitsBudget(planBudget(), plan.batches.length, plan.workBytes))
      found.push('a plan exceeds its budget');
    if (plan.argumentBytes > 4096) found.push(`${plan.argumentBytes} bytes of arguments`);
    if (plan.threads % 32 !== 0 || plan.threads < 128 || plan.threads > 1024)
      found.push(`${plan.threads} threads`);
    for (const collective of plan.collectives) {
      once(collective.task);
      found.push(...placementFaults(collective, planner));
    }
    for (const task of plan.broadcasts?.tasks ?? []) once(task);
    const spread = new Map<GroupCollective, number>();
    for (const work of plan.broadcasts?.works.flat() ?? []) {
      const task = plan.broadcasts!.tasks.find(({ root }) => root === work.root)!;
      spread.set(task, (spread.get(task) ?? 0) + work.bytes);
    }
    for (const [{ count, elementBytes }, bytes] of spread) {
      if (bytes !== count * elementBytes)
        found.push(`a broadcast of ${count * elementBytes} moves ${bytes} bytes`);
    }
    found.push(...loadFaults(plan, planner));
    if (plan.batches.some(({ channel }) => channel >= Math.max(comm.nChannels, comm.nvlsChannels))) {
      found.push('a channel that the communicator lacks');
    }
  }
  for (const task of group) {
    const wanted = task.count > 0 ? 1 : 0;
    if ((times.get(task) ?? 0) !== wanted) found.push(`a call is planned ${times.get(task) ?? 0} times`);
  }
  return found;
}

function placementFaults(
  collective: PlannedCollective,
  { communicator: comm }: CommunicatorPlanner,
): string[] {
  const task = plannedTask(collective);
  const { channelLo, channelHi, segments, shared } = collective.placement;
  const found: string[] = [];
  if (shared !== undefined) {
    if (!usesCollnet(task, comm.nNodes)) found.push('channels share what they should cut');
    if (shared.count !== task.count) found.push(`${shared.count} of ${task.count} elements`);
    if (channelLo !== 0 || channelHi !== task.maxChannels - 1) found.push('not all channels share the data');
    if (shared.chunkBytes <= 0) found.push('a chunk without bytes');
    return found;
  }
  const { lo, mid, hi } = segments!;
  const middle = Math.max(0, channelHi - channelLo - 1);
  const last = channelHi > channelLo ? hi.count : 0;
  const sum = lo.count + middle * mid.count + last;
  if (sum !== task.count) found.push(`${sum} of ${task.count} elements`);
  if (channelLo < 0 || channelHi < channelLo) found.push(`channels ${channelLo} to ${channelHi}`);
  const limit = usesNvls(task) ? comm.nvlsChannels : comm.nChannels;
  if (channelHi >= limit) found.push(`channel ${channelHi} of ${limit}`);
  for (const [used, { count, chunkBytes }] of [
    [true, lo],
    [middle > 0, mid],
    [channelHi > channelLo, hi],
  ] as const) {
    if (!used) continue;
    if (count <= 0) found.push('a channel without elements');
    if (chunkBytes <= 0 || chunkBytes % PROTOCOL_GRAIN[task.protocol] !== 0)
      found.push(`a chunk of ${chunkBytes}`);
    const largest = usesNvls(task) ? comm.nvlsChunkSize : largestChunk(task, comm);
    if (chunkBytes > largest) found.push(`a chunk of ${chunkBytes}, more than ${largest}`);
  }
  return found;
}

/** Channels of a kind carry the same, to one cell of each task; the last one takes what is left over. */
function loadFaults({ collectives }: Plan, { communicator: comm }: CommunicatorPlanner): string[] {
  const found: string[] = [];
  for (const nvls of [false, true]) {
    const own = collectives
      .map((one) => ({ ...one, planned: plannedTask(one) }))
      .filter(({ planned }) => usesNvls(planned) === nvls && !usesCollnet(planned, comm.nNodes));
    if (own.length === 0) continue;
    const limit = nvls ? comm.nvlsChannels : comm.nChannels;
    const load = new Float64Array(limit);
    let [traffic, channels, cells] = [0, 0, 0];
    for (const { planned, placement } of own) {
      const perElement = taskTraffic({ ...planned, count: 1 }, comm.nRanks);
      const factor = perElement / planned.elementBytes;
      traffic += Math.max(MIN_CHANNEL_TRAFFIC, taskTraffic(planned, comm.nRanks));
      channels = Math.min(channels + planned.maxChannels, limit);
      cells += Math.max(Math.ceil(Math.ceil(MIN_CHANNEL_TRAFFIC / factor) / 16) * 16 * factor, perElement);
      const { lo, mid, hi } = placement.segments!;
      for (let channel = placement.channelLo; channel <= placement.channelHi; channel++) {
        const part = channel === placement.channelLo ? lo : channel === placement.channelHi ? hi : mid;
        load[channel]! += part.count * perElement;
      }
    }
    const share = traffic / channels + 16;
    for (const used of load.subarray(0, limit - 1)) {
      if (used > share + cells) found.push(`a channel with ${used} bytes of traffic, a share is ${share}`);
    }
  }
  return found;
}

describe(`groups of random calls (TUTTI_SEED=${SEED})`, () => {
  const perMachine = Math.ceil(GROUPS / MACHINES.length);

  it.each(MACHINES)(
    '$nodes of $name: each element once, channels level, limits kept, the same on all ranks [C06-20, C06-28]',
    (machine) => {
      const { first, last } = planners(machine);
      const { nRanks } = first.communicator;
      for (let at = 0; at < perMachine; at++) {
        const seed = SEED + at;
        // Every hundredth group is too large for one plan.
        const group = anyGroup(seed, at % 100 === 0 ? 400 : 6, nRanks);
        const plans = first.plan(group);
        const found = faults(plans, group, first);
        if (found.length > 0) expect.fail(`TUTTI_SEED=${seed}: ${found.slice(0, 5).join('; ')}`);
        if (at % 50 === 0) {
          const others = last.plan(group);
          const cut = ({ collectives, channelMask, workBytes, threads }: Plan) => [
            collectives,
            channelMask,
            workBytes,
            threads,
          ];
          expect(others.map(cut), `TUTTI_SEED=${seed}`).toEqual(plans.map(cut));
        }
      }
    },
    120_000,
  );
});

describe('a tuner', () => {
  const allReduce = (count: number): GroupCollective => ({
    function: 'AllReduce',
    deviceOp: 'Sum',
    type: 'float32',
    elementBytes: 4,
    count,
  });
  const chunks: number[] = [];
  const plugin: TunerPlugin = {
    name: 'small-chunks',
    init: () => ({
      getCollInfo: () => 2,
      getChunkSize: ({ chunkSize }) => {
        chunks.push(chunkSize);
        return 4096 + 17;
      },
    }),
  };

  it('sets channels and chunks of what is planned', () => {
    const { first } = planners(MACHINES[3]!, plugin);
    const [plan] = first.plan([allReduce(1 << 20)]);
    const [{ placement, decision }] = plan!.collectives as [PlannedCollective];
    expect([placement.channelLo, placement.channelHi]).toEqual([0, 1]);
    expect(placement.segments!.lo.chunkBytes).toBe(
      Math.floor(4113 / PROTOCOL_GRAIN[decision.protocol]) * PROTOCOL_GRAIN[decision.protocol],
    );
    expect(chunks.every((bytes) => bytes > 4096)).toBe(true);
  });
});

describe('registered buffers', () => {
  const call = (change: Partial<GroupCollective>): GroupCollective => ({
    function: 'AllReduce',
    deviceOp: 'Sum',
    type: 'float32',
    elementBytes: 4,
    count: 1 << 24,
    ...change,
  });
  const channelsOf = (planner: CommunicatorPlanner, change: Partial<GroupCollective>) => {
    const [plan] = planner.plan([call(change)]);
    const { placement } = plan!.collectives[0]!;
    return placement.channelHi - placement.channelLo + 1;
  };

  it('of NVLS take the channels that saturate the switch, and a larger work', () => {
    const { first } = planners({ ...MACHINES[0]!, env: { NCCL_ALGO: 'NVLS' } });
    const plain = first.plan([call({})])[0]!;
    const [registered] = first.plan([call({ registration: { nvls: true } })]);
    expect(registered!.collectives[0]!.decision.algorithm).toBe('NVLS');
    // 32 blocks over 8 heads.
    expect(channelsOf(first, { registration: { nvls: true } })).toBe(4);
    expect([plain.workBytes, registered!.workBytes]).toEqual([128, 320]);
  });

  it('of NICs: with one rank a node, Ring gathers take a channel per NIC, reductions what they took', () => {
    const env = { NCCL_ALGO: 'Ring', NCCL_PROTO: 'Simple' };
    const { first } = planners({ ...MACHINES[5]!, env });
    const gather = { function: 'AllGather', type: 'int8', elementBytes: 1 } as const;
    const registration = { network: true };
    expect(channelsOf(first, gather)).toBe(4);
    expect(channelsOf(first, { ...gather, registration })).toBe(1);
    expect(channelsOf(first, { registration })).toBe(channelsOf(first, {}));
  });

  it('shared between processes cut 17 to 24 channels to 16, not in place', () => {
    const env = { NCCL_ALGO: 'Ring', NCCL_PROTO: 'Simple' };
    const { first } = planners({ ...MACHINES[0]!, env });
    expect(channelsOf(first, {})).toBe(24);
    expect(channelsOf(first, { registration: { ipc: true } })).toBe(16);
    expect(channelsOf(first, { registration: { ipc: true, inPlace: true } })).toBe(24);
    expect(
      channelsOf(first, { function: 'ReduceScatter', count: 1 << 21, registration: { ipc: true } }),
    ).toBe(24);
  });

  it('change nothing where the protocol copies through buffers', () => {
    const { first } = planners({ ...MACHINES[0]!, env: { NCCL_ALGO: 'Ring', NCCL_PROTO: 'LL128' } });
    expect(channelsOf(first, { registration: { ipc: true } })).toBe(channelsOf(first, {}));
  });
});

/** Every shipped program, with a name of its own, and the reducing programs of every type and operator. */
import { COLLECTIVES, type Collective } from '#src/collectives/control-block.js';
import { type AreaSizes, GPU_AREA } from '#src/collectives/gpu/area.js';
import { GPU_COLLECTIVES, type GpuShape, type GpuTeam } from '#src/collectives/gpu/call.js';
import { type GpuLaunch, gpuLaunch, launchOf } from '#src/collectives/gpu/launch.js';
import { gpuMessages } from '#src/collectives/gpu/message-launch.js';
import { multicast } from '#src/collectives/gpu/multicast.js';
import {
  ALGORITHMS,
  buildProgram,
  type ProgramRequest,
  programKey,
  protocolsOf,
  supports,
} from '#src/collectives/registry.js';
import {
  canReduceInSwitch,
  ELEMENT_TYPE_NAMES,
  ELEMENT_TYPES,
  REDUCE_OP_NAMES,
} from '#src/kernel/element-types.js';
import type { Program } from '#src/kernel/ir.js';
import { ptxTraits } from '#src/kernel/ptx/traits.js';
import { connectorLaunch } from '#src/planning/gpu-connector-plan.js';
import { GPU_PROTOCOLS } from '#src/tuning/gpu-selection.js';

function named(requests: Iterable<ProgramRequest>): Program[] {
  const programs = new Map<string, Program>();
  for (const request of requests) {
    const key = programKey(request);
    if (programs.has(key)) continue;
    const name = `p${programs.size}_${key.replaceAll(/[^A-Za-z0-9]+/g, '_')}`;
    programs.set(key, { ...buildProgram(ptxTraits(), request), name });
  }
  return [...programs.values()];
}

/** All algorithms, collectives and protocols for one type and operator. */
export function shippedPrograms(type: ProgramRequest['type'], op: ProgramRequest['op']): Program[] {
  const requests: ProgramRequest[] = [];
  for (const algorithm of ALGORITHMS) {
    for (const collective of Object.keys(COLLECTIVES) as Collective[]) {
      if (!supports(algorithm, collective)) continue;
      for (const protocol of protocolsOf(algorithm)) {
        requests.push({ algorithm, collective, protocol, type, op, ranks: 2 });
      }
    }
  }
  return named(requests);
}

/** One reducing program for all types and operators. */
export function reducingPrograms(request: Omit<ProgramRequest, 'type' | 'op'>): Program[] {
  return named(ELEMENT_TYPE_NAMES.flatMap((type) => REDUCE_OP_NAMES.map((op) => ({ ...request, type, op }))));
}

export interface GpuProgram {
  readonly program: Program;
  readonly options: GpuLaunch['compile'];
}

/** Programs that are made for GPUs, each with the options that it is compiled with: one of each kind. */
export function gpuPrograms(
  type: ProgramRequest['type'],
  op: ProgramRequest['op'],
  ranks: number,
): GpuProgram[] {
  const team: GpuTeam = {
    ranks,
    multiprocessors: 132,
    ranksPerDevice: 1,
    addressing: 'mapped',
    wholeLines: true,
  };
  const direct = { program: 'Direct', blocks: 64, threads: 512 } as const;
  const shapes: GpuShape[] = [
    { program: 'LL', blocks: 8, threads: 512 },
    { program: 'LL', blocks: 8, threads: 128, lines: 1 },
    { program: 'LL128', blocks: 8, threads: 64 },
    { ...direct, unroll: 4, residency: 1, copies: 'push' },
  ];
  const programs: GpuProgram[] = [];
  const add = (launch: Pick<GpuLaunch, 'key' | 'build' | 'compile'>) => {
    const name = `g${programs.length}_${launch.key.replaceAll(/[^A-Za-z0-9]+/g, '_')}`;
    programs.push({ program: { ...launch.build(ptxTraits()), name }, options: launch.compile });
  };
  for (const collective of GPU_COLLECTIVES.filter((c) => c !== 'barrier')) {
    for (const shape of shapes) add(launchOf(team, { collective, type, op, count: 1024 }, shape));
    const reduces = collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
    if (reduces && ELEMENT_TYPES[type].kind === 'float') {
      const shape = { program: 'Lamport', blocks: 8, threads: 128, packets: 1 } as const;
      add(launchOf(team, { collective, type, op, count: 1024 }, shape));
    }
  }
  if (ranks === 2) {
    const shape = { program: 'Exchange', blocks: 128, threads: 288, pairs: 2, unroll: 8 } as const;
    add(launchOf(team, { collective: 'allReduce', type, op, count: 1 << 24 }, shape));
  }
  add(gpuLaunch(team, { collective: 'barrier', type, count: 0 }));
  add(gpuMessages(team, 0, [{ kind: 'send', peer: 1, bytes: 8, address: 0 }])[0]!);
  return programs;
}

const CONNECTORS: AreaSizes = {
  ...GPU_AREA,
  connectors: {
    channels: { Ring: 32, Tree: 24, PAT: 24 },
    llSlot: 32768,
    ll128Slot: 32768,
    simpleSlot: 131072,
  },
};

/** Programs over connections; `all`: every collective, otherwise all-reduce alone. */
export function connectorPrograms(ranks: number, all: boolean): GpuProgram[] {
  const team: GpuTeam = {
    ranks,
    multiprocessors: 132,
    ranksPerDevice: 1,
    addressing: 'plain',
    wholeLines: true,
  };
  const ways = (['Ring', 'Tree', 'PAT'] as const).flatMap((algorithm) =>
    (Object.keys(COLLECTIVES) as Collective[])
      .filter((collective) => supports(algorithm, collective) && (all || collective === 'allReduce'))
      .flatMap((collective) =>
        // Trees of much data go up and down in different blocks.
        (algorithm === 'Tree' ? [1024, 1 << 26] : [1024]).flatMap((count) =>
          GPU_PROTOCOLS[algorithm].map((protocol) => ({ algorithm, collective, count, protocol })),
        ),
      ),
  );
  return ways.map(({ collective, count, algorithm, protocol }, i): GpuProgram => {
    const call = { collective, type: 'float32', op: 'sum', count } as const;
    const launch = connectorLaunch(team, call, { algorithm, protocol }, CONNECTORS, 1);
    const name = `c${i}_${launch.key.replaceAll(/[^A-Za-z0-9]+/g, '_')}`;
    return { program: { ...launch.build(ptxTraits()), name }, options: launch.compile };
  });
}

/** Programs over multicast addresses, of all types that switches combine. */
export function multicastPrograms(): Program[] {
  const copies = (['allGather', 'broadcast'] as const).map((collective) => ({
    collective,
    reduction: { type: 'uint8', op: 'sum' } as const,
  }));
  const reductions = ELEMENT_TYPE_NAMES.flatMap((type) =>
    (['sum', 'min', 'max'] as const)
      .filter((op) => canReduceInSwitch(type, op))
      .map((op) => ({
        collective: op === 'sum' ? ('allReduce' as const) : ('reduce' as const),
        reduction: { type, op },
      })),
  );
  const scatter = { collective: 'reduceScatter', reduction: { type: 'float32', op: 'sum' } } as const;
  return [...copies, ...reductions, scatter].map((parameters, i) => {
    const { type, op } = parameters.reduction;
    return { ...multicast(ptxTraits(), parameters), name: `n${i}_${parameters.collective}_${type}_${op}` };
  });
}

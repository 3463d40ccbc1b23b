/** Every shipped program, with a name of its own, and the reducing programs of every type and operator. */
import { COLLECTIVES, type Collective } from '#src/collectives/control-block.js';
import { GPU_COLLECTIVES, type GpuShape, type GpuTeam } from '#src/collectives/gpu/call.js';
import { type GpuLaunch, gpuLaunch, launchOf } from '#src/collectives/gpu/launch.js';
import { gpuMessages } from '#src/collectives/gpu/message-launch.js';
import {
  ALGORITHMS,
  buildProgram,
  type ProgramRequest,
  programKey,
  protocolsOf,
  supports,
} from '#src/collectives/registry.js';
import { ELEMENT_TYPE_NAMES, REDUCE_OP_NAMES } from '#src/kernel/element-types.js';
import type { Program } from '#src/kernel/ir.js';
import { ptxTraits } from '#src/kernel/ptx/traits.js';

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
    { program: 'LL', blocks: 8, threads: 256, lines: 1 },
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
  }
  add(gpuLaunch(team, { collective: 'barrier', type, count: 0 }));
  add(gpuMessages(team, 0, [{ kind: 'send', peer: 1, bytes: 8, address: 0 }])[0]!);
  return programs;
}

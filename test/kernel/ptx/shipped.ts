/** Every shipped program, with a name of its own, and the reducing programs of every type and operator. */
import { COLLECTIVES, type Collective } from '#src/collectives/control-block.js';
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

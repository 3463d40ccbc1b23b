/**
 * A machine on which there is nothing to decide, for it has no GPUs: its processors and NICs.
 */
import { buildSystem } from '../system/build.js';
import type { TopoSystem } from '../system/node.js';
import type { XmlElement } from '../xml/element.js';
import { type MachineFacts, machineFacts } from './machine.js';
import { machineTree } from './machine-tree.js';
import { countText } from './quantities.js';
import { type Style, wrap } from './style.js';

export interface MachineOnly {
  readonly system: TopoSystem;
  readonly facts: MachineFacts;
  /** One sentence. */
  readonly summary: string;
}

/** Looks at a document without GPUs; `reason` says why there are none. */
export function machineOnly(document: XmlElement, reason: string): MachineOnly {
  const system = buildSystem(document);
  const { CPU, NET } = system.nodes;
  const summary =
    `No GPUs: ${reason}. ${countText(CPU.length, 'NUMA node')}, ${countText(NET.length, 'NIC')}; ` +
    'NCCL would have no ranks here';
  return { system, facts: machineFacts(system, document), summary };
}

/** Lines for people. */
export function machineOnlyReport({ system, facts, summary }: MachineOnly, style: Style): string[] {
  return [
    ...wrap(summary, style.width, '  ').map(style.strong),
    '',
    style.heading('Machine'),
    ...machineTree(facts, system, style),
  ];
}

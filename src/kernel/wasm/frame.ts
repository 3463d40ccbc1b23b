/**
 * Layout of the frame in which a resumable program keeps its state while it is blocked.
 *
 * Word 0 is the resume point: 0 to start from the beginning, else the number of the wait plus one. The locals
 * that live across the wait follow, largest first, so that each has its natural alignment in a frame that is
 * aligned to 16 bytes. Every wait has its own layout; the frame is as large as the largest.
 */

import type { Program } from '../ir.js';
import type { WasmType } from './instructions.js';
import { type LocalPlan, planLocals } from './locals.js';
import { toTrees } from './trees.js';

const SIZE: Record<WasmType, number> = { i32: 4, i64: 8, f32: 4, f64: 8, v128: 16 };

/** Packets start here; the resume point and padding lie before. */
const FIRST_SLOT = 16;

export interface FrameSlot {
  /** Index into the planned locals. */
  readonly local: number;
  readonly type: WasmType;
  readonly offset: number;
}

/** Where each of the locals that live across a wait is kept. */
export function frameSlots(plan: LocalPlan, wait: number): FrameSlot[] {
  let offset = FIRST_SLOT;
  const slots = plan.liveAtWait[wait]!.map((local) => ({ local, type: plan.types[local]! }));
  slots.sort((a, b) => SIZE[b.type] - SIZE[a.type]);
  return slots.map(({ local, type }) => {
    const slot = { local, type, offset };
    offset += SIZE[type];
    return slot;
  });
}

/** Bytes of the frame of a resumable program, a multiple of 16. */
export function frameBytes(program: Program): number {
  const plan = planLocals(program, toTrees(program));
  let bytes = FIRST_SLOT;
  for (let wait = 0; wait < program.waits; wait++) {
    const last = frameSlots(plan, wait).at(-1);
    if (last !== undefined) bytes = Math.max(bytes, last.offset + SIZE[last.type]);
  }
  return Math.ceil(bytes / 16) * 16;
}

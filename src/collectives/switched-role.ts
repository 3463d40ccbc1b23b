/** What a block of a program over a switch does (switched.ts): its name holds all that the code depends on. */

import { TuttiError } from '../errors/tutti-error.js';

/** Where a head passes on what it has put together, and gets back what is finished. */
const OUTS = ['none', 'net', 'parent'] as const;

/**
 * Links of a role, in this order. Receives: `pieces`, `locals`, `children`, one if there is an `out`, `engine`. Sends:
 * `pieces`, one if there is an `out`, `locals`, `children`, `engine`.
 */
export interface SwitchRole {
  /** Heads to which the rank hands pieces of its data and from which it gets results. */
  readonly pieces: number;
  /** Works on a piece for the ranks of its node, or stands in a chain. */
  readonly works: boolean;
  /** Ranks of the node that hand it their data: ports of the node's switch, or peers. */
  readonly locals: number;
  /** Ranks of other nodes, or the next rank of a chain, that hand it theirs. */
  readonly children: number;
  readonly out: (typeof OUTS)[number];
  /** Ports of the network switch whose work it does; 0 for none. */
  readonly engine: number;
}

export function switchRoleName({ pieces, works, locals, children, out, engine }: SwitchRole): string {
  return [works ? 'head' : 'member', pieces, locals, children, out, engine].join('-');
}

/** The inverse of `switchRoleName`. */
export function parseSwitchRole(name: string): SwitchRole {
  const [, kind, pieces, locals, children, out, engine] =
    /^(head|member)-(\d+)-(\d+)-(\d+)-(none|net|parent)-(\d+)$/.exec(name) ?? [];
  if (kind === undefined) throw new TuttiError('invalidArgument', `there is no switch role ${name}`);
  return {
    pieces: Number(pieces),
    works: kind === 'head',
    locals: Number(locals),
    children: Number(children),
    out: out as SwitchRole['out'],
    engine: Number(engine),
  };
}

/** Indices of a role's links. */
export interface SwitchLinks {
  readonly fanIn: readonly number[];
  readonly outIn: readonly number[];
  readonly engineIn: readonly number[];
  readonly outOut: readonly number[];
  readonly fanOut: readonly number[];
  readonly engineOut: readonly number[];
}

export function linksOf({ pieces, locals, children, out, engine }: SwitchRole): SwitchLinks {
  const range = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);
  const fan = locals + children;
  const outs = out === 'none' ? 0 : 1;
  return {
    fanIn: range(pieces, fan),
    outIn: range(pieces + fan, outs),
    engineIn: range(pieces + fan + outs, engine),
    outOut: range(pieces, outs),
    fanOut: range(pieces + outs, fan),
    engineOut: range(pieces + outs + fan, engine),
  };
}

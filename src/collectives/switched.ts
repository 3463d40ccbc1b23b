/**
 * Programs over switches that multicast and reduce: NVLS inside a node, CollNet (SHARP) between nodes, on host memory
 * emulated by software (switch-ports.ts).
 *
 * Ranks hand pieces of their data to the *heads* of their node. A head puts the pieces of its node together, passes
 * them on to the heads of the other nodes where there are any, and spreads what is finished in its node:
 *
 * | algorithm     | in the node                   | between the nodes                            |
 * |---------------|-------------------------------|----------------------------------------------|
 * | NVLS          | reducing load, multicast      | in-network reduction, as CollNet             |
 * | NVLSTree      | reducing load, multicast      | a tree of the heads of equal number          |
 * | CollNetDirect | every rank with every head    | in-network reduction for each number of head |
 * | CollNetChain  | a chain to the only head      | in-network reduction                         |
 *
 * A unit (switched-units.ts) goes through up to five stages: *scatter* (pieces to the heads), *up* (the head combines
 * and passes on), *engine* (the network switch: done by one of the ranks at its ports), *down* (what is finished comes
 * back), *gather* (results from the heads). A block does each stage for as many units as connections have slots, then
 * the next stage. Since all ranks go through the same stages of the same units in the same order, whoever waits, waits
 * for an earlier stage, and nobody for ever.
 * Source: NCCL 2.30, NVLS, NVLS tree, CollNet direct and CollNet chain kernels.
 */

import { TuttiError } from '../errors/tutti-error.js';
import type { KernelBuilder, Value } from '../kernel/builder.js';
import { kernel } from '../kernel/builder.js';
import { ELEMENT_TYPES } from '../kernel/element-types.js';
import type { Program, Traits } from '../kernel/ir.js';
import { directArithmetic, type Reduction, type StepArithmetic, stepArithmetic } from './arithmetic.js';
import { BlockWork, ConnectedBlock, ConnectedWork, Link } from './connected-work.js';
import type { Ends } from './ends.js';
import { type ReducingLoad, SimpleProtocol } from './protocol-simple.js';
import { STEPS } from './ring-connection.js';
import { PortCounters, SwitchPorts } from './switch-ports.js';
import { linksOf, parseSwitchRole, type SwitchLinks, type SwitchRole } from './switched-role.js';
import { type SwitchedCollective, type SwitchUnit, SwitchUnits } from './switched-units.js';

export type SwitchedName = 'NVLS' | 'NVLSTree' | 'CollNetDirect' | 'CollNetChain';

export interface SwitchedParameters {
  readonly algorithm: SwitchedName;
  readonly collective: SwitchedCollective;
  readonly reduction: Reduction;
  /** The roles of the rank's blocks, each once. */
  readonly roles: readonly string[];
}

/** True where the ranks of a node meet in its switch. */
export function hasNodeSwitch(algorithm: SwitchedName): boolean {
  return algorithm === 'NVLS' || algorithm === 'NVLSTree';
}

export function switched(
  traits: Traits,
  { algorithm, collective, reduction, roles }: SwitchedParameters,
): Program {
  const parsed = roles.map(parseSwitchRole);
  for (const [i, { works, out }] of parsed.entries()) {
    if (hasNodeSwitch(algorithm) || !works || out !== 'none') continue;
    throw new TuttiError('internalError', `role ${roles[i]} of ${algorithm} works without a network`);
  }
  return kernel(`${algorithm}_${collective}`, traits, (k, work) => {
    const connected = new ConnectedBlock(k, work);
    connected.resolveLinks();
    const units = new SwitchUnits(connected, collective, ELEMENT_TYPES[reduction.type].size);
    connected.dispatch(parsed, (role) => {
      // Copies are not scaled.
      const what = collective === 'allGather' ? { type: reduction.type, op: 'sum' as const } : reduction;
      const block = new SwitchedBlock(connected, units, role, collective, what, hasNodeSwitch(algorithm));
      k.for(k.u64(0), units.count, STEPS, (from) => {
        const to = from.add(STEPS).min(units.count);
        for (const stage of block.stages) k.for(from, to, 1, (unit) => stage(units.at(unit)));
      });
      block.close();
    });
  });
}

type Stage = (unit: SwitchUnit) => void;

class SwitchedBlock {
  readonly stages: readonly Stage[];
  readonly #k: KernelBuilder;
  readonly #connected: ConnectedBlock;
  readonly #units: SwitchUnits;
  readonly #role: SwitchRole;
  readonly #links: SwitchLinks;
  readonly #collective: SwitchedCollective;
  readonly #reduction: Reduction;
  readonly #arithmetic: StepArithmetic;
  readonly #size: number;
  /** The ranks of the node meet in a switch; else the head has data of its own. */
  readonly #inSwitch: boolean;
  readonly #nodePorts: SwitchPorts;
  readonly #networkPorts: SwitchPorts;
  readonly #open: SimpleProtocol[] = [];

  constructor(
    connected: ConnectedBlock,
    units: SwitchUnits,
    role: SwitchRole,
    collective: SwitchedCollective,
    reduction: Reduction,
    inSwitch: boolean,
  ) {
    const { k, work, block } = connected;
    this.#k = k;
    this.#connected = connected;
    this.#units = units;
    this.#role = role;
    this.#links = linksOf(role);
    this.#collective = collective;
    this.#reduction = reduction;
    this.#arithmetic = stepArithmetic(k, reduction, () => k.field(work, ConnectedWork, 'argument'));
    this.#size = ELEMENT_TYPES[reduction.type].size;
    this.#inSwitch = inSwitch;
    const rows = k.field(block, BlockWork, 'ports');
    const nodeRows = inSwitch ? role.locals : 0;
    this.#nodePorts = new SwitchPorts(k, rows, nodeRows);
    this.#networkPorts = new SwitchPorts(k, rows.offset(nodeRows * PortCounters.size), role.engine);
    const gathers = collective === 'allGather';
    this.stages = [
      ...(role.pieces > 0 && !gathers ? [this.#scatter()] : []),
      ...(role.works ? [this.#up()] : []),
      ...(role.engine > 0 ? [this.#engine()] : []),
      ...(role.works && role.out !== 'none' ? [this.#down()] : []),
      ...(role.pieces > 0 && collective !== 'reduceScatter' ? [this.#gather()] : []),
    ];
  }

  close(): void {
    for (const protocol of this.#open) protocol.close();
  }

  #protocol(ends: Ends, load?: ReducingLoad): SimpleProtocol {
    const shape = { stepsPerChunk: 1, stepsPerSlice: 1 };
    return new SimpleProtocol(this.#k, ends, this.#reduction.type, this.#arithmetic, shape, load);
  }

  /** A protocol over fixed links, for the whole run of the program. */
  #fixed(receives: readonly number[], sends: readonly number[], load?: ReducingLoad): SimpleProtocol {
    const protocol = this.#protocol(this.#connected.ends(receives, sends), load);
    this.#open.push(protocol);
    return protocol;
  }

  /** A protocol for one transfer over links that are known at run time. */
  #once(ends: Ends, load: ReducingLoad | undefined, act: (protocol: SimpleProtocol) => void): void {
    const protocol = this.#protocol(ends, load);
    act(protocol);
    protocol.close();
    // The next one reads the counters that this one has saved.
    this.#k.barrier();
  }

  #load(ports: number): ReducingLoad {
    const { type, op } = this.#reduction;
    const combine = directArithmetic(this.#k, { type, op: op === 'avg' ? 'sum' : op }, () => this.#k.u64(0));
    return { ports, combine };
  }

  #bytes(elements: Value<'u64'>): Value<'u64'> {
    return elements.mul(this.#size);
  }

  /** Only for the units of the own node, where units belong to nodes and the other nodes have no part in it. */
  #ownUnits(applies: boolean, unit: SwitchUnit, act: () => void): void {
    if (applies) this.#k.if(unit.node.eq(this.#units.node), act);
    else act();
  }

  #eachHead(side: 'receives' | 'sends', act: (link: Value<'ptr'>, head: Value<'u32'>) => void): void {
    const k = this.#k;
    const links = k.field(this.#connected.block, BlockWork, side);
    k.for(k.u32(0), k.u32(this.#role.pieces), 1, (i) => {
      act(links.offset(i.mul(Link.size)), this.#units.firstHead.add(i).rem(this.#units.heads));
    });
  }

  #scatter(): Stage {
    return (unit) =>
      this.#eachHead('sends', (send, head) => {
        const { input, elements } = unit.piece(head);
        this.#once(this.#connected.endsOf({ send }), undefined, (protocol) =>
          protocol.transfer({ receives: false, sends: true, input, elements }),
        );
      });
  }

  #gather(): Stage {
    return (unit) =>
      this.#eachHead('receives', (receive, head) => {
        const { output, elements } = unit.piece(head);
        this.#once(this.#connected.endsOf({ receive }), undefined, (protocol) =>
          protocol.transfer({ receives: true, sends: false, output, elements }),
        );
      });
  }

  #up(): Stage {
    const { out, locals } = this.#role;
    const { fanIn, fanOut, outOut } = this.#links;
    const gathers = this.#collective === 'allGather';
    /** What is put together here is finished. */
    const turns = out === 'none';
    const receives = gathers ? [] : fanIn;
    const sends = !turns ? outOut : this.#collective === 'reduceScatter' ? [] : fanOut;
    const loads = this.#inSwitch && receives.length > 0;
    const protocol = this.#fixed(receives, sends, loads ? this.#load(locals) : undefined);
    return (unit) =>
      this.#ownUnits(gathers, unit, () => {
        const { input, output, elements } = unit.piece(this.#units.head);
        protocol.transfer({
          receives: receives.length > 0,
          sends: sends.length > 0,
          ...(gathers || !this.#inSwitch ? { input } : {}),
          ...(turns && sends.length === 0 ? { output } : {}),
          elements,
          after: turns,
        });
        if (loads) this.#nodePorts.reduced(this.#bytes(elements), this.#units.head);
        if (turns && sends.length > 0) this.#multicasts(elements);
      });
  }

  #down(): Stage {
    const { outIn, fanOut } = this.#links;
    const scatters = this.#collective === 'reduceScatter';
    const sends = scatters ? [] : fanOut;
    const protocol = this.#fixed(outIn, sends);
    return (unit) =>
      this.#ownUnits(scatters, unit, () => {
        const { output, elements } = unit.piece(this.#units.head);
        protocol.transfer({
          receives: true,
          sends: sends.length > 0,
          ...(scatters || !this.#inSwitch ? { output } : {}),
          elements,
          after: this.#role.out === 'net',
        });
        if (!scatters) this.#multicasts(elements);
      });
  }

  #multicasts(elements: Value<'u64'>): void {
    if (this.#inSwitch) this.#nodePorts.multicast(this.#bytes(elements), this.#units.head);
  }

  /** The work of the network switch between the heads of one number. */
  #engine(): Stage {
    const k = this.#k;
    const { engineIn, engineOut } = this.#links;
    const ports = this.#networkPorts;
    const link = (side: 'receives' | 'sends', first: number, node: Value<'u32'>) =>
      k.field(this.#connected.block, BlockWork, side).offset(node.add(first).mul(Link.size));
    const elementsOf = (unit: SwitchUnit) => unit.piece(this.#units.head).elements;
    switch (this.#collective) {
      case 'allReduce': {
        const all = this.#fixed(engineIn, engineOut, this.#load(engineIn.length));
        return (unit) => {
          const elements = elementsOf(unit);
          all.transfer({ receives: true, sends: true, elements });
          ports.allReduced(this.#bytes(elements));
        };
      }
      case 'allGather':
        return (unit) => {
          const elements = elementsOf(unit);
          const one = this.#connected.endsOf({ receive: link('receives', engineIn[0]!, unit.node) });
          const { sends } = this.#connected.ends([], engineOut);
          this.#once({ ...one, sends }, undefined, (protocol) =>
            protocol.transfer({ receives: true, sends: true, elements }),
          );
          ports.multicast(this.#bytes(elements), unit.node);
        };
      case 'reduceScatter':
        return (unit) => {
          const elements = elementsOf(unit);
          const one = this.#connected.endsOf({ send: link('sends', engineOut[0]!, unit.node) });
          const { receives } = this.#connected.ends(engineIn, []);
          this.#once({ ...one, receives }, this.#load(engineIn.length), (protocol) =>
            protocol.transfer({ receives: true, sends: true, elements }),
          );
          ports.reduced(this.#bytes(elements), unit.node);
        };
    }
  }
}

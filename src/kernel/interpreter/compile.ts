/**
 * Compiles a program to a generator function: a fibre that gives way (`yield`) where the scheduler may switch.
 *
 * Before every operation that other threads can notice the fibre pays with its fuel and gives way when none
 * is left; waits, barriers and warp operations give way until they are released. In the text `t` is the
 * thread, `m` the memory, `x` the machine, `S` scalar.ts, `P` packet.ts. Text and not closures, because
 * V8 then optimises the whole fibre: small collectives run thousands of schedules in a test.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import {
  MEMORY_BYTES,
  type MemoryType,
  type Operand,
  type Order,
  type Program,
  type Register,
  type Scope,
  STATUS,
  type Statement,
} from '../ir.js';
import { SCOPE_LEVEL } from './clock.js';
import { operandText, pureText } from './expressions.js';
import * as packetOperations from './packet.js';
import * as scalarOperations from './scalar.js';
import { assignSlots, slotKind } from './slots.js';
import type { Site } from './thread.js';

export interface CompiledProgram {
  readonly program: Program;
  /** JavaScript text, for people who look into the interpreter. */
  readonly text: string;
  readonly sites: readonly Site[];
  /** Begins a fibre for a thread `t` over a memory `m` and a machine `x`. */
  readonly start: (t: object, m: object, x: object, descriptor: number) => Generator<undefined, number>;
}

const compiled = new WeakMap<Program, CompiledProgram>();

/** The compiled form of a program; made once per program. */
export function compileProgram(program: Program): CompiledProgram {
  let result = compiled.get(program);
  if (result === undefined) {
    result = new Compiler(program).finish();
    compiled.set(program, result);
  }
  return result;
}

const LOADS: Readonly<Record<MemoryType, string>> = {
  i8: 'm.view.getInt8(o)',
  u8: 'm.view.getUint8(o)',
  i16: 'm.view.getInt16(o,true)',
  u16: 'm.view.getUint16(o,true)',
  i32: 'm.view.getInt32(o,true)',
  u32: 'm.view.getUint32(o,true)',
  i64: 'm.view.getBigInt64(o,true)',
  u64: 'm.view.getBigUint64(o,true)',
  f32: 'm.view.getFloat32(o,true)',
  f64: 'm.view.getFloat64(o,true)',
  ptr: 'S.pointerAt(m.view,o)',
  packet: 'P.packetAt(m.view,o)',
};

function storeText(memory: MemoryType, value: string): string {
  switch (memory) {
    case 'packet':
      return `P.setPacketAt(m.view,o,${value});`;
    case 'ptr':
      return `S.setPointerAt(m.view,o,${value});`;
    case 'i8':
    case 'u8':
      return `m.view.setUint8(o,${value});`;
    case 'i64':
    case 'u64':
      return `m.view.setBigUint64(o,${value},true);`;
    default: {
      const name = {
        i16: 'Int16',
        u16: 'Uint16',
        i32: 'Int32',
        u32: 'Uint32',
        f32: 'Float32',
        f64: 'Float64',
      };
      return `m.view.set${name[memory]}(o,${value},true);`;
    }
  }
}

/** Pays for a synchronising operation, or a weak one. */
const PAY = 'if(--t.fuel<0)yield;';
const PAY_WEAK = 'if((t.fuel-=t.weakCost)<0)yield;';

class Compiler {
  readonly #program: Program;
  readonly #names: readonly string[];
  readonly #locals: readonly string[];
  readonly #sites: Site[] = [];
  readonly #lines: string[] = [];

  constructor(program: Program) {
    this.#program = program;
    const slots = assignSlots(program);
    this.#names = slots.names;
    this.#locals = slots.locals;
  }

  finish(): CompiledProgram {
    const program = this.#program;
    this.#list(program.body);
    const initial = { n: '0', b: '0n', p: 'P.ZERO_PACKET' };
    const locals = this.#locals.map((l) => `${l}=${initial[l[0] as 'n' | 'b' | 'p']}`);
    const descriptor = this.#names[program.descriptor.id]!;
    const text = [
      `"use strict";`,
      'return function*(t,m,x,descriptor){',
      `let o=0,c=0,e=0,f=0${locals.map((l) => `,${l}`).join('')};`,
      `${descriptor}=descriptor;`,
      ...this.#lines,
      `return ${STATUS.done};`,
      '};',
    ].join('\n');
    const make = new Function('P', 'S', text) as (p: unknown, s: unknown) => CompiledProgram['start'];
    return { program, text, sites: this.#sites, start: make(packetOperations, scalarOperations) };
  }

  readonly #name = (register: Register): string => {
    const name = this.#names[register.id];
    if (name === undefined || name === '') {
      throw new TuttiError('internalError', `register ${register.id} belongs to another program`);
    }
    return name;
  };

  #operand(operand: Operand): string {
    return operandText(operand, this.#name);
  }

  #line(text: string): void {
    this.#lines.push(text);
  }

  /** Says which statement runs now, for messages. */
  #site(kind: string, s: Statement): string {
    const number = this.#sites.length;
    this.#sites.push({ kind, place: s.place === '' ? `statement ${number} (${kind})` : s.place });
    return `t.site=${number};`;
  }

  #list(statements: readonly Statement[]): void {
    for (const s of statements) this.#statement(s);
  }

  #address(address: Operand, offset: number): string {
    const base = this.#operand(address);
    return offset === 0 ? base : `${base}+${offset}`;
  }

  /** Whether a plain access may have this promise of alignment at all; the fault comes when it runs. */
  #promise(memory: MemoryType, align: number): number {
    const natural = MEMORY_BYTES[memory];
    return align < natural && !this.#program.traits.unalignedPackets ? natural : align;
  }

  #statement(s: Statement): void {
    switch (s.kind) {
      case 'let': {
        const value = pureText(s.value, s.target.type, this.#name);
        const site = value.includes('x.trap(') ? this.#site(s.value.op, s) : '';
        this.#line(`${site}${this.#name(s.target)}=${value};`);
        return;
      }
      case 'assign':
        this.#line(`${this.#name(s.target)}=${this.#operand(s.value)};`);
        return;
      case 'load':
        this.#load(s);
        return;
      case 'store':
        this.#store(s);
        return;
      case 'loadPart': {
        const site = this.#site('load of a part', s);
        const target = this.#name(s.target);
        this.#line(
          `${site}${PAY_WEAK}c=${this.#operand(s.bytes)};if(c>16)x.trap(t,'part of '+c+' bytes');` +
            `if(c===0)${target}=P.ZERO_PACKET;else{` +
            `o=m.readWeak(t,${this.#operand(s.address)},c,${s.align});${target}=P.packetPartAt(m.view,o,c);}`,
        );
        return;
      }
      case 'storePart': {
        const site = this.#site('store of a part', s);
        this.#line(
          `${site}${PAY_WEAK}c=${this.#operand(s.bytes)};if(c>16)x.trap(t,'part of '+c+' bytes');` +
            `if(c>0){o=m.writeWeak(t,${this.#operand(s.address)},c,${s.align});` +
            `P.setPacketPartAt(m.view,o,${this.#operand(s.value)},c);}`,
        );
        return;
      }
      case 'copy': {
        const site = this.#site('copy', s);
        this.#line(
          `${site}o=${this.#operand(s.to)};f=${this.#operand(s.from)};e=Number(${this.#operand(s.bytes)});` +
            `x.checkCopy(t,o,f,e);` +
            `while(e>0){${PAY_WEAK}c=m.copyStep(t,o,f,e);o+=c;f+=c;e-=c;}`,
        );
        return;
      }
      case 'atomic':
      case 'compareExchange':
        this.#atomic(s);
        return;
      case 'fence': {
        const acquire = s.order !== 'release';
        const release = s.order !== 'acquire';
        const site = this.#site(`fence ${s.order}`, s);
        this.#line(`${site}${PAY}m.fence(t,${acquire},${release},${SCOPE_LEVEL[s.scope]});`);
        return;
      }
      case 'barrier': {
        const count = s.threads === undefined ? 't.threadCount' : this.#operand(s.threads);
        const site = this.#site(`barrier ${s.id}`, s);
        this.#line(`${site}${PAY}if(x.arrive(t,${s.id},${count}))yield;`);
        return;
      }
      case 'warpBarrier': {
        const site = this.#site('warp barrier', s);
        this.#line(`${site}${PAY}if(x.meetWarp(t))yield;`);
        return;
      }
      case 'if':
        this.#line(`if(${this.#operand(s.condition)}){`);
        this.#list(s.taken);
        if (s.otherwise.length > 0) {
          this.#line('}else{');
          this.#list(s.otherwise);
        }
        this.#line('}');
        return;
      case 'loop':
        this.#line(`L${s.id}:for(;;){${this.#site('loop', s)}if(--t.slack<0)yield;B${s.id}:{`);
        this.#list(s.body);
        this.#line('}');
        this.#list(s.step);
        this.#line('}');
        return;
      case 'break':
        this.#line(`break L${s.loop};`);
        return;
      case 'continue':
        this.#line(`break B${s.loop};`);
        return;
      case 'wait': {
        const site = this.#site('wait', s);
        this.#line(`for(;;){${site}x.beginPoll(t);`);
        this.#list(s.poll);
        this.#line(`${site}if(${this.#operand(s.condition)}){x.endPoll(t);break;}`);
        this.#line(`if(x.failPoll(t))return ${STATUS.aborted};yield;}`);
        return;
      }
      case 'wake':
      case 'launchOrder': // launches of a stream never overlap here
        return;
      case 'shuffle': {
        const site = this.#site('shuffle', s);
        const source = this.#operand(s.lane);
        this.#line(`${site}${PAY}if(x.shuffle(t,${this.#operand(s.value)},${source}))yield;`);
        this.#line(`${this.#name(s.target)}=t.result;`);
        return;
      }
      case 'multicastLoad': {
        const site = this.#site('multicast load', s);
        const target = this.#name(s.target);
        this.#line(`${site}${PAY}P.replicas.length=0;`);
        this.#line(
          `for(e of m.replicas(t,${this.#operand(s.address)},16)){o=m.readWeak(t,e,16,16);` +
            `P.replicas.push(P.packetAt(m.view,o));}`,
        );
        this.#line(`${target}=P.reduceReplicas('${s.type}','${s.step}',P.replicas);`);
        return;
      }
      case 'multicastStore': {
        const site = this.#site('multicast store', s);
        const value = this.#operand(s.value);
        this.#line(`${site}${PAY}for(e of m.replicas(t,${this.#operand(s.address)},16)){`);
        this.#line(`o=m.writeWeak(t,e,16,16);P.setPacketAt(m.view,o,${value});}`);
        return;
      }
      case 'multicastAdd': {
        const site = this.#site('multicast add', s);
        const value = this.#operand(s.value);
        this.#line(`${site}${PAY}for(e of m.replicas(t,${this.#operand(s.address)},4))`);
        this.#line(`m.atomic32(t,e,'add',${value},${SCOPE_LEVEL.system});`);
        return;
      }
      case 'storeLine': {
        const site = this.#site('store of a line', s);
        const operands = [s.address, s.value, s.active].map((operand) => this.#operand(operand));
        this.#line(`${site}${PAY}if(x.storeLine(t,${operands.join(',')}))yield;`);
        return;
      }
      case 'vote': {
        const site = this.#site(`vote ${s.mode}`, s);
        this.#line(`${site}${PAY}if(x.vote(t,${s.mode === 'all'},${this.#operand(s.value)}))yield;`);
        this.#line(`${this.#name(s.target)}=t.result;`);
        return;
      }
      case 'return':
        this.#line(`return ${this.#operand(s.status)};`);
        return;
    }
  }

  /** Scope level of an order that publishes or takes over, -1 for relaxed and volatile. */
  #level(order: Order, scope: Scope): number {
    return order === 'acquire' || order === 'release' ? SCOPE_LEVEL[scope] : -1;
  }

  #load(s: Statement & { kind: 'load' }): void {
    const site = this.#site(`load ${s.memory} ${s.order}`, s);
    const target = this.#name(s.target);
    const address = this.#address(s.address, s.offset);
    if (s.order === 'weak') {
      const align = this.#promise(s.memory, s.align);
      this.#line(`${site}${PAY_WEAK}o=m.readWeak(t,${address},${MEMORY_BYTES[s.memory]},${align});`);
      this.#line(`${target}=${LOADS[s.memory]};`);
      return;
    }
    if (s.order === 'release') throw new TuttiError('internalError', 'a load cannot be a release');
    const level = this.#level(s.order, s.scope);
    if (s.memory !== 'packet') {
      this.#line(`${site}${PAY}o=m.readSync(t,${address},${MEMORY_BYTES[s.memory]},${level});`);
      this.#line(`${target}=${LOADS[s.memory]};`);
      return;
    }
    // Two halves, each whole, in either order.
    this.#line(`${site}e=${address};f=x.flip();${PAY}x.checkPacket(t,e);`);
    this.#line(`o=m.readSync(t,e+f,8,${level});${target}=P.withHalf(${target},f,m.view,o);`);
    this.#line(`${PAY}o=m.readSync(t,e+8-f,8,${level});${target}=P.withHalf(${target},8-f,m.view,o);`);
  }

  #store(s: Statement & { kind: 'store' }): void {
    const site = this.#site(`store ${s.memory} ${s.order}`, s);
    const address = this.#address(s.address, s.offset);
    const value = this.#operand(s.value);
    const bytes = MEMORY_BYTES[s.memory];
    if (s.order === 'weak') {
      const align = this.#promise(s.memory, s.align);
      this.#line(`${site}${PAY_WEAK}o=m.writeWeak(t,${address},${bytes},${align});`);
      this.#line(storeText(s.memory, value));
      return;
    }
    if (s.order === 'acquire') throw new TuttiError('internalError', 'a store cannot be an acquire');
    const level = this.#level(s.order, s.scope);
    if (s.memory !== 'packet') {
      this.#line(`${site}${PAY}e=${address};o=m.writeSync(t,e,${bytes});${storeText(s.memory, value)}`);
      this.#line(`m.publish(t,e,${bytes},${level});`);
      return;
    }
    this.#line(`${site}e=${address};f=x.flip();${PAY}x.checkPacket(t,e);`);
    for (const half of ['f', '8-f']) {
      if (half === '8-f') this.#line(PAY);
      this.#line(`o=m.writeSync(t,e+${half},8);P.setHalfAt(m.view,o,${value},${half});`);
      this.#line(`m.publish(t,e+${half},8,${level});`);
    }
  }

  #atomic(s: Statement & { kind: 'atomic' | 'compareExchange' }): void {
    const width = slotKind(s.target.type) === 'b' ? 64 : 32;
    const address = this.#address(s.address, s.offset);
    const value = this.#operand(s.value);
    const level = SCOPE_LEVEL[s.scope];
    const target = this.#name(s.target);
    if (s.kind === 'atomic') {
      const site = this.#site(`atomic ${s.operation}`, s);
      this.#line(`${site}${PAY}${target}=m.atomic${width}(t,${address},'${s.operation}',${value},${level});`);
    } else {
      const site = this.#site('compare and exchange', s);
      const expected = this.#operand(s.expected);
      const call = `m.compareExchange${width}(t,${address},${expected},${value},${level})`;
      this.#line(`${site}${PAY}${target}=${call};`);
    }
  }
}

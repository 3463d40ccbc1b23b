/**
 * Devices that are not like their kin: a NIC that came up with four lanes, a GPU that lacks NVLinks, a machine that is
 * not built like the others. Such a device slows down everybody, and nothing else says so.
 *
 * A device stands out if it differs from the clear majority of its kind in the same machine.
 */
import type { TopoSystem } from '../system/node.js';
import { Labels } from './labels.js';
import {
  devicesOf,
  type GpuFacts,
  type MachineFacts,
  type NicFacts,
  pcieText,
  type SwitchFacts,
} from './machine.js';
import { bandwidthText, countText, listText, netSpeedText } from './quantities.js';

/** One property of one device, as text; equal texts are equal properties. */
interface Trait {
  /** Devices that are compared with each other. */
  readonly kind: string;
  readonly kindText: (count: number) => string;
  /** The device: unique in its machine, the same in machines that are built alike. */
  readonly key: string;
  readonly name: string;
  readonly what: string;
  readonly value: string;
}

/** Devices of a kind from which on a majority means something. */
const FEWEST = 3;

function traitsOf(system: TopoSystem, facts: MachineFacts, rankOffset: number): Trait[] {
  const labels = new Labels(system, rankOffset);
  const traits: Trait[] = [];
  for (const gpu of devicesOf(facts, 'gpu')) traits.push(...gpuTraits(gpu, labels));
  for (const nic of devicesOf(facts, 'nic')) traits.push(...nicTraits(nic, labels));
  for (const one of devicesOf(facts, 'switch')) traits.push(switchTrait(one, labels));
  return traits;
}

function gpuTraits({ node, gpus, name, pci, nvlinks }: GpuFacts, labels: Labels): Trait[] {
  if (gpus.length === 0) return [];
  const own = {
    kind: `gpu ${name}`,
    kindText: (count: number) => countText(count, `other ${name}`, `other ${name}`),
    key: `gpu ${node.busId}`,
    name: labels.of(node),
  };
  const total = nvlinks.reduce((sum, { bandwidth }) => sum + bandwidth, 0);
  return [
    { ...own, what: 'PCIe', value: pcieText(pci) },
    { ...own, what: 'NVLinks', value: total === 0 ? 'none' : `${bandwidthText(total)} GB/s` },
  ];
}

function nicTraits({ node, pci, ports }: NicFacts, labels: Labels): Trait[] {
  const [port] = ports;
  if (port === undefined || pci === undefined) return [];
  const speed = netSpeedText(port.bandwidth * 8000);
  const own = {
    kind: `nic ${speed}`,
    kindText: (count: number) => countText(count, `other NIC of ${speed}`, `other NICs of ${speed}`),
    key: `nic ${node.busId}`,
    name: labels.of(port),
  };
  return [{ ...own, what: 'PCIe', value: pcieText(pci) }];
}

function switchTrait({ node, pci, devices }: SwitchFacts, labels: Labels): Trait {
  // Switches with as many GPUs and NICs below have the same task.
  const below = devices
    .map(({ kind }) => kind)
    .sort()
    .join(' ');
  return {
    kind: `switch ${node.device} ${below}`,
    kindText: (count) => countText(count, 'other switch like it', 'other switches like it'),
    key: `switch ${node.busId}`,
    name: labels.of(node),
    what: 'PCIe',
    value: pcieText(pci),
  };
}

/** Sentences on the devices of a machine that are not like the others of their kind. */
export function oddDevices(system: TopoSystem, facts: MachineFacts, rankOffset = 0): string[] {
  const groups = new Map<string, Trait[]>();
  for (const trait of traitsOf(system, facts, rankOffset)) {
    const key = `${trait.kind} ${trait.what}`;
    groups.set(key, [...(groups.get(key) ?? []), trait]);
  }
  const said: string[] = [];
  for (const group of groups.values()) {
    const byValue = new Map<string, Trait[]>();
    for (const trait of group) byValue.set(trait.value, [...(byValue.get(trait.value) ?? []), trait]);
    const [most, ...odd] = [...byValue.values()].sort((a, b) => b.length - a.length) as [
      Trait[],
      ...Trait[][],
    ];
    if (group.length < FEWEST || most.length * 2 <= group.length) continue;
    for (const alike of odd) {
      const [{ what, value, kindText }] = alike as [Trait];
      const names = listText(alike.map(({ name }) => name));
      const has = alike.length === 1 ? 'has' : 'have';
      said.push(`${names} ${has} ${what} ${value}, the ${kindText(most.length)} ${most[0]!.value}.`);
    }
  }
  return said;
}

/** A machine, and the first of the nodes that it stands for. */
export interface ComparedMachine {
  readonly name: string;
  readonly system: TopoSystem;
  readonly facts: MachineFacts;
}

/** Differences between two machines that are listed. */
const MOST_DIFFERENCES = 6;

/** What differs between a machine and another one, device by device; empty if nothing that counts does. */
export function machineDifferences(a: ComparedMachine, b: ComparedMachine): string[] {
  const [ours, theirs] = [a, b].map(
    ({ system, facts }) =>
      new Map(traitsOf(system, facts, 0).map((trait) => [`${trait.key} ${trait.what}`, trait])),
  ) as [Map<string, Trait>, Map<string, Trait>];
  const [ports, theirPorts] = [a, b].map(
    ({ facts }) =>
      new Map(
        devicesOf(facts, 'nic').flatMap(({ ports: own }) => own.map((port) => [port.name, port.bandwidth])),
      ),
  ) as [Map<string, number>, Map<string, number>];
  const differences: string[] = [];
  const missing = (from: Map<string, Trait>, in_: Map<string, Trait>, who: string) => {
    const names = [...from]
      .filter(([key, { what }]) => what === 'PCIe' && !in_.has(key))
      .map(([, { name }]) => name);
    if (names.length > 0) differences.push(`only ${who} has ${listText([...new Set(names)])} at that place`);
  };
  for (const [key, { name, what, value }] of ours) {
    const other = theirs.get(key);
    if (other !== undefined && other.value !== value) {
      differences.push(`${name} has ${what} ${value} in ${a.name}, ${other.value} in ${b.name}`);
    }
  }
  for (const [name, bandwidth] of ports) {
    const other = theirPorts.get(name);
    if (other === undefined || other === bandwidth) continue;
    const [here, there] = [bandwidth, other].map((value) => netSpeedText(value * 8000));
    differences.push(`${name} runs at ${here} in ${a.name}, ${there} in ${b.name}`);
  }
  missing(ours, theirs, a.name);
  missing(theirs, ours, b.name);
  const hidden = differences.length - MOST_DIFFERENCES;
  return hidden > 0 ? [...differences.slice(0, MOST_DIFFERENCES), `and ${hidden} more`] : differences;
}

/** The generator of random machines: what it makes can be used, is reproducible, and is as varied as it says. */
import { describe, expect, it } from 'vitest';
import { buildSystem } from '#src/topology/system/build.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { readXml } from '#src/topology/xml/read.js';
import { writeXml } from '#src/topology/xml/write.js';
import { ODDITIES, randomMachine } from './random-machine.js';

const SEEDS = Array.from({ length: 400 }, (_, seed) => seed);

/** Limits of NCCL's reader. */
const MAX_ELEMENTS = 255;
const MAX_ATTRIBUTES = 16;

function elementsOf(root: XmlElement): XmlElement[] {
  return [root, ...root.children.flatMap(elementsOf)];
}

describe('random machines', () => {
  it('keep the limits of topology files, have ranks without gaps, and become systems with all their GPUs and NICs', () => {
    for (const seed of SEEDS) {
      const { text, xml, nRanks, nNets } = randomMachine(seed);
      const elements = elementsOf(xml);
      expect(elements.length, text).toBeLessThanOrEqual(MAX_ELEMENTS);
      for (const { attributes } of elements)
        expect(attributes.size, text).toBeLessThanOrEqual(MAX_ATTRIBUTES);
      expect(readXml(writeXml(xml), { root: 'system' }).notes, text).toEqual([]);
      const { nodes } = buildSystem(xml);
      const ranks = nodes.GPU.map(({ rank }) => rank).sort((a, b) => a - b);
      expect(ranks, text).toEqual(Array.from({ length: nRanks }, (_, rank) => rank));
      expect(nodes.NET.length, text).toBe(nNets);
      expect(nodes.NVS.length > 0, text).toBe(/NVLink switch/.test(text));
    }
  });

  it('are the same for the same seed and differ between seeds', () => {
    const [first, again] = [SEEDS, SEEDS].map((seeds) => seeds.map((seed) => randomMachine(seed)));
    expect(again).toEqual(first);
    const differing = new Set(first!.map(({ xml }) => JSON.stringify(xml, mapsAsLists)));
    expect(differing.size).toBeGreaterThan(SEEDS.length * 0.98);
  });

  it('have every oddity somewhere, and none that is left out', () => {
    const seen = new Set(SEEDS.flatMap((seed) => [...randomMachine(seed).oddities]));
    expect([...seen].sort()).toEqual([...ODDITIES].sort());
    for (const seed of SEEDS) {
      const plain = randomMachine(seed, ODDITIES);
      expect(plain.oddities.size, plain.text).toBe(0);
      expect(plain.nRanks, plain.text).toBeGreaterThan(1);
      expect(plain.nNets, plain.text).toBeGreaterThan(0);
    }
  });
});

const mapsAsLists = (_: string, value: unknown): unknown => (value instanceof Map ? [...value] : value);

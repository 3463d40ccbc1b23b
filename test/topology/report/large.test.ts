/** Reports of machines and clusters that are deep or large: in time that grows with them, and no further. */
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { clusterJson, type JsonValue, jsonText } from '#src/topology/report/json.js';
import { rankView } from '#src/topology/report/rank-view.js';
import { plainStyle } from '#src/topology/report/style.js';
import { clusterSvg } from '#src/topology/report/svg.js';
import { textReport } from '#src/topology/report/text-report.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { cluster } from '../described.js';
import { ARM, cpu, gpu, nic, pciSwitch, system } from '../machine-xml.js';

/** Seconds that none of these needs, and that the ways which they replace exceed by far. */
const LIMIT = 20_000;

const bus = (number: number) => `${number.toString(16).padStart(4, '0')}:01:00.0`;

describe('a machine of switches inside each other', () => {
  let below: XmlElement[] = [gpu(bus(1), 0), nic(bus(2), 0)];
  for (let depth = 0; depth < 100; depth++) below = [pciSwitch(bus(100 + depth), ...below)];
  const xml = system(cpu(ARM, ...below, gpu(bus(3), 1)));

  it(
    'is drawn, folded and not',
    () => {
      const one = cluster(xml, 1);
      const lines = textReport({ cluster: one, documents: [xml] }, plainStyle(40));
      expect(lines.filter((line) => line.includes('PCIe switch')).length).toBeGreaterThanOrEqual(100);
      expect(clusterSvg(one, () => xml)).toMatch(/^<svg[\s\S]*<\/svg>\n$/);
    },
    LIMIT,
  );
});

describe('a cluster of very many nodes', () => {
  const xml = system(cpu(ARM, gpu('11:00.0', 0), nic('12:00.0', 0)));

  it(
    'of a hundred and forty thousand is described',
    () => {
      const many = cluster(xml, 140_000);
      const documents = new Array<XmlElement>(140_000).fill(xml);
      const [first] = textReport({ cluster: many, documents }, plainStyle(200));
      expect(first).toMatch(/140000 nodes, 140000 ranks/);
    },
    LIMIT,
  );

  it('has each node with its machine in JSON', () => {
    const other = system(cpu(ARM, gpu('21:00.0', 0), nic('22:00.0', 0)));
    const documents = [xml, other, xml];
    const mixed = cluster(xml, 3);
    const json = clusterJson({ cluster: mixed, documents }) as { nodes: { machine: number }[] };
    expect(json.nodes.map(({ machine }) => machine)).toEqual([0, 1, 0]);
  });
});

test('device numbers of a file may be large: those of the send and receive table are the ones that are there', () => {
  const xml = system(cpu(ARM, gpu('11:00.0', 2_147_483_647, { rank: 0 }), nic('12:00.0', 0)));
  const text = rankView(cluster(xml, 2), 0, plainStyle(100)).join('\n');
  expect(text).toMatch(/^2147483647 +\S+/m);
});

describe('JSON text', () => {
  /** What it should be: each part flat if it fits, made anew at every level. */
  function reference(value: JsonValue, width: number, indent: string): string {
    const flat = JSON.stringify(value);
    const isEmpty = typeof value === 'object' && value !== null && Object.keys(value).length === 0;
    if (typeof value !== 'object' || value === null || isEmpty || flat.length + indent.length <= width)
      return flat;
    const inner = `${indent} `;
    if (Array.isArray(value)) {
      if (value.every((one) => typeof one !== 'object')) return flat;
      return `[\n${value.map((one) => inner + reference(one, width, inner)).join(',\n')}\n${indent}]`;
    }
    const fields = Object.entries(value as { [name: string]: JsonValue }).map(
      ([name, one]) => `${inner}${JSON.stringify(name)}: ${reference(one, width, inner)}`,
    );
    return `{\n${fields.join(',\n')}\n${indent}}`;
  }

  it('has what fits on one line there, and everything else on lines of its own', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 5, noUnicodeString: true }),
        fc.integer({ min: 1, max: 60 }),
        (value, width) => {
          expect(jsonText(value as JsonValue, width)).toBe(reference(value as JsonValue, width, ''));
        },
      ),
    );
  });

  it('escapes the control characters that JSON would let through', () => {
    const value = { 'a\u009b': 'b\u007f\u0080\u009f\u00a0' };
    expect(jsonText(value)).toBe('{"a\\u009b":"b\\u007f\\u0080\\u009f\u00a0"}');
    expect(JSON.parse(jsonText(value))).toEqual(value);
  });
});

/** The golden comparison itself: every number of every aspect counts, and what is wrong with a file is said. */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { element } from '#src/topology/xml/element.js';
import { ASPECTS, aspectsNamed, compareAspect, partOf } from './aspects.js';
import { checkFile, type FileResult } from './check.js';
import { compareTrees, type Difference } from './difference.js';
import { findMachines, readGolden } from './folder.js';
import type { GoldenFile, GoldenParts, Oracle } from './format.js';
import { goldenInputs } from './inputs.js';
import { differenceLines, isEqual, resultTable } from './table.js';

const DATA = fileURLToPath(new URL('../../golden', import.meta.url));
/** Small, fast, and with every aspect between them. */
const SMALL = { folder: join(DATA, 'syn-7gpu-nvswitch'), file: 'golden-n2.json.gz' };
const COLLNET = { folder: join(DATA, 'azure-ndv5-h100x8-8x400g'), file: 'golden-n2-nvls-collnet.json.gz' };

const folders: string[] = [];
function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tutti-golden-'));
  folders.push(folder);
  return folder;
}
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

/** Paths to all leaves, and to all lists (which can lose an element). */
function places(tree: unknown, path: readonly (string | number)[] = []): (readonly (string | number)[])[] {
  if (Array.isArray(tree)) return [path, ...tree.flatMap((value, i) => places(value, [...path, i]))];
  if (typeof tree === 'object' && tree !== null) {
    return Object.entries(tree).flatMap(([key, value]) => places(value, [...path, key]));
  }
  return tree === undefined ? [] : [path];
}

/** Another value: the next 32-bit float, another text, a list without its last element or with one more. */
function changed(value: unknown): unknown {
  if (typeof value === 'number') {
    return Number.isInteger(value) ? value + 1 : Math.fround(value * (1 + 2 ** -23));
  }
  if (typeof value === 'string') return `${value}x`;
  if (typeof value === 'boolean') return !value;
  if (Array.isArray(value)) return value.length === 0 ? [0] : value.slice(0, -1);
  throw new Error(`no other value for ${String(value)}`);
}

/** The tree with one place changed; what is not on the way is shared. */
function changedAt(tree: unknown, path: readonly (string | number)[]): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return changed(tree);
  const copy: Record<string | number, unknown> = Array.isArray(tree)
    ? ([...tree] as never)
    : { ...(tree as object) };
  copy[key] = changedAt(copy[key], rest);
  return copy;
}

describe('comparison with golden data', () => {
  const golden = readGolden(COLLNET.folder, COLLNET.file);

  it('finds nothing between a file and itself, in every aspect', () => {
    for (const aspect of ASPECTS) {
      expect(compareAspect(aspect, golden, golden), aspect).toEqual({ aspect, count: 0, first: [] });
    }
  });

  it.each(ASPECTS)('%s: finds any change of one number, text or list, at its place', (aspect) => {
    const part = partOf(aspect, golden) as GoldenParts;
    const all = places(part);
    expect(all.length).toBeGreaterThan(2);
    fc.assert(
      fc.property(fc.constantFrom(...all), (place) => {
        const mutant = { ...golden, ...(changedAt(part, place) as GoldenParts) };
        const { count, first } = compareAspect(aspect, golden, mutant)!;
        const path = place.reduce<string>(
          (text, key) => (typeof key === 'number' ? `${text}[${key}]` : `${text}.${key}`),
          '$',
        );
        expect(count).toBe(1);
        expect([path, `${path}.length`]).toContain(first[0]!.path);
        expect(first[0]!.expected).not.toBe(first[0]!.got);
      }),
      { numRuns: 60 },
    );
  });

  it.each(ASPECTS)('%s: finds that our side has nothing, and that the file has nothing', (aspect) => {
    const nothing: GoldenParts = {};
    expect(compareAspect(aspect, golden, nothing)?.count).toBe(1);
    expect(compareAspect(aspect, nothing, golden)?.count).toBe(1);
    expect(compareAspect(aspect, nothing, nothing)).toBeNull();
  });

  it('keeps the first differences of an aspect and counts the rest', () => {
    const { nRanks } = golden.oracle;
    const moved = { ...golden, comm: { ...golden.comm, rankToNode: Array<number>(nRanks).fill(9) } };
    const { count, first } = compareAspect('comm', golden, moved, 3)!;
    expect([count, first.length]).toEqual([nRanks, 3]);
  });

  it('takes numbers as equal if they are the same 32-bit float or whole number, and only then', () => {
    fc.assert(
      fc.property(fc.float({ noNaN: true, noDefaultInfinity: true }), (value) => {
        // From there on nine digits do not hold a whole number: no speed or time of a file is as large.
        fc.pre(Math.abs(value) < 1e9);
        const nine = Number(value.toPrecision(9));
        expect(compareTrees(nine, value, [], 1)).toBe(0);
        const next = new Float32Array([value]);
        new Int32Array(next.buffer)[0]! += 1;
        if (next[0] !== value && Number.isFinite(next[0])) expect(compareTrees(nine, next[0], [], 1)).toBe(1);
      }),
    );
    const found: Difference[] = [];
    expect([compareTrees(2 ** 31, 2 ** 31, [], 1), compareTrees(2 ** 31, 2 ** 31 + 1, [], 1)]).toEqual([
      0, 1,
    ]);
    expect(compareTrees({ a: [1, Number.NaN], b: 1 }, { a: [1, 2, 3], c: 1 }, found, 9)).toBe(4);
    expect(found).toEqual([
      { path: '$.a.length', expected: '2', got: '3' },
      { path: '$.a[1]', expected: 'null', got: '2' },
      { path: '$.b', expected: '1', got: 'nothing' },
      { path: '$.c', expected: 'nothing', got: '1' },
    ]);
  });

  it('knows aspects by name and by the word before the dash', () => {
    expect(aspectsNamed('trees')).toEqual(['trees']);
    expect(aspectsNamed('search').length).toBe(5);
    expect(aspectsNamed('tree')).toEqual([]);
    expect(() => partOf('tree', {})).toThrow("no aspect 'tree'");
  });
});

describe('checking files', () => {
  const job = { machine: 'small', ...SMALL };

  function altered(
    change: (golden: Record<string, unknown> & GoldenFile) => object,
    lastTopology?: string,
  ): FileResult {
    const folder = scratch();
    cpSync(join(SMALL.folder, 'topo.xml'), join(folder, 'topo.xml'));
    if (lastTopology !== undefined) cpSync(lastTopology, join(folder, 'topo-last.xml'));
    const golden = readGolden(SMALL.folder, SMALL.file) as Record<string, unknown> & GoldenFile;
    writeFileSync(join(folder, SMALL.file), gzipSync(JSON.stringify({ ...golden, ...change(golden) })));
    return checkFile({ ...job, folder });
  }

  it('says in which machine, file, aspect and place our result differs from a file with another number', () => {
    const result = altered(({ aligned }) => ({
      aligned: { ...aligned, ring: { ...aligned!.ring, bwIntra: 1 } },
    }));
    expect(isEqual(result)).toBe(false);
    const bw = readGolden(SMALL.folder, SMALL.file).aligned!.ring.bwIntra;
    expect(differenceLines(result)).toEqual([
      `small/${SMALL.file} aligned $.aligned.ring.bwIntra: expected 1, got ${bw}`,
    ]);
    expect(resultTable([result])).toMatch(/^small +1 .* 1 /m);
  });

  it('compares what the parameters ask for: other variables give other results', () => {
    const result = altered(({ oracle }) => ({ oracle: { ...oracle, env: { NCCL_MAX_NCHANNELS: '2' } } }));
    const counts = new Map(result.aspects.map(({ aspect, count }) => [aspect, count]));
    expect([counts.get('comm')! > 0, counts.get('rings')! > 0, counts.get('search-ring')]).toEqual([
      true,
      true,
      0,
    ]);
  });

  it('makes a file that cannot be read, or asks for what cannot be described, an error and not an empty success', () => {
    const folder = scratch();
    cpSync(join(SMALL.folder, 'topo.xml'), join(folder, 'topo.xml'));
    writeFileSync(join(folder, 'golden-torn.json.gz'), 'no gzip');
    writeFileSync(join(folder, 'golden-empty.json.gz'), gzipSync('{}'));
    for (const file of ['golden-torn.json.gz', 'golden-empty.json.gz', 'golden-absent.json.gz']) {
      const result = checkFile({ machine: 'm', folder, file });
      expect(isEqual(result)).toBe(false);
      expect(differenceLines(result)[0]).toContain(`cannot read ${join(folder, file)}`);
    }
    const uneven = altered(({ oracle }) => ({ oracle: { ...oracle, traysPerClique: 3 } }));
    expect(uneven.error).toContain('2 trays cannot form cliques of 3');
    const differing = altered(({ oracle }) => ({ oracle: { ...oracle, lastNodeDiffers: 1 } }));
    expect(differing.error).toMatch(/the last node differs, but there is no .*topo-last\.xml/);
  });

  it('describes the last of the nodes by its own file if it differs, and compares its systems too', () => {
    const asOwn = ({ oracle, system, domainSystems }: GoldenFile) => {
      const ranked = { ...system!.nodes };
      ranked.GPU = ranked.GPU!.map((gpu) => ({ ...gpu, rank: Number(gpu.rank) + oracle.gpusPerNode }));
      return {
        oracle: { ...oracle, lastNodeDiffers: 1 },
        domainSystems: [...(domainSystems ?? []), { ...system, nodes: ranked }],
      };
    };
    const same = altered(asOwn, join(SMALL.folder, 'topo.xml'));
    expect(differenceLines(same)).toEqual([]);
    expect(isEqual(same)).toBe(true);
    const unlisted = altered(
      ({ oracle }) => ({ oracle: { ...oracle, lastNodeDiffers: 1 } }),
      join(SMALL.folder, 'topo.xml'),
    );
    expect(differenceLines(unlisted)[0]).toContain('domainSystems');
    const other = altered(asOwn, join(DATA, 'dgx-a100-8x200g', 'topo.xml'));
    expect(differenceLines(other).join('\n')).toMatch(/domainSystems\[0\]/);
    expect(other.aspects.find(({ aspect }) => aspect === 'comm')?.count).toBeGreaterThan(0);
  });

  it('counts a file in which nothing is compared as unequal', () => {
    const result = checkFile(job, []);
    expect(isEqual(result)).toBe(false);
    expect(differenceLines(result)).toEqual([`small/${SMALL.file}: nothing to compare`]);
  });

  it('refuses folders without machines, and golden files without a topology', () => {
    const empty = scratch();
    expect(() => findMachines(empty)).toThrow(`no machine in ${empty}`);
    expect(() => findMachines(join(empty, 'absent'))).toThrow('is not a folder');
    writeFileSync(join(empty, 'golden.json.gz'), '');
    expect(() => findMachines(empty)).toThrow('no topo.xml');
  });
});

describe('inputs of a golden file', () => {
  const gpu = (busid: string, rank: number, ...links: (readonly [target: string, tclass: string])[]) =>
    element('pci', { busid }, [
      element(
        'gpu',
        { rank },
        links.map(([target, tclass]) => element('nvlink', { target, tclass, count: 1 })),
      ),
    ]);
  const host = element('system', { version: 1 }, [
    element('cpu', { numaid: 0, host_hash: '0x7' }, [
      gpu('0000:0A:00.0', 0, ['0000:0b:00.0', '0x030200']),
      gpu('0000:0b:00.0', 1),
      gpu('0000:0c:00.0', 2, ['fffffff:ff:ff.0', '0x068000']),
      gpu('0000:0d:00.0', 3, ['fffffff:ff:ff.0', '0x068000']),
      gpu('0000:0e:00.0', 4, ['fffffff:ff:ff.0', '0x068001']),
      element('nic', {}, [element('net', { dev: 0 })]),
    ]),
  ]);
  const oracle: Oracle = {
    nodes: 4,
    gpusPerNode: 5,
    nRanks: 20,
    mnnvl: 0,
    traysPerClique: 1,
    lastNodeDiffers: 0,
    nvls: 0,
    collnet: 0,
    nop2p: 0,
    env: {},
  };

  it('are N times the same host object, or cliques of trays with hashes of their own and ranks that go on', () => {
    const { nodes } = goldenInputs(host, oracle);
    expect(nodes.length).toBe(4);
    expect(new Set(nodes.map(({ xml }) => xml)).size).toBe(1);
    expect(nodes[0]!.xml.children.map(({ attributes }) => attributes.get('host_hash'))).toEqual(['0x1000']);
    expect(host.children[0]!.attributes.get('host_hash')).toBe('0x7');

    const cliques = goldenInputs(host, { ...oracle, mnnvl: 1, traysPerClique: 2 });
    expect(cliques.nodes.length).toBe(2);
    const [a, b] = cliques.nodes[0]!.xml.children;
    expect([a!, b!].map(({ attributes }) => attributes.get('host_hash'))).toEqual(['0x1000', '0x1001']);
    expect(b!.children[0]!.children[0]!.attributes.get('rank')).toBe('5');
  });

  it('have another host at the end if the last one differs, with its own pairs of peer-to-peer access', () => {
    const last = element('system', { version: 1 }, [
      element('cpu', { numaid: 0 }, [gpu('0000:0a:00.0', 0), gpu('0000:0b:00.0', 1), gpu('0000:0c:00.0', 2)]),
    ]);
    const differing = { ...oracle, lastNodeDiffers: 1, nRanks: 18, nop2p: 1 } as const;
    expect(() => goldenInputs(host, differing)).toThrow('the last node differs, but nothing describes it');
    const { nodes, nvmlP2p } = goldenInputs(host, differing, last);
    expect(nodes.length).toBe(4);
    expect(new Set(nodes.slice(0, 3)).size).toBe(1);
    const gpusOf = (at: number) =>
      nodes[at]!.xml.children[0]!.children.filter(({ name }) => name === 'pci').length;
    expect([gpusOf(2), gpusOf(3)]).toEqual([5, 3]);
    const pair = ['0000:0a:00.0', '0000:0b:00.0'] as const;
    expect([nvmlP2p(...pair), nodes[0]!.nvmlP2p, nodes[3]!.nvmlP2p!(...pair)]).toEqual([
      true,
      undefined,
      false,
    ]);
    // In cliques the last tray of the last one.
    const cliques = goldenInputs(host, { ...differing, mnnvl: 1, traysPerClique: 2 }, last).nodes;
    const sizes = cliques.map(({ xml }) => xml.children.map(({ children }) => children.length));
    expect(sizes).toEqual([
      [6, 6],
      [6, 3],
    ]);
    const [, third] = cliques[1]!.xml.children;
    expect(third!.children[0]!.children[0]!.attributes.get('rank')).toBe('5');
  });

  it('have peer-to-peer only over NVLink if NVML reports none, and everywhere otherwise', () => {
    const { nvmlP2p } = goldenInputs(host, { ...oracle, nop2p: 1 });
    const pairs = ['0a', '0b', '0c', '0d', '0e'].flatMap((a, i, all) =>
      all.slice(i + 1).map((b) => [`0000:${a}:00.0`, `0000:${b}:00.0`] as const),
    );
    const joined = pairs.filter(([a, b]) => nvmlP2p(a, b));
    expect(joined).toEqual([
      ['0000:0a:00.0', '0000:0b:00.0'],
      ['0000:0c:00.0', '0000:0d:00.0'],
    ]);
    for (const [a, b] of pairs) expect(nvmlP2p(b, a)).toBe(nvmlP2p(a, b));
    const all = goldenInputs(host, oracle).nvmlP2p;
    expect(pairs.every(([a, b]) => all(a, b))).toBe(true);
  });

  it('mark all NICs for CollNet if there is CollNet', () => {
    const nets = (collnet: 0 | 1) =>
      goldenInputs(host, { ...oracle, collnet })
        .nodes[0]!.xml.children[0]!.children.at(-1)!
        .children.map(({ attributes }) => attributes.get('coll'));
    expect([nets(0), nets(1)]).toEqual([[undefined], ['1']]);
  });
});

/** Tuners that the user names: modules and CSV rules that work, and every way in which they can be broken. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { loadTuner } from '#src/cli/tune/tuner-file.js';
import { defaultConstants } from '#src/tuning/constants.js';
import { askTuner, bindTuner, tunedChunkSize } from '#src/tuning/tuner.js';
import { topologyOf, tune, tuneJson, unwrapped } from './run.js';

const A100 = topologyOf('dgx-a100-8x200g');

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tutti-tuner-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

/** Cells of a cost table: algorithm times three, plus protocol. */
const TREE_SIMPLE = 2;
const RING_LL = 3;

const COMMUNICATOR = {
  nRanks: 8,
  nNodes: 1,
  nvlDomains: 1,
  minRanksPerNvlDomain: 8,
  maxRanksPerNvlDomain: 8,
};
const CALL = { function: 'AllReduce', bytes: 1024, pipelined: 1, registered: false } as const;
const CHUNK_CALL = {
  function: 'AllReduce',
  bytes: 1024,
  algorithm: 'Ring',
  protocol: 'LL',
  channels: 1,
  chunkSize: 1024,
} as const;

const FORCES_TREE = `
export const name = 'forest';
export function init({ nRanks, nNodes }, constants, log) {
  if (nRanks !== 16 || nNodes !== 2) throw new Error('wrong communicator');
  return { repeatable: true, getCollInfo(call, costs) { costs[${TREE_SIMPLE}] = 0; return 4; } };
}
`;

describe('a tuner', () => {
  it('that is a module rewrites the costs and channels, and the answer says so', async () => {
    const args = ['--size=1M', A100, '--nodes=2', '--tuner', file('forest.mjs', FORCES_TREE)];
    const { text } = await tune(args);
    expect(unwrapped(text)).toMatch(
      /Tuner forest changes the costs and asks for 4 channels; the model's choice is Tree\/LL128 with [\d.]+ us\./,
    );
    expect(text).toMatch(/^All-reduce of 1 MB .*: Tree\/Simple/m);
    const json = await tuneJson(args);
    expect(json.tuner).toBe('forest');
    expect(json.functions[0]!.calls[0]!.choice).toMatchObject({ chosenBy: 'tuner', maxChannels: 4 });
    expect(text).not.toMatch(/NaN|Infinity|undefined/);
  });

  it('may be a default export and need no name', async () => {
    const path = file(
      'plain.mjs',
      `export default { init: () => ({ getCollInfo(call, costs) { costs[${RING_LL}] = 0.5; } }) };`,
    );
    const { text } = await tune(['--size=1G', A100, '--nodes=2', '--tuner', path]);
    expect(text).toContain('Tuner plain.mjs changes the costs;');
    expect(text).toMatch(/: Ring\/LL,/);
  });

  it('may change the constants of the model', async () => {
    const path = file(
      'constants.mjs',
      `export function init(comm, constants) {
        constants.baseLatencies.Ring[0] = 1000;
        return { repeatable: true, getCollInfo() {} };
      }`,
    );
    const { text } = await tune(['--size=8', A100, '--tuner', path]);
    expect(text).toMatch(/^All-reduce of 8 B .*: Tree\/LL/m);
  });

  it('that may change its mind is asked about the sizes of the sweep only, each once', async () => {
    const path = file(
      'moody.mjs',
      `const asked = new Map();
       export function init() {
         return {
           getCollInfo({ bytes }, costs) {
             asked.set(bytes, (asked.get(bytes) ?? 0) + 1);
             if (![1048576, 2097152, 4194304].includes(bytes)) throw new Error('asked about ' + bytes);
             if (asked.get(bytes) > 1) throw new Error('asked again');
             if (bytes === 2097152) costs[${TREE_SIMPLE}] = 0;
           },
         };
       }`,
    );
    const json = await tuneJson(['-b', '1M', '-e', '4M', A100, '--nodes=4', '--tuner', path]);
    expect(json.functions[0]!.changes.map(({ bytes, from, to }) => [bytes, from, to])).toEqual([
      [2097152, 'Tree/LL128', 'Tree/Simple'],
      [4194304, 'Tree/Simple', 'Tree/LL128'],
    ]);
  });

  it('may be rules in CSV, as the example plugin of NCCL reads them', async () => {
    const path = file('rules.csv', '# ours\nallreduce,0,1048576,ring,simple,3,-1,-1\n');
    const json = await tuneJson(['-b', '512K', '-e', '2M', A100, '--nodes=2', '--tuner', path]);
    expect(
      json.functions[0]!.calls.map(({ choice }) => `${choice!.algorithm} ${choice!.maxChannels}`),
    ).toEqual(['Ring 3', 'Ring 3', 'Tree 16']);
    // The rule ends exactly where it says.
    expect(json.functions[0]!.changes.at(-1)).toMatchObject({ bytes: 1048576 + 4, from: 'Ring/Simple' });
  });
});

const BROKEN: readonly (readonly [what: string, name: string, text: string, message: RegExp])[] = [
  [
    'a module with a mistake',
    'syntax.mjs',
    'export function init( {',
    /syntax\.mjs: the module cannot be loaded: /,
  ],
  [
    'a module that throws',
    'throws.mjs',
    'throw new Error("no disk")',
    /throws\.mjs: the module cannot be loaded: no disk/,
  ],
  [
    'a module without init',
    'empty.mjs',
    'export const a = 1;',
    /empty\.mjs: the module exports no function init/,
  ],
  [
    'init that throws',
    'init.mjs',
    'export function init() { throw new Error("no licence"); }',
    /tuner init\.mjs failed in init: no licence/,
  ],
  [
    'init that returns nothing',
    'nothing.mjs',
    'export function init() {}',
    /nothing\.mjs: its init returned no tuner/,
  ],
  [
    'a constant that is no number',
    'nan.mjs',
    'export function init(c, k) { k.llMaxBws.Volta[0] = NaN; return { getCollInfo() {} }; }',
    /tuner nan\.mjs set the constant llMaxBws\.Volta\.0 to NaN/,
  ],
  [
    'getCollInfo that throws',
    'call.mjs',
    'export const init = () => ({ getCollInfo() { throw new TypeError("x is not y"); } });',
    /tuner call\.mjs failed in getCollInfo: x is not y/,
  ],
  [
    'channels that cannot be',
    'channels.mjs',
    'export const init = () => ({ getCollInfo: () => 1000 });',
    /tuner channels\.mjs asked for 1000 channels/,
  ],
  [
    'rules with an unknown name',
    'typo.csv',
    'allreduce,0,-1,rng,simple,-1,-1,-1\n',
    /typo\.csv:1: algorithm 'rng' is unknown \(did you mean ring\?\)/,
  ],
  [
    'a module that ends the process',
    'exit.mjs',
    'process.exit(0);',
    /exit\.mjs: the module cannot be loaded: it ends the process/,
  ],
  [
    'a module that cannot be looked at',
    'getter.mjs',
    'export default { get init() { throw new Error("not now"); } };',
    /getter\.mjs: the module cannot be loaded: not now/,
  ],
  [
    'init that returns a promise',
    'async.mjs',
    'export async function init() { throw new Error("later"); }',
    /tuner async\.mjs answers init with a promise/,
  ],
  ['rules with too few fields', 'short.csv', 'allreduce,0\n', /short\.csv:1: 2 fields/],
];

describe('a broken tuner', () => {
  test.each(BROKEN)('%s is an error that names it', async (_, name, text, message) => {
    await expect(tune(['--size=1M', A100, '--tuner', file(name, text)])).rejects.toThrow(message);
  });

  test.each(BROKEN)('%s is ignored with a notice if the user says so', async (_, name, text, message) => {
    const args = ['--size=1M', A100, '--tuner', file(name, text), '--ignore-broken-tuner'];
    const broken = await tune(args);
    const without = await tune(['--size=1M', A100]);
    expect(broken.text).toBe(without.text);
    expect(broken.notes).toHaveLength(1);
    expect(broken.notes[0]).toMatch(message);
    expect(broken.notes[0]).toMatch(/; going on without it$/);
  });

  it('that is missing is named', async () => {
    await expect(tune([A100, '--tuner', '/no/such/rules.csv'])).rejects.toThrow(
      /tuner \/no\/such\/rules\.csv: it cannot be read: ENOENT/,
    );
    await expect(tune([A100, '--tuner', '/no/such.mjs'])).rejects.toThrow(
      /tuner \/no\/such\.mjs: the module cannot be loaded/,
    );
  });

  it('is not blamed for what is wrong without it', async () => {
    const args = [A100, '--tuner', file('fine.mjs', FORCES_TREE), '--nodes=2', '--ignore-broken-tuner'];
    await expect(tune(args, { NCCL_ALGO: 'Rng' })).rejects.toThrow(/"Rng"/);
  });

  it('that never finishes loading is given up', async () => {
    const path = file(
      'hangs.mjs',
      'setInterval(() => {}, 1e6); await new Promise(() => {}); export function init() {}',
    );
    await expect(loadTuner(path, 50)).rejects.toThrow(
      /hangs\.mjs: the module cannot be loaded: it did not finish within 0\.05 s/,
    );
  });

  it.each([
    ['waits for what never happens', 'await new Promise(() => {}); export function init() {}'],
    ['ends the process', 'process.exit(0); export function init() {}'],
  ])('that %s while it is loaded is told so', async (what, text) => {
    const path = file('ends.mjs', text);
    await expect(loadTuner(path, 60_000)).rejects.toThrow(
      new RegExp(`ends\\.mjs: the module cannot be loaded: it ${what}`),
    );
  });

  it.each([
    ['loading', 'for (;;);', /loop-loading\.mjs: the module cannot be loaded: it did not finish within/],
    ['init', 'export function init() { for (;;); }', /tuner loop-init\.mjs failed in init: it did not/],
    [
      'getCollInfo',
      'export const init = () => ({ getCollInfo() { try { for (;;); } finally { for (;;); } } });',
      /tuner loop-getCollInfo\.mjs failed in getCollInfo: it did not/,
    ],
    [
      'getChunkSize',
      'export const init = () => ({ getCollInfo() {}, getChunkSize() { for (;;); } });',
      /tuner loop-getChunkSize\.mjs failed in getChunkSize: it did not/,
    ],
  ])('that never ends in %s is given up', async (where, text, message) => {
    const path = file(`loop-${where}.mjs`, text);
    // Enough for the parts that do end, on a busy machine.
    const limit = where === 'loading' ? 50 : 2000;
    const run = async () => {
      const plugin = await loadTuner(path, limit);
      const tuner = bindTuner(plugin, COMMUNICATOR, defaultConstants(), () => {});
      askTuner(tuner, CALL, new Float32Array(21));
      tunedChunkSize(tuner, CHUNK_CALL, { ceiling: 4096, grain: 16 }, () => {});
    };
    await expect(run()).rejects.toThrow(message);
  });

  it('that writes costs which are no times withdraws candidates, and the answer has no gaps', async () => {
    const path = file(
      'odd.mjs',
      'export const init = () => ({ getCollInfo(call, costs) { costs[0] = NaN; costs[1] = Infinity; costs[2] = -5; } });',
    );
    const { text } = await tune(['--size=1M', A100, '--nodes=2', '--tuner', path]);
    expect(text).toContain('tuner odd.mjs withdrew');
    expect(text).not.toMatch(/NaN|Infinity|-5/);
    const json = await tuneJson(['--size=1M', A100, '--nodes=2', '--tuner', path]);
    expect(json.functions[0]!.calls[0]!.candidates.map(({ algorithm }) => algorithm)).toEqual([
      'Ring',
      'Ring',
      'Ring',
    ]);
  });
});

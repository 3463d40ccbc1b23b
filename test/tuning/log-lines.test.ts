/** NCCL's lines about tuning. */
import { describe, expect, it } from 'vitest';
import { decide } from '#src/tuning/decide.js';
import {
  decisionLine,
  logTables,
  selectionMatrix,
  tableLines,
  thresholdLine,
} from '#src/tuning/log-lines.js';
import { collnetNodes, plainInput, tablesOf } from './plain-input.js';

describe('lines of log', () => {
  it('list latency and bandwidth of all candidates, three algorithms at a time [C05-37]', () => {
    const lines = tableLines(tablesOf(plainInput()));
    expect(lines).toHaveLength(3 * (3 + 5));
    expect(lines.slice(0, 3).map((line) => line.replaceAll(/ +/g, ' '))).toEqual([
      ' Algorithm | Tree | Ring | CollNetDirect |',
      ' Protocol | LL | LL128 | Simple | LL | LL128 | Simple | LL | LL128 | Simple |',
      ' Max NThreads | 512 | 640 | 512 | 512 | 640 | 512 | 0 | 0 | 640 |',
    ]);
    expect(lines[7]).toBe(
      '    AllReduce |    15.2/  43.6 |    31.5/ 128.8 |    64.4/ 165.6 |    15.0/  80.6 |    40.6/ 189.3 |' +
        '    56.0/ 205.7 |     5.6/   0.0 |     5.6/   0.0 |    44.0/   0.0 |',
    );
    expect(lines[16]!.replaceAll(/ +/g, ' ')).toBe(' Algorithm | PAT |');
    expect(lines[17]!.match(/LL128/g)).toHaveLength(3);
    expect(lines[18]!.replaceAll(/ +/g, ' ')).toBe(' Max NThreads | 0 | 0 | 0 |');
    expect(new Set(lines.slice(0, 8).map(({ length }) => length)).size).toBe(1);
  });

  it('list what NCCL_ALGO and NCCL_PROTO leave', () => {
    const tables = tablesOf(plainInput({ env: { NCCL_ALGO: 'ring', NCCL_PROTO: 'allreduce:^LL' } }));
    const [title, header, ...rows] = selectionMatrix(tables).split('\n');
    expect(title).toBe('Enabled NCCL Func/Proto/Algo Matrix:');
    expect(header).toBe(
      '     Function |       LL     LL128    Simple   |          Tree           Ring  CollNetDirect   CollNetChain  ' +
        '         NVLS       NVLSTree            PAT  ',
    );
    expect(rows[0]!.replaceAll(/ +/g, ' ')).toBe(' Broadcast | 1 2 1 | 0 1 0 0 0 0 0 ');
    expect(rows[4]!.replaceAll(/ +/g, ' ')).toBe(' AllReduce | 0 1 1 | 0 1 0 0 0 0 0 ');
    expect(rows[5]).toBe('');
  });

  it('tell the thresholds', () => {
    expect(thresholdLine(tablesOf(collnetNodes()))).toBe('threadThresholds 8/8/64 | 128/8/64 | 512 | 512');
  });

  it('tell each choice', () => {
    const call = { function: 'AllReduce', bytes: 4096, type: 'float32' } as const;
    const line = (env: Record<string, string>, nodes = collnetNodes) =>
      decisionLine(call, decide(tablesOf(nodes({ env })), call), { first: 0, last: 3 });
    expect(line({ NCCL_ALGO: 'ring', NCCL_PROTO: 'simple' })).toBe(
      'AllReduce: 4096 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..3}',
    );
    expect(line({ NCCL_ALGO: 'nvlstree' })).toContain('Algo NVLS_TREE proto SIMPLE');
    expect(line({ NCCL_ALGO: 'tree', NCCL_PROTO: 'LL128' })).toContain('Algo TREE proto LL128');
  });

  it('show the matrix only if a variable is set', () => {
    const logged = (env: Record<string, string>) => {
      const lines: string[] = [];
      logTables(tablesOf(plainInput({ env })), (_, subsystem) => lines.push(subsystem));
      return lines;
    };
    const table = [...new Array(24).fill('TUNING'), 'INIT'];
    expect(logged({})).toEqual(table);
    expect(logged({ NCCL_PROTO: '' })).toEqual(['ENV', ...table]);
  });
});

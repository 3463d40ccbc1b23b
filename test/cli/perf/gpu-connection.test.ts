/** The lines that say what connects the GPUs of a run. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { gpuConnections, reasonForHost } from '#src/cli/perf/gpu-connection.js';
import { checkNvmlFacts, type NvmlDevice, type NvmlFacts } from '#src/topology/detect/nvml-facts.js';

const busOf = (index: number) => `0000:${String(index + 10)}:00.0`;
const gpu = (index: number) => ({ index, busId: busOf(index) });

/** Machine of GPUs whose links lead to these addresses; `p2p` of all pairs as told. */
function machine(links: readonly (readonly string[])[], p2p = 0): NvmlFacts {
  const devices = links.map(
    (targets, index): NvmlDevice => ({
      index,
      busId: busOf(index),
      nvlinks: [
        ...targets.map((remoteBusId) => ({ p2p: true, active: true, remoteBusId })),
        { p2p: true, active: false, remoteBusId: busOf(1 - index) },
      ],
      c2cLinks: [],
      p2p: links.map(() => ({ read: p2p, write: p2p })),
    }),
  );
  return { devices };
}

describe('connections of GPUs', () => {
  it('count the links that lead to each other, and those to switches', () => {
    const four = [busOf(1), busOf(1), busOf(1), busOf(1)];
    const direct = machine([four, [busOf(0), busOf(0), busOf(0), busOf(0)]]);
    expect(gpuConnections(direct, [gpu(0), gpu(1)])).toEqual(['GPUs 0 and 1: NVLink, 4 links']);
    const switches = ['0000:aa:00.0', '0000:bb:00.0'];
    const switched = machine([switches, switches, ['0000:aa:00.0']]);
    expect(gpuConnections(switched, [gpu(0), gpu(1)])).toEqual([
      'GPUs 0 and 1: NVLink through switches, 2 links each',
    ]);
    expect(gpuConnections(switched, [gpu(0), gpu(1), gpu(2)])).toEqual([
      'GPUs 0-1: NVLink through switches, 2 links each',
      'GPUs 0-2 1-2: NVLink through switches, 1 link each',
    ]);
  });

  it('tell PCI Express from the memory of the host, and which ranks share a GPU', () => {
    expect(gpuConnections(machine([[], []]), [gpu(0), gpu(1)])).toEqual([
      'GPUs 0 and 1: PCI Express, peer to peer',
    ]);
    expect(gpuConnections(machine([[], []], 1), [gpu(0), gpu(1), gpu(0)])).toEqual([
      'GPU 0 is shared by ranks 0 and 2',
      'GPUs 0 and 1: the memory of the host',
    ]);
    expect(gpuConnections(undefined, [gpu(0), gpu(1)])).toEqual([]);
  });

  it('say where they are not used, and why', () => {
    const facts = machine([[busOf(1)], [busOf(0)]]);
    expect(gpuConnections(facts, [gpu(0), gpu(1)], reasonForHost({ NCCL_P2P_DISABLE: '1' }))).toEqual([
      'GPUs 0 and 1: NVLink, 1 link',
      'all data go through the memory of the host (NCCL_P2P_DISABLE=1); NVLink and peer access are not used',
    ]);
    expect(reasonForHost({ NCCL_P2P_DISABLE: '0' })).toMatch('some GPUs do not reach each other');
  });

  it('read a real machine', () => {
    const file = new URL('../../topology/detect/real-2xH200-nvml.json', import.meta.url);
    const facts = checkNvmlFacts(JSON.parse(readFileSync(file, 'utf8')), 'real-2xH200');
    const gpus = facts.devices.map(({ index, busId }) => ({ index, busId }));
    expect(gpuConnections(facts, gpus)).toEqual(['GPUs 0 and 1: NVLink through switches, 18 links each']);
  });
});

/** What the text says where NICs could do GPUDirect RDMA and GPUs may not use it. */
import { expect, test } from 'vitest';
import { plainStyle } from '#src/topology/report/style.js';
import { textReport } from '#src/topology/report/text-report.js';
import { clusterOf, documentOf } from './golden-clusters.js';

/** The line on GPUDirect below the machine, if any. */
const lineOf = (machine: string, nodes: number) => {
  const documents = Array.from({ length: nodes }, () => documentOf(machine));
  const lines = textReport({ cluster: clusterOf(machine, nodes), documents }, plainStyle(120));
  return lines.find((line) => line.startsWith('GPUDirect is'));
};

test('a machine whose GPUs are refused the GPUDirect RDMA that its NICs can do says so', () => {
  expect(lineOf('azure-ndv2-v100x8-mesh', 2)).toBe(
    'GPUDirect is what a NIC can do; 8 of 8 pairs of GPU and NIC may not use it (--explain says why)',
  );
});

test('one where it is used, and one that uses no NIC, do not', () => {
  expect(lineOf('dgx-a100-8x200g', 2)).toBeUndefined();
  expect(lineOf('azure-ndv2-v100x8-mesh', 1)).toBeUndefined();
});

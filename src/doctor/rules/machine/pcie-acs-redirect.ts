/** Access control that redirects requests sends peer-to-peer traffic of a switch up to the root, where it is slow or lost. */
import type { Job } from '../../model/job.js';
import type { PciDevice } from '../../model/machine.js';
import { distinctPlaces } from '../../model/place.js';
import { edges, listed, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { devicesByHost, isAdapter, isBelow, isGpu, logId } from './pci-devices.js';

/** Numbers of GPUs at bus ids: as a log says, else by their order on the buses. */
function gpuNumber(job: Job, gpu: PciDevice, devices: readonly PciDevice[]): number {
  const id = logId(gpu.id);
  for (const process of job.processes) {
    if (gpu.host !== undefined && process.host !== gpu.host) continue;
    for (const { busId, cudaDevice } of process.members) {
      if (busId === id && cudaDevice !== undefined) return cudaDevice;
    }
  }
  return devices.filter(isGpu).indexOf(gpu);
}

export const pcieAcsRedirect: Rule = {
  id: 'pcie-acs-redirect',
  causes: ['hangs', 'slows'],
  looksFor: 'switch ports above GPUs whose access control redirects requests (ReqRedir) to the root',
  example: [
    example(
      'lspci.txt',
      '80:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge',
      '\tBus: primary=80, secondary=81, subordinate=84, sec-latency=0',
      '82:00.0 PCI bridge: Broadcom / LSI PEX880xx PCIe Gen 4 Switch (rev b0)',
      '\tBus: primary=82, secondary=83, subordinate=83, sec-latency=0',
      '\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-',
      '83:00.0 3D controller: NVIDIA Corporation AD102GL [L40] (rev a1)',
    ),
  ],
  references: ['NCCL user guide: troubleshooting, PCI access control services'],
  find: (job) => [...devicesByHost(job)].flatMap(([host, devices]) => redirecting(job, host, devices)),
};

/** The ports of one host. */
function redirecting(job: Job, host: string | undefined, devices: readonly PciDevice[]): Finding[] {
  const bridges = devices.filter(({ buses }) => buses !== undefined);
  const ends = devices.filter((one) => isGpu(one) || isAdapter(one));
  const bad = bridges.filter((bridge) => {
    const isRedirecting = bridge.acs?.set.some((bit) => bit === 'ReqRedir' || bit === 'CmpltRedir') === true;
    // Requests between root ports pass the root anyway; inside a switch they should not.
    return (
      isRedirecting &&
      ends.some((one) => isBelow(one, bridge)) &&
      bridges.some((above) => above !== bridge && isBelow(bridge, above))
    );
  });
  if (bad.length === 0) return [];
  const gpus = ends.filter((one) => isGpu(one) && bad.some((bridge) => isBelow(one, bridge)));
  const numbers = [...new Set(gpus.map((one) => gpuNumber(job, one, devices)))].sort((a, b) => a - b);
  const ports = bad.map(({ id }) => id);
  const ids = new Set(gpus.map(({ id }) => logId(id)));
  const direct = job.processes
    .filter((process) => host === undefined || process.host === host)
    .filter(({ members }) => members.some(({ busId }) => busId !== undefined && ids.has(busId)))
    .flatMap((process) => edges(process).filter(({ kind }) => kind === 'P2P'));
  const rows = job.matrices.flatMap(({ rows: all }) =>
    all.filter(({ name }) => numbers.some((one) => name === `GPU${one}`)),
  );
  return [
    {
      severity: direct.length > 0 || job.processes.length === 0 ? 'error' : 'warning',
      confidence: 'certain',
      text: `the switch ports ${listed(ports)}${host === undefined ? '' : ` of ${host}`} redirect peer-to-peer requests of GPU ${listed(numbers)} to the root`,
      culprit: { ...(host === undefined ? {} : { host }), bridges: ports, gpus: numbers },
      evidence: distinctPlaces([
        ...some(
          bad.map(({ acs }) => acs!.at),
          64,
        ),
        ...some(
          rows.map(({ at }) => at),
          8,
        ),
        ...some(
          direct.map(({ at }) => at),
          4,
        ),
      ]),
      repair: `Clear the ACS control word of ${listed(ports)} (setpci -s ${ports[0]} ECAP_ACS+6.w=0, at every boot) or switch ACS/IOMMU off in the firmware.`,
      workaround: 'NCCL_P2P_DISABLE=1 avoids the hang; all traffic then goes through host memory.',
    },
  ];
}

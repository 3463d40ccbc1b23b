/** Access control that redirects requests sends peer-to-peer traffic of a switch up to the root, where it is slow or lost. */
import type { Job } from '../../model/job.js';
import type { PciDevice } from '../../model/machine.js';
import { distinctPlaces } from '../../model/place.js';
import { edges, listed, some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { isAdapter, isBelow, isGpu, logId } from './pci-devices.js';

/** Numbers of GPUs at bus ids: as a log says, else by their order on the buses. */
function gpuNumber(job: Job, gpu: PciDevice): number {
  for (const process of job.processes) {
    for (const { busId, cudaDevice } of process.members) {
      if (busId === logId(gpu.id) && cudaDevice !== undefined) return cudaDevice;
    }
  }
  return job.pci.filter((one) => isGpu(one) && one.host === gpu.host).indexOf(gpu);
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
  find(job) {
    const bridges = job.pci.filter(({ buses }) => buses !== undefined);
    const bad = bridges.filter((bridge) => {
      const isRedirecting =
        bridge.acs?.set.some((bit) => bit === 'ReqRedir' || bit === 'CmpltRedir') === true;
      // Requests between root ports pass the root anyway; inside a switch they should not.
      const isInSwitch = bridges.some((above) => above !== bridge && isBelow(bridge, above));
      return (
        isRedirecting &&
        isInSwitch &&
        job.pci.some((one) => (isGpu(one) || isAdapter(one)) && isBelow(one, bridge))
      );
    });
    if (bad.length === 0) return [];
    const gpus = job.pci.filter((one) => isGpu(one) && bad.some((bridge) => isBelow(one, bridge)));
    const numbers = [...new Set(gpus.map((one) => gpuNumber(job, one)))].sort((a, b) => a - b);
    const ids = bad.map(({ id }) => id);
    const host = bad[0]!.host;
    const direct = job.processes
      .filter((process) => process.members.some(({ busId }) => gpus.some(({ id }) => logId(id) === busId)))
      .flatMap((process) => edges(process).filter(({ kind }) => kind === 'P2P'));
    const rows = job.matrices.flatMap(({ rows: all }) =>
      all.filter(({ name }) => numbers.some((one) => name === `GPU${one}`)),
    );
    return [
      {
        severity: direct.length > 0 || job.processes.length === 0 ? 'error' : 'warning',
        confidence: 'certain',
        text: `the switch ports ${listed(ids)}${host === undefined ? '' : ` of ${host}`} redirect peer-to-peer requests of GPU ${listed(numbers)} to the root`,
        culprit: { ...(host === undefined ? {} : { host }), bridges: ids, gpus: numbers },
        evidence: distinctPlaces([
          ...bad.map(({ acs }) => acs!.at),
          ...some(
            rows.map(({ at }) => at),
            8,
          ),
          ...some(
            direct.map(({ at }) => at),
            4,
          ),
        ]),
        repair: `Clear the ACS control word of ${listed(ids)} (setpci -s ${ids[0]} ECAP_ACS+6.w=0, at every boot) or switch ACS/IOMMU off in the firmware.`,
        workaround: 'NCCL_P2P_DISABLE=1 avoids the hang; all traffic then goes through host memory.',
      },
    ];
  },
};

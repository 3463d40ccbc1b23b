/** The driver must support the CUDA version that NCCL was built with. */
import { distinctPlaces } from '../../model/place.js';
import { firstOfEach, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { isOfDriver } from './driver-failures.js';

/** `12.2` for the 12020 that drivers state. */
const cudaName = (version: number): string =>
  `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`;

export const cudaDriverTooOld: Rule = {
  id: 'cuda-driver-too-old',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'a driver that does not support the CUDA version that NCCL was built with',
  example: [
    example(
      'n1.log',
      'n1:10:10 [0] NCCL INFO cudaDriverVersion 12020',
      'n1:10:10 [0] NCCL INFO NCCL version 2.27.3+cuda12.9',
      "n1:10:11 [0] enqueue.cc:1556 NCCL WARN Cuda failure 222 'the provided PTX was compiled with an unsupported toolchain.'",
    ),
  ],
  references: ['CUDA compatibility: minor version and forward compatibility'],
  find(job) {
    const found = troubles(job, 'cuda').filter((one) => one.logged.isWarning && isOfDriver(one));
    const [first] = found;
    if (first === undefined) return [];
    const { process, trouble } = first;
    const driver = process.cudaDriver;
    const built = /\+cuda(\d+\.\d+)/.exec(process.version?.value ?? '')?.[1];
    const both =
      driver === undefined || built === undefined
        ? ''
        : `: it supports CUDA ${cudaName(driver.value)}, NCCL was built with ${built}`;
    const isSplit = trouble.number === 803;
    return [
      {
        severity: 'error',
        confidence: both !== '' && !isSplit ? 'certain' : 'likely',
        text: isSplit
          ? `the driver of ${process.host} and its library are of two versions: ${trouble.reason}`
          : `the driver of ${process.host} is too old${both} (${trouble.reason})`,
        culprit: {
          host: process.host,
          ...(driver === undefined ? {} : { driver: cudaName(driver.value) }),
          ...(built === undefined ? {} : { builtWith: built }),
          reason: trouble.reason,
        },
        evidence: distinctPlaces([
          ...some(firstOfEach(found, (one) => one.process.host).map(({ at }) => at)),
          ...(both === '' ? [] : [driver?.at, process.version?.at]),
        ]),
        repair: isSplit
          ? 'Restart the machine after the update of the driver, and remove libcuda.so and forward-compatibility packages of another version from the image (LD_LIBRARY_PATH).'
          : `Update the driver${built === undefined ? '' : ` to one for CUDA ${built} or newer`}, or use an NCCL and a framework built for the CUDA version that the driver supports${driver === undefined ? '' : ` (${cudaName(driver.value)})`}.`,
        workaround: null,
      },
    ];
  },
};

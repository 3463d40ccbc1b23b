/** An adapter that is there and that the process may not, or cannot, open: NCCL goes on with the others. */
import { grouped } from '../../model/grouped.js';
import { listed, some, troubles } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const adapterNotOpened: Rule = {
  id: 'adapter-not-opened',
  causes: ['kills', 'slows'],
  looksFor: 'adapters that NCCL could not open while it uses others of the host',
  example: [
    example(
      'n1.log',
      'n1:10:20 [0] misc/ibvwrap.cc:92 NCCL WARN Call to ibv_open_device failed',
      'n1:10:20 [0] transport/net_ib.cc:200 NCCL WARN NET/IB : Unable to open device mlx5_3',
      'n1:10:20 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>',
    ),
  ],
  references: ['ibv_open_device(3)', 'NCCL user guide: NCCL_IB_HCA'],
  find(job) {
    // Where no adapter is left, the fall-back to TCP is the fault.
    const found = troubles(job, 'openDevice').filter(
      ({ process, logged }) => logged.isWarning && process.hcas !== undefined,
    );
    return [...grouped(found, ({ process }) => process.host)].map(([host, list]): Finding => {
      const names = [
        ...new Set(list.flatMap(({ logged }) => /open device (\S+)/.exec(logged.text)?.[1] ?? [])),
      ];
      return {
        severity: 'warning',
        confidence: 'likely',
        text: `${host} could not open ${names.length === 0 ? 'an adapter' : `the adapter${names.length === 1 ? '' : 's'} ${listed(names)}`}, and goes on without`,
        culprit: {
          host,
          ...(names.length === 1 ? { hca: names[0] } : names.length > 1 ? { hcas: names } : {}),
        },
        evidence: some(list.map(({ at }) => at)),
        repair: `Look at the rights of /dev/infiniband/uverbs* in the container or job, at dmesg for the adapter, and whether libibverbs and its provider fit the driver; an adapter that is not for the job is left out with NCCL_IB_HCA on all hosts.`,
        workaround: null,
      };
    });
  },
};

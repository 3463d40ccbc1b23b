/** Names in NCCL_IB_HCA are prefixes: mlx5_1 is also mlx5_10 and the following. */
import { listed, settings } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const envIbHcaPrefix: Rule = {
  id: 'env-ib-hca-prefix',
  causes: ['slows'],
  looksFor: 'NCCL_IB_HCA that selects more adapters than it names, because names are prefixes',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_1',
      'n1:10:11 [0] NCCL INFO NET/IB : Using [0]mlx5_1:1/IB [1]mlx5_10:1/IB [2]mlx5_11:1/IB [RO]; OOB eth0:10.0.0.1<0>',
    ),
  ],
  references: ['NCCL user guide: NCCL_IB_HCA'],
  find(job) {
    const found = settings(job, 'NCCL_IB_HCA').flatMap(({ process, value, at }) => {
      if (/^[=^]/.test(value) || process.hcas === undefined) return [];
      const names = value.split(',').map((name) => name.replace(/:\d+$/, ''));
      const extra = process.hcas.value
        .map(({ name }) => name)
        .filter((name) => {
          const by = names.filter((one) => name.startsWith(one));
          // A prefix that names no adapter of its own (mlx5) is meant as one.
          return (
            by.length > 0 &&
            !names.includes(name) &&
            by.some((one) => process.hcas!.value.some((hca) => hca.name === one))
          );
        });
      return extra.length === 0 ? [] : [{ process, value, at, extra }];
    });
    const [first] = found;
    if (first === undefined) return [];
    return [
      {
        severity: 'warning',
        confidence: 'likely',
        text: `NCCL_IB_HCA=${first.value} on ${first.process.host} also selects ${listed(first.extra)}: names without = are prefixes`,
        culprit: {
          variable: 'NCCL_IB_HCA',
          value: first.value,
          host: first.process.host,
          extra: first.extra,
        },
        evidence: [first.at, first.process.hcas!.at],
        repair: `Write NCCL_IB_HCA==${first.value}: an equals sign before the list asks for exact names.`,
        workaround: null,
      },
    ];
  },
};

/** All ranks started an operation alike and none finished it: the fault is below the program. */
import { some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { sizeOfGroup, waitingIn } from './group-progress.js';
import { reportedGroups } from './reported-operations.js';

export const deviceOrWireStuck: Rule = {
  id: 'device-or-wire-stuck',
  causes: ['hangs'],
  looksFor: 'an operation that all ranks started alike and none finished: the fault is below the program',
  example: [
    example(
      'dumps.json',
      '{ "world_size": 2, "ranks": [',
      '  { "rank": 0, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "count": 96, "state": "started" } ] },',
      '  { "rank": 1, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "count": 96, "state": "started" } ] }',
      '] }',
    ),
  ],
  references: ['PyTorch: flight recorder'],
  explainedBy: [
    'collective-size-mismatch',
    'collective-order-mismatch',
    'collective-type-mismatch',
    'rank-behind',
    'ib-port-flap',
    'ib-retry-exceeded',
    'xid',
    'pcie-acs-redirect',
    'roce-packet-loss',
    'rank-died',
  ],
  find: (job) =>
    reportedGroups(job).flatMap((list): Finding[] => {
      const open = list.map(waitingIn);
      const [first] = open;
      const isStuck = open.every((one) => one?.sequence === first?.sequence && one?.state === 'started');
      // A dump that was not taken because of a hang shows an ordinary moment.
      const isWhole = list.length >= sizeOfGroup(list);
      if (first === undefined || !isStuck || !isWhole) return [];
      return [
        {
          severity: 'error',
          confidence: 'likely',
          text: `all ${list.length} ranks started ${first.name} ${first.sequence} with the same arguments, and none finished it`,
          culprit: { communicator: list[0]!.communicator, seq: first.sequence, operation: first.name },
          evidence: some(open.map((one) => one!.at)),
          repair:
            'Look below the program: errors of GPUs (dmesg, Xid), of adapters and links (port events, retransmissions), PCIe access control, and the log with NCCL_DEBUG=WARN.',
          workaround: null,
          why: 'ranks that disagree do not get past the operation',
        },
      ];
    }),
};

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
  find(job) {
    const stuck = reportedGroups(job).flatMap((list) => {
      const first = waitingIn(list[0]!);
      const isStuck = list.every((dump) => {
        const one = waitingIn(dump);
        return one?.sequence === first?.sequence && one?.state === 'started';
      });
      // A dump that was not taken because of a hang shows an ordinary moment.
      const isWhole = list.length >= sizeOfGroup(list);
      return first === undefined || !isStuck || !isWhole ? [] : [{ list, first }];
    });
    // One fault below the program may stop many groups.
    return stuck.slice(0, 1).map(({ list, first }): Finding => {
      const more = stuck.length === 1 ? '' : `; ${stuck.length - 1} other groups stand still alike`;
      const { communicator } = list[0]!;
      return {
        severity: 'error',
        confidence: 'likely',
        text: `all ${list.length} ranks${stuck.length === 1 ? '' : ` of group ${communicator}`} started ${first.name} ${first.sequence} with the same arguments, and none finished it${more}`,
        culprit: {
          communicator,
          ...(stuck.length === 1
            ? {}
            : { communicators: stuck.slice(0, 16).map((one) => one.list[0]!.communicator) }),
          seq: first.sequence,
          operation: first.name,
        },
        evidence: some(stuck.flatMap((one) => one.list.map((dump) => waitingIn(dump)!.at))),
        repair:
          'Look below the program: errors of GPUs (dmesg, Xid), of adapters and links (port events, retransmissions), PCIe access control, and the log with NCCL_DEBUG=WARN.',
        workaround: null,
        why: 'ranks that disagree do not get past the operation',
      };
    });
  },
};

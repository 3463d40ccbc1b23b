/** PyTorch’s watchdog thread stood still: it hangs in a call of CUDA or NCCL, or waits for the interpreter. */
import { firstOfEach, listed, some } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const watchdogStuck: Rule = {
  id: 'watchdog-stuck',
  causes: ['hangs'],
  looksFor: 'ranks whose watchdog thread made no progress, so that the heartbeat monitor ended them',
  example: [
    example(
      'err.txt',
      '[rank3]:[E1015 12:31:22.101 ProcessGroupNCCL.cpp:1413] [PG ID 0 PG GUID 0(default_pg) Rank 3] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=2',
    ),
  ],
  references: ['PyTorch: TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC, TORCH_NCCL_ENABLE_MONITORING'],
  explainedBy: { effects: ['blocks', 'kills', 'hangs'], also: ['watchdog-timeout'] },
  find(job) {
    const told = job.events.flatMap((event) => (event.kind === 'heartbeat' ? [event] : []));
    if (told.length === 0) return [];
    const ranks = [...new Set(told.flatMap(({ rank }) => rank ?? []))].sort((a, b) => a - b);
    const seconds = told.flatMap((one) => one.seconds ?? [])[0];
    return [
      {
        severity: 'error',
        confidence: 'possible',
        text: `the watchdog thread of ${ranks.length === 0 ? 'a rank' : `rank ${listed(ranks)}`} stood still${seconds === undefined ? '' : ` for ${seconds} s`}: a call of CUDA or NCCL does not return, or the interpreter is locked`,
        culprit: ranks.length === 1 ? { rank: ranks[0] } : { ranks: ranks.slice(0, 64) },
        evidence: some(firstOfEach(told, ({ rank, at }) => rank ?? at.line).map(({ at }) => at)),
        repair: `Take the stacks of ${ranks.length === 0 ? 'that process' : `rank ${listed(ranks)}`} while it hangs (py-spy dump --native, gdb), look at dmesg of its host for Xid, and see what the other ranks wait in (flight recorder).`,
        workaround:
          'A longer TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC, or TORCH_NCCL_ENABLE_MONITORING=0, keeps the process alive, and hanging.',
        why: 'a thread that waits for an operation which does not end stands still too',
      },
    ];
  },
};

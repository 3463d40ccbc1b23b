/** A socket that was closed by the other end is a symptom: somebody there gave up first. */
import { isAfterEnd, listed, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { isTeardown } from '../teardown.js';

export const peerConnectionClosed: Rule = {
  id: 'peer-connection-closed',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'sockets that a peer, or the own helper thread, closed',
  example: [
    example(
      'n1.log',
      'n1:10:12 [0] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer n2<41877>',
    ),
  ],
  references: [],
  explainedBy: { effects: ['blocks', 'kills', 'hangs'] },
  find(job) {
    const closed = troubles(job, 'peerClosed').filter(
      ({ process, at, logged }) =>
        !isTeardown(job, process) && (logged.isWarning || !isAfterEnd(process, at)),
    );
    if (closed.length === 0) return [];
    const lines = [
      ...closed.map(({ at }) => at),
      ...troubles(job, 'proxy').map(({ at }) => at),
      ...job.events.flatMap((event) =>
        event.kind === 'ncclError' && /remote process exited|network error/.test(event.text)
          ? [event.at]
          : [],
      ),
    ];
    const peers = [...new Set(closed.map(({ trouble }) => trouble.peer))];
    return [
      {
        severity: 'error',
        confidence: 'possible',
        text: `connections to ${listed(peers)} were closed by the other side`,
        culprit: { peers, hosts: [...new Set(closed.map(({ process }) => process.host))] },
        evidence: some(lines, 24),
        repair: `See why the processes on ${listed(peers)} ended or gave up: their logs and standard error, dmesg for Xid and for killed processes.`,
        workaround: null,
        why: 'the process at the other end gave up and closed its sockets',
      },
    ];
  },
};

/** A rank that waits for a file system calls nothing, and the others wait for it. */
import { grouped } from '../../model/grouped.js';
import { some, waitingMembers } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const storageStalled: Rule = {
  id: 'storage-stalled',
  causes: ['blocks', 'hangs', 'slows'],
  looksFor: 'file servers that do not answer, and processes that the kernel sees blocked',
  example: [
    example('dmesg.txt', '[991221.1] nfs: server 10.0.0.9 not responding, still trying'),
    example(
      'train.log',
      '[rank3]:[E1021 14:32:09.114402911 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=50, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.',
    ),
  ],
  references: ['Linux: nfs(5), hung_task_timeout_secs'],
  find(job) {
    const events = job.kernelEvents.flatMap((event) => (event.kind === 'storage' ? [event] : []));
    const isWaiting =
      job.events.some(({ kind }) => kind === 'watchdog' || kind === 'heartbeat') ||
      waitingMembers(job).length > 0;
    return [...grouped(events, ({ host, of }) => `${host ?? ''} ${of}`).values()].flatMap(
      (all): Finding[] => {
        const { host, of, isTask } = all[0]!;
        // What answered again, with nobody waiting, is over.
        const isOver = all.at(-1)!.isOver;
        if (!isWaiting && (isTask || isOver)) return [];
        // A server that does not answer blocks those who use it.
        if (isTask && events.some((one) => !one.isTask && one.host === host)) return [];
        // Threads of the kernel and other programs are no ranks; what answered again is rarely the cause.
        const isCause = isWaiting && !isOver && (!isTask || /^(?:python|pt_|torch|ray|java|node)/.test(of));
        const where = host === undefined ? '' : ` on ${host}`;
        return [
          {
            severity: isCause ? 'error' : 'warning',
            confidence: isCause && !isTask ? 'likely' : 'possible',
            text: isTask
              ? `the kernel${where} saw ${of} blocked in a call that did not return`
              : `the file server ${of} did not answer${where}${isOver ? ' for a while' : ''}`,
            culprit: { ...(host === undefined ? {} : { host }), ...(isTask ? { task: of } : { server: of }) },
            evidence: some(all.map(({ at }) => at)),
            repair: isTask
              ? `Read the stack below the line in dmesg${where}: it names the file system or device that the process waits for.`
              : `See whether ${of} runs and the network to it is in order; ranks that read or write there stand still until it answers.`,
            workaround: null,
          },
        ];
      },
    );
  },
};

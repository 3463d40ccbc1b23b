/** Errors of GPUs in the kernel’s log, by number. */
import { firstOfEach } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

/** Xids that mean hardware or the link, and what to do (vendor's catalogue of Xid errors). */
const XIDS: Readonly<Record<number, string>> = {
  31: 'a memory access of the program was invalid: find the faulty kernel (compute-sanitizer)',
  48: 'uncorrectable memory error: reset the GPU, and replace it if it comes back',
  63: 'a memory row was retired, and is replaced at the next reset of the GPU: reset it at the next occasion',
  64: 'a memory row could not be retired: replace the GPU',
  74: 'an NVLink failed: look at the link, reset the GPU and restart the fabric manager',
  79: 'the GPU is gone from the bus: look at power, heat and seating, and restart the machine',
  92: 'many correctable memory errors: watch the GPU, and run its diagnostics',
  94: 'contained memory error: restart the program, reset the GPU',
  95: 'uncontained memory error: reset the GPU',
  119: 'the system processor of the GPU does not answer: reset the GPU, update the driver',
};

/** Xids of GPUs that work on: what is worn is known and left out. */
const WORN: ReadonlySet<number> = new Set([63, 92]);

/** Xids that follow from another or from the end of a program: stopped channels (43, 45), and what to do next (154). */
const FOLLOWING: ReadonlySet<number> = new Set([43, 45, 154]);

export const xid: Rule = {
  id: 'xid',
  causes: ['blocks', 'kills', 'hangs', 'slows'],
  looksFor: 'errors of GPUs in the kernel’s log',
  example: [
    example('dmesg.txt', '[12345.678901] NVRM: Xid (PCI:0000:83:00): 79, GPU has fallen off the bus.'),
  ],
  references: ['vendor: Xid errors'],
  find(job) {
    const found = job.kernelEvents.flatMap((event) =>
      event.kind === 'xid' && !FOLLOWING.has(event.number) ? [event] : [],
    );
    return firstOfEach(found, ({ device, number, host }) => `${host} ${device} ${number}`).map(
      ({ device, number, host, at, text }): Finding => ({
        severity: WORN.has(number) ? 'warning' : 'error',
        confidence: 'certain',
        text: `GPU ${device}${host === undefined ? '' : ` of ${host}`} reported Xid ${number}: ${text}`,
        culprit: { ...(host === undefined ? {} : { host }), device, xid: number },
        evidence: [at],
        repair: `${XIDS[number] === undefined ? 'Look the number up in the vendor’s list of Xid errors' : `Xid ${number}: ${XIDS[number]}`}.`,
        workaround: null,
      }),
    );
  },
};

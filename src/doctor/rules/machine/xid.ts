/** Errors of GPUs and NVSwitches in the kernel’s log, by number. */
import type { Job } from '../../model/job.js';
import { distinctPlaces } from '../../model/place.js';
import { firstOfEach } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { logId } from './pci-devices.js';

const NVLINK = 'an NVLink failed: look at the link, reset the GPU and restart the fabric manager';
const PROCESSOR = 'the system processor of the GPU does not answer: reset the GPU, update the driver';

/** Xids with their meaning and what to do (vendor's catalogue of Xid errors). */
const XIDS: Readonly<Record<number, string>> = {
  13: 'a kernel of the program made an invalid access or instruction: find it (compute-sanitizer); the GPU is suspected only where known good programs fail too',
  31: 'a memory access of the program was invalid: find the faulty kernel (compute-sanitizer)',
  32: 'commands to the GPU were corrupt: see PCIe errors of the host, and the driver',
  38: 'the firmware of the driver failed: update the driver, reset the GPU',
  48: 'uncorrectable memory error: reset the GPU, and replace it if it comes back',
  61: 'the microcontroller of the GPU stopped: reset the GPU',
  62: 'the microcontroller of the GPU stopped: reset the GPU',
  63: 'a memory row was retired, and is replaced at the next reset of the GPU: reset it at the next occasion',
  64: 'a memory row could not be retired: replace the GPU',
  74: NVLINK,
  79: 'the GPU is gone from the bus: look at power, heat and seating, and restart the machine',
  92: 'many correctable memory errors: watch the GPU, and run its diagnostics',
  94: 'contained memory error: restart the program, reset the GPU',
  95: 'uncontained memory error: reset the GPU',
  109: 'a kernel did not leave the GPU in time: see what ran there, update the driver',
  119: PROCESSOR,
  120: PROCESSOR,
  121: 'the link between CPU and GPU had an error that was corrected: reset the GPU at the next occasion',
  137: 'a peer’s access over NVLink was refused: the fault is on the GPU or process that it names, or in the program',
  140: 'memory error that was not contained: reset the GPU',
  143: 'the GPU could not be initialised: restart the machine, replace the GPU if it comes back',
  144: NVLINK,
  145: NVLINK,
  146: NVLINK,
  147: NVLINK,
  148: NVLINK,
  149: NVLINK,
  150: NVLINK,
};

/** Xids of GPUs that work on: what is worn is known and left out. */
const WORN: ReadonlySet<number> = new Set([63, 92, 121]);

/** Xids of programs that do what they may not: in the log of a machine that runs on, of a program that ended long ago. */
const OF_PROGRAMS: ReadonlySet<number> = new Set([13, 31]);

/** Something of the job failed. */
const isFailing = ({ events, processes }: Job): boolean =>
  events.some(
    (event) =>
      event.kind === 'watchdog' ||
      event.kind === 'ncclError' ||
      event.kind === 'exception' ||
      event.kind === 'heartbeat' ||
      (event.kind === 'exit' && ((event.code ?? 0) !== 0 || event.signal !== undefined)),
  ) || processes.some(({ troubles }) => troubles.some(({ isWarning }) => isWarning));

/** Xids that follow from another or from the end of a program: stopped channels (43, 45), and what to do next (154). */
const FOLLOWING: ReadonlySet<number> = new Set([43, 45, 154]);
const RECOVERY = 154;

/** `GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)`: what the driver asks for. */
const actionOf = (text: string): string | undefined => {
  const action = /\bto 0x[0-9a-f]+ \(([^)]{1,80})\)/i.exec(text)?.[1];
  return action === undefined || /^none$/i.test(action) ? undefined : action;
};

export const xid: Rule = {
  id: 'xid',
  causes: ['blocks', 'kills', 'hangs', 'slows'],
  looksFor: 'errors of GPUs and NVSwitches in the kernel’s log',
  example: [
    example('dmesg.txt', '[12345.678901] NVRM: Xid (PCI:0000:83:00): 79, GPU has fallen off the bus.'),
  ],
  references: ['vendor: Xid errors'],
  find: (job) => [...ofGpus(job), ...ofSwitches(job)],
};

function ofGpus(job: Job): Finding[] {
  const all = job.kernelEvents.flatMap((event) => (event.kind === 'xid' ? [event] : []));
  const keyOf = ({ host, device }: { host: string | undefined; device: string }): string =>
    `${host} ${device}`;
  const asked = new Map(
    all.flatMap((event) => {
      const action = event.number === RECOVERY ? actionOf(event.text) : undefined;
      return action === undefined ? [] : [[keyOf(event), { action, event }] as const];
    }),
  );
  const errors = all.filter(({ number }) => !FOLLOWING.has(number));
  const failed = new Set(errors.map(keyOf));
  const found = [
    ...errors,
    // The driver asks for something, and the log does not reach back to the reason.
    ...[...asked.values()].flatMap(({ event }) => (failed.has(keyOf(event)) ? [] : [event])),
  ];
  return firstOfEach(found, (event) => `${keyOf(event)} ${event.number}`).map((event): Finding => {
    const { device, number, host, at } = event;
    const text = event.text.replace(/^pid='<unknown>', name=<unknown>, */, '');
    const rank = rankOfGpu(job, host, device);
    const whose = `${host === undefined ? '' : ` of ${host}`}${rank === undefined ? '' : ` (rank ${rank})`}`;
    const recovery = asked.get(keyOf(event));
    const next = recovery === undefined ? '' : ` The driver asks for: ${recovery.action}.`;
    const isRecovery = number === RECOVERY;
    return {
      severity: WORN.has(number) || (OF_PROGRAMS.has(number) && !isFailing(job)) ? 'warning' : 'error',
      confidence: 'certain',
      text: isRecovery
        ? `the driver asks for an action on GPU ${device}${whose} (Xid 154): ${recovery!.action}`
        : `GPU ${device}${whose} reported Xid ${number}: ${text}`,
      culprit: {
        ...(host === undefined ? {} : { host }),
        device,
        ...(rank === undefined ? {} : { rank }),
        xid: number,
      },
      evidence: distinctPlaces([at, recovery?.event.at]),
      repair: isRecovery
        ? `${recovery!.action}; look for the Xid before it in the log of the kernel.`
        : `${XIDS[number] === undefined ? 'Look the number up in the vendor’s list of Xid errors' : `Xid ${number}: ${XIDS[number]}`}.${next}`,
      workaround: null,
    };
  });
}

/** The rank that uses a GPU of a host, where the logs tell. */
function rankOfGpu(job: Job, host: string | undefined, device: string): number | undefined {
  // The kernel leaves the function away; logs end in it.
  const id = `${logId(device)}${device.includes('.') ? '' : '0'}`;
  const members = job.processes.flatMap((process) => (process.host === host ? process.members : []));
  return members.findLast(({ busId, rank }) => busId === id && rank !== undefined)?.rank;
}

function ofSwitches(job: Job): Finding[] {
  const found = job.kernelEvents.flatMap((event) => (event.kind === 'sxid' ? [event] : []));
  return firstOfEach(found, ({ host, device, number }) => `${host} ${device} ${number}`).map(
    ({ host, device, number, text, at }): Finding => ({
      severity: 'error',
      confidence: 'certain',
      text: `the NVSwitch ${device}${host === undefined ? '' : ` of ${host}`} reported the fatal error SXid ${number}: ${text}`,
      culprit: { ...(host === undefined ? {} : { host }), device, sxid: number },
      evidence: [at],
      repair:
        'Look at the log of the fabric manager, reset all GPUs and NVSwitches together (or restart the machine), and have the board with that link checked if it comes back.',
      workaround: null,
    }),
  );
}

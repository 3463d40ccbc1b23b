/** What the kernel says of an adapter: a link that comes and goes, a cable or module that is faulty. */
import { grouped } from '../../model/grouped.js';
import type { Job } from '../../model/job.js';
import { some, troubles } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

/** Losses of a link after which it is no restart of a switch or host. */
const FLAPPING = 2;

export const adapterLinkDown: Rule = {
  id: 'adapter-link-down',
  causes: ['kills', 'hangs', 'slows'],
  looksFor:
    'adapters whose link the kernel reports as lost again and again, or whose cable or health as faulty',
  example: [
    example(
      'dmesg.txt',
      '[101010.1] mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error, Power budget exceeded',
      '[101011.1] mlx5_core 0000:5e:00.0 rdma3: Link down',
    ),
  ],
  references: ['Linux: mlx5 devlink health'],
  find: (job) => [...faults(job), ...flaps(job)],
};

const whose = (host: string | undefined, device: string): string =>
  `${host === undefined ? '' : `${host} `}${device}`;

function faults(job: Job): Finding[] {
  const found = job.kernelEvents.flatMap((event) => (event.kind === 'adapterFault' ? [event] : []));
  return [...grouped(found, ({ host, device }) => whose(host, device))].map(([name, events]): Finding => {
    const { host, device, text } = events[0]!;
    return {
      severity: 'warning',
      confidence: 'likely',
      text: `the driver of adapter ${name} reports a fault: ${text}`,
      culprit: { ...(host === undefined ? {} : { host }), device },
      evidence: some(
        events.map(({ at }) => at),
        4,
      ),
      repair: /module|cable/i.test(text)
        ? `Check the cable and the transceiver of ${device} (seating, power class, the list of those that the vendor supports), and exchange them.`
        : `Update the firmware of ${device}, look for PCIe errors of its slot, and replace it if it fails again.`,
      workaround: null,
    };
  });
}

function flaps(job: Job): Finding[] {
  // NCCL's own report of the port says more.
  const told = new Set(troubles(job, 'portEvent').map(({ process }) => process.host));
  const changes = job.kernelEvents.flatMap((event) =>
    event.kind === 'adapterLink' && !(event.host !== undefined && told.has(event.host)) ? [event] : [],
  );
  const byLink = grouped(changes, (event) => `${whose(event.host, event.interface)}`);
  return [...byLink].flatMap(([name, events]): Finding[] => {
    const losses = events.filter(({ isUp }) => !isUp);
    // A link comes up at boot, and goes down once when the machine or its switch is serviced.
    if (losses.length < FLAPPING) return [];
    const { host, device } = losses[0]!;
    const isDown = !events.at(-1)!.isUp;
    return [
      {
        severity: 'warning',
        confidence: 'possible',
        text: `the link of ${name} (${device}) was lost ${losses.length} times${isDown ? ' and is down' : ''}`,
        culprit: { ...(host === undefined ? {} : { host }), interface: losses[0]!.interface, device },
        evidence: some(losses.map(({ at }) => at)),
        repair: `Compare the times with those of the job; where they fit, look at the cable, the transceiver and the switch port of ${device}, and at their error counters.`,
        workaround: null,
      },
    ];
  });
}

/** A port that runs at a lower rate than its equals: ranks send the same amount over each, so the slowest sets the pace. */
import { largest } from '../../model/extremes.js';
import { grouped } from '../../model/grouped.js';
import type { Job } from '../../model/job.js';
import type { IbPort } from '../../model/machine.js';
import { distinctPlaces } from '../../model/place.js';
import { example, type Finding, type Rule } from '../rule.js';

interface Rated {
  readonly port: IbPort;
  readonly rate: number;
}

/** Share of the rate of the others below which a port is slow: rates of one kind of link are equal. */
const SLOW = 0.9;

const nameOf = ({ device, port }: IbPort): string => `${device}:${port}`;

/** The job uses the port, as the logs of its host tell. */
const isUsed = (job: Job, { host, device }: IbPort): boolean =>
  job.processes.some(
    (process) =>
      (host === undefined || process.host === host) &&
      process.hcas?.value.some(({ name }) => name === device) === true,
  );

export const ibPortSlow: Rule = {
  id: 'ib-port-slow',
  causes: ['slows'],
  looksFor:
    'an active port at a lower rate than the other ports of the job, or than the same port of other hosts',
  example: [
    example(
      'ibstatus.n1.txt',
      'n1$ ibstatus',
      "Infiniband device 'mlx5_0' port 1 status:",
      '\tstate:\t\t 4: ACTIVE',
      '\trate:\t\t 400 Gb/sec (4X NDR)',
    ),
    example(
      'ibstatus.n2.txt',
      'n2$ ibstatus',
      "Infiniband device 'mlx5_0' port 1 status:",
      '\tstate:\t\t 4: ACTIVE',
      '\trate:\t\t 200 Gb/sec (4X HDR)',
    ),
  ],
  references: ['ibstat(8)'],
  find(job) {
    const rated = job.ports.flatMap((port): Rated[] =>
      port.state?.value === 'ACTIVE' && port.rateGbps !== undefined && port.rateGbps.value > 0
        ? [{ port, rate: port.rateGbps.value }]
        : [],
    );
    const slow = new Map<IbPort, Rated>();
    // The same port of other hosts.
    for (const list of grouped(rated, ({ port }) => `${nameOf(port)} ${port.linkLayer}`).values()) {
      const hosts = new Set(list.map(({ port }) => port.host));
      if (hosts.size > 1) addSlow(list, slow);
    }
    // Ports of a host that the job uses: those for storage and management may be of another kind.
    for (const list of grouped(rated, ({ port }) => `${port.host} ${port.linkLayer}`).values())
      addSlow(
        list.filter(({ port }) => isUsed(job, port)),
        slow,
      );
    return [...slow].map(([port, best]): Finding => {
      const { host, device } = port;
      return {
        severity: 'warning',
        confidence: 'likely',
        text: `${host ?? ''} ${device} port ${port.port} runs at ${port.rateGbps!.value} Gbit/s, ${best.port.host === host ? best.port.device : (best.port.host ?? best.port.device)} at ${best.rate}`.trim(),
        culprit: {
          ...(host === undefined ? {} : { host }),
          hca: device,
          port: port.port,
          rateGbps: port.rateGbps!.value,
          expectedGbps: best.rate,
        },
        evidence: distinctPlaces([port.rateGbps!.at, best.port.rateGbps!.at]),
        repair: `See why ${device}${host === undefined ? '' : ` of ${host}`} came up slower: cable and transceiver (lanes, kind), settings and firmware of the switch port; set the port down and up again after that.`,
        workaround: null,
      };
    });
  },
};

/** Fewer than half are slower than the rest. */
function addSlow(list: readonly Rated[], into: Map<IbPort, Rated>): void {
  const top = largest(
    list.map(({ rate }) => rate),
    0,
  );
  const best = list.find(({ rate }) => rate === top);
  const slow = list.filter(({ rate }) => rate < SLOW * top);
  if (best === undefined || slow.length === 0 || slow.length * 2 > list.length) return;
  for (const { port } of slow) if (!into.has(port)) into.set(port, best);
}

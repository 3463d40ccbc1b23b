/** Networks that hosts take for one and that are not: virtual interfaces, different subnets, closed ports. */
import type { Job } from '../model/job.js';
import { distinctPlaces } from '../model/place.js';
import type { NcclProcess } from '../model/process.js';
import {
  breaksOff,
  failuresAfter,
  firstOfEach,
  hosts,
  listed,
  nodeCount,
  some,
  troubles,
  waitingMembers,
} from './queries.js';
import { example, type Finding, type Rule } from './rule.js';
import { isVirtual, maySameNetwork } from './subnets.js';

/** Connections that failed for good, or that are still tried when the log ends. */
const failures = (job: Job) => [...troubles(job, 'connect'), ...troubles(job, 'retry')];

export const ifaceVirtual: Rule = {
  id: 'iface-virtual',
  causes: ['blocks', 'kills', 'hangs', 'slows'],
  looksFor: 'interfaces of containers, virtual machines or tunnels in the list of networks between hosts',
  example: [
    example(
      'n1.log',
      'n1:10:10 [0] NCCL INFO Bootstrap : Using eno1:10.0.0.1<0>',
      'n1:10:11 [0] NCCL INFO NET/Socket : Using [0]eno1:10.0.0.1<0> [1]docker0:172.17.0.1<0>',
      'n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0',
      'n1:10:12 [0] misc/socket.cc:525 NCCL WARN socketPollConnect: exceeded timeouts (3)',
    ),
  ],
  references: ['NCCL user guide: NCCL_SOCKET_IFNAME'],
  find(job) {
    if (nodeCount(job) < 2) return [];
    const bad = job.processes.flatMap((process) => {
      const list = process.sockets?.value.filter(({ name }) => isVirtual(name)) ?? [];
      const boot =
        process.bootstrap !== undefined && isVirtual(process.bootstrap.name) ? [process.bootstrap] : [];
      // Where data goes over InfiniBand, the list of sockets carries nothing.
      const network = process.network?.value ?? (process.hcas === undefined ? 'Socket' : 'IB');
      const isUsed = list.length > 0 && network === 'Socket';
      if (!isUsed && boot.length === 0) return [];
      const at = isUsed ? process.sockets!.at : boot[0]!.at;
      return [{ process, names: [...(isUsed ? list : []), ...boot].map(({ name }) => name), at }];
    });
    if (bad.length === 0) return [];
    const failed = failures(job);
    const names = [...new Set(bad.flatMap((one) => one.names))];
    const where = [...new Set(bad.map(({ process }) => process.host))];
    const keep = realInterface(bad.map(({ process }) => process));
    const isStuck = failed.length > 0 || waitingMembers(job).length > 0;
    return [
      {
        severity: isStuck ? 'error' : 'warning',
        confidence: failed.length > 0 ? 'certain' : 'likely',
        text: `virtual interfaces are taken as networks between hosts on ${listed(where)}: ${listed(names)}`,
        culprit: { hosts: where, interfaces: names, ...(keep === undefined ? {} : { keep }) },
        evidence: some(firstOfEach(bad, ({ process }) => process.host).map(({ at }) => at)),
        repair:
          keep === undefined
            ? `Set NCCL_SOCKET_IFNAME to the interface that reaches the other hosts; ${listed(names)} ${names.length === 1 ? 'does' : 'do'} not.`
            : `Set NCCL_SOCKET_IFNAME=${keep} on all hosts (or exclude the others: NCCL_SOCKET_IFNAME=^${shortest(names.map(stem)).join(',')}).`,
        workaround: null,
      },
    ];
  },
};

/** `br-3fe1` and `veth7b` by the part that all of their kind have. */
const stem = (name: string): string => /^[a-z]+-?/i.exec(name)?.[0] ?? name;

/** Prefixes without those that another one covers. */
const shortest = (stems: readonly string[]): string[] =>
  [...new Set(stems)].filter((one, _, all) => !all.some((other) => other !== one && one.startsWith(other)));

function realInterface(processes: readonly NcclProcess[]): string | undefined {
  for (const { bootstrap, sockets } of processes) {
    if (bootstrap !== undefined && !isVirtual(bootstrap.name)) return bootstrap.name;
    const real = sockets?.value.find(({ name }) => !isVirtual(name));
    if (real !== undefined) return real.name;
  }
  return undefined;
}

export const bootstrapInterfaceMismatch: Rule = {
  id: 'bootstrap-interface-mismatch',
  causes: ['blocks'],
  looksFor: 'one host that announces an address in another network than the others, which cannot reach it',
  example: [
    example(
      'n1.log',
      'n1:10:10 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.1<0>',
      'n1:10:12 [0] misc/socket.cc:577 NCCL WARN socketStartConnect: connect to 192.168.9.3<52291> returned No route to host, exceeded error retry count after 35 attempts',
      'n2:10:10 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.2<0>',
      'n3:10:10 [0] NCCL INFO Bootstrap: Using eth1:192.168.9.3<0>',
    ),
  ],
  references: ['NCCL user guide: NCCL_SOCKET_IFNAME'],
  find(job) {
    const known = firstOfEach(
      job.processes.filter(({ bootstrap }) => bootstrap !== undefined),
      ({ host }) => host,
    );
    if (known.length < 2) return [];
    const failed = failures(job);
    const found: Finding[] = [];
    for (const process of known) {
      const own = process.bootstrap!;
      if (isVirtual(own.name)) continue;
      const others = known.filter((one) => one !== process);
      const apart = others.filter((one) => !maySameNetwork(one.bootstrap!.address, own.address));
      if (apart.length * 2 <= others.length) continue;
      const about = failed.filter(({ trouble }) => trouble.address === own.address);
      // Without a failure, other networks may be routed; a host that everybody waits for is suspicious.
      const isSuspicious =
        about.length > 0 ||
        (others.length > 1 &&
          apart.length === others.length &&
          waitingMembers(job).length > 0 &&
          apart.some((one) => one.bootstrap!.name !== own.name));
      if (!isSuspicious) continue;
      const network = apart[0]!.bootstrap!.address.split('.').slice(0, 2).join('.');
      const warned = about.filter(({ logged }) => logged.isWarning);
      found.push({
        severity: 'error',
        confidence: about.length > 0 ? 'certain' : 'likely',
        text: `${process.host} announces ${own.address} (${own.name}), which is in another network than those of the other hosts`,
        culprit: { host: process.host, interface: own.name, address: own.address },
        evidence: distinctPlaces([
          own.at,
          ...some(
            apart.map((one) => one.bootstrap!.at),
            8,
          ),
          ...some((warned.length > 0 ? warned : about).map(({ at }) => at)),
        ]),
        repair: `Set NCCL_SOCKET_IFNAME to the interface of the ${network}.x.x network on all hosts, and see why ${process.host} does not use it (interface down, or without address).`,
        workaround: null,
      });
    }
    return found;
  },
};

export const firewall: Rule = {
  id: 'firewall',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'connections that fail between hosts of one network that both run: something blocks the ports',
  example: [
    example(
      'logs.txt',
      'n1:10:10 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.1<0>',
      'n1:10:12 [0] misc/socket.cc:577 NCCL WARN socketStartConnect: connect to 10.1.0.2<52291> returned Connection timed out, exceeded error retry count after 35 attempts',
      'n2:10:10 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.2<0>',
    ),
  ],
  references: ['NCCL user guide: troubleshooting, networking issues'],
  explainedBy: ['iface-virtual', 'bootstrap-interface-mismatch', 'rank-died', 'ports-exhausted'],
  find(job) {
    const addressOf = new Map(
      job.processes.flatMap(({ bootstrap, host }) =>
        bootstrap === undefined ? [] : [[bootstrap.address, { host, at: bootstrap.at }] as const],
      ),
    );
    const failed = troubles(job, 'connect').filter(({ process, trouble, logged }) => {
      const peer = trouble.address === undefined ? undefined : addressOf.get(trouble.address);
      const own = process.bootstrap?.address;
      const isNear = own !== undefined && maySameNetwork(own, trouble.address ?? '');
      const isBlocked = /timed out|no route|prohibited|unreachable/i.test(trouble.reason);
      return logged.isWarning && peer !== undefined && peer.host !== process.host && isNear && isBlocked;
    });
    const [first] = failed;
    if (first === undefined) return [];
    const peer = addressOf.get(first.trouble.address!)!;
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `${first.process.host} cannot connect to ${peer.host} (${first.trouble.address}) although both run in one network: ${first.trouble.reason}`,
        culprit: {
          host: peer.host,
          address: first.trouble.address,
          from: [...new Set(failed.map(({ process }) => process.host))],
        },
        evidence: distinctPlaces([
          ...some(firstOfEach(failed, ({ process }) => process).map(({ at }) => at)),
          peer.at,
        ]),
        repair: `Open all TCP ports between the hosts (firewalld, nftables, security groups): NCCL listens on any free port; test with nc -l on ${peer.host}.`,
        workaround: null,
      },
    ];
  },
};

export const connectTimeout: Rule = {
  id: 'connect-timeout',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'connections between hosts that fail for good, with no other fault that explains it',
  example: [
    example(
      'n1.log',
      'n1:10:12 [0] misc/socket.cc:577 NCCL WARN socketStartConnect: connect to 10.1.0.2<52291> returned Connection timed out, exceeded error retry count after 35 attempts',
    ),
  ],
  references: ['NCCL user guide: troubleshooting, networking issues'],
  explainedBy: [
    'iface-virtual',
    'bootstrap-interface-mismatch',
    'ports-exhausted',
    'rank-died',
    'no-socket-interface',
    'too-many-open-files',
    'firewall',
  ],
  find(job) {
    const failed = troubles(job, 'connect').filter(({ logged }) => logged.isWarning);
    if (failed.length === 0) return [];
    const addresses = [...new Set(failed.flatMap(({ trouble }) => trouble.address ?? []))];
    const reasons = [...new Set(failed.map(({ trouble }) => trouble.reason))];
    const isRefused = reasons.every((reason) => /refused/i.test(reason));
    return [
      {
        severity: 'error',
        confidence: 'possible',
        text: `${listed([...new Set(failed.map(({ process }) => process.host))])} cannot connect to ${addresses.length === 0 ? 'a peer' : listed(addresses)}: ${reasons.join('; ')}`,
        culprit: {
          hosts: [...new Set(failed.map(({ process }) => process.host))],
          addresses,
          reason: reasons[0],
        },
        evidence: some(firstOfEach(failed, ({ process }) => process).map(({ at }) => at)),
        repair: isRefused
          ? 'Nobody listens at that address: see whether the process there has ended before, and start with its log.'
          : 'Let all ports between the hosts through (NCCL uses any free port), and choose an interface that reaches them with NCCL_SOCKET_IFNAME.',
        workaround: null,
        why: 'the address is not reachable from here',
      },
    ];
  },
};

export const initWaiting: Rule = {
  id: 'init-waiting',
  causes: ['blocks', 'hangs'],
  looksFor: 'communicators that started and never completed',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x3c - Init START',
    ),
  ],
  references: [],
  explainedBy: { effects: ['blocks', 'kills'] },
  find(job) {
    // Where others of the communicator are done, the log of the rest is cut.
    const done = new Set(
      job.processes.flatMap(({ members }) => members.flatMap((one) => (one.completed ? [one.commId] : []))),
    );
    const waiting = waitingMembers(job).filter(
      ({ member, process }) =>
        (member.commId === undefined || !done.has(member.commId)) &&
        failuresAfter(process, member.started).length === 0,
    );
    const [first] = waiting;
    if (first === undefined) return [];
    // A copy that was cut shows only how far it reaches.
    if (waiting.every(({ process }) => breaksOff(job, process))) return [];
    const culprits = missingRanks(job);
    const size = first.member.size;
    const isEnded = job.events.some(({ kind }) => kind === 'cancelled' || kind === 'watchdog');
    if (isAllThere(job, first.member)) return [inSetUp(waiting, size, isEnded)];
    return [
      {
        severity: 'error',
        confidence: 'possible',
        text: `${waiting.length} rank${waiting.length === 1 ? ' is' : 's are'} waiting in the set-up of a communicator of ${size ?? '?'}${culprits.length === 0 ? '' : `; nothing is known of rank ${listed(culprits)}`}`,
        culprit: { waiting: waiting.length, missing: culprits.slice(0, 64) },
        evidence: some(firstOfEach(waiting, ({ process }) => process).map(({ member }) => member.started!)),
        repair:
          'All ranks must reach the creation of the communicator: look at those of which no log says Init START (not started, other rank or size, other unique id, blocked before it).',
        workaround: null,
        why: 'the others wait in Init START',
      },
    ];
  },
};

type Waiting = ReturnType<typeof waitingMembers>[number];

/** Every rank of a communicator has started. */
function isAllThere(job: Job, { commId, size }: Waiting['member']): boolean {
  const ranks = new Set(
    job.processes.flatMap(({ members }) =>
      members.flatMap((one) => (one.commId === commId && one.rank !== undefined ? [one.rank] : [])),
    ),
  );
  return size !== undefined && ranks.size >= size;
}

/** All are there, and the log of none goes on: a hang, or a log that was taken before the end. */
function inSetUp(waiting: readonly Waiting[], size: number | undefined, isEnded: boolean): Finding {
  return {
    // A time limit that was met tells that it stood still.
    severity: isEnded ? 'error' : 'warning',
    confidence: 'possible',
    text: `all ${size} ranks began the set-up of a communicator and none completed it before the log ends`,
    culprit: { waiting: waiting.length, missing: [] },
    evidence: some(
      distinctPlaces(
        firstOfEach(waiting, ({ process }) => process).flatMap(({ member, process }) => [
          member.started,
          process.last,
        ]),
      ),
    ),
    repair:
      'If the job stands still, take the stacks of all ranks, and run it again with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALL: what each rank logs last tells what it waits for. If it went on, give the whole log.',
    workaround: null,
    why: 'the set-up does not end',
  };
}

export const logBreaksOff: Rule = {
  id: 'log-breaks-off',
  looksFor: 'a log that is cut in the middle of a line before the set-up ends: what came then is not known',
  example: [
    {
      name: 'n1.log',
      text: 'n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START\nn1:10:11 [0] NCCL INFO Setting aff',
    },
  ],
  references: [],
  find: (job) =>
    job.files.flatMap((file): Finding[] => {
      const inFile = job.processes.filter((process) => process.last.file === file.name);
      const open = inFile.filter(
        (process) =>
          breaksOff(job, process) &&
          failuresAfter(process, undefined).length === 0 &&
          !process.members.some(({ completed, destroyed }) => completed ?? destroyed),
      );
      const at = file.last;
      if (open.length === 0 || at === undefined) return [];
      return [
        {
          severity: 'info',
          confidence: 'certain',
          text: `${file.name} breaks off in line ${at.line}, during the set-up of ${open.length === 1 ? 'a process' : `${open.length} processes`}: what came then cannot be told`,
          culprit: { file: file.name, line: at.line },
          evidence: [at],
          repair: 'Give the whole log.',
          workaround: null,
        },
      ];
    }),
};

/** Ranks of waiting communicators without a line, where few are missing. */
function missingRanks(job: Job): number[] {
  const waiting = waitingMembers(job);
  const size = waiting[0]?.member.size;
  if (size === undefined || hosts(job).length === 0) return [];
  const id = waiting[0]!.member.commId;
  const there = new Set(
    job.processes.flatMap(({ members }) =>
      members.filter((one) => one.commId === id).map(({ rank }) => rank),
    ),
  );
  const missing = Array.from({ length: Math.min(size, 65_536) }, (_, rank) => rank).filter(
    (rank) => !there.has(rank),
  );
  return missing.length < size / 2 ? missing : [];
}

export const noSocketInterface: Rule = {
  id: 'no-socket-interface',
  causes: ['blocks'],
  looksFor: 'no interface left for the set-up: NCCL_SOCKET_IFNAME names none that is there',
  example: [
    example('n1.log', 'n1:10:10 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found'),
  ],
  references: ['NCCL user guide: NCCL_SOCKET_IFNAME'],
  find(job) {
    const found = troubles(job, 'noInterface');
    const [first] = found;
    if (first === undefined) return [];
    const setting = first.process.environment.get('NCCL_SOCKET_IFNAME');
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `${first.process.host} has no interface that fits NCCL_SOCKET_IFNAME${setting === undefined ? '' : `=${setting.value}`}`,
        culprit: {
          host: first.process.host,
          variable: 'NCCL_SOCKET_IFNAME',
          ...(setting === undefined ? {} : { value: setting.value }),
        },
        evidence: distinctPlaces([...some(found.map(({ at }) => at)), setting?.at]),
        repair: `Name an interface that ${first.process.host} has and that is up with an address (ip -br addr), or unset NCCL_SOCKET_IFNAME.`,
        workaround: null,
      },
    ];
  },
};

/**
 * The page docs/doctor.md: what the doctor reads, how it judges, and every rule with an example, made from the rules
 * themselves.
 */
import { diagnose } from '../diagnose.js';
import { readJob } from '../read/read-job.js';
import { RULES } from '../rules/registry.js';
import type { Effect, Rule } from '../rules/rule.js';

const INTRODUCTION = `# The doctor

\`npx tutti doctor FILE... | FOLDER\` says what is wrong with a job that uses the real NCCL, on which evidence, and what
repairs it. It needs no GPU and runs nothing: it reads the files that are at hand. This page is made from the rules by
\`node scripts/doctor-page.js\`.

## What to give it

The more, the surer: a log of one rank already helps, logs of all ranks let it compare them.

- Logs of NCCL 2.8 to 2.31: run the job with \`NCCL_DEBUG=INFO\`, and with
  \`NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING\` for more. One file or many, ranks mixed or not, with the prefixes and
  time stamps of mpirun, srun, pdsh, torchrun, Ray, kubectl, compose, journald and containers (also the JSON lines that
  Docker and log collectors keep), with or without colours, cut off or not.
- Tables or JSON of nccl-tests; tables of bandwidth by pairs of hosts; ib_write_bw and its like.
- Output of frameworks and launchers: watchdogs, exceptions, ends of processes; dumps of operations as JSON, as
  PyTorch's flight recorder writes them, and in other layouts. Pickles run code when they are read, so they are refused.
- RAS status (\`ncclras\`), text or JSON.
- Topology and graph files of NCCL.
- \`nvidia-smi\` (the table), \`nvidia-smi topo -m\`, \`nvidia-smi nvlink -s\` (and \`-e\`), \`nvidia-smi -L\`,
  \`nvidia-smi -q -d PERFORMANCE\`, \`nvidia-smi -q -x\` (recognised only), \`lspci\` (with \`-vvv\` for access control and links),
  \`show_gids\`, \`ibstatus\`, \`ibstat\` or \`ibv_devinfo\`, \`ethtool -S\`, \`perfquery\`, \`ip addr\`, \`ss -s\`, \`sysctl\`, \`ulimit -a\`, \`df\`, \`lsmod\`, \`dmesg\`.

The kind of a file is recognised by its content, line by line; one file may hold several. Names of files matter only
where nothing else tells whose output it is. Files packed with gzip (and with zstd, where Node is 22.15 or newer) are
unpacked while they are read, archives (tar) are read like folders, and text may be UTF-8 or UTF-16.

## What it answers

Verdicts first, the worst on top: what is wrong, where (host, rank, adapter, interface, variable), the lines that show
it, what repairs it, and apart from that what would only hide it, with its cost. A fault hides what it caused: consequences
stand below their cause. Then what was not checked, and why. \`--json\` gives the verdicts together with the model of the
job: processes, variables, communicators, ways between ranks, results.

Where a log has NCCL's tuning tables (\`NCCL_DEBUG_SUBSYS=TUNING\`), or a topology file is among the files, \`--numbers\`
prints what NCCL expected of each measured size beside what was measured, and what would have been faster.
\`npx tutti doctor --live [HOST ...]\` checks this machine before a job runs: shared memory, limits, ports, interfaces,
adapters, cores, variables, and whether other hosts answer or refuse a TCP connection to port 1 (which shows that they
are there, not that the ports of NCCL are open). It changes nothing. \`npx tutti report FILE...\` puts
files, verdicts and facts of this machine into one archive, and replaces the names, addresses, identifiers and secrets
that it recognises; \`npx tutti report --help\` says which.

- severity: \`error\` fails or is slow by a factor, \`warning\` costs something, \`info\` explains what is no fault.
- no job is called healthy as long as NCCL, a framework or a launcher reports a failure that no rule explains: the last
  rules quote it. A cause explains a symptom only if it can cause it and weighs as much, so a variable that costs speed
  never hides that ranks wait.
- several runs in one collection of files (other communicators on the same GPUs) are judged one by one, and each verdict
  names its run.
- confidence: \`certain\`, \`likely\`, \`possible\`.
- exit status: 0 no fault found (notes of severity \`info\` may be there: they explain, and no check of a pipeline is to stop for
  them), 1 errors or warnings, 2 none of these, but a file could not be read, or one that was named by itself was not
  understood. In folders, files that are not understood are listed and do not count. \`--json\` has the same as \`outcome\`.
`;

/** The text of the page. */
export async function rulesPage(): Promise<string> {
  const causes = RULES.filter(({ explainedBy }) => explainedBy === undefined);
  const symptoms = RULES.filter(({ explainedBy }) => explainedBy !== undefined);
  const list = async (rules: readonly Rule[]) => (await Promise.all(rules.map(ruleSection))).join('\n');
  return `${INTRODUCTION}
## Causes

${await list(causes)}
## Symptoms

Each is shown below its cause where one is found, and is a verdict of its own where none is.

${await list(symptoms)}`;
}

async function ruleSection(rule: Rule): Promise<string> {
  const job = await readJob(rule.example.map(({ name, text }) => ({ name, text: [text] })));
  const verdicts = diagnose(job);
  const own = verdicts.find(({ id }) => id === rule.id);
  const above = verdicts.find(({ consequences }) => consequences.some(({ id }) => id === rule.id));
  const shown = own ?? above;
  const files = rule.example.map(({ name, text }) => `${name}:\n${text.replace(/^(?=.)/gm, '  ')}`);
  const answer =
    shown === undefined
      ? []
      : [
          `${own === undefined ? `${shown.id}, which explains ${rule.id}` : `${shown.severity}, ${shown.confidence}`}: ${shown.text}`,
          `  repair      ${shown.repair}`,
          ...(shown.workaround === null ? [] : [`  workaround  ${shown.workaround}`]),
        ];
  return [
    `### ${rule.id}`,
    '',
    `Looks for ${rule.looksFor}.`,
    ...effectsOf(rule),
    ...explained(rule),
    ...(rule.references.length === 0 ? [] : [`See ${rule.references.join('; ')}.`]),
    '',
    '```text',
    ...files,
    ...answer,
    '```',
    '',
  ].join('\n');
}

const EFFECTS: Readonly<Record<Effect, string>> = {
  blocks: 'can keep the set-up from ending',
  kills: 'can end processes or connections',
  hangs: 'can keep operations from ending',
  slows: 'can cost speed',
};

function effectsOf({ causes = [] }: Rule): string[] {
  return causes.length === 0 ? [] : [`It ${causes.map((one) => EFFECTS[one]).join(', or ')}.`];
}

function explained({ explainedBy }: Rule): string[] {
  if (explainedBy === undefined) return [];
  if ('effects' in explainedBy)
    return [
      `Explained by every cause that ${explainedBy.effects.map((one) => EFFECTS[one]).join(' or ')}, and that weighs as much${explainedBy.also === undefined ? '' : `, and by ${explainedBy.also.join(', ')}`}.`,
    ];
  return [`Explained by ${explainedBy.join(', ')}.`];
}

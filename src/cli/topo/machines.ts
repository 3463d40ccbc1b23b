/**
 * Opens the machines that the user names, or this one, as topology documents.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { detectTopology } from '../../topology/detect/detect.js';
import { readInput } from '../../topology/detect/input-file.js';
import { liveMachine, type Machine } from '../../topology/detect/machine.js';
import { p2pWorks } from '../../topology/detect/nvml-facts.js';
import { recordedMachine } from '../../topology/detect/recorded-machine.js';
import type { LogSink } from '../../topology/log.js';
import { listText } from '../../topology/report/quantities.js';
import type { Environment } from '../../topology/settings.js';
import type { XmlElement } from '../../topology/xml/element.js';
import { MAX_TEXT } from '../../topology/xml/limits.js';
import { withoutIgnored } from '../../topology/xml/nesting.js';
import { readXml } from '../../topology/xml/read.js';
import { elementsNamed, withRanks } from './documents.js';
import { reasonOf } from './file-errors.js';
import { type MachineSource, STANDARD } from './machine-options.js';
import { pciDeviceLines } from './pci-devices.js';
import { completed, type TemplateFacts, templateOptions } from './templates.js';

/** File descriptor of the standard input; the stream of that name would make it non-blocking. */
const STDIN = 0;

/** A machine, and what the user should know of it. */
export interface OpenedMachine {
  /** For people. */
  readonly source: string;
  readonly document: XmlElement;
  readonly notes: readonly string[];
  /** Whether NVML reports peer-to-peer access between two devices; undefined where nobody can be asked. */
  readonly nvmlP2p: ((busIdA: string, busIdB: string) => boolean) | undefined;
  /** It was looked at by detection, which honours variables. */
  readonly isDetected: boolean;
  /** No GPU was found on a machine that was looked at; why. */
  readonly noGpus: string | undefined;
  /** Then: its PCI devices, a line each. */
  readonly pciDevices: readonly string[];
}

/** Notes for the user, with where they come from. */
export const notesOf = ({ source, notes }: OpenedMachine): string[] =>
  notes.map((text) => `${source}: ${text}`);

/** What is wrong with a machine on which NCCL could not run. */
export const noGpusError = ({ source, noGpus }: OpenedMachine): TuttiError =>
  new TuttiError(
    'invalidArgument',
    `${source} has no GPUs (${noGpus}), so there is nothing that NCCL would decide; ` +
      'give a topology file (--file FILE), or a recording of a machine with GPUs (--from RECORD, which --record makes)',
  );

/** Opens one machine; undefined: this one. */
export function openMachine(
  source: MachineSource | undefined,
  template: TemplateFacts,
  env: Environment,
  log: LogSink,
): OpenedMachine {
  switch (source?.kind) {
    case undefined:
      return thisMachine(template, env, log);
    case 'record': {
      const machine = recordedMachine(source.name);
      return withoutTemplate(detected(machine, { ...machine.environment, ...env }, log), template);
    }
    case 'file':
      return fromFile(source.name, template);
  }
}

/** This machine; if it has no GPUs and the user has set NCCL_TOPO_FILE, the one that the file describes. */
function thisMachine(template: TemplateFacts, env: Environment, log: LogSink): OpenedMachine {
  const machine = liveMachine();
  const path = env.NCCL_TOPO_FILE || undefined;
  if (path === undefined || (machine.nvml?.devices.length ?? 0) > 0) {
    return withoutTemplate(detected(machine, env, log), template);
  }
  const opened = fromFile(path, template);
  const note = 'this machine has no GPUs; shown is the one that NCCL_TOPO_FILE describes';
  return { ...opened, notes: [note, ...opened.notes] };
}

/** Says that a machine which was looked at has no template to complete. */
function withoutTemplate(machine: OpenedMachine, facts: TemplateFacts): OpenedMachine {
  const ignored = templateOptions(facts);
  if (ignored.length === 0) return machine;
  const note = `${listText(ignored)} ${ignored.length > 1 ? 'have' : 'has'} no effect on a machine, only on a template`;
  return { ...machine, notes: [...machine.notes, note] };
}

function fromFile(path: string, template: TemplateFacts): OpenedMachine {
  const source = path === STANDARD ? 'standard input' : path;
  let text: string;
  try {
    text = readInput(path === STANDARD ? STDIN : path, MAX_TEXT, source).toString('latin1');
  } catch (cause) {
    if (TuttiError.is(cause)) throw cause;
    throw new TuttiError('invalidArgument', `cannot read the topology file ${source}: ${reasonOf(cause)}`, {
      cause,
    });
  }
  const { root, notes } = readXml(text, { root: 'system', file: source });
  const whole = completed(withoutIgnored(root), source, template);
  const ranked = withRanks(whole.document);
  return {
    source,
    document: ranked.document,
    notes: [...notes, ...whole.notes, ...ranked.notes],
    nvmlP2p: undefined,
    isDetected: false,
    noGpus: undefined,
    pciDevices: [],
  };
}

function detected(machine: Machine, env: Environment, log: LogSink): OpenedMachine {
  const { nvml, nvmlProblem, source } = machine;
  const document = detectTopology({ machine, env, log });
  const notes = withProcessor(document);
  const hasGpus = elementsNamed(document, 'gpu').some((gpu) => gpu.attributes.has('rank'));
  return {
    source,
    document,
    notes,
    nvmlP2p: nvml === undefined ? undefined : (a, b) => p2pWorks(nvml, a, b),
    isDetected: true,
    noGpus: hasGpus ? undefined : nvmlProblem || 'the NVIDIA driver shows no GPU',
    pciDevices: hasGpus ? [] : pciDeviceLines(machine.files),
  };
}

/** A copy of /sys does not tell the processor, without which there is no graph; says what that means. */
function withProcessor(document: XmlElement): string[] {
  const unknown = document.children.filter(
    ({ name, attributes }) => name === 'cpu' && !attributes.has('arch'),
  );
  for (const cpu of unknown) cpu.attributes.set('arch', 'unknown');
  return unknown.length === 0
    ? []
    : [
        'the processor is not known, so the speed between sockets is a guess; --record on the machine tells it',
      ];
}

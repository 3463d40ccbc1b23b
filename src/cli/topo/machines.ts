/**
 * Opens the machines that the user names, or this one, as topology documents.
 */
import { readFileSync } from 'node:fs';
import { TuttiError } from '../../errors/tutti-error.js';
import { detectTopology } from '../../topology/detect/detect.js';
import { liveMachine, type Machine } from '../../topology/detect/machine.js';
import { p2pWorks } from '../../topology/detect/nvml-facts.js';
import { recordedMachine } from '../../topology/detect/recorded-machine.js';
import type { LogSink } from '../../topology/log.js';
import type { Environment } from '../../topology/settings.js';
import type { XmlElement } from '../../topology/xml/element.js';
import { readXml } from '../../topology/xml/read.js';
import { checkHasGpus, withRanks } from './documents.js';
import type { MachineSource } from './options.js';

/** A machine, and what the user should know of it. */
export interface OpenedMachine {
  /** For people. */
  readonly source: string;
  readonly document: XmlElement;
  readonly notes: readonly string[];
  /** Whether NVML reports peer-to-peer access between two devices; undefined where nobody can be asked. */
  readonly nvmlP2p: ((busIdA: string, busIdB: string) => boolean) | undefined;
  /** No GPU was found on a machine that was looked at; why. */
  readonly noGpus: string | undefined;
}

/** Opens one machine; undefined: this one. */
export function openMachine(
  source: MachineSource | undefined,
  env: Environment,
  log: LogSink,
): OpenedMachine {
  switch (source?.kind) {
    case undefined:
      return detected(liveMachine(), env, log);
    case 'record': {
      const machine = recordedMachine(source.name);
      return detected(machine, { ...machine.environment, ...env }, log);
    }
    case 'file':
      return fromFile(source.name);
  }
}

function fromFile(path: string): OpenedMachine {
  let text: string;
  try {
    text = readFileSync(path, 'latin1');
  } catch (cause) {
    throw new TuttiError('invalidArgument', `cannot read the topology file: ${(cause as Error).message}`, {
      cause,
    });
  }
  const { root, notes } = readXml(text, { root: 'system', file: path });
  checkHasGpus(root, path);
  return plain(root, path, notes);
}

function plain(root: XmlElement, source: string, notes: readonly string[]): OpenedMachine {
  const ranked = withRanks(root);
  return {
    source,
    document: ranked.document,
    notes: [...notes, ...ranked.notes],
    nvmlP2p: undefined,
    noGpus: undefined,
  };
}

function detected(machine: Machine, env: Environment, log: LogSink): OpenedMachine {
  const { nvml, nvmlProblem, source } = machine;
  const document = detectTopology({ machine, env, log });
  const count = nvml?.devices.length ?? 0;
  return {
    source,
    document,
    notes: [],
    nvmlP2p: nvml === undefined ? undefined : (a, b) => p2pWorks(nvml, a, b),
    noGpus: count > 0 ? undefined : nvmlProblem || 'the NVIDIA driver shows no GPU',
  };
}

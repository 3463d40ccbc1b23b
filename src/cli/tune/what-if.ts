/**
 * Variables that a user would like to try: `NCCL_ALGO=Tree`, several of them in one text, or a name alone to unset it.
 */
import type { Environment } from '../../topology/settings.js';
import { wrong } from '../topo/machine-options.js';

export interface WhatIf {
  /** As the user wrote it, without blanks around. */
  readonly text: string;
  /** By name; undefined unsets. */
  readonly variables: Readonly<Record<string, string | undefined>>;
}

/** Begins an assignment or a lone name. A value may have blanks (NCCL_THREAD_THRESHOLDS). */
const ASSIGNMENT = /(?:^|\s)(NCCL_[A-Z0-9_]+)(?:=|(?=\s|$))/g;

/**
 * Reads a text of assignments.
 *
 * @throws TuttiError invalidArgument if it is none, or sets a variable twice
 */
export function parseWhatIf(text: string): WhatIf {
  const starts = [...text.matchAll(ASSIGNMENT)];
  if (starts.length === 0 || text.slice(0, starts[0]!.index).trim() !== '') {
    throw wrong(`--what-if ${text}: write NAME=VALUE with a variable of NCCL, such as NCCL_ALGO=Tree`);
  }
  const variables: Record<string, string | undefined> = {};
  for (const [at, match] of starts.entries()) {
    const name = match[1]!;
    const value = text.slice(match.index + match[0].length, starts[at + 1]?.index).trim();
    const isSet = match[0].endsWith('=');
    if (!isSet && value !== '') {
      throw wrong(`--what-if ${text}: '${value}' is no assignment; write NAME=VALUE`);
    }
    if (name in variables) throw wrong(`--what-if ${text}: ${name} is given twice`);
    variables[name] = isSet ? value : undefined;
  }
  return { text: text.trim(), variables };
}

/** The environment with the variables of a what-if. */
export function environmentWith(env: Environment, { variables }: WhatIf): Environment {
  const changed: Record<string, string | undefined> = { ...env };
  for (const [name, value] of Object.entries(variables)) {
    if (value === undefined) delete changed[name];
    else changed[name] = value;
  }
  return changed;
}

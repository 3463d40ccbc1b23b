/**
 * Which variables of the environment are looked at: so that a name that nothing reads can be told from one that has no
 * effect, without a list of all names.
 */
import type { Environment } from '../../topology/settings.js';
import { nearestName } from '../../tuning/nearest-name.js';

const PREFIX = 'NCCL_';

export interface WatchedEnvironment {
  readonly env: Environment;
  /** Names that have been read, whether set or not. */
  readonly read: ReadonlySet<string>;
}

/** An environment that notes what is read. */
export function watched(env: Environment): WatchedEnvironment {
  const read = new Set<string>();
  const proxy = new Proxy(env, {
    get(target, name) {
      if (typeof name === 'string') read.add(name);
      return Reflect.get(target, name) as unknown;
    },
  });
  return { env: proxy, read };
}

/** Variables of NCCL that are set and were read, in alphabetic order. */
export function variablesInEffect(env: Environment, read: ReadonlySet<string>): Record<string, string> {
  const set = [...read].filter((name) => name.startsWith(PREFIX) && Object.hasOwn(env, name));
  return Object.fromEntries(
    set.sort().flatMap((name) => {
      const value = env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** A sentence about a variable that nothing has read; undefined if something has. */
export function unreadText(name: string, read: ReadonlySet<string>): string | undefined {
  if (read.has(name)) return undefined;
  const short = (full: string) => full.slice(PREFIX.length);
  const names = [...read].filter((one) => one.startsWith(PREFIX)).map(short);
  const near = nearestName(short(name), names);
  const meant = near === undefined ? '' : ` (did you mean ${PREFIX}${near}?)`;
  return `${name}: nothing that is decided here depends on it${meant}`;
}

/**
 * Node's parseArgs for a command, with errors in the words of this one: the option, what is wrong, what would be right.
 */
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { TuttiError } from '../errors/tutti-error.js';
import { nearestName } from '../tuning/nearest-name.js';

type Options = NonNullable<ParseArgsConfig['options']>;

/**
 * Parses arguments. A negative number behind an option with a value is that value.
 *
 * @param command for the error: `topo`
 * @throws TuttiError invalidArgument
 */
export function parseArguments<const T extends ParseArgsConfig & { args: string[]; options: Options }>(
  config: T,
  command: string,
): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs({ ...config, args: withNumbers(config.args, config.options) }) as ReturnType<
      typeof parseArgs<T>
    >;
  } catch (cause) {
    const text = sentence(cause as NodeJS.ErrnoException, config.options);
    throw new TuttiError('invalidArgument', `${text}; see 'tutti ${command} --help'`, { cause });
  }
}

/** `--nodes -1` as `--nodes=-1`: the number is what is wrong, not its dash. */
function withNumbers(args: readonly string[], options: Options): string[] {
  const joined: string[] = [];
  for (const arg of args) {
    const before = joined.at(-1) ?? '';
    const isValue = /^-\d/.test(arg) && options[before.replace(/^--/, '')]?.type === 'string';
    if (isValue && before.startsWith('--')) joined[joined.length - 1] = `${before}=${arg}`;
    else joined.push(arg);
  }
  return joined;
}

/** What parseArgs found, by its code and the option that its text quotes. */
function sentence({ code, message }: NodeJS.ErrnoException, options: Options): string {
  const [, quoted = ''] = /'([^']*)'/.exec(message) ?? [];
  const option = quoted.replace(/ <value>$/, '');
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION')
    return `there is no option ${option}${suggestion(option, options)}`;
  if (code === 'ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL') return `'${option}' is not expected here`;
  if (code !== 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE') return message;
  if (message.includes('does not take')) return `${option} takes no value`;
  const long = /--[\w-]+/.exec(option)?.[0];
  const dash = long === undefined ? '' : `; one that begins with a dash is written ${long}=-...`;
  return `${option} needs a value${message.includes('ambiguous') ? dash : ''}`;
}

function suggestion(option: string, options: Options): string {
  const near = nearestName(option, Object.keys(options));
  return near === undefined ? '' : ` (did you mean --${near}?)`;
}

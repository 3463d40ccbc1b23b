/**
 * The command line of `tutti report`.
 */
import { parseArguments } from '../parse-arguments.js';

export const REPORT_USAGE = `Usage: tutti report [FILE... | FOLDER] [-o FILE]

Puts files about a job (those that 'tutti doctor' reads), what the doctor says about them, and facts of this machine into
one tar archive, and replaces what it recognises, each by the same stand-in everywhere:

  hosts       that the job names, and names with a domain, in variables, command lines, addresses and system logs
  users       in paths below home folders, in mail addresses, logins and fields like user=
  addresses   IPv4, IPv6, MAC, InfiniBand (GUIDs); addresses of 127.0.0.1 and masks stay
  numbers     UUIDs (GPUs), serial numbers
  secrets     tokens of known forms, keys, values of names that end in token, secret, password, key, and passwords in URLs

Not replaced: other names in paths, names of jobs, models, data and programs, host names in lower-case prose without a
digit, dot or hyphen, and secrets that nothing tells. What was replaced is printed and stays here, with a warning of
lines that still look like secrets. Look through the archive before you send it.

  -o, --output FILE   the archive (default: tutti-report.tar); an existing file is not overwritten
  -h, --help          this text
`;

export interface ReportOptions {
  readonly paths: readonly string[];
  readonly output: string;
}

/** Parses the arguments after `report`. Throws `invalidArgument`. */
export function parseReportOptions(argv: readonly string[]): ReportOptions | 'help' {
  const { values, positionals } = parseArguments(
    {
      args: [...argv],
      allowPositionals: true,
      options: {
        output: { type: 'string', short: 'o', default: 'tutti-report.tar' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    },
    'report',
  );
  return values.help ? 'help' : { paths: positionals, output: values.output };
}

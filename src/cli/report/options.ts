/**
 * The command line of `tutti report`.
 */
import { parseArguments } from '../parse-arguments.js';

export const REPORT_USAGE = `Usage: tutti report [FILE... | FOLDER] [-o FILE]

Puts files about a job (those that 'tutti doctor' reads), what the doctor says about them, and facts of this machine into
one tar archive that can be shown to strangers: names of hosts and users, addresses and identifiers are replaced, each by
the same stand-in everywhere. What was replaced is printed and stays here; look through the archive before you send it.

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

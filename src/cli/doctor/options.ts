/**
 * The command line of `tutti doctor`.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { parseArguments } from '../parse-arguments.js';

export const DOCTOR_USAGE = `Usage: tutti doctor FILE... | FOLDER [--json] [--numbers]
       tutti doctor --live [HOST ...] [--json]

Says what is wrong with a job of NCCL, on which evidence, and what repairs it, from the files that are at hand: logs
(NCCL_DEBUG=INFO) of any ranks, tables or JSON of nccl-tests, RAS status, dumps of flight recorders (JSON), topology and
graph files, and output of nvidia-smi (the table, topo -m, nvlink -s, -e, -L, -q), lspci -vvv, show_gids, ibstat, ibstatus,
ibv_devinfo, ethtool -S, perfquery, df, ip, ss, sysctl, ulimit, lsmod, dmesg, kubectl describe pod, ping, ib_write_bw.
The kind of a file is recognised by its content; gzip and tar are unpacked;
'-' is the standard input.

  --json     verdicts, expected numbers and the model of the job as JSON
  --numbers  beside each measured size, what NCCL expected of it (tuning tables in the log, or a topology file)
  --live     checks this machine instead of files (shared memory, limits, ports, interfaces, adapters, cores), and
             whether other hosts can be reached: one TCP connection to port 1, where an answer or a refusal within two
             seconds shows that the host is there, not that NCCL's ports are open; nothing is changed
  --help     this text

Lines of evidence are cut to the width of a terminal (COLUMNS), and whole where the output goes elsewhere.

Exit status: 0 no fault found (notes of severity info may be there), 1 errors or warnings, 2 none of these, but a file
could not be read, or one that was named was not understood (in folders, such files are only listed), or wrong use.
`;

export interface DoctorOptions {
  readonly paths: readonly string[];
  readonly json: boolean;
  readonly numbers: boolean;
  /** Check this machine; `paths` are then hosts. */
  readonly live: boolean;
}

/** Parses the arguments after `doctor`. Throws `invalidArgument`. */
export function parseDoctorOptions(argv: readonly string[]): DoctorOptions | 'help' {
  const { values, positionals } = parseArguments(
    {
      args: [...argv],
      allowPositionals: true,
      options: {
        json: { type: 'boolean', default: false },
        numbers: { type: 'boolean', default: false },
        live: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    },
    'doctor',
  );
  if (values.help) return 'help';
  if (positionals.length === 0 && !values.live) {
    throw new TuttiError(
      'invalidArgument',
      "name the files or the folder to look at; see 'tutti doctor --help'",
    );
  }
  return { paths: positionals, json: values.json, numbers: values.numbers, live: values.live };
}

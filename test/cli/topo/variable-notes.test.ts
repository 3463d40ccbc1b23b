/** What is said of the variables that are set. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { READ_VARIABLES, variableNotes } from '#src/cli/topo/variable-notes.js';

const PAGE = readFileSync(join(import.meta.dirname, '../../../docs/environment.md'), 'utf8');

/** Variables of NCCL on the page. */
const listed = [...PAGE.matchAll(/^\| (NCCL_\w+) /gm)].map(([, name]) => name!);

const all = Object.values(READ_VARIABLES).flat();

/** A value that each variable takes as it stands. */
const VALUES: Readonly<Record<string, string>> = {
  NCCL_P2P_LEVEL: 'SYS',
  NCCL_NET_GDR_LEVEL: 'PHB',
  NCCL_NET_MERGE_LEVEL: 'PIX',
  NCCL_NETDEVS_POLICY: 'ALL',
  NCCL_SOCKET_FAMILY: 'AF_INET',
};

describe('the variables that have notes', () => {
  it('are those of the page of environment variables, each in one place', () => {
    expect(all.toSorted()).toEqual(listed.toSorted());
    expect(new Set(all).size).toBe(all.length);
  });

  it('are no misspelled names of others', () => {
    for (const name of listed) {
      const said = variableNotes({ [name]: VALUES[name] ?? '1' }, true);
      const isOfTuning = READ_VARIABLES.tuning!.includes(name);
      expect(said, name).toEqual(
        isOfTuning ? [`${name} has no effect on the topology; tutti tune shows what it changes`] : [],
      );
    }
  });

  it('count on topology files unless a machine has to be looked at', () => {
    for (const name of READ_VARIABLES.detection!) {
      expect(variableNotes({ [name]: VALUES[name] ?? '1' }, false)).toEqual([
        `${name} has no effect on a topology file, only where a machine is looked at`,
      ]);
    }
    for (const name of READ_VARIABLES.description!) {
      expect(variableNotes({ [name]: VALUES[name] ?? '1' }, false)).toEqual([]);
    }
  });
});

describe('names that NCCL does not have', () => {
  test.each([
    ['NCCL_P2PLEVEL', 'NCCL_P2P_LEVEL'],
    ['nccl_p2p_level', 'NCCL_P2P_LEVEL'],
    ['NCCL_MAX_CHANNELS', 'NCCL_MAX_NCHANNELS'],
    ['NCCL_SOCKET_IFNAMES', 'NCCL_SOCKET_IFNAME'],
    ['NCCL_IB_GDR_LEVEL', 'NCCL_NET_GDR_LEVEL'],
    ['NCCL_CROSSNIC', 'NCCL_CROSS_NIC'],
    ['NCCL_DEBG', 'NCCL_DEBUG'],
  ])('%s is probably %s', (name, meant) => {
    expect(variableNotes({ [name]: '1' }, false)).toEqual([
      `NCCL has no variable ${name} (did you mean ${meant}?)`,
    ]);
  });

  it('and are like none that it has are left alone, as are variables that are elsewhere, empty or of others', () => {
    const env = {
      NCCL_OFI_PROTOCOL: 'x',
      NCCL_DEBUG: 'INFO',
      NCCL_IB_TC: '1',
      NCCL_P2PLEVEL: '',
      PATH: '/bin',
    };
    expect(variableNotes(env, false)).toEqual([]);
  });
});

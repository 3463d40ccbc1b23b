/** Every algorithm, from 2 to 64 ranks: each contribution once, no wait for ever, and the bytes that theory says. */
import { describe, expect, it } from 'vitest';
import { ALGORITHMS, type Algorithm, protocolsOf, supports } from '#src/collectives/registry.js';
import type { RingCollective, RingProtocol } from '#src/collectives/ring.js';
import type { Statement } from '#src/kernel/ir.js';
import { isSwitched } from '#src/planning/connected-algorithms.js';
import { usualSwitchedNodeSize } from '#src/planning/virtual-nodes.js';
import type { VerifiedCall } from '#src/verifier/call.js';
import { type VerifyOptions, verify } from '#src/verifier/verify.js';
import { mutated, placesOf } from '../collectives/mutate.js';
import { effort } from '../effort.js';

const COLLECTIVES: readonly RingCollective[] = [
  'allReduce',
  'allGather',
  'reduceScatter',
  'broadcast',
  'reduce',
];

/** All that exists. */
const CASES = COLLECTIVES.flatMap((collective) =>
  ALGORITHMS.filter((algorithm) => supports(algorithm, collective)).flatMap((algorithm) =>
    protocolsOf(algorithm).map((protocol) => ({ algorithm, protocol, collective })),
  ),
);

const call = (change: Partial<VerifiedCall>): VerifiedCall => ({
  algorithm: 'Ring',
  protocol: 'Simple',
  collective: 'allReduce',
  ranks: 4,
  perNode: 1,
  channels: 1,
  count: 16,
  root: 0,
  slotBytes: 512,
  ...change,
});

/** Many small numbers of ranks, and the neighbours of powers of two up to 64. */
const RANKS = effort([2, 3, 4, 5, 7, 8, 9, 16, 33], [2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 32, 33, 63, 64]);
/** Over switches the simulated machine has to copy as often as there are ports. */
const RANKS_OVER_SWITCHES = effort([2, 3, 4, 6, 9], [2, 3, 4, 5, 6, 8, 9, 17, 64]);
const ranksFor = (algorithm: Algorithm) => (isSwitched(algorithm) ? RANKS_OVER_SWITCHES : RANKS);
/** Nodes of one rank; over switches several of one size and one node too. */
const nodeSizes = (algorithm: Algorithm, ranks: number) =>
  isSwitched(algorithm) ? [...new Set([1, usualSwitchedNodeSize(ranks), ranks])] : [1];

describe('every contribution is in every result once, and nobody waits for ever', () => {
  it('for all that the library has', () => {
    expect(CASES.length).toBeGreaterThanOrEqual(29);
  });

  it.each(CASES)(
    `$algorithm/$protocol $collective, 2 to ${RANKS.at(-1)} ranks (${RANKS_OVER_SWITCHES.at(-1)} over switches)`,
    ({ algorithm, protocol, collective }) => {
      const blocks = collective === 'allGather' || collective === 'reduceScatter';
      for (const ranks of ranksFor(algorithm)) {
        // Blocks of few elements where every rank has one; else at least one element more than ranks.
        const count = blocks ? (ranks > 16 ? 1 : 3) : ranks + 1;
        for (const perNode of nodeSizes(algorithm, ranks)) {
          verify(call({ algorithm, protocol, collective, ranks, perNode, count, root: ranks >> 1 }), {
            seed: ranks,
          });
        }
      }
    },
    120_000,
  );

  it.each(CASES)(
    '$algorithm/$protocol $collective, more than all slots hold, several channels, odd counts',
    (what) => {
      for (const [ranks, count, channels, perNode] of [
        [3, 1200, 1, 1],
        [4, 777, 3, 2],
        [5, 0, 2, 5],
        [6, 1, 4, 3],
      ] as const) {
        verify(call({ ...what, ranks, count, channels, perNode, root: ranks - 1 }), { seed: count });
      }
    },
  );
});

describe('bytes and steps', () => {
  const traffic = (
    algorithm: Algorithm,
    protocol: RingProtocol,
    collective: RingCollective,
    ranks: number,
    count: number,
  ) => verify(call({ algorithm, protocol, collective, ranks, count, slotBytes: 4096 }));

  it.each(['LL', 'Simple'] as const)(
    'a ring all-reduce by %s sends 2 (n - 1) / n of the data from every rank, in 2 (n - 1) steps [C10-03]',
    (protocol) => {
      for (const ranks of [2, 3, 4, 7, 8]) {
        const bytes = ranks * 64 * 8;
        const { sent, received, depth, links } = traffic('Ring', protocol, 'allReduce', ranks, ranks * 64);
        const due = (bytes * 2 * (ranks - 1)) / ranks;
        expect(sent).toEqual(new Array(ranks).fill(due));
        expect(received).toEqual(sent);
        expect(depth).toBe(2 * (ranks - 1));
        expect(links.map(({ from, to }) => (to - from + ranks) % ranks)).toEqual(new Array(ranks).fill(1));
      }
    },
  );

  it.each(['allGather', 'reduceScatter'] as const)(
    'a ring %s moves n - 1 blocks over every link',
    (collective) => {
      for (const ranks of [2, 3, 5, 8]) {
        const { sent, depth } = traffic('Ring', 'Simple', collective, ranks, 10);
        expect(sent).toEqual(new Array(ranks).fill((ranks - 1) * 80));
        expect(depth).toBe(ranks - 1);
      }
    },
  );

  it('one-shot reads everybody at once, two-shot reads and writes each element once per rank', () => {
    for (const ranks of [2, 4, 8]) {
      const one = traffic('OneShot', 'Simple', 'allReduce', ranks, 64);
      expect(one.received).toEqual(new Array(ranks).fill((ranks - 1) * 512));
      expect(one.depth).toBe(1);
      const count = ranks * 64;
      const two = traffic('TwoShot', 'Simple', 'allReduce', ranks, count);
      const part = (count * 8) / ranks;
      expect(two.received).toEqual(new Array(ranks).fill(2 * (ranks - 1) * part));
      expect(two.depth).toBe(2);
    }
  });

  it('a tree carries the data once up and once down every edge, in steps that grow with the logarithm', () => {
    for (const ranks of [2, 4, 8, 16, 32]) {
      // Small data take one tree.
      const { links, depth } = traffic('Tree', 'Simple', 'allReduce', ranks, 8);
      expect(links).toHaveLength(2 * (ranks - 1));
      expect(new Set(links.map(({ bytes }) => bytes))).toEqual(new Set([64]));
      expect(depth).toBeLessThanOrEqual(2 * (Math.log2(ranks) + 1));
    }
  });

  it('recursive doubling sends the data log2 n times, in as many steps, and up to two more where n is no power of two', () => {
    for (const ranks of [2, 3, 4, 6, 8, 16, 17]) {
      const { sent, depth } = traffic('Recursive', 'Simple', 'allReduce', ranks, 8);
      const rounds = Math.floor(Math.log2(ranks));
      const rest = ranks - 2 ** rounds;
      const due = Array.from({ length: ranks }, (_, rank) =>
        rank >= ranks - rest ? 1 : rounds + (rank < rest ? 1 : 0),
      );
      expect(sent).toEqual(due.map((times) => times * 64));
      expect(depth).toBeGreaterThanOrEqual(rounds);
      expect(depth).toBeLessThanOrEqual(rounds + (rest > 0 ? 2 : 0));
    }
  });

  it('PAT gathers in as many steps as the logarithm, moving no more than a ring', () => {
    for (const ranks of [2, 4, 8, 16]) {
      const { sent, depth } = traffic('PAT', 'Simple', 'allGather', ranks, 8);
      expect(sent.reduce((sum, bytes) => sum + bytes, 0)).toBe(ranks * (ranks - 1) * 64);
      expect(depth).toBe(Math.log2(ranks));
    }
  });
});

describe('a hierarchical all-reduce', () => {
  it('puts less on the links between nodes than a flat ring', () => {
    for (const [ranks, perNode] of [
      [8, 4],
      [12, 4],
      [9, 3],
    ] as const) {
      const between = (algorithm: Algorithm) =>
        verify(call({ algorithm, ranks, perNode, count: ranks * 64, slotBytes: 4096 }))
          .links.filter(({ from, to }) => Math.floor(from / perNode) !== Math.floor(to / perNode))
          .reduce((sum, { bytes }) => sum + bytes, 0);
      const nodes = ranks / perNode;
      const bytes = ranks * 64 * 8;
      // Each part of the data goes around the nodes in place of around the ranks.
      expect(between('Hierarchical')).toBe(2 * (nodes - 1) * bytes);
      expect(between('Ring')).toBe((nodes * 2 * (ranks - 1) * bytes) / ranks);
      expect(between('Hierarchical')).toBeLessThan(between('Ring'));
    }
  });
});

describe('switches', () => {
  it.each(['NVLS', 'NVLSTree', 'CollNetDirect', 'CollNetChain'] as const)(
    '%s reduces over nodes of different sizes, with ranks that are no heads',
    (algorithm) => {
      for (const [ranks, perNode, channels, count] of [
        [5, 3, 1, 300],
        [7, 4, 2, 100],
        [7, 2, 3, 40],
      ] as const) {
        verify(call({ algorithm, ranks, perNode, channels, count }), { seed: ranks });
      }
    },
  );

  /** Bytes through each rank's port at a level, in and out. */
  const ports = (level: 'node' | 'network', what: Partial<VerifiedCall>) => {
    const made = call(what);
    const sums = {
      bytesIn: new Array<number>(made.ranks).fill(0),
      bytesOut: new Array<number>(made.ranks).fill(0),
    };
    for (const port of verify(made).ports.filter((one) => one.level === level)) {
      sums.bytesIn[port.rank]! += port.bytesIn;
      sums.bytesOut[port.rank]! += port.bytesOut;
    }
    return sums;
  };
  const same = (ranks: number, bytes: number) => new Array<number>(ranks).fill(bytes);
  const block = 64 * 8;

  it('deliver to a rank 1 / (n - 1) of what a ring reduce-scatter does', () => {
    for (const ranks of [2, 4, 5, 8]) {
      const one = { collective: 'reduceScatter', ranks, count: 64 } as const;
      const ring = verify(call(one)).received;
      expect(ring).toEqual(same(ranks, (ranks - 1) * block));
      const nvls = ports('node', { ...one, algorithm: 'NVLS', perNode: ranks });
      expect(nvls).toEqual({ bytesIn: same(ranks, ranks * block), bytesOut: same(ranks, block) });
      expect(ports('network', { ...one, algorithm: 'CollNetDirect', perNode: 1 })).toEqual(nvls);
    }
  });

  it('ask of a rank 1 / (n - 1) of what it sends in a ring all-gather', () => {
    for (const ranks of [2, 4, 5, 8]) {
      const one = { collective: 'allGather', ranks, count: 64 } as const;
      expect(verify(call(one)).sent).toEqual(same(ranks, (ranks - 1) * block));
      const nvls = ports('node', { ...one, algorithm: 'NVLS', perNode: ranks });
      expect(nvls).toEqual({ bytesIn: same(ranks, block), bytesOut: same(ranks, ranks * block) });
      expect(ports('network', { ...one, algorithm: 'CollNetDirect', perNode: 1 })).toEqual(nvls);
    }
  });

  it('let an all-reduce send and receive the data once, in the network; with heads in the node their share more', () => {
    for (const ranks of [2, 4, 8]) {
      const one = { ranks, count: ranks * 64 } as const;
      const bytes = ranks * block;
      const once = { bytesIn: same(ranks, bytes), bytesOut: same(ranks, bytes) };
      expect(ports('network', { ...one, algorithm: 'CollNetDirect', perNode: 1 })).toEqual(once);
      expect(ports('network', { ...one, algorithm: 'CollNetChain', perNode: 1 })).toEqual(once);
      const nvls = ports('node', { ...one, algorithm: 'NVLS', perNode: ranks });
      expect(nvls).toEqual({ bytesIn: same(ranks, bytes + block), bytesOut: same(ranks, bytes + block) });
    }
  });

  it('between nodes carry a share for each head, once', () => {
    for (const algorithm of ['NVLS', 'CollNetDirect'] as const) {
      const shares = ports('network', { algorithm, ranks: 8, perNode: 4, count: 4 * 64 });
      expect(shares).toEqual({ bytesIn: same(8, block), bytesOut: same(8, block) });
    }
    const chain = ports('network', { algorithm: 'CollNetChain', ranks: 8, perNode: 4, count: 4 * 64 });
    expect(chain.bytesIn).toEqual([4 * block, 0, 0, 0, 4 * block, 0, 0, 0]);
    expect(chain.bytesOut).toEqual(chain.bytesIn);
  });

  it('are left out by a tree between the nodes, which carries what its edges do', () => {
    const { links, ports: counted } = verify(
      call({ algorithm: 'NVLSTree', ranks: 6, perNode: 2, count: 2 * 64 }),
    );
    expect(counted.every(({ level }) => level === 'node')).toBe(true);
    const between = links.filter(({ from, to }) => from >> 1 !== to >> 1);
    // Three nodes: two edges, up and down, for each of two heads.
    expect(between.map(({ bytes }) => bytes)).toEqual(same(8, block));
  });
});

describe('faults in programs are found', () => {
  const faulty = (what: Partial<VerifiedCall>, options: VerifyOptions) => {
    try {
      verify(call(what), options);
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
    return 'nothing';
  };
  /** Changes the statements that `edit` fits, one after the other; what each is found by. */
  const found = (
    what: Partial<VerifiedCall>,
    edit: (statement: Statement) => readonly Statement[] | undefined,
  ) => {
    let places = 0;
    verify(call(what), {
      replace: (program) => {
        places = placesOf(program, edit);
        return program;
      },
    });
    expect(places).toBeGreaterThan(0);
    return Array.from({ length: places }, (_, at) =>
      faulty(what, { replace: (program) => mutated(program, edit, at) }),
    );
  };

  it.each(['Ring', 'TwoShot', 'Tree'] as const)('%s: a wait that is left out', (algorithm) => {
    const messages = found({ algorithm, ranks: 3, count: 600 }, (statement) =>
      statement.kind === 'wait' ? [] : undefined,
    );
    // A wait that never has to wait in this run (for the pool of a peer, for room in empty slots) may be missed.
    const caught = messages.filter((message) => message !== 'nothing');
    expect(caught.length).toBeGreaterThanOrEqual(2);
    for (const message of caught) expect(message).toMatch(/race|unpublished|wrong|deadlock/i);
  });

  it('a counter that is never published leaves somebody waiting for ever', () => {
    const messages = found({ ranks: 3, count: 600 }, (statement) =>
      statement.kind === 'store' && statement.order === 'release' ? [] : undefined,
    );
    expect(messages.filter((message) => /deadlock|nobody can go on/.test(message)).length).toBeGreaterThan(0);
    // Credits for slots that are still empty are missed by nobody.
    expect(messages.filter((message) => message === 'nothing').length).toBeLessThan(messages.length / 2);
  });
});

describe('what cannot be verified', () => {
  it.each([
    [{ ranks: 1 }, '1 rank: no programs to verify'],
    [{ algorithm: 'Tree', collective: 'allGather' }, 'Tree does not do allGather'],
    [{ algorithm: 'TwoShot', protocol: 'LL' }, 'TwoShot has no LL programs'],
    [{ root: 4 }, 'root 4 is none of the ranks 0 to 3'],
    [
      { algorithm: 'NVLS', collective: 'allGather', perNode: 3 },
      'NVLS does allGather on nodes of one size, and 4 ranks make none of 3',
    ],
    [{ count: -1 }, '-1 elements'],
    [{ slotBytes: 100 }, 'slots of 100 bytes'],
  ] as const)('is refused: %j', (change, message) => {
    expect(() => verify(call(change))).toThrow(message);
  });
});

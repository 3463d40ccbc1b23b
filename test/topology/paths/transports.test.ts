/** The transport of a pair: the order in which transports are asked, what each refuses, and what is said of none. */
import { describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import type { CommInfo } from '#src/topology/communicator.js';
import { networkIsFaster, type ReachContext } from '#src/topology/paths/reach.js';
import {
  chooseTransport,
  findTransport,
  type RankPair,
  TRANSPORTS,
  type Transport,
  transportText,
} from '#src/topology/paths/transports.js';
import { type Environment, topologySettings } from '#src/topology/settings.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { reach } from '../described.js';
import { cpu, gpu, MILAN, nic, nvlinkTo, pciSwitch, SAPPHIRE_RAPIDS, system } from '../machine-xml.js';

/** GPU 0 and 1 below one switch, GPU 2 below another of the same CPU. */
const spread = (): XmlElement =>
  system(
    cpu(
      SAPPHIRE_RAPIDS,
      pciSwitch('01:00.0', gpu('02:00.0', 0), gpu('03:00.0', 1)),
      pciSwitch('04:00.0', gpu('05:00.0', 2)),
    ),
  );

/** Two GPUs on two sockets (22 GB/s), each next to a NIC of so many Mbit/s. */
const box = (speed: number): XmlElement =>
  system(
    ...[0, 1].map((numaid) =>
      cpu(
        { ...SAPPHIRE_RAPIDS, numaid },
        pciSwitch(
          `${numaid + 1}0:00.0`,
          gpu(`${numaid + 1}1:00.0`, numaid),
          nic(`${numaid + 1}2:00.0`, numaid, { speed }),
        ),
      ),
    ),
  );

/** NVLink from 0 to 1 and from 1 to 2, with NICs that are faster. */
const row = (options: { sm?: number } = {}): XmlElement =>
  system(
    cpu(
      MILAN,
      ...[[1], [0, 2], [1]].map((to, dev) =>
        pciSwitch(
          `${dev + 1}0:00.0`,
          gpu(`${dev + 1}1:00.0`, dev, {
            links: to.map((peer) => nvlinkTo(`${peer + 1}1:00.0`, 1)),
            ...options,
          }),
          nic(`${dev + 1}2:00.0`, dev),
        ),
      ),
    ),
  );

function pairOf(context: ReachContext, from: number, to: number): RankPair {
  const { GPU } = context.system.nodes;
  const { ranks } = context.comm;
  return { rank: ranks[from]!, peer: ranks[to]!, from: GPU[from]!, to: GPU[to]! };
}

const chosen = (context: ReachContext, from: number, to: number) =>
  chooseTransport(context, pairOf(context, from, to)).name;

/** A context in which the last rank and the communicator are told otherwise. */
function changed(context: ReachContext, change: object, comm: Partial<CommInfo> = {}): ReachContext {
  const { ranks } = context.comm;
  return {
    ...context,
    comm: { ...context.comm, ...comm, ranks: [...ranks.slice(0, -1), { ...ranks.at(-1)!, ...change }] },
  };
}

describe('the choice of a transport', () => {
  it('asks P2P, SHM, NET and CollNet in this order and takes the first that accepts [C11-02]', () => {
    expect(TRANSPORTS.map(({ name }) => name)).toEqual(['P2P', 'SHM', 'NET', 'CollNet']);
    const context = reach(spread());
    // Any set of acceptors: whoever is first in the list is set up, and nobody behind it is asked.
    for (let accepting = 1; accepting < 16; accepting++) {
      const asked: number[] = [];
      const transports = TRANSPORTS.map(
        ({ name }, at): Transport => ({
          name,
          refuses: () => {
            asked.push(at);
            return (accepting >> at) & 1 ? undefined : 'different host';
          },
        }),
      );
      const first = 31 - Math.clz32(accepting & -accepting);
      expect(chooseTransport(context, pairOf(context, 0, 1), transports)).toBe(transports[first]);
      expect(asked).toEqual(Array.from({ length: first + 1 }, (_, at) => at));
    }
    expect([chosen(context, 0, 1), chosen(context, 0, 2)]).toEqual(['P2P', 'SHM']);
  });

  it('takes one more transport as one more entry of the list [C11-04]', () => {
    const dummy: Transport = { name: 'pigeon', refuses: () => undefined };
    const context = { ...reach(spread()), settings: topologySettings({ NCCL_SHM_DISABLE: '1' }) };
    const pair = pairOf(context, 0, 2);
    expect(chooseTransport(context, pair, [...TRANSPORTS, dummy])).toBe(dummy);
    expect(chooseTransport(context, pair, [dummy, ...TRANSPORTS])).toBe(dummy);
    expect(chooseTransport(context, pairOf(context, 0, 1), [...TRANSPORTS, dummy]).name).toBe('P2P');
  });

  it('fails with both ranks, their bus ids and all reasons where none accepts [C11-03]', () => {
    const lines: string[] = [];
    const context: ReachContext = {
      ...reach(spread()),
      settings: topologySettings({ NCCL_SHM_DISABLE: '1' }),
      log: (level, _subsystem, text) => lines.push(`${level} ${text}`),
    };
    let error: unknown;
    try {
      chosen(context, 0, 2);
    } catch (thrown) {
      error = thrown;
    }
    expect(TuttiError.is(error) && error.code).toBe('systemError');
    expect((error as TuttiError).rank).toBe(2);
    expect((error as Error).message).toBe(
      'No transport found for rank 0[2000] -> rank 2[5000] (P2P: path type above level; SHM: NCCL_SHM_DISABLE; ' +
        'NET: network is not faster; CollNet: point-to-point)',
    );
    expect(lines).toEqual(['WARN No transport found for rank 0[2000] -> rank 2[5000]']);
    expect(transportText(context, pairOf(context, 0, 2))).toMatch(/^none \(P2P: path type above level; SHM/);
  });
});

describe('P2P', () => {
  const why = (context: ReachContext, from: number, to: number) =>
    TRANSPORTS[0]!.refuses(context, pairOf(context, from, to));

  it('asks for path, relay, copy engines, network, clique and host, in this order [C11-05]', () => {
    // The path decides first.
    expect(why(reach(spread()), 0, 2)).toBe('path type above level');
    // A relay is taken though the network is faster, and not with copy engines.
    const relayed = reach(row());
    expect(networkIsFaster(relayed, relayed.system.nodes.GPU[0]!, relayed.system.nodes.GPU[2]!)).toBe(true);
    expect(why(relayed, 0, 2)).toBeUndefined();
    const memcpy: Environment = { NCCL_P2P_USE_CUDA_MEMCPY: '1' };
    expect(why({ ...relayed, settings: topologySettings(memcpy) }, 0, 2)).toBe('copy engines do not relay');
    // Without a relay the network is asked; copy engines do not matter.
    const alone: Environment = { NCCL_NET_DISABLE_INTRA: '1' };
    const inside = reach(row(), { env: alone });
    expect(why({ ...inside, settings: topologySettings() }, 0, 1)).toBe('network is faster');
    expect(why(inside, 0, 1)).toBeUndefined();
    expect(why({ ...inside, settings: topologySettings({ ...alone, ...memcpy }) }, 0, 1)).toBeUndefined();
    // Another host only inside one NVLink domain, there by path in one clique and without a look across cliques.
    expect(why(changed(relayed, { hostHash: 7n }), 1, 2)).toBe('different host');
    const inDomain = (cliqueId: number) => {
      const context = reach(spread());
      const ranks = context.comm.ranks.map((rank) => ({ ...rank, clusterUuid: 'a' }));
      const comm = { ...context.comm, ranks };
      return why(changed({ ...context, comm }, { hostHash: 7n, cliqueId }, { mnnvl: true }), 0, 2);
    };
    expect(inDomain(0)).toBe('path type above level');
    expect(inDomain(1)).toBeUndefined();
  });

  it('says who reads and who relays', () => {
    const text = (xml: XmlElement, from: number, to: number) => {
      const context = reach(xml, { env: { NCCL_NET_DISABLE_INTRA: '1' } });
      return transportText(context, pairOf(context, from, to), 8);
    };
    expect(text(row(), 0, 1)).toBe('P2P');
    expect(text(row({ sm: 80 }), 0, 1)).toBe('P2P, receiver reads');
    expect(text(row(), 0, 2)).toBe('P2P through rank 9');
    expect(text(spread(), 0, 2)).toBe('SHM');
  });
});

describe('SHM', () => {
  it('needs leave, a network that is no better, one host and one /dev/shm [C11-06]', () => {
    const why = (context: ReachContext, to = 2) => TRANSPORTS[1]!.refuses(context, pairOf(context, 0, to));
    const context = reach(spread());
    expect(why(context)).toBeUndefined();
    expect(why({ ...context, settings: topologySettings({ NCCL_SHM_DISABLE: '1' }) })).toBe(
      'NCCL_SHM_DISABLE',
    );
    expect(why(reach(box(200_000)), 1)).toBe('network is faster');
    expect(why(reach(box(160_000)), 1)).toBeUndefined();
    expect(why(changed(context, { hostHash: 7n }))).toBe('different host');
    expect(why(changed(context, { shmDevice: 7 }))).toBe('different /dev/shm');
  });

  it('between containers gives way to the network without an error [C11-07]', () => {
    // The containers are nodes of their own, so neither has the other's GPU in its topology.
    const context = changed(reach(spread()), { shmDevice: 7 });
    const pair = { ...pairOf(context, 0, 2), to: undefined };
    expect(chooseTransport(context, pair).name).toBe('NET');
    expect(findTransport(context, pair).refused.map(({ why }) => why)).toEqual([
      'GPU of another node',
      'different /dev/shm',
    ]);
  });
});

describe('NET', () => {
  it('joins hosts always, and GPUs of one host where it is faster [C11-08]', () => {
    const why = (context: ReachContext) => TRANSPORTS[2]!.refuses(context, pairOf(context, 0, 1));
    for (const speed of [1000, 160_000, 200_000]) {
      expect(why(changed(reach(box(speed)), { hostHash: 7n }))).toBeUndefined();
    }
    expect(why(reach(box(160_000)))).toBe('network is not faster');
    const fast = reach(box(200_000));
    expect(why(fast)).toBeUndefined();
    expect(chosen(fast, 0, 1)).toBe('NET');
    const settings = topologySettings({ NCCL_NET_DISABLE_INTRA: '1' });
    expect(why({ ...fast, settings })).toBe('network is not faster');
  });
});

describe('NVLS and CollNet', () => {
  it('never join a pair [C11-09]', () => {
    expect(TRANSPORTS.some(({ name }) => name === 'NVLS')).toBe(false);
    for (const context of [reach(spread()), reach(box(200_000)), reach(row())]) {
      expect(TRANSPORTS[3]!.refuses(context, pairOf(context, 0, 1))).toBe('point-to-point');
    }
  });
});

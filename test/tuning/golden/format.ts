/** The fields of a golden file that the tuning part reads or decides. test/golden/README.md has their meaning. */
import type { GoldenDecision, GoldenGraph, GoldenTuning, GraphName } from '../../topology/golden/format.js';

export interface TuningGolden {
  readonly oracle: {
    readonly nRanks: number;
    readonly minCompCap: number;
    readonly maxCompCap: number;
    readonly env: Readonly<Record<string, string>>;
  };
  readonly system: {
    readonly nodes: {
      readonly GPU: readonly { readonly rank: number; readonly sm: number }[];
      readonly NVS?: readonly unknown[];
    };
  };
  readonly aligned: Readonly<Record<GraphName, GoldenGraph>>;
  readonly comm: {
    readonly nNodes: number;
    readonly nChannels: number;
    readonly nvlsSupport: 0 | 1;
    readonly nvlsChannels: number;
    readonly nvlsChunkSize: number;
    readonly nvlsTreeMaxChunkSize: number;
    readonly p2pChunkSize: number;
    readonly buffSizes: readonly [LL: number, LL128: number, Simple: number];
    readonly isAllNvlink: 0 | 1;
    readonly minNetBw: number;
    readonly cpuArch: number;
    readonly cpuVendor: number;
    readonly maxTreePattern: number;
    readonly collnetEnable: 0 | 1;
    readonly collNetHeadsNum: number;
    readonly rankToNode: readonly number[];
  };
  readonly channels: readonly { readonly collnetDirect?: readonly { readonly nHeads: number }[] }[];
  readonly nvlsChannelsInfo?: { readonly nHeads: number };
  readonly tuning: GoldenTuning;
  readonly decisions: Readonly<Record<string, readonly GoldenDecision[]>>;
}

/**
 * Which candidates a communicator has at all: what the machine, the communicator and NCCL_ALGO and NCCL_PROTO exclude.
 *
 * NCCL sets the bandwidth of an excluded candidate to 0; here each also says why. All rules that apply are listed, so
 * that one can see what else would be in the way. (NCCL 2.30.7, tuning.cc.)
 */

import { type LogSink, SILENT } from '../topology/log.js';
import { countText } from '../topology/report/quantities.js';
import { PATH_TYPE_NAMES, PathType } from '../topology/system/path-type.js';
import { functionsOf, graphOf, hasProtocol, isCollnet, isNvls, isScattered } from './algorithms.js';
import type { Why } from './exclusion.js';
import type { TuningInput } from './input.js';
import {
  AlgorithmId,
  FunctionId,
  type NcclAlgorithm,
  type NcclFunction,
  type NcclProtocol,
  ProtocolId,
} from './names.js';
import { Choice, type SelectionLists } from './selection-list.js';

/** NCCL_PAT_ENABLE: by the machine. */
const PAT_AUTO = 2;

/** Why the model computes nothing for a candidate, undefined if it does. */
export function skipped(
  input: TuningInput,
  fn: NcclFunction,
  algorithm: NcclAlgorithm,
  protocol: NcclProtocol,
): Why | undefined {
  if (!functionsOf(algorithm).includes(fn)) {
    return { rule: 'function', reason: `${algorithm} does not do ${fn}` };
  }
  if (!hasProtocol(algorithm, protocol) && !isCollnet(algorithm)) return noProtocol(algorithm, protocol);
  if (isNvls(algorithm)) {
    const { nChannels } = input.graphs.nvls;
    if (nChannels < 2) {
      return {
        rule: 'nvls-channels',
        reason: `the NVLS graph has ${countText(nChannels, 'channel')}, NVLS needs 2`,
      };
    }
  }
  return algorithm === 'PAT' ? patOff(input) : undefined;
}

const noProtocol = (algorithm: NcclAlgorithm, protocol: NcclProtocol): Why => ({
  rule: 'protocol',
  reason: `${algorithm} has no ${protocol} kernels, only Simple`,
});

function patOff({ minSm, nNodes, nRanks, plainNetDevice, settings }: TuningInput): Why | undefined {
  const variable = 'NCCL_PAT_ENABLE';
  if (minSm < 60) {
    return {
      rule: 'pat-capability',
      reason: `a GPU has compute capability ${capability(minSm)}, PAT needs 6.0`,
    };
  }
  if (settings.patEnable !== PAT_AUTO) {
    return settings.patEnable !== 0
      ? undefined
      : { rule: 'pat-variable', reason: 'NCCL_PAT_ENABLE=0 switches PAT off', variable };
  }
  if (nNodes !== nRanks) {
    return {
      rule: 'pat-local-ranks',
      reason: `${countText(nRanks, 'rank')} on ${countText(nNodes, 'node')}: PAT is used with one GPU per node only`,
      variable,
    };
  }
  if (!plainNetDevice) {
    return { rule: 'pat-net-device', reason: 'the network device unpacks on the GPU', variable };
  }
  return undefined;
}

/** Why a computed candidate is not available; empty if it is. */
export function disabled(
  input: TuningInput,
  lists: SelectionLists,
  fn: NcclFunction,
  algorithm: NcclAlgorithm,
  protocol: NcclProtocol,
): Why[] {
  const reasons: Why[] = [];
  if (!hasProtocol(algorithm, protocol)) reasons.push(noProtocol(algorithm, protocol));
  if (lists.algorithms[FunctionId[fn]]![AlgorithmId[algorithm]] === Choice.OFF) {
    reasons.push(listed('NCCL_ALGO', input.settings.algo, 'algorithm-list', algorithm, fn));
  }
  const choice = lists.protocols[FunctionId[fn]]![ProtocolId[protocol]];
  if (choice === Choice.OFF) {
    reasons.push(listed('NCCL_PROTO', input.settings.proto, 'protocol-list', protocol, fn));
  }
  reasons.push(...unsupported(input, fn, algorithm));
  if (choice === Choice.AUTO) reasons.push(...ll128Refused(input, fn, algorithm));
  return reasons;
}

const listed = (
  variable: string,
  text: string | undefined,
  rule: 'algorithm-list' | 'protocol-list',
  name: string,
  fn: NcclFunction,
): Why => ({ rule, reason: `${variable}=${text ?? ''} leaves out ${name} for ${fn}`, variable });

/** Algorithms that need what the communicator does not have. */
function unsupported(input: TuningInput, fn: NcclFunction, algorithm: NcclAlgorithm): Why[] {
  const { nNodes, collnet, hasNvswitch, maxLocalRanks } = input;
  const reasons: Why[] = [];
  if (algorithm === 'NVLSTree' && nNodes === 1) {
    reasons.push({ rule: 'one-node', reason: 'NVLS trees join nodes, and there is one node' });
  }
  const needsCollnet = isCollnet(algorithm) || (algorithm === 'NVLS' && nNodes > 1);
  if (needsCollnet && !collnet.enabled) {
    const reason =
      algorithm === 'NVLS'
        ? `NVLS over ${countText(nNodes, 'node')} goes through CollNet, which is not in use`
        : 'CollNet is not in use';
    reasons.push({ rule: 'collnet-off', reason, variable: 'NCCL_COLLNET_ENABLE' });
  }
  if (algorithm === 'CollNetChain' && collnet.enabled && !collnet.chainSupported) {
    reasons.push({
      rule: 'collnet-chain-heads',
      reason: 'a CollNet chain begins at a rank that is no head of its node',
    });
  }
  if (algorithm === 'CollNetDirect' && !hasNvswitch) {
    reasons.push({
      rule: 'no-nvswitch',
      reason: 'CollNet direct needs an NVSwitch, and the machine has none',
    });
  }
  const gathersOverNodes = isScattered(fn) && nNodes > 1;
  if ((algorithm === 'NVLS' || algorithm === 'CollNetDirect') && gathersOverNodes && collnet.enabled) {
    const able = fn === 'AllGather' ? collnet.allGather : collnet.reduceScatter;
    if (!able) {
      reasons.push({ rule: 'collnet-scattered', reason: `the CollNet plugin has no ${fn}` });
    }
    if (maxLocalRanks > collnet.setupHeads) {
      reasons.push({
        rule: 'collnet-scattered',
        reason: `a node has ${countText(maxLocalRanks, 'rank')}, more than its ${countText(collnet.setupHeads, 'CollNet head')}`,
      });
    }
  }
  return reasons;
}

/** What keeps LL128 from being used where no list asks for it. */
function ll128Refused(input: TuningInput, fn: NcclFunction, algorithm: NcclAlgorithm): Why[] {
  const { minSm, maxSm, nRanks, settings } = input;
  const variable = 'NCCL_PROTO';
  const { typeIntra, typeInter } = graphOf(input.graphs, algorithm);
  const reasons: Why[] = [];
  const farthest = ll128NetPath(input);
  if (typeInter > farthest) {
    const off = !settings.ll128C2c && minSm >= 90 && typeInter <= PathType.PXN;
    reasons.push({
      rule: 'll128-net-path',
      reason: `the ${algorithm} graph reaches a NIC over ${pathName(typeInter)}, LL128 goes no farther than ${pathName(farthest)}`,
      variable: off ? 'NCCL_LL128_C2C' : variable,
    });
  }
  if (typeIntra > PathType.NVB) {
    reasons.push({
      rule: 'll128-gpu-path',
      reason: `the ${algorithm} graph joins GPUs over ${pathName(typeIntra)}, LL128 goes no farther than NVB`,
      variable,
    });
  }
  if (minSm !== maxSm && minSm < 90) {
    reasons.push({
      rule: 'll128-mixed-gpus',
      reason: `compute capabilities ${capability(minSm)} and ${capability(maxSm)}: LL128 over different GPUs needs 9.0`,
      variable,
    });
  }
  if (minSm < 70) {
    reasons.push({
      rule: 'll128-capability',
      reason: `a GPU has compute capability ${capability(minSm)}, LL128 needs 7.0`,
      variable,
    });
  }
  if (minSm === 90 && input.cuda118 && fn === 'AllReduce' && algorithm === 'Ring' && nRanks === 2) {
    reasons.push({
      rule: 'll128-cuda-11.8',
      reason: 'built by CUDA 11.8, whose LL128 all-reduce on rings of two ranks is wrong',
      variable,
    });
  }
  return reasons;
}

/** Farthest path between GPU and NIC over which LL128 is used. */
function ll128NetPath({ minSm, settings }: TuningInput): PathType {
  return settings.ll128C2c && minSm >= 90 ? PathType.PXN : PathType.PXB;
}

/** Says once that a user's variable keeps LL128 off. */
export function logLl128(input: TuningInput, log: LogSink = SILENT): void {
  if (input.settings.ll128C2c || input.minSm < 90) return;
  log('INFO', 'GRAPH', 'Disabling LL128 over all PxN connections (PXB and C2C): NCCL_LL128_C2C is 0.');
}

const pathName = (type: number): string => PATH_TYPE_NAMES[type] ?? `type ${type}`;

const capability = (sm: number): string => `${Math.floor(sm / 10)}.${sm % 10}`;

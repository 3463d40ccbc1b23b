/** Where the kernels of a communicator on GPUs come from: choice, sizes of areas, and text. */
import { type AreaSizes, GPU_AREA } from '../../collectives/gpu/area.js';
import type { GpuCall, GpuTeam } from '../../collectives/gpu/call.js';
import type { ConnectorKind, ConnectorSizes } from '../../collectives/gpu/connectors.js';
import { type GpuLaunch, gpuLaunch, launchOf, type MeetingLaunch } from '../../collectives/gpu/launch.js';
import { MESSAGE_FORM, type MessageForm } from '../../collectives/gpu/message-launch.js';
import { shapeWith } from '../../collectives/gpu/shape.js';
import { STEPS } from '../../collectives/ring-connection.js';
import type { KernelText } from '../../device/cuda/kernel-library.js';
import { architectureFor, compilePtx } from '../../kernel/ptx/compile.js';
import { ptxTraits } from '../../kernel/ptx/traits.js';
import { CONNECTOR_FORM, type ConnectorForm, connectorLaunch } from '../../planning/gpu-connector-plan.js';
import { connectorsNeeded, type GpuProtocol, selectOnGpu, wayOf } from '../../tuning/gpu-selection.js';
import type { Settings } from '../settings.js';

/** What text is made of. */
export type Compilable = Pick<GpuLaunch, 'key' | 'compile' | 'build'>;

export interface GpuPrograms {
  /** Sizes of the parts of an area; `wholeLines` as in GpuTeam. */
  sizesFor(wholeLines: boolean): AreaSizes;
  /** What rank `rank` launches for a call. */
  launch(team: GpuTeam, call: GpuCall, rank: number): GpuLaunch;
  /** The shape of a call whose program is chosen already. */
  readonly shapeWith: typeof shapeWith;
  /** How messages are cut. */
  readonly messages: MessageForm;
  /** The program of a launch as text for GPUs of a compute capability. */
  text(launch: Compilable, capability: { readonly major: number; readonly minor: number }): KernelText;
  /** What must be the same at all ranks, for people; empty where nobody has asked for anything. */
  readonly agreement: string;
}

/** The programs of collectives/gpu, compiled to PTX. */
export const GPU_PROGRAMS: MeetingPrograms = {
  sizesFor: () => GPU_AREA,
  launch: gpuLaunch,
  shapeWith,
  messages: MESSAGE_FORM,
  agreement: '',
  text: (launch, { major, minor }) => {
    const program = launch.build(ptxTraits());
    const arch = architectureFor(major, minor);
    return { name: program.name, ptx: compilePtx(program, { arch, ...launch.compile }) };
  },
};

/** Settings that decide about programs. */
export type ProgramSettings = Pick<Settings, 'choices' | 'asked'>;

/**
 * Channels, and bytes of a connection's slots, unless somebody asks for others. Many channels keep a link busy, and each
 * has a block of its own: with these a ring of two GPUs takes 41 MB.
 */
const CHANNELS: Readonly<Record<ConnectorKind, number>> = { Ring: 32, Tree: 24, PAT: 24 };
const LL_CONNECTION_BYTES = 262144;
/** A slot has a slice of data for each of 16 warps. */
const LL128_CONNECTION_BYTES = 262144;
const SIMPLE_CONNECTION_BYTES = 1048576;

/** Room for the connections that calls may need. */
function connectorSizes({ choices, asked }: ProgramSettings): ConnectorSizes | undefined {
  const needed = connectorsNeeded(choices);
  if (needed.algorithms.length === 0) return undefined;
  const { channels, llBytes = LL_CONNECTION_BYTES, simpleBytes = SIMPLE_CONNECTION_BYTES } = asked;
  const { ll128Bytes = LL128_CONNECTION_BYTES } = asked;
  const slot = (protocol: GpuProtocol, bytes: number) =>
    needed.protocols.includes(protocol) ? bytes / STEPS : 0;
  return {
    channels: Object.fromEntries(needed.algorithms.map((kind) => [kind, channels ?? CHANNELS[kind]])),
    llSlot: slot('LL', llBytes),
    ll128Slot: slot('LL128', ll128Bytes),
    simpleSlot: slot('Simple', simpleBytes),
  };
}

function agreementOf({ choices }: ProgramSettings, connectors: ConnectorSizes | undefined): string {
  const lists = [
    ...(choices.algorithm === undefined ? [] : [`NCCL_ALGO=${choices.algorithm}`]),
    ...(choices.protocol === undefined ? [] : [`NCCL_PROTO=${choices.protocol}`]),
  ];
  if (connectors === undefined) return lists.join(' ');
  const { channels, llSlot, ll128Slot, simpleSlot } = connectors;
  const counts = [...new Set(Object.values(channels))].join(' and ');
  const slots = [llSlot, ll128Slot, simpleSlot].filter((bytes) => bytes > 0).map((bytes) => STEPS * bytes);
  return `${lists.join(' ')} with ${counts} channels of ${slots.join(', ')} bytes`;
}

/** Programs in which ranks meet, whatever is called. */
export interface MeetingPrograms extends GpuPrograms {
  launch(team: GpuTeam, call: GpuCall, rank: number): MeetingLaunch;
}

/** The programs for what a user allows; `base` is for tests, whose programs are smaller. */
export function gpuProgramsFor(
  settings: ProgramSettings,
  base: MeetingPrograms = GPU_PROGRAMS,
  form: ConnectorForm = CONNECTOR_FORM,
): GpuPrograms {
  const { choices } = settings;
  if (choices.algorithm === undefined && choices.protocol === undefined) return base;
  const connectors = base.sizesFor(true).connectors ?? connectorSizes(settings);
  const sizesFor = (wholeLines: boolean): AreaSizes => {
    const sizes = base.sizesFor(wholeLines);
    if (connectors === undefined) return sizes;
    return { ...sizes, connectors: wholeLines ? connectors : { ...connectors, ll128Slot: 0 } };
  };
  return {
    ...base,
    sizesFor,
    launch: (team, call, rank) => {
      const sizes = sizesFor(team.wholeLines);
      const { algorithm, protocol, reason } = selectOnGpu(team, call, choices);
      if (algorithm !== 'OneShot' && algorithm !== 'TwoShot') {
        return {
          ...connectorLaunch(team, call, { algorithm, protocol }, sizes, rank, form),
          reason,
        };
      }
      const usual = base.launch(team, call, rank);
      const way = wayOf(usual.shape.program);
      if (way.algorithm === algorithm && way.protocol === protocol) return { ...usual, reason };
      const program = algorithm === 'TwoShot' ? 'Direct' : protocol === 'LL128' ? 'LL128' : 'LL';
      const shape = base.shapeWith(program, team, call);
      if (shape !== undefined) return { ...launchOf(team, call, shape, sizes), reason };
      const lines = launchOf(team, call, base.shapeWith('LL', team, call)!, sizes);
      return { ...lines, reason: `${reason}; LL128 takes no more than fits into one round` };
    },
    agreement: agreementOf(settings, connectors),
  };
}

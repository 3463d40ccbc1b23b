/** Where the kernels of a communicator on GPUs come from: choice, sizes of areas, and text. */
import { type AreaSizes, GPU_AREA } from '../../collectives/gpu/area.js';
import type { GpuCall, GpuShape, GpuTeam } from '../../collectives/gpu/call.js';
import type { ConnectorKind, ConnectorSizes } from '../../collectives/gpu/connectors.js';
import { type GpuLaunch, gpuLaunch, launchOf } from '../../collectives/gpu/launch.js';
import { MESSAGE_FORM, type MessageForm } from '../../collectives/gpu/message-launch.js';
import { shapeWith } from '../../collectives/gpu/shape.js';
import { STEPS } from '../../collectives/ring-connection.js';
import type { KernelText } from '../../device/cuda/kernel-library.js';
import { architectureFor, compilePtx } from '../../kernel/ptx/compile.js';
import { ptxTraits } from '../../kernel/ptx/traits.js';
import { CONNECTOR_FORM, type ConnectorForm, connectorLaunch } from '../../planning/gpu-connector-plan.js';
import { connectorsNeeded, meetingProgram, selectOnGpu } from '../../tuning/gpu-selection.js';
import type { Settings } from '../settings.js';

/** What text is made of. */
export type Compilable = Pick<GpuLaunch, 'key' | 'compile' | 'build'>;

export interface GpuPrograms {
  /** Sizes of the parts of an area. */
  readonly sizes: AreaSizes;
  /** What rank `rank` launches for a call. */
  launch(team: GpuTeam, call: GpuCall, rank: number): GpuLaunch;
  /** The shape of a call whose program is chosen already. */
  shapeWith(program: GpuShape['program'], team: GpuTeam, call: GpuCall): GpuShape;
  /** How messages are cut. */
  readonly messages: MessageForm;
  /** The program of a launch as text for GPUs of a compute capability. */
  text(launch: Compilable, capability: { readonly major: number; readonly minor: number }): KernelText;
  /** What must be the same at all ranks, for people; empty where nobody has asked for anything. */
  readonly agreement: string;
}

/** The programs of collectives/gpu, compiled to PTX. */
export const GPU_PROGRAMS: GpuPrograms = {
  sizes: GPU_AREA,
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
const CHANNELS: Readonly<Record<ConnectorKind, number>> = { Ring: 32, Tree: 16, PAT: 16 };
const LL_CONNECTION_BYTES = 262144;
const SIMPLE_CONNECTION_BYTES = 1048576;

/** Room for the connections that calls may need. */
function connectorSizes({ choices, asked }: ProgramSettings): ConnectorSizes | undefined {
  const needed = connectorsNeeded(choices);
  if (needed.length === 0) return undefined;
  const { channels, llBytes = LL_CONNECTION_BYTES, simpleBytes = SIMPLE_CONNECTION_BYTES } = asked;
  return {
    channels: Object.fromEntries(needed.map((kind) => [kind, channels ?? CHANNELS[kind]])),
    llSlot: llBytes / STEPS,
    simpleSlot: simpleBytes / STEPS,
  };
}

/** The programs for what a user allows; `base` is for tests, whose programs are smaller. */
export function gpuProgramsFor(
  settings: ProgramSettings,
  base: GpuPrograms = GPU_PROGRAMS,
  form: ConnectorForm = CONNECTOR_FORM,
): GpuPrograms {
  const { choices } = settings;
  if (choices.algorithm === undefined && choices.protocol === undefined) return base;
  const connectors = base.sizes.connectors ?? connectorSizes(settings);
  const sizes = connectors === undefined ? base.sizes : { ...base.sizes, connectors };
  return {
    ...base,
    sizes,
    launch: (team, call, rank) => {
      const { algorithm, protocol, reason } = selectOnGpu(team, call, choices);
      const program = meetingProgram({ algorithm, protocol });
      const usual = program === undefined ? undefined : base.launch(team, call, rank);
      const launch =
        algorithm !== 'OneShot' && algorithm !== 'TwoShot'
          ? connectorLaunch(team, call, { algorithm, protocol }, sizes, rank, form)
          : usual!.label === program
            ? usual!
            : launchOf(team, call, base.shapeWith(program!, team, call), sizes);
      return { ...launch, reason };
    },
    agreement: JSON.stringify([choices.algorithm ?? '', choices.protocol ?? '', connectors ?? {}]),
  };
}

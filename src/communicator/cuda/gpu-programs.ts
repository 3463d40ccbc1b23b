/** Where the kernels of a communicator on GPUs come from: choice, sizes of areas, and text. */
import { type AreaSizes, GPU_AREA } from '../../collectives/gpu/area.js';
import type { GpuCall, GpuTeam } from '../../collectives/gpu/call.js';
import { type GpuLaunch, gpuLaunch } from '../../collectives/gpu/launch.js';
import { MESSAGE_FORM, type MessageForm } from '../../collectives/gpu/message-launch.js';
import type { KernelText } from '../../device/cuda/kernel-library.js';
import { architectureFor, compilePtx } from '../../kernel/ptx/compile.js';
import { ptxTraits } from '../../kernel/ptx/traits.js';

/** What text is made of. */
export type Compilable = Pick<GpuLaunch, 'key' | 'compile' | 'build'>;

export interface GpuPrograms {
  /** Sizes of the parts of an area. */
  readonly sizes: AreaSizes;
  /** What rank `rank` launches for a call. */
  launch(team: GpuTeam, call: GpuCall, rank: number): GpuLaunch;
  /** How messages are cut. */
  readonly messages: MessageForm;
  /** The program of a launch as text for GPUs of a compute capability. */
  text(launch: Compilable, capability: { readonly major: number; readonly minor: number }): KernelText;
}

/** The programs of collectives/gpu, compiled to PTX. */
export const GPU_PROGRAMS: GpuPrograms = {
  sizes: GPU_AREA,
  launch: gpuLaunch,
  messages: MESSAGE_FORM,
  text: (launch, { major, minor }) => {
    const program = launch.build(ptxTraits());
    const arch = architectureFor(major, minor);
    return { name: program.name, ptx: compilePtx(program, { arch, ...launch.compile }) };
  },
};

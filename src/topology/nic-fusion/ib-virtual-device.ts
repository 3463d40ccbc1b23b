/**
 * What an InfiniBand device that joins several is: their names, speeds, rails and planes together.
 * (NCCL 2.30.7, transport of InfiniBand.)
 */
import type { NetDevice } from '../net-device.js';

/** Bit that marks a plane number as a set of planes. Plane numbers themselves are at most 14. */
const PLANE_SET = 1 << 14;

/**
 * The virtual device of these physical ones; `members` are their numbers, in the same order.
 *
 * Speed adds up; the rail is that of all members or none; the plane is the set of the members' planes, none if no
 * member has one. Everything else is the first member's, but GPUDirect RDMA needs all.
 */
export function ibVirtualDevice(
  devices: readonly [NetDevice, ...NetDevice[]],
  members: readonly number[],
): NetDevice {
  const [{ rail, plane, ...first }] = devices;
  const planes = devices.flatMap((device) => device.plane ?? []);
  const isOneRail = rail !== undefined && devices.every((device) => device.rail === rail);
  return {
    ...first,
    name: devices.map(({ name }) => name).join('+'),
    speed: devices.reduce((sum, { speed }) => sum + speed, 0),
    gdr: devices.every(({ gdr }) => gdr),
    ...(isOneRail ? { rail } : {}),
    ...(planes.length === 0 ? {} : { plane: planes.reduce((set, one) => set | (1 << one), PLANE_SET) }),
    members,
  };
}

/**
 * Addresses of PCI devices as texts: `0000:3b:00.0` is domain, bus, device and function, in hexadecimal.
 *
 * Programs disagree about the number of digits of the domain: the kernel and NCCL write at least four, NVML eight.
 */

const FORM = /^([0-9a-f]{1,8}):([0-9a-f]{1,4}):([0-9a-f]{1,2})\.([0-9a-f])$/i;

/** Exactly the form in which the kernel names most devices, the only one that NCCL takes for a device. */
const KERNEL_FORM = /^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$/i;

/** Whether a part of a path in sysfs names a PCI device by the rule of NCCL: domains of four digits only. */
export const isBusId = (text: string): boolean => KERNEL_FORM.test(text);

/** NCCL's form of an address: lower case, the domain with four digits or as many as it needs. */
export function ncclBusId(text: string): string | undefined {
  const [, domain, bus, device, unit] = FORM.exec(text.trim()) ?? [];
  if (domain === undefined) return undefined;
  const digits = (value: string, width: number) =>
    Number.parseInt(value, 16).toString(16).padStart(width, '0');
  return `${digits(domain, 4)}:${digits(bus!, 2)}:${digits(device!, 2)}.${digits(unit!, 1)}`;
}

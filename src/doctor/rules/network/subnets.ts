/** Addresses and the networks they seem to belong to. */

/** Bits that two IPv4 addresses have in common at their beginning; 0 for anything else. */
export function commonBits(a: string, b: string): number {
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x === undefined || y === undefined) return 0;
  return Math.clz32((x ^ y) >>> 0);
}

function numberOf(address: string): number | undefined {
  const parts = address.split('.').map(Number);
  if (parts.length !== 4 || parts.some((part) => !Number.isInteger(part) || part < 0 || part > 255))
    return undefined;
  return ((parts[0]! << 24) | (parts[1]! << 16) | (parts[2]! << 8) | parts[3]!) >>> 0;
}

/** Two addresses that share this much may be in one network; masks are not in logs. */
const SAME_BITS = 16;

export const maySameNetwork = (a: string, b: string): boolean => commonBits(a, b) >= SAME_BITS;

/** Interfaces that containers, virtual machines and tunnels make: their networks end at the host. */
const VIRTUAL =
  /^(?:docker|br-[0-9a-f]{4,}|virbr|veth|vnet|vmnet|vboxnet|lxc|lxd|lxdbr|cni|cali|flannel|weave|kube|nodelocal|podman|tun|tap|wg|ppp|tailscale|zt|ifb|dummy|cilium|vxlan|gre|sit|incusbr)/;

export const isVirtual = (name: string): boolean => VIRTUAL.test(name);

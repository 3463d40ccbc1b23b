/** Addresses of RoCE ports. */

export const isLinkLocal = (gid: string): boolean => /^fe80(?::|$)/i.test(gid);

/** Values of variables that forbid peer-to-peer. */

export const forbidsPeerAccess = (name: string, value: string): boolean =>
  name === 'NCCL_P2P_DISABLE' ? /^[1-9]\d*$/.test(value) : /^(?:0|LOC)$/i.test(value);

/** What the system says when a port cannot be had. */

export const ADDRESS_IN_USE = /already in use|Cannot assign requested address/i;

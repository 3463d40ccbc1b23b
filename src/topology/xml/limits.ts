/**
 * Limits of topology and graph files: those of NCCL, beyond which a file is noted as one that NCCL cannot use, and our
 * own, beyond which it is refused, so that no file can take the process's time or memory away.
 */
import type { RootName } from './nesting.js';

/** Characters of a name or value that NCCL has room for. (NCCL 2.30.7, xml.h.) */
export const NCCL_MAX_CHARACTERS = 253;

/** Attributes of one element that NCCL reads; it ignores the rest, and so do we. (NCCL 2.30.7, xml.h.) */
export const NCCL_MAX_ATTRIBUTES = 16;

/** Children of one element that NCCL has room for. (NCCL 2.30.7, xml.h.) */
export const NCCL_MAX_CHILDREN = 640;

/** Elements in NCCL's table; when it is full, even a closing tag is refused. (NCCL 2.30.7, xml.h.) */
export const NCCL_TABLE_SIZE: Readonly<Record<RootName, number>> = { system: 256, graphs: 65_536 };

/** Characters of a file: 16 Mi, 256 for each of 65,536 elements. */
export const MAX_TEXT = 16 * 1024 * 1024;

/** Elements, comments and the like in a file: NCCL's largest table, enough for 256 ranks with full tables. */
export const MAX_ELEMENTS = 65_536;

/** Attributes in one tag: many times what NCCL reads. */
export const MAX_ATTRIBUTES = 256;

/** Elements inside each other: no element of NCCL's table of 256 can stand deeper; recursion is safe to this depth. */
export const MAX_DEPTH = 256;

/** Characters of a name or value: what a set of 14,000 processors takes, the longest that a machine may need. */
export const MAX_VALUE = 4096;

/** Characters of ordinary XML without the end of a tag or of a comment: 1 Mi, more than any comment needs. */
export const MAX_BETWEEN_TAGS = 1024 * 1024;

/**
 * Names of element types on the command line and in tables of `tutti perf`.
 *
 * nccl-tests prints C-like names (`half`, `float`); the library says float16, float32. Input accepts both,
 * output keeps nccl-tests' names so that its parsers go on working.
 */
import {
  ELEMENT_TYPE_NAMES,
  ELEMENT_TYPES,
  type ElementType,
  REDUCE_OP_NAMES,
} from '../../kernel/element-types.js';

/** nccl-tests' name of each element type. */
export const TEST_TYPE_NAMES: Readonly<Record<ElementType, string>> = {
  int8: 'int8',
  uint8: 'uint8',
  int32: 'int32',
  uint32: 'uint32',
  int64: 'int64',
  uint64: 'uint64',
  float16: 'half',
  float32: 'float',
  float64: 'double',
  bfloat16: 'bfloat16',
  float8e4m3: 'f8e4m3',
  float8e5m2: 'f8e5m2',
};

/** The types of `-d all` in order, and the operators of `-o all` in order (NCCL's numbering). */
export const ALL_TYPES: readonly ElementType[] = ELEMENT_TYPE_NAMES;
export const ALL_OPS = REDUCE_OP_NAMES;

/** The element type of either name, or nothing. */
export function elementTypeNamed(name: string): ElementType | undefined {
  return ELEMENT_TYPE_NAMES.find((type) => type === name || TEST_TYPE_NAMES[type] === name);
}

/** Bytes of one element. */
export function elementBytes(type: ElementType): number {
  return ELEMENT_TYPES[type].size;
}

/**
 * Element types and reduction operators of collectives.
 *
 * Names, sizes and numbers are those of NCCL 2.30 (nccl.h): twelve types, five operators. Everything that
 * depends on the type of an element (JavaScript arrays, packet arithmetic, the perf tables) starts from here.
 */

export interface ElementTypeInfo {
  /** NCCL's number of the type (`ncclDataType_t`). */
  readonly code: number;
  /** Bytes of one element. */
  readonly size: 1 | 2 | 4 | 8;
  readonly kind: 'signed' | 'unsigned' | 'float';
  /** For floats: exponent and explicit mantissa bits. */
  readonly exponentBits?: number;
  readonly mantissaBits?: number;
}

export const ELEMENT_TYPES = {
  int8: { code: 0, size: 1, kind: 'signed' },
  uint8: { code: 1, size: 1, kind: 'unsigned' },
  int32: { code: 2, size: 4, kind: 'signed' },
  uint32: { code: 3, size: 4, kind: 'unsigned' },
  int64: { code: 4, size: 8, kind: 'signed' },
  uint64: { code: 5, size: 8, kind: 'unsigned' },
  float16: { code: 6, size: 2, kind: 'float', exponentBits: 5, mantissaBits: 10 },
  float32: { code: 7, size: 4, kind: 'float', exponentBits: 8, mantissaBits: 23 },
  float64: { code: 8, size: 8, kind: 'float', exponentBits: 11, mantissaBits: 52 },
  bfloat16: { code: 9, size: 2, kind: 'float', exponentBits: 8, mantissaBits: 7 },
  float8e4m3: { code: 10, size: 1, kind: 'float', exponentBits: 4, mantissaBits: 3 },
  float8e5m2: { code: 11, size: 1, kind: 'float', exponentBits: 5, mantissaBits: 2 },
} as const satisfies Record<string, ElementTypeInfo>;

export type ElementType = keyof typeof ELEMENT_TYPES;

export const ELEMENT_TYPE_NAMES = Object.keys(ELEMENT_TYPES) as ElementType[];

/** NCCL's numbers of the built-in operators (`ncclRedOp_t`): note that max comes before min. */
export const REDUCE_OPS = { sum: 0, prod: 1, max: 2, min: 3, avg: 4 } as const;

export type ReduceOp = keyof typeof REDUCE_OPS;

export const REDUCE_OP_NAMES = Object.keys(REDUCE_OPS) as ReduceOp[];

/** Operators that one step of a program applies; an average is a sum with scaling before or after. */
export type StepOp = 'sum' | 'prod' | 'min' | 'max';

export function elementType(type: ElementType): ElementTypeInfo {
  return ELEMENT_TYPES[type];
}

/**
 * Whether switches between GPUs combine elements of a type so (`multimem.ld_reduce`, capability 9.0): sums of floats and
 * of integers of 4 and 8 bytes; least and greatest of those integers and of 16-bit floats.
 */
export function canReduceInSwitch(type: ElementType, step: StepOp): boolean {
  const { kind, size } = ELEMENT_TYPES[type];
  if (step === 'prod' || size === 1) return false;
  if (step === 'sum') return true;
  return kind === 'float' ? size === 2 : true;
}

/**
 * The WebAssembly instructions that the compiler uses: name, opcode and what follows it.
 *
 * One table serves the bytes and the text, so that the two cannot differ. Opcodes are those of the
 * WebAssembly core specification (2.0 with SIMD and bulk memory) and of the threads proposal.
 */

/** What follows an opcode. */
export type ImmediateKind =
  | 'none'
  /** Result type of a block. */
  | 'block'
  /** A local, global or function. */
  | 'index'
  /** Nesting depth of the branch target. */
  | 'label'
  /** Alignment and offset of an access. */
  | 'memory'
  | 'lane'
  | 'i32'
  | 'i64'
  | 'f32'
  | 'f64'
  /** Sixteen bytes: a constant, or the lanes of a shuffle. */
  | 'bytes'
  /** One reserved zero byte, or two (memory numbers). */
  | 'zero'
  | 'zeros';

/** Prefix bytes of the instruction spaces. */
const SIMD = 0xfd;
const THREADS = 0xfe;
const BULK = 0xfc;

interface Entry<K extends ImmediateKind = ImmediateKind> {
  readonly prefix: number;
  readonly opcode: number;
  readonly immediate: K;
}

function at<K extends ImmediateKind>(opcode: number, immediate: K): Entry<K> {
  return { prefix: 0, opcode, immediate };
}
function plain(opcode: number): Entry<'none'> {
  return at(opcode, 'none');
}
function vector<K extends ImmediateKind>(opcode: number, immediate: K): Entry<K> {
  return { prefix: SIMD, opcode, immediate };
}
function simd(opcode: number): Entry<'none'> {
  return vector(opcode, 'none');
}
function atomic(opcode: number): Entry<'memory'> {
  return { prefix: THREADS, opcode, immediate: 'memory' };
}
function saturating(opcode: number): Entry<'none'> {
  return { prefix: BULK, opcode, immediate: 'none' };
}

export const INSTRUCTIONS = {
  // control
  block: at(0x02, 'block'),
  loop: at(0x03, 'block'),
  if: at(0x04, 'block'),
  else: plain(0x05),
  end: plain(0x0b),
  br: at(0x0c, 'label'),
  br_if: at(0x0d, 'label'),
  return: plain(0x0f),
  call: at(0x10, 'index'),
  drop: plain(0x1a),
  select: plain(0x1b),
  'local.get': at(0x20, 'index'),
  'local.set': at(0x21, 'index'),
  'local.tee': at(0x22, 'index'),
  'global.get': at(0x23, 'index'),

  // memory
  'i32.load': at(0x28, 'memory'),
  'i64.load': at(0x29, 'memory'),
  'f32.load': at(0x2a, 'memory'),
  'f64.load': at(0x2b, 'memory'),
  'i32.load8_s': at(0x2c, 'memory'),
  'i32.load8_u': at(0x2d, 'memory'),
  'i32.load16_s': at(0x2e, 'memory'),
  'i32.load16_u': at(0x2f, 'memory'),
  'i64.load8_u': at(0x31, 'memory'),
  'i64.load16_u': at(0x33, 'memory'),
  'i64.load32_u': at(0x35, 'memory'),
  'i32.store': at(0x36, 'memory'),
  'i64.store': at(0x37, 'memory'),
  'f32.store': at(0x38, 'memory'),
  'f64.store': at(0x39, 'memory'),
  'i32.store8': at(0x3a, 'memory'),
  'i32.store16': at(0x3b, 'memory'),
  'i64.store8': at(0x3c, 'memory'),
  'i64.store16': at(0x3d, 'memory'),
  'i64.store32': at(0x3e, 'memory'),

  'memory.copy': { prefix: BULK, opcode: 10, immediate: 'zeros' },

  // constants
  'i32.const': at(0x41, 'i32'),
  'i64.const': at(0x42, 'i64'),
  'f32.const': at(0x43, 'f32'),
  'f64.const': at(0x44, 'f64'),

  // comparisons
  'i32.eqz': plain(0x45),
  'i32.eq': plain(0x46),
  'i32.ne': plain(0x47),
  'i32.lt_s': plain(0x48),
  'i32.lt_u': plain(0x49),
  'i32.gt_s': plain(0x4a),
  'i32.gt_u': plain(0x4b),
  'i32.le_s': plain(0x4c),
  'i32.le_u': plain(0x4d),
  'i32.ge_s': plain(0x4e),
  'i32.ge_u': plain(0x4f),
  'i64.eqz': plain(0x50),
  'i64.eq': plain(0x51),
  'i64.ne': plain(0x52),
  'i64.lt_s': plain(0x53),
  'i64.lt_u': plain(0x54),
  'i64.gt_s': plain(0x55),
  'i64.gt_u': plain(0x56),
  'i64.le_s': plain(0x57),
  'i64.le_u': plain(0x58),
  'i64.ge_s': plain(0x59),
  'i64.ge_u': plain(0x5a),
  'f32.eq': plain(0x5b),
  'f32.ne': plain(0x5c),
  'f32.lt': plain(0x5d),
  'f32.gt': plain(0x5e),
  'f32.le': plain(0x5f),
  'f32.ge': plain(0x60),
  'f64.eq': plain(0x61),
  'f64.ne': plain(0x62),
  'f64.lt': plain(0x63),
  'f64.gt': plain(0x64),
  'f64.le': plain(0x65),
  'f64.ge': plain(0x66),

  // integers
  'i32.clz': plain(0x67),
  'i32.ctz': plain(0x68),
  'i32.popcnt': plain(0x69),
  'i32.add': plain(0x6a),
  'i32.sub': plain(0x6b),
  'i32.mul': plain(0x6c),
  'i32.div_s': plain(0x6d),
  'i32.div_u': plain(0x6e),
  'i32.rem_s': plain(0x6f),
  'i32.rem_u': plain(0x70),
  'i32.and': plain(0x71),
  'i32.or': plain(0x72),
  'i32.xor': plain(0x73),
  'i32.shl': plain(0x74),
  'i32.shr_s': plain(0x75),
  'i32.shr_u': plain(0x76),
  'i64.clz': plain(0x79),
  'i64.ctz': plain(0x7a),
  'i64.popcnt': plain(0x7b),
  'i64.add': plain(0x7c),
  'i64.sub': plain(0x7d),
  'i64.mul': plain(0x7e),
  'i64.div_s': plain(0x7f),
  'i64.div_u': plain(0x80),
  'i64.rem_s': plain(0x81),
  'i64.rem_u': plain(0x82),
  'i64.and': plain(0x83),
  'i64.or': plain(0x84),
  'i64.xor': plain(0x85),
  'i64.shl': plain(0x86),
  'i64.shr_s': plain(0x87),
  'i64.shr_u': plain(0x88),

  // floats
  'f32.abs': plain(0x8b),
  'f32.neg': plain(0x8c),
  'f32.add': plain(0x92),
  'f32.sub': plain(0x93),
  'f32.mul': plain(0x94),
  'f32.div': plain(0x95),
  'f32.min': plain(0x96),
  'f32.max': plain(0x97),
  'f64.abs': plain(0x99),
  'f64.neg': plain(0x9a),
  'f64.add': plain(0xa0),
  'f64.sub': plain(0xa1),
  'f64.mul': plain(0xa2),
  'f64.div': plain(0xa3),
  'f64.min': plain(0xa4),
  'f64.max': plain(0xa5),

  // conversions
  'i32.wrap_i64': plain(0xa7),
  'i64.extend_i32_s': plain(0xac),
  'i64.extend_i32_u': plain(0xad),
  'f32.convert_i32_s': plain(0xb2),
  'f32.convert_i32_u': plain(0xb3),
  'f32.convert_i64_s': plain(0xb4),
  'f32.convert_i64_u': plain(0xb5),
  'f32.demote_f64': plain(0xb6),
  'f64.convert_i32_s': plain(0xb7),
  'f64.convert_i32_u': plain(0xb8),
  'f64.convert_i64_s': plain(0xb9),
  'f64.convert_i64_u': plain(0xba),
  'f64.promote_f32': plain(0xbb),
  'i32.reinterpret_f32': plain(0xbc),
  'i64.reinterpret_f64': plain(0xbd),
  'f32.reinterpret_i32': plain(0xbe),
  'f64.reinterpret_i64': plain(0xbf),
  'i32.extend8_s': plain(0xc0),
  'i32.extend16_s': plain(0xc1),
  'i32.trunc_sat_f32_s': saturating(0),
  'i32.trunc_sat_f32_u': saturating(1),
  'i32.trunc_sat_f64_s': saturating(2),
  'i32.trunc_sat_f64_u': saturating(3),
  'i64.trunc_sat_f32_s': saturating(4),
  'i64.trunc_sat_f32_u': saturating(5),
  'i64.trunc_sat_f64_s': saturating(6),
  'i64.trunc_sat_f64_u': saturating(7),

  // threads
  'atomic.fence': { prefix: THREADS, opcode: 3, immediate: 'zero' },
  'i32.atomic.load': atomic(0x10),
  'i64.atomic.load': atomic(0x11),
  'i32.atomic.load8_u': atomic(0x12),
  'i32.atomic.load16_u': atomic(0x13),
  'i32.atomic.store': atomic(0x17),
  'i64.atomic.store': atomic(0x18),
  'i32.atomic.store8': atomic(0x19),
  'i32.atomic.store16': atomic(0x1a),
  'i32.atomic.rmw.add': atomic(0x1e),
  'i64.atomic.rmw.add': atomic(0x1f),
  'i32.atomic.rmw.and': atomic(0x2c),
  'i64.atomic.rmw.and': atomic(0x2d),
  'i32.atomic.rmw.or': atomic(0x33),
  'i64.atomic.rmw.or': atomic(0x34),
  'i32.atomic.rmw.xor': atomic(0x3a),
  'i64.atomic.rmw.xor': atomic(0x3b),
  'i32.atomic.rmw.xchg': atomic(0x41),
  'i64.atomic.rmw.xchg': atomic(0x42),
  'i32.atomic.rmw.cmpxchg': atomic(0x48),
  'i64.atomic.rmw.cmpxchg': atomic(0x49),

  // vectors: memory, constants, lanes
  'v128.load': vector(0, 'memory'),
  'v128.store': vector(11, 'memory'),
  'v128.const': vector(12, 'bytes'),
  'i8x16.shuffle': vector(13, 'bytes'),
  'i8x16.splat': simd(15),
  'i16x8.splat': simd(16),
  'i32x4.splat': simd(17),
  'i64x2.splat': simd(18),
  'f32x4.splat': simd(19),
  'f64x2.splat': simd(20),
  'i64x2.extract_lane': vector(29, 'lane'),
  'i64x2.replace_lane': vector(30, 'lane'),

  // vectors: comparisons and bits
  'i8x16.eq': simd(35),
  'i8x16.lt_s': simd(37),
  'i8x16.gt_s': simd(39),
  'i16x8.lt_s': simd(47),
  'i16x8.gt_s': simd(49),
  'i32x4.eq': simd(55),
  'i32x4.gt_s': simd(59),
  'i64x2.gt_s': simd(217),
  'f32x4.eq': simd(65),
  'f32x4.ne': simd(66),
  'f32x4.ge': simd(70),
  'f64x2.eq': simd(71),
  'f64x2.ne': simd(72),
  'v128.not': simd(77),
  'v128.and': simd(78),
  'v128.andnot': simd(79),
  'v128.or': simd(80),
  'v128.xor': simd(81),
  'v128.bitselect': simd(82),

  // vectors: integers
  'i8x16.narrow_i16x8_s': simd(101),
  'i8x16.narrow_i16x8_u': simd(102),
  'i8x16.add': simd(110),
  'i8x16.sub': simd(113),
  'i8x16.min_s': simd(118),
  'i8x16.min_u': simd(119),
  'i8x16.max_s': simd(120),
  'i8x16.max_u': simd(121),
  'i16x8.narrow_i32x4_s': simd(133),
  'i16x8.narrow_i32x4_u': simd(134),
  'i16x8.extend_low_i8x16_s': simd(135),
  'i16x8.extend_high_i8x16_s': simd(136),
  'i16x8.extend_low_i8x16_u': simd(137),
  'i16x8.extend_high_i8x16_u': simd(138),
  'i16x8.shl': simd(139),
  'i16x8.shr_s': simd(140),
  'i16x8.shr_u': simd(141),
  'i16x8.add': simd(142),
  'i16x8.mul': simd(149),
  'i32x4.extend_low_i16x8_s': simd(167),
  'i32x4.extend_high_i16x8_s': simd(168),
  'i32x4.extend_low_i16x8_u': simd(169),
  'i32x4.extend_high_i16x8_u': simd(170),
  'i32x4.shl': simd(171),
  'i32x4.shr_s': simd(172),
  'i32x4.shr_u': simd(173),
  'i32x4.add': simd(174),
  'i32x4.sub': simd(177),
  'i32x4.mul': simd(181),
  'i32x4.min_s': simd(182),
  'i32x4.min_u': simd(183),
  'i32x4.max_s': simd(184),
  'i32x4.max_u': simd(185),
  'i64x2.add': simd(206),
  'i64x2.mul': simd(213),

  // vectors: floats
  'f32x4.abs': simd(224),
  'f32x4.add': simd(228),
  'f32x4.mul': simd(230),
  'f32x4.div': simd(231),
  'f32x4.pmin': simd(234),
  'f32x4.pmax': simd(235),
  'f64x2.add': simd(240),
  'f64x2.mul': simd(242),
  'f64x2.div': simd(243),
  'f64x2.pmin': simd(246),
  'f64x2.pmax': simd(247),
  'i32x4.trunc_sat_f32x4_s': simd(248),
  'i32x4.trunc_sat_f32x4_u': simd(249),
  'f32x4.convert_i32x4_s': simd(250),
  'f32x4.convert_i32x4_u': simd(251),
  'i32x4.trunc_sat_f64x2_s_zero': simd(252),
  'i32x4.trunc_sat_f64x2_u_zero': simd(253),
  'f64x2.convert_low_i32x4_s': simd(254),
  'f64x2.convert_low_i32x4_u': simd(255),
} as const satisfies Record<string, Entry>;

export type InstructionName = keyof typeof INSTRUCTIONS;

/** Names of the instructions that carry an immediate of this kind. */
export type NameWith<K extends ImmediateKind> = {
  [N in InstructionName]: (typeof INSTRUCTIONS)[N]['immediate'] extends K ? N : never;
}[InstructionName];

/** Types of WebAssembly values, with the byte that stands for each. */
export const VALUE_TYPE_BYTES = { i32: 0x7f, i64: 0x7e, f32: 0x7d, f64: 0x7c, v128: 0x7b } as const;

export type WasmType = keyof typeof VALUE_TYPE_BYTES;

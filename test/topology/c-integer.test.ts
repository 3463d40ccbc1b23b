/** Numbers as C reads them from files and variables. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cHex, cInt, cInteger } from '#src/topology/c-integer.js';

describe('an integer of any base', () => {
  it('is decimal, hexadecimal after 0x, octal after 0', () => {
    const values = ['16', '0x10', '0X1f', '010', '0777', '0', '00', '7', '-8', '+8', '-0x10', '-010'];
    expect(values.map(cInt)).toEqual([16, 16, 31, 8, 511, 0, 0, 7, -8, 8, -16, -8]);
  });

  it('ends where the digits end; blanks may stand before it', () => {
    const values = ['4k', ' \t\n12 ', '08', '019', '0x', '0xg', '1.9', '3 4', '1e3', '12_000', '0b11'];
    expect(values.map(cInt)).toEqual([4, 12, 0, 1, 0, 0, 1, 3, 1, 12, 0]);
  });

  it('is 0 where there are no digits', () => {
    for (const text of ['', ' ', 'abc', '-', '+', '- 3', '--3', 'x10', '.5'])
      expect(cInt(text), text).toBe(0);
  });

  it('drops bits above 32 in an int, and is the nearest 64-bit number before that', () => {
    expect(cInt('2147483647')).toBe(2147483647);
    expect(cInt('2147483648')).toBe(-2147483648);
    expect(cInt('4294967297')).toBe(1);
    expect(cInt('-4294967297')).toBe(-1);
    expect(cInt('0x7fffffffffffffff')).toBe(-1);
    expect(cInt('99999999999999999999')).toBe(-1);
    expect(cInt('-99999999999999999999')).toBe(0);
  });

  it('is exact beyond the integers of a double', () => {
    expect(cInteger('9007199254740993')).toBe(9007199254740993n);
    expect(cInteger('-0x8000000000000000')).toBe(-(1n << 63n));
    // Too long for 64 bits: the caller sees it.
    expect(cInteger('99999999999999999999')).toBe(99999999999999999999n);
  });

  it('reads back every number in every base', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: (1n << 63n) - 1n }), fc.boolean(), (value, negative) => {
        const sign = negative ? '-' : '';
        const signed = negative ? -value : value;
        for (const text of [`${value}`, `0x${value.toString(16)}`, `0${value.toString(8)}`]) {
          expect(cInteger(sign + text)).toBe(signed);
          expect(cInt(sign + text)).toBe(Number(BigInt.asIntN(32, signed)));
        }
      }),
    );
  });
});

describe('a hexadecimal number', () => {
  it('may have 0x or not, and ends where the digits end', () => {
    const values = ['10', '0x10', '0XaBc', 'ffff', 'fg', 'a088:c203', ' 12', '0x', '', 'xyz', '08'];
    expect(values.map((text) => Number(cHex(text)))).toEqual([
      16, 16, 2748, 65535, 15, 41096, 18, 0, 0, 0, 8,
    ]);
  });

  it('has 64 bits; more than that is the largest', () => {
    expect(cHex('0xffffffffffffffff')).toBe((1n << 64n) - 1n);
    expect(cHex('a088c20300c8a4fc')).toBe(0xa088c20300c8a4fcn);
    expect(cHex('10000000000000000')).toBe((1n << 64n) - 1n);
  });
});

/** What is said of the values of variables against what is made of them. */
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { cInteger } from '#src/topology/c-integer.js';
import { topologySettings } from '#src/topology/settings.js';
import { DESCRIPTION_READINGS, DETECTION_READINGS, valueNotes } from '#src/topology/variable-values.js';

const notes = (env: Record<string, string>) => valueNotes(env, DESCRIPTION_READINGS);

/** Settings as text: big integers have no JSON. */
const read = (env: Record<string, string>) =>
  JSON.stringify(topologySettings(env), (_, value) => (typeof value === 'bigint' ? `${value}` : value));

const NUMBERS = Object.keys(DESCRIPTION_READINGS).filter(
  (name) => !/LEVEL|POLICY/.test(name) || /PXN/.test(name),
);

/** Texts that people set, right and wrong. */
const texts = fc.oneof(
  fc.constantFrom(
    '',
    '0',
    '1',
    '2',
    '5',
    '64',
    '65',
    '-1',
    '-3',
    'abc',
    'true',
    '0x10',
    '010',
    '1e3',
    '1.5',
    ' 7',
    '7 ',
  ),
  fc.constantFrom(
    'SYS',
    'sys',
    ' SYS',
    'NVL',
    'FAR',
    'AUTO',
    'all',
    'MAX:2',
    'MAX:',
    'max:0',
    '99999999999999999999',
  ),
  fc.string({ maxLength: 4 }),
);

describe('notes on values', () => {
  it('are there wherever a number is not read as the decimal or hexadecimal number that it is', () => {
    fc.assert(
      fc.property(fc.constantFrom(...NUMBERS), texts, (name, text) => {
        if (notes({ [name]: text }).length > 0 || text === '') return;
        expect(text).toMatch(/^\s*[+-]?(0x[0-9a-f]+|0|[1-9][0-9]*)$/i);
        expect(read({ [name]: text })).toBe(read({ [name]: `${cInteger(text)}` }));
      }),
    );
  });

  it('that say a value is ignored are right: the settings are the defaults', () => {
    fc.assert(
      fc.property(fc.constantFrom(...Object.keys(DESCRIPTION_READINGS)), texts, (name, text) => {
        const [note] = notes({ [name]: text });
        const taken =
          /NCCL takes (-?\d+|AUTO|its default)|NCCL reads it as (-?\d+)|octal to NCCL, (-?\d+)/.exec(
            note ?? '',
          );
        if (note?.includes('ignore')) expect(read({ [name]: text })).toBe(read({}));
        const value = taken?.[1] ?? taken?.[2] ?? taken?.[3];
        // Its default, which only counts for what cannot be read, is not what the machine decides.
        if (value !== undefined && name !== 'NCCL_NVLS_CHUNKSIZE') {
          expect(read({ [name]: text })).toBe(read(value === 'its default' ? {} : { [name]: value }));
        }
        if (note?.includes('like 0')) expect(read({ [name]: text })).toBe(read({ [name]: '0' }));
      }),
    );
  });

  it('on levels and policies are there exactly where the text is not read', () => {
    fc.assert(
      fc.property(fc.constantFrom('NCCL_P2P_LEVEL', 'NCCL_NET_GDR_LEVEL'), texts, (name, text) => {
        const { p2pLevel, gdrLevel } = topologySettings({ [name]: text });
        const isRead = (p2pLevel ?? gdrLevel) !== undefined || text === '';
        expect(notes({ [name]: text }).some((note) => note.includes('ignore'))).toBe(!isRead);
      }),
    );
    for (const [text, isSaid] of [
      ['MAX:2', false],
      ['auto', false],
      ['ALL', false],
      ['MAX:0', true],
      ['SOME', true],
    ] as const) {
      expect(notes({ NCCL_NETDEVS_POLICY: text }), text).toHaveLength(isSaid ? 1 : 0);
    }
  });

  test.each([
    ['NCCL_P2P_LEVEL', 'sys', 'NCCL_P2P_LEVEL=sys is ignored by NCCL; write SYS'],
    [
      'NCCL_P2P_LEVEL',
      'foo',
      /=foo is not a level, NCCL ignores it; give one of LOC, NVL, .*, SYS, or 0 to 4$/,
    ],
    ['NCCL_P2P_LEVEL', '5', 'NCCL_P2P_LEVEL=5 is SYS to NCCL; the numbers are 0 to 4'],
    ['NCCL_MIN_NCHANNELS', 'abc', 'NCCL_MIN_NCHANNELS=abc is not a whole number; NCCL reads it as 0'],
    [
      'NCCL_MIN_NCHANNELS',
      '010',
      'NCCL_MIN_NCHANNELS=010 is octal to NCCL, 8; without the leading 0 it is decimal',
    ],
    ['NCCL_MAX_NCHANNELS', '0', 'NCCL_MAX_NCHANNELS=0 is below 1; NCCL takes 1'],
    ['NCCL_MIN_NCHANNELS', '65', 'NCCL_MIN_NCHANNELS=65 is above 64; NCCL takes 64'],
    ['NCCL_MIN_CTAS', '0', 'NCCL_MIN_CTAS=0 is below 1; NCCL ignores it, 1 to 64 count'],
    ['NCCL_CROSS_NIC', '5', 'NCCL_CROSS_NIC=5 has no meaning of its own; NCCL knows 0, 1 and 2'],
    ['NCCL_SHM_DISABLE', '2', 'NCCL_SHM_DISABLE=2 is like 0 to NCCL; 1 sets it'],
    [
      'NCCL_NETDEVS_POLICY',
      'SOME',
      'NCCL_NETDEVS_POLICY=SOME is not a policy, NCCL takes AUTO; give AUTO, ALL or MAX:n with n from 1',
    ],
  ])('%s=%s', (name, text, note) => {
    const said = notes({ [name]: text });
    expect(said).toHaveLength(1);
    if (typeof note === 'string') expect(said[0]).toBe(note);
    else expect(said[0]).toMatch(note);
  });

  it('name the variable that goes before another', () => {
    expect(notes({ NCCL_P2P_LEVEL: 'SYS', NCCL_P2P_DISABLE: '1' })).toEqual([
      'NCCL_P2P_LEVEL=SYS has no effect: NCCL_P2P_DISABLE=1 goes before it',
    ]);
    expect(notes({ NCCL_P2P_LEVEL: 'SYS', NCCL_P2P_DISABLE: '0' })).toEqual([]);
    expect(notes({ NCCL_MIN_NRINGS: '4', NCCL_MIN_NCHANNELS: '8' })).toEqual([
      'NCCL_MIN_NRINGS=4 has no effect: NCCL_MIN_NCHANNELS=8 goes before it',
    ]);
  });

  it('on detection say which words are known', () => {
    const said = valueNotes(
      { NCCL_SOCKET_FAMILY: 'IPv4', NCCL_NET_MERGE_LEVEL: 'pix', NCCL_IB_DISABLE: 'yes' },
      DETECTION_READINGS,
    );
    expect(said).toEqual([
      'NCCL_IB_DISABLE=yes is not a whole number; NCCL reads it as 0',
      'NCCL_NET_MERGE_LEVEL=pix is not a level, NCCL takes LOC; give one of LOC, PORT, PIX, PXB, P2C, PXN, PHB, SYS',
      'NCCL_SOCKET_FAMILY=IPv4 is ignored by NCCL; give AF_INET or AF_INET6',
    ]);
  });
});

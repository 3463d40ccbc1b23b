/**
 * Recognises files that hold no text of one byte per character, which no XML reader could say anything helpful about.
 */

interface Form {
  /** How files of this form start, a character per byte. */
  readonly starts: readonly string[];
  readonly what: string;
  readonly remedy: string;
}

const SAVE_AS_TEXT = 'save it as UTF-8 or ASCII';

/** UTF-32 first: its byte order mark begins like that of UTF-16. */
const FORMS: readonly Form[] = [
  {
    starts: ['\u00ff\u00fe\0\0', '\0\0\u00fe\u00ff', '<\0\0\0', '\0\0\0<'],
    what: 'is text in UTF-32',
    remedy: SAVE_AS_TEXT,
  },
  {
    starts: ['\u00ff\u00fe', '\u00fe\u00ff', '<\0', '\0<'],
    what: 'is text in UTF-16',
    remedy: SAVE_AS_TEXT,
  },
  {
    starts: ['\u001f\u008b'],
    what: 'is compressed by gzip',
    remedy: 'give what `gzip -dc` makes of it, or a recording with --from',
  },
  {
    // xz, bzip2, zstd, zip.
    starts: ['\u00fd7zXZ', 'BZh', '\u0028\u00b5\u002f\u00fd', 'PK\u0003\u0004'],
    what: 'is compressed',
    remedy: 'decompress it first',
  },
];

/** Where a tar archive has its mark. */
const TAR_MARK = ['ustar', 257] as const;

/** What a text is in place of XML, and the remedy; undefined if it may be XML. */
export function foreignForm(text: string): { readonly what: string; readonly remedy: string } | undefined {
  if (text.startsWith(...TAR_MARK)) {
    return { what: 'is a tar archive', remedy: 'give a recording with --from, or a topology file' };
  }
  return FORMS.find(({ starts }) => starts.some((start) => text.startsWith(start)));
}

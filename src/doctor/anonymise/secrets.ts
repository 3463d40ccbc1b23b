/**
 * Secrets in texts: tokens of known forms, keys, and what is given as a password. Job logs hold them where a script ran
 * with `set -x` or printed its environment. The forms are those that the services document for their own scanners.
 */

/** Tokens that tell by themselves what they are. */
const TOKENS = new RegExp(
  [
    'hf_[A-Za-z0-9]{20,}', // Hugging Face
    '(?:AKIA|ASIA)[A-Z0-9]{16}', // Amazon
    'gh[pousr]_[A-Za-z0-9]{20,}', // GitHub
    'github_pat_\\w{20,}',
    'glpat-[\\w-]{16,}', // GitLab
    'sk-[\\w-]{20,}', // OpenAI and others
    'nvapi-[\\w-]{20,}', // NVIDIA
    'xox[abprs]-[\\w-]{10,}', // Slack
    'AIza[\\w-]{30,}', // Google
    'ya29\\.[\\w-]{20,}',
    'npm_[A-Za-z0-9]{30,}',
    'pypi-[\\w-]{20,}',
    'dckr_pat_[\\w-]{20,}', // Docker
    'eyJ[\\w-]{8,}\\.[\\w-]{6,}(?:\\.[\\w-]*)?', // JSON web tokens
  ]
    .map((form) => `(?<![A-Za-z0-9])${form}`)
    .join('|'),
  'g',
);

/** Ends of names whose value is a secret; `PWD` alone is a folder. */
const NAMES =
  'token|secret|passw(?:or)?d|passphrase|(?<=_)pwd|(?<=_)pass|api[_-]?key|access[_-]?key(?:[_-]?id)?|' +
  '(?:private|secret|auth|account|encryption|session|license)[_-]?key|credentials?|(?<=[-_?&])sig(?:nature)?';

/** `NAME=value`, `NAME: value`, `"NAME": "value"` and `--name value`; the value as 3 (quoted) or 4. */
const ASSIGNED = new RegExp(
  `(${NAMES})(["']?(?: = |=|: ?)|(?<=--[\\w-]{1,60}) +)(?:(?<quote>["'])([^"'\\n]{1,2000})\\k<quote>|([^\\s"',;&(){}\\]<>]{1,2000}))`,
  'gi',
);

/** `Authorization: Bearer X`, `Basic X` and `Token X`. */
const AUTHORISED =
  /(\bauthorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest) )?|\bbearer )(?!(?:bearer|basic|token|digest) )([\w.~+/=-]{6,2000})/gi;

/** The name and the secret before the host of an address. */
const USER_INFO = /([a-z][a-z0-9+.-]{1,20}:\/\/)([^\s:@/"'<>]{1,200})(?::([^\s@/"'<>]{1,2000}))?@/gi;

const PRIVATE_KEY =
  /(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)([\s\S]{0,8000}?)(-----END [A-Z ]{0,30}PRIVATE KEY-----|$)/g;

const PUBLIC_KEY = /(\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-[\w-]{1,30}) )(AAAA[\w+/=]{20,})/g;

/** What stands for a value, or is none. */
const NO_VALUE =
  /^(?:true|false|none|null|nil|yes|no|empty|unset|required|missing|invalid|expired|\*+|x{3,}|[$%<[{].*|\.{3}.*)$/i;

export interface Replacing {
  readonly secret: (found: string) => string;
  readonly user: (found: string) => string;
}

/** The text with every recognised secret replaced, in as many lines. */
export function withoutSecrets(text: string, { secret, user }: Replacing): string {
  return text
    .replace(PRIVATE_KEY, (_, begin: string, body: string, end: string) => {
      const inner = body.replace(/[^\n]*[\w+/=]{8}[^\n]*/g, (line) => secret(line.trim()));
      return begin + inner + end;
    })
    .replace(USER_INFO, (_, scheme: string, name: string, word: string | undefined) => {
      if (word !== undefined) return `${scheme}${user(name)}:${secret(word)}@`;
      // A token may stand in the place of the user.
      return `${scheme}${name.length >= 20 ? secret(name) : user(name)}@`;
    })
    .replace(TOKENS, secret)
    .replace(PUBLIC_KEY, (_, kind: string, key: string) => kind + secret(key))
    .replace(AUTHORISED, (whole, head: string, value: string) =>
      isSecret('', value) ? head + secret(value) : whole,
    )
    .replace(
      ASSIGNED,
      (
        whole,
        name: string,
        between: string,
        quote: string | undefined,
        quoted: string | undefined,
        bare: string | undefined,
      ) => {
        const value = quoted ?? bare ?? '';
        if (!isSecret(name, value)) return whole;
        return `${name}${between}${quote ?? ''}${secret(value)}${quote ?? ''}`;
      },
    );
}

/** Of language models, tokens are counted and measured. */
const isSecret = (name: string, value: string): boolean =>
  !NO_VALUE.test(value) && !(/token$/i.test(name) && /^[\d.,:eE+-]+(?:[a-z]{0,3}|\/s)$/.test(value));

const LONG_WORD = /(?<![\w+./-])[\w+-]{32,512}={0,2}(?![\w+-])/g;
const SPOKEN =
  /\b(?:password|passwd|passphrase|api[-_ ]?key|secret[-_ ]?key|access[-_ ]?key|private[-_ ]?key|credentials)\b/i;

/** Numbers of lines, from 1, that still look as if they held a secret: long random words, and talk of passwords. */
export function suspiciousLines(text: string): number[] {
  const found: number[] = [];
  for (const [i, line] of text.split('\n').entries()) {
    const isRandom = [...line.matchAll(LONG_WORD)].some(([word]) => looksRandom(word));
    if (isRandom || (SPOKEN.test(line) && !line.includes('[secret-'))) found.push(i + 1);
  }
  return found;
}

/** Hexadecimal of the length of a key, or letters and digits that change kind as in no word. */
function looksRandom(word: string): boolean {
  if (/^[0-9a-f]+$/i.test(word)) return /\d/.test(word) && /[a-f]/i.test(word);
  return !word.startsWith('_Z') && word.split(/[_-]/).some(isMixed);
}

function isMixed(part: string): boolean {
  if (part.length < 20 || !/\d/.test(part) || !/[a-z]/.test(part) || !/[A-Z]/.test(part)) return false;
  const kind = (character: string): string =>
    /\d/.test(character) ? '0' : /[a-z]/.test(character) ? 'a' : 'A';
  let changes = 0;
  for (let i = 1; i < part.length; i++) if (kind(part[i]!) !== kind(part[i - 1]!)) changes++;
  return changes >= 0.4 * part.length;
}

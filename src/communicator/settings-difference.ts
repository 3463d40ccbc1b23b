/** In what the settings of two ranks differ, for people: names and both values, nothing else. */

type Json = Readonly<Record<string, unknown>>;

/** Settings by name; those of a group (`switches`) by the names of both. */
function flat(settings: Json, before = ''): Map<string, string> {
  const all = new Map<string, string>();
  for (const [name, value] of Object.entries(settings)) {
    if (typeof value === 'object' && value !== null) {
      for (const [inner, text] of flat(value as Json, `${before}${name}.`)) all.set(inner, text);
    } else all.set(before + name, String(value));
  }
  return all;
}

/**
 * The difference of two texts of JSON that are not the same.
 *
 * @returns such as `channels (1 and 2), algorithm (Ring and Tree)`
 */
export function settingsDifference(one: string, other: string): string {
  const [a, b] = [one, other].map((text) => flat(JSON.parse(text) as Json)) as [
    Map<string, string>,
    Map<string, string>,
  ];
  return [...new Set([...a.keys(), ...b.keys()])]
    .filter((name) => a.get(name) !== b.get(name))
    .map((name) => `${name} (${a.get(name) ?? 'none'} and ${b.get(name) ?? 'none'})`)
    .join(', ');
}

/** What several rules ask of one object is worked out once. The object may not change any more. */
export function remembered<K extends object, V>(make: (of: K) => V): (of: K) => V {
  const known = new WeakMap<K, { readonly value: V }>();
  return (of) => {
    const found = known.get(of);
    if (found !== undefined) return found.value;
    const value = make(of);
    known.set(of, { value });
    return value;
  };
}

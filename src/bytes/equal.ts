/** Compares bytes. */

/** True where both have the same bytes; never where the first is not there. */
export function isEqual(a: Uint8Array | undefined, b: Uint8Array): boolean {
  if (a === undefined || a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Names for arrays. */

/** A name that no other array has: it tells an array from another one at the same place. */
export function newArrayId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Chooses the place of a superchunk. @see ARCHITECTURE.md */
import type { Placing } from "./declared.ts";
import type { PlacedStore } from "./placed-store.ts";

/**
 * The name of the place for a superchunk that begins with chunk `first`; undefined for `data`. One that replaces superchunk
 * `before` stays in that one's place, so that changes move nothing. Places that cannot be written are skipped.
 */
export async function choosePlace(
  placed: PlacedStore,
  { placing, superchunklen }: { readonly placing: Placing; readonly superchunklen: number },
  first: number,
  before: number | undefined,
): Promise<string | undefined> {
  const old = before === undefined ? undefined : placed.placeOf(before);
  if (before !== undefined && placed.isWritable(old)) return old;
  const names = [undefined, ...placing.places.map(({ name }) => name)].filter((name) =>
    placed.isWritable(name),
  );
  if (placing.rule === "tier") return undefined;
  // By its position in the array, so that the last superchunk keeps its place while it grows.
  if (placing.rule === "round") return names[Math.floor(first / superchunklen) % names.length];
  const sizes = await Promise.all(names.map((name) => placed.bytesIn(name)));
  return names[sizes.indexOf(Math.min(...sizes))];
}

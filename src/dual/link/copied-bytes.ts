/** Whether a shard that is a copy still has its data file's bytes: an index alone does not tell values that were changed. */
import { isEqual } from "../../bytes/equal.ts";
import type { LinkSite } from "./types.ts";

/** Bytes of each file that are compared at a time. */
const PIECE = 1 << 20;

/** True where the first `size` bytes of a data file and of its copy are the same. */
export async function isCopyOf(
  { source, target }: LinkSite,
  { path, link, size }: { readonly path: string; readonly link: string; readonly size: number },
  signal: AbortSignal,
): Promise<boolean> {
  for (let offset = 0; offset < size; offset += PIECE) {
    const range = { offset, length: Math.min(PIECE, size - offset) };
    const [own, copy] = await Promise.all([
      source.getRange(path, range, { signal }),
      target.getRange(link, range, { signal }),
    ]);
    if (own === undefined || own.length !== range.length || !isEqual(copy, own)) return false;
  }
  return true;
}

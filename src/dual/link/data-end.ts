/** Where the chunks of a data file end, as the file itself says it. Must not know links. */
import { openBlpkFile } from "../../archive/places/blpk-file.ts";
import { decodeStoredHeader } from "../../archive/places/walk.ts";
import type { ReadableStore } from "../../store/types.ts";

/**
 * The byte behind the last chunk and its digest, of all chunks that the header counts. Where chunks are only found by walking
 * to the end of the file, that end.
 *
 * @throws the codes of damage
 */
export async function findDataEnd(store: ReadableStore, key: string, size: number): Promise<number> {
  const file = await openBlpkFile(store, key, size, Number.POSITIVE_INFINITY);
  let last = -1;
  for (const [i, start] of file.starts.entries()) if (start > (file.starts[last] ?? -1)) last = i;
  const start = file.starts[last];
  if (start === undefined) return size;
  const head = await store.getRange(key, { offset: start, length: 16 });
  const where = { path: file.path, chunk: last, offset: start };
  return start + decodeStoredHeader(head ?? new Uint8Array(0), where).ctbytes + file.digestLength;
}

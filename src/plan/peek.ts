/**
 * A look at an archive that is not opened: its size, and what changes when it does. Small archives are planned so, because to open
 * very many of them twice costs more than all the rest of sharing them.
 */
import { digestOf, metadataVersions } from "../convert/sources/items.ts";
import { isSuperchunkError } from "../errors.ts";
import { parseSizes } from "../format/folder.ts";
import { decodeHeader } from "../format/header.ts";
import { joinKey } from "../store/key.ts";
import type { ReadableStore } from "../store/types.ts";

/** Bytes of a file header, at most. */
const HEADER_LENGTH = 32;

/** What a look at an archive has found. */
export interface Peeked {
  /** Digest of the sizes and versions of its metadata. */
  readonly versions: string;
  /** Uncompressed bytes, as the archive says; it was not checked. */
  readonly nbytes: number;
}

/** Looks at an archive. Undefined if that does not tell its size: tables, and what may be damaged. */
export async function peek(
  store: ReadableStore,
  key: string,
  signal: AbortSignal | undefined,
): Promise<Peeked | undefined> {
  try {
    const found = await metadataVersions(store, key, { signal });
    const nbytes = await sizeOf(store, key, { found, signal });
    return nbytes === undefined ? undefined : { versions: await digestOf(found), nbytes };
  } catch (error) {
    signal?.throwIfAborted();
    if (isSuperchunkError(error)) return undefined; // opening it says what is wrong
    throw error;
  }
}

/** Digest of what {@link peek} compares. */
export async function peekVersions(store: ReadableStore, key: string): Promise<string> {
  return digestOf(await metadataVersions(store, key));
}

async function sizeOf(
  store: ReadableStore,
  key: string,
  {
    found,
    signal,
  }: { readonly found: Readonly<Record<string, string>>; readonly signal: AbortSignal | undefined },
): Promise<number | undefined> {
  const sizes = joinKey(key, "meta/sizes");
  if (found[joinKey(key, "__rootdirs__")] !== undefined) return undefined;
  if (found[sizes] !== undefined) {
    const bytes = await store.get(sizes, { signal });
    return bytes === undefined ? undefined : parseSizes(bytes, store.describe(sizes)).nbytes;
  }
  if (found[key] === undefined) return undefined;
  const head = await store.getRange(key, { offset: 0, length: HEADER_LENGTH }, { signal });
  if (head === undefined) return undefined;
  const { nchunks, chunkSize, lastChunk } = decodeHeader(head, store.describe(key));
  if (nchunks < 1 || chunkSize < 1 || lastChunk < 0) return undefined;
  return (nchunks - 1) * chunkSize + lastChunk;
}

/** Reads chunks of a committed layout, encoded or decoded, checked: for merging, changing and compacting. */
import { decodeHeader, decodeSync, isReady, prepare } from "../../codec/index.ts";
import type { StoredLayout } from "../../format/layout.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { fetchChunks } from "../chunk-fetch.ts";
import { LayoutSequence } from "../layout-sequence.ts";
import type { ColumnLayout } from "./columns.ts";
import type { StoredChunk } from "./superchunk-file.ts";

export class ChunkSource {
  readonly #store: ReadableStore;
  readonly #columns: readonly ColumnLayout[];
  readonly #sequences: readonly LayoutSequence[];

  constructor(
    store: ReadableStore,
    path: string,
    layout: StoredLayout,
    facts: { readonly columns: readonly ColumnLayout[]; readonly rows: number; readonly chunklen: number },
  ) {
    const { columns, rows, chunklen } = facts;
    this.#store = store;
    this.#columns = columns;
    this.#sequences = columns.map(
      ({ folder, rowBytes }) =>
        new LayoutSequence(store, {
          folder,
          layout,
          heldRows: rows,
          rows,
          rowBytes,
          chunklen,
          sizesPath: store.describe(joinKey(path, "meta/sizes")),
        }),
    );
  }

  /** The encoded chunks `[first, end)` of a column, each with bytes of its own. */
  async *encoded(column: number, first: number, end: number): AsyncGenerator<StoredChunk> {
    const sequence = this.#sequences[column];
    if (sequence === undefined || end <= first) return;
    const places = await sequence.places(first, end);
    for await (const { bytes, digest, header } of fetchChunks(this.#store, places, { verify: true })) {
      yield { bytes: bytes.slice(), digest: digest.slice(), nbytes: header.nbytes };
    }
  }

  /** The decoded bytes of one chunk, for each column. */
  async decoded(index: number): Promise<Uint8Array[]> {
    const columns: Uint8Array[] = [];
    for (let i = 0; i < this.#columns.length; i++) {
      for await (const chunk of this.encoded(i, index, index + 1)) columns.push(await decodeStored(chunk));
    }
    return columns;
  }
}

/** The decoded bytes of a chunk. */
export async function decodeStored({ bytes }: StoredChunk): Promise<Uint8Array> {
  const { compressor } = decodeHeader(bytes);
  if (!isReady(compressor)) await prepare(compressor);
  return decodeSync(bytes);
}

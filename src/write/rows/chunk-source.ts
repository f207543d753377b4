/** Reads checked chunks of a committed layout, encoded or decoded, for merging, changing and compacting. */
import { layoutSequence } from "../../archive/places/layout-files.ts";
import type { ChunkSequence, PlacedChunk } from "../../archive/places/sequence.ts";
import { decodeFetched, type FetchedChunk, fetchChunks } from "../../archive/read/chunk-fetch.ts";
import type { Patch, StoredLayout } from "../../format/layout.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { ArrayRoot, Committed } from "../array/root.ts";
import type { StoredChunk } from "../array/superchunk-file.ts";
import type { InPlaceChanges } from "../in-place/in-place-changes.ts";
import type { ColumnLayout } from "../layout/columns.ts";
import type { ArraySettings } from "../layout/settings.ts";

/** Places located at a time. */
const PLACES = 256;

interface SourceFacts {
  readonly columns: readonly ColumnLayout[];
  readonly rows: number;
  readonly chunklen: number;
  /** Buffers to read into, reused by the next source. */
  readonly buffers?: Uint8Array[] | undefined;
}

export class ChunkSource {
  readonly #store: ReadableStore;
  readonly #columns: readonly ColumnLayout[];
  readonly #sequences: readonly ChunkSequence[];
  readonly #buffers: Uint8Array[];

  constructor(store: ReadableStore, path: string, layout: StoredLayout, facts: SourceFacts) {
    const { columns, rows, chunklen } = facts;
    this.#buffers = facts.buffers ?? [];
    this.#store = store;
    this.#columns = columns;
    this.#sequences = columns.map(({ folder, rowBytes }) =>
      layoutSequence(store, {
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

  /** The encoded chunks `[first, end)` of a column, in order: each valid until the next one is requested. */
  async *fetched(column: number, first: number, end: number): AsyncGenerator<FetchedChunk> {
    const sequence = this.#sequences[column];
    if (sequence === undefined || end <= first) return;
    const places = await sequence.places(first, end);
    yield* fetchChunks(this.#store, places, { verify: true, buffers: this.#buffers });
  }

  /** The same, each in separate memory. */
  async *encoded(column: number, first: number, end: number): AsyncGenerator<StoredChunk> {
    for await (const { bytes, digest, header } of this.fetched(column, first, end))
      yield { bytes: bytes.slice(), digest: digest.slice(), nbytes: header.nbytes };
  }

  /** Some chunks of a column as stored, in order: each valid until the next one is requested. */
  async *fetchedEach(column: number, indices: readonly number[]): AsyncGenerator<FetchedChunk> {
    const sequence = this.#sequences[column];
    if (sequence === undefined) return;
    const buffers = this.#buffers;
    for (let at = 0; at < indices.length; at += PLACES) {
      const places: PlacedChunk[] = [];
      for (const index of indices.slice(at, at + PLACES))
        places.push(...(await sequence.places(index, index + 1)));
      yield* fetchChunks(this.#store, places, { verify: true, buffers });
    }
  }

  /** The decoded bytes of one chunk, for each column. */
  async decoded(index: number): Promise<Uint8Array[]> {
    const columns: Uint8Array[] = [];
    for (let i = 0; i < this.#columns.length; i++)
      for await (const chunk of this.fetchedEach(i, [index])) {
        const bytes = new Uint8Array(chunk.header.nbytes);
        await decodeFetched(this.#store, chunk, bytes);
        columns.push(bytes);
      }
    return columns;
  }
}

// The chunks that a writer reads for its plan. Must not know how the plan is made.

/** The state of a writer that decides which chunks exist. */
interface Plan {
  readonly root: ArrayRoot;
  readonly settings: Pick<ArraySettings, "chunklen">;
  readonly columns: readonly ColumnLayout[];
  readonly committed: Committed;
  readonly patches: readonly Patch[];
  readonly changes: InPlaceChanges | undefined;
}

/**
 * Gives the chunks of the last commit with planned patches and changes in place applied; the same source until there is another plan.
 */
export class PlannedChunks {
  readonly #buffers: Uint8Array[] = [];
  #known:
    | { committed: Committed; patches: readonly Patch[]; revision: number; source: ChunkSource }
    | undefined;

  of({ root, settings, columns, committed, patches, changes }: Plan): ChunkSource {
    const revision = changes?.revision ?? 0;
    const known = this.#known;
    if (known?.committed === committed && known.patches === patches && known.revision === revision)
      return known.source;
    const layout = { ...committed.layout, patches };
    const store = changes === undefined || changes.isEmpty ? root.store : changes.view;
    const source = new ChunkSource(store, root.path, layout, {
      columns,
      rows: committed.rows,
      chunklen: settings.chunklen,
      buffers: this.#buffers,
    });
    this.#known = { committed, patches, revision, source };
    return source;
  }

  /** To be called when settings or columns have changed. */
  forget(): void {
    this.#known = undefined;
  }
}

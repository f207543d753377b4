/** The chunks that a writer reads on for its plan. Must not know how the plan comes about. */
import type { Patch } from "../../format/layout.ts";
import type { Committed } from "../array/commit-line.ts";
import type { ArrayRoot } from "../array/root.ts";
import type { InPlaceChanges } from "../in-place/in-place-changes.ts";
import type { ColumnLayout } from "../layout/columns.ts";
import type { ArraySettings } from "../layout/settings.ts";
import { ChunkSource } from "./chunk-source.ts";

/** What of a writer decides which chunks there are. */
interface Plan {
  readonly root: ArrayRoot;
  readonly settings: Pick<ArraySettings, "chunklen">;
  readonly columns: readonly ColumnLayout[];
  readonly committed: Committed;
  readonly patches: readonly Patch[];
  readonly changes: InPlaceChanges | undefined;
}

/** Gives the chunks of the last commit, planned patches and changes in place laid over them; the same until one comes. */
export class PlannedSource {
  /** What chunks are read into. */
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

  /** Settings or columns have changed. */
  forget(): void {
    this.#known = undefined;
  }
}

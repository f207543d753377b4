/** What all kinds of archives have in common. */
import type { Dialect, JsonObject } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";

export interface StoredParts {
  readonly dialect: Dialect;
  readonly store: ReadableStore;
  readonly path: string;
  readonly attrs: JsonObject;
  readonly metadata: JsonObject;
  readonly warnings: readonly string[];
  /** Keys of the metadata objects, for `storedBytes`. */
  readonly metadataKeys: readonly string[];
}

export abstract class StoredArchive<Parts extends StoredParts> {
  readonly dialect: Parts["dialect"];
  readonly store: ReadableStore;
  readonly path: string;
  readonly attrs: JsonObject;
  readonly metadata: JsonObject;
  readonly warnings: readonly string[];
  /** Name in messages. */
  protected readonly shownPath: string;
  protected readonly parts: Parts;

  constructor(parts: Parts) {
    this.parts = parts;
    this.dialect = parts.dialect;
    this.store = parts.store;
    this.path = parts.path;
    this.shownPath = parts.store.describe(parts.path);
    this.attrs = parts.attrs;
    this.metadata = parts.metadata;
    this.warnings = parts.warnings;
  }

  async close(): Promise<void> {
    await this.store.close?.();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

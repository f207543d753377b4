/** A Zarr v3 group open for editing: its attributes, and the nodes below it. */

import type { LongOptions } from "../archive/kinds/types.ts";
import { SuperchunkError } from "../errors.ts";
import type { JsonObject, JsonObjectInput } from "../format/types.ts";
import { checkKey, joinKey } from "../store/key.ts";
import { removeTree } from "../store/tree.ts";
import type { StoreOptions, WritableStore } from "../store/types.ts";
import { type AttributeChanges, checkChange, type Editable, withAttributes } from "../write/editable.ts";
import { QueuedEditor } from "../write/queued-editor.ts";
import { ZarrGroup } from "../zarr/read/group.ts";
import { openZarr } from "../zarr/read/open.ts";
import {
  addDocument,
  asRead,
  putDocument,
  readDocument,
  refuseDual,
  removeDocument,
} from "../zarr/write/node-document.ts";
import type { CreateOptions } from "./options.ts";
import type { ZarrEditSettings } from "./zarr-array.ts";

/** Creates or opens a member, with this folder's `create` and `edit`. */
export interface MemberMaker {
  create(path: string, options: CreateOptions): Promise<Editable>;
  edit(path: string): Promise<Editable>;
}

/** Creates the document of a group at an empty path. Throws `CONFLICT`. */
export async function createGroup(
  store: WritableStore,
  path: string,
  attributes: JsonObjectInput,
  options: StoreOptions,
): Promise<void> {
  await refuseDual(store, path, options);
  await addDocument(store, path, {
    zarr_format: 3,
    node_type: "group",
    attributes: withAttributes(undefined, attributes, { strict: true }),
  });
}

const INSIDE = "a group has no values; open one of its arrays with edit(name)";
const REASONS = {
  addColumn: "the arrays of a group are its columns; add one with create(name, options)",
  deleteColumn: "the arrays of a group are its columns; remove one with erase(name)",
  renameColumn: "nodes of Zarr are not renamed; create(name, options) a new one, and erase the old one",
  append: INSIDE,
  set: INSIDE,
  resize: INSIDE,
  deleteRows: INSIDE,
  compact: INSIDE,
  get: INSIDE,
  getBytes: INSIDE,
  dtype: INSIDE,
  shape: INSIDE,
};

export class ZarrGroupEdit extends QueuedEditor {
  readonly kind = "group";
  readonly format = "zarr";
  protected readonly reasons: Readonly<Record<string, string>> = REASONS;
  readonly #group: ZarrGroup;
  readonly #maker: MemberMaker;
  #attrs: JsonObject;

  constructor(store: WritableStore, group: ZarrGroup, settings: ZarrEditSettings, maker: MemberMaker) {
    super({ store, path: group.path }, settings.lock);
    this.#group = group;
    this.#attrs = group.attrs;
    this.#maker = maker;
  }

  get attrs(): JsonObject {
    return this.#attrs;
  }

  override setAttributes(changes: AttributeChanges): Promise<void> {
    return this.#run(async () => {
      const before = await readDocument(this.store, this.path);
      const attributes = withAttributes(before.document["attributes"], changes, { strict: true });
      const document = { ...before.document, attributes };
      const behind = await putDocument(this.store, this.path, before, document);
      this.#attrs = asRead(document, this.store.describe(this.path))["attributes"] as JsonObject;
      if (behind !== undefined) throw behind;
    });
  }

  /** Names of the nodes directly below. */
  override members(): Promise<readonly string[]> {
    return this.line.run(async () => {
      const now = await openZarr(this.store, this.path);
      return now instanceof ZarrGroup ? now.members() : [];
    });
  }

  /** Creates an array or a group below, and opens it. The consolidated metadata of the groups above list it. */
  override create(name: string, options: CreateOptions): Promise<Editable> {
    return this.#run(() => this.#maker.create(this.#below(name), { ...options, format: "zarr" }));
  }

  /** Opens a node below. */
  override edit(name: string): Promise<Editable> {
    return this.#run(() => this.#maker.edit(this.#below(name)));
  }

  /**
   * Removes a node and everything below it: first its document, which hides it from readers, then its chunks.
   * @throws NOT_FOUND; CONFLICT for an archive that is also a Zarr array
   */
  override async erase(name: string, options: LongOptions = {}): Promise<void> {
    checkChange(options);
    const { signal } = options;
    return this.#run(async () => {
      const path = this.#below(name);
      await readDocument(this.store, path, { signal });
      await refuseDual(this.store, path, { signal });
      await removeDocument(this.store, path);
      await removeTree(this.store, path, { signal });
      await this.store.delete(path);
    });
  }

  /** Every verb is durable when it resolves. */
  protected async commit(): Promise<void> {}

  #below(name: string): string {
    const path = joinKey(this.path, name);
    checkKey(path);
    return path;
  }

  #run<T>(operation: () => Promise<T>): Promise<T> {
    if (this.#group.dialect === "zarr3") return this.line.run(operation);
    const refusal = new SuperchunkError(
      "UNSUPPORTED",
      "only Zarr v3 hierarchies are changed; convert this one first",
      { path: this.store.describe(this.path), field: "zarr_format" },
    );
    return Promise.reject(refusal);
  }
}

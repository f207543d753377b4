/** An opened Zarr group: attributes, and the nodes below it. */
import type { JsonObject } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { GroupModel, ZarrDialect } from "../document/model.ts";
import type { ZarrArray } from "./array.ts";

/** How a group finds what is below it. */
export interface GroupAccess {
  members(): AsyncIterable<string>;
  open(name: string): Promise<ZarrArray | ZarrGroup>;
}

/** A Zarr group of any version. */
export class ZarrGroup {
  readonly kind = "group";
  readonly dialect: ZarrDialect;
  readonly store: ReadableStore;
  readonly path: string;
  readonly attrs: JsonObject;
  /** The document as stored; empty for a group that only its members tell of. */
  readonly metadata: JsonObject;
  readonly #access: GroupAccess;

  constructor(store: ReadableStore, model: GroupModel, access: GroupAccess) {
    this.store = store;
    this.dialect = model.dialect;
    this.path = model.path;
    this.attrs = model.attributes;
    this.metadata = model.document;
    this.#access = access;
  }

  /** Names of the nodes directly below, sorted. Throws `UNSUPPORTED` where the store cannot list and nothing is consolidated. */
  async members(): Promise<string[]> {
    const names: string[] = [];
    for await (const name of this.#access.members()) names.push(name);
    return names.sort();
  }

  /** A node below, by name or relative path. Throws `NOT_FOUND`, and what opening it throws. */
  open(name: string): Promise<ZarrArray | ZarrGroup> {
    return this.#access.open(name);
  }
}

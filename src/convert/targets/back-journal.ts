/**
 * What an unfinished conversion back leaves beside its destination: what it is of, and what is done already.
 *
 * Knows the record; must not know what is converted.
 */
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { parseJson, stringifyJson } from "../../format/json.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey, splitKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";

/** What a conversion is of: its sources and the options that decide the result. */
export interface BackIdentity {
  readonly sources: readonly string[];
  readonly options: JsonObject;
}

/** The record of one conversion, which lies beside the destination until all is done. */
export class BackJournal {
  readonly #store: WritableStore;
  readonly #key: string;
  readonly #identity: BackIdentity;
  /** Fingerprints of the sources that are done, by node. */
  readonly #done: Map<string, JsonValue>;
  /** Nodes that an earlier run had begun where nothing was, and did not finish. */
  readonly #begun: Set<string>;

  private constructor(
    store: WritableStore,
    key: string,
    identity: BackIdentity,
    stored: JsonObject | undefined,
  ) {
    this.#store = store;
    this.#key = key;
    this.#identity = identity;
    this.#done = new Map(Object.entries((stored?.["done"] ?? {}) as JsonObject));
    this.#begun = new Set(textsOf(stored?.["begun"]));
  }

  /** Throws `CONFLICT` where an unfinished conversion lies there that this one does not go on with. */
  static async open(
    store: WritableStore,
    destination: string,
    identity: BackIdentity,
    { resume = false, overwrite = false }: { resume?: boolean | undefined; overwrite?: boolean | undefined },
  ): Promise<BackJournal> {
    const { folder, name } = splitKey(destination);
    const key = joinKey(folder, `.${name}${name === "" ? "" : "."}superchunk-convert.json`);
    const bytes = await store.get(key);
    const stored = bytes === undefined ? undefined : readRecord(bytes, store.describe(key));
    if (stored !== undefined && !resume && !overwrite)
      throw conflict(
        store.describe(destination),
        "an unfinished conversion lies there; resume (--resume) goes on with it, overwrite (--overwrite) replaces it",
      );
    if (!resume || stored === undefined) return new BackJournal(store, key, identity, undefined);
    const wanted = parseJson(encode({ ...identity }), key) as JsonObject;
    for (const part of ["sources", "options"] as const) {
      if (stringifyJson(stored[part] ?? null) === stringifyJson(wanted[part] ?? null)) continue;
      throw conflict(
        store.describe(destination),
        part === "sources"
          ? "the unfinished conversion there has another source; overwrite starts anew"
          : "the unfinished conversion there was started with other options; overwrite starts anew",
      );
    }
    return new BackJournal(store, key, identity, stored);
  }

  /** True where the source is done. Throws `CONFLICT` where it has changed since. */
  isDone(node: string, fingerprint: JsonValue, path: string): boolean {
    const known = this.#done.get(node);
    if (known === undefined) return false;
    if (stringifyJson(known) === stringifyJson(fingerprint)) return true;
    throw conflict(path, "the source has changed since it was converted; overwrite starts anew");
  }

  /** True where what lies at the node is what an earlier run left halfway. */
  isLeftover(node: string): boolean {
    return this.#begun.has(node) && !this.#done.has(node);
  }

  /** A source is done; recorded with the next {@link begin}. */
  finish(node: string, fingerprint: JsonValue): void {
    this.#done.set(node, fingerprint);
    this.#begun.delete(node);
  }

  /** Nothing that was left halfway lies at the node any more; recorded with the next {@link begin}. */
  clear(node: string): void {
    this.#begun.delete(node);
  }

  /**
   * Records what is done, and which nodes are to be written next; at them lies nothing, or what is ours. What earlier runs
   * left at nodes further on stays recorded, for a run that is broken off before it gets there.
   */
  async begin(nodes: readonly string[]): Promise<void> {
    const record = {
      format: "superchunk-convert-back",
      version: 1,
      ...this.#identity,
      done: Object.fromEntries(this.#done),
      begun: [...new Set([...nodes, ...[...this.#begun].filter((node) => this.isLeftover(node))])],
    };
    await this.#store.put(this.#key, encode(record));
  }

  /** Removes the record: all is done. */
  async end(): Promise<void> {
    await this.#store.delete(this.#key);
  }
}

/** A record that cannot be read, as a power loss may leave it, counts as one of nothing done. */
function readRecord(bytes: Uint8Array, path: string): JsonObject {
  try {
    const stored = parseJson(bytes, path) as JsonObject | null;
    return typeof stored?.["done"] === "object" && stored["done"] !== null ? stored : { done: {} };
  } catch (error) {
    if (isSuperchunkError(error) && error.isDamage) return { done: {} };
    throw error;
  }
}

/** The texts of a list, as far as it is one. */
function textsOf(value: JsonValue | undefined): readonly string[] {
  return Array.isArray(value)
    ? (value as readonly JsonValue[]).filter((each): each is string => typeof each === "string")
    : [];
}

function encode(value: object): Uint8Array {
  return new TextEncoder().encode(stringifyJson(value as JsonObject));
}

function conflict(path: string, reason: string): SuperchunkError {
  return new SuperchunkError("CONFLICT", reason, { path, field: "destination" });
}

/**
 * The verbs of an array, table, file or group open for editing: one set for all formats.
 *
 * A format overrides the verbs that it has. The others stay as they are here: `UNSUPPORTED`, with the reason. Must not know any
 * format.
 */

import type { LongOptions } from "../archive/kinds/types.ts";
import { elementsOf, isShape } from "../bytes/arrays.ts";
import { checkOptions, type Exactly } from "../bytes/check-options.ts";
import type { ChunkEncoder } from "../codec/types.ts";
import { badArgument, isSuperchunkError, SuperchunkError } from "../errors.ts";
import { isObject, joinMembers, memberText, parseJson, splitMembers, stringifyJson } from "../format/json.ts";
import { keepFloats } from "../format/json-float.ts";
import { whyUnsafe } from "../format/naming.ts";
import type { DType, JsonInput, JsonObject, JsonObjectInput, JsonValue } from "../format/types.ts";
import type { PlaceRule, StoredPlace } from "../places/declared.ts";
import type { WritableStore } from "../store/types.ts";
import { type Extent, resolveSelection, type Selected, type Selection } from "../values/selection.ts";
import type { ChunkSettings } from "./layout/settings.ts";
import { collectItems } from "./rows/edits.ts";

/** Formats that can be edited, as `create` names them. */
export type EditFormat = "blz" | "bcolz" | "bloscpack" | "zarr";

/** Held while an array is open for writing. */
export interface WriterLock {
  release(): Promise<void>;
}

/** What every editor is opened with. */
export interface EditorOptions {
  readonly encoder?: ChunkEncoder | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Released by `close`. */
  readonly lock?: WriterLock | undefined;
}

/** Changes of user attributes: a value sets one, undefined removes it. `new JsonFloat(1)` is `1.0` for Python. */
export type AttributeChanges = Readonly<Record<string, JsonInput | undefined>>;

/** A column to add. */
export interface NewColumn {
  readonly name: string;
  /** In numpy's form, or parsed. */
  readonly dtype: JsonValue | DType;
  /** Dimensions of one value; default none. */
  readonly shape?: readonly number[] | undefined;
  /** Default value; default zero, empty, NaT. In bcolz dates are zero too, 1970. */
  readonly fillValue?: unknown;
}

/** When flushed rows become visible as Zarr: at every flush, with every full superchunk, or at intervals. */
export type PublishPolicy = "flush" | "full" | { readonly everySeconds: number };

/** Options of an append. */
export interface AppendOptions extends LongOptions {
  /**
   * For an array of superchunks: when rows of a stream are committed before its end. `flush`: each piece as it comes; or by full
   * superchunks, or after that many seconds. Default: none before `flush`.
   */
  readonly publish?: PublishPolicy | undefined;
}

/** What a change writes again. */
export interface ChangeCost {
  /** Chunks (`resize` of Zarr: chunks or shards) that are encoded and written again, in each column. */
  readonly chunksRewritten: number;
  /** Their uncompressed bytes. */
  readonly nbytesRewritten: number;
}

/** What `resize` does. */
export interface ResizePlan extends ChangeCost {
  readonly shapeBefore: readonly number[];
  readonly shape: readonly number[];
}

/** What `set` does. */
export interface SetPlan extends ChangeCost {
  /** Number of selected values. */
  readonly valuesSet: number;
  /** Superchunks that now hold these chunks; only for arrays of superchunks. */
  readonly superchunks?: number;
}

/** What setting values costs. */
export type SetCost = Omit<SetPlan, "valuesSet">;

/** What `deleteRows` does. */
export interface DeletePlan {
  /** First deleted row, and the first kept row after it. */
  readonly start: number;
  readonly end: number;
  readonly rowsBefore: number;
  /** Rows that remain. */
  readonly rows: number;
  readonly rowsDeleted: number;
  /** Rows after the deleted ones, which are written again. */
  readonly rowsRewritten: number;
  /** Their uncompressed bytes. */
  readonly nbytesRewritten: number;
}

/** What `compact` does. */
export interface CompactPlan {
  /** Other settings were chosen: every chunk is decoded and encoded again. */
  readonly isRecoded: boolean;
  /** It is a Zarr array as well, whose shards are written again too. */
  readonly isShownAnew: boolean;
  /** Number of superchunks afterwards, by the current settings. */
  readonly superchunks: number;
  readonly superchunksWritten: number;
  /** Superchunks that are renamed but otherwise unchanged. */
  readonly superchunksRenamed: number;
  /** Stored bytes of the whole array. */
  readonly cbytes: number;
}

/** Superchunks to move: those that match all given members. The patches of their chunks move with them. */
export interface MoveChoice {
  /** First and last superchunk by position in the array, from 0; `Infinity` is up to the end. */
  readonly superchunks?: readonly [first: number, last: number] | undefined;
  /** All except this many at the end of the array. */
  readonly keepLast?: number | undefined;
  /** Superchunks written before this time, in milliseconds since 1970. */
  readonly writtenBefore?: number | undefined;
}

/** What was moved, and its stored bytes. */
export interface Moved {
  readonly superchunks: number;
  readonly bytes: number;
}

/** Changes to an array's places. */
export interface PlaceChanges {
  /** New places: addresses of folders (`file:`, `http(s):`, `s3:`, `gs:`, `az:`; in Node.js also paths), with or without names. */
  readonly add?: readonly (string | StoredPlace)[] | undefined;
  /** Names of places without superchunks. */
  readonly remove?: readonly string[] | undefined;
  /** Place of new superchunks. */
  readonly rule?: PlaceRule | undefined;
}

/** A place of an array; `data` is one too. */
export interface PlaceInfo {
  readonly name: string;
  /** URL of the place; undefined for `data`. */
  readonly prefix: string | undefined;
  /** Number of the array's superchunks there, and their runs: the first and the last of each, by position in the array from 0. */
  readonly superchunks: number;
  readonly spans: readonly (readonly [first: number, last: number])[];
  /** Superchunks there that patch others. */
  readonly patches: number;
  /** Sum of their stored bytes; undefined for a place that is not permitted, or is absent. */
  readonly bytes: number | undefined;
  /** True if the place has none of its superchunks and no mark, for example because its disk is not mounted. */
  readonly isAbsent: boolean;
}

/**
 * An array, table, file or group open for editing. `append` and `set` may wait in memory, at most until `flush` or `close` has resolved;
 * every other method is durable when it resolves. One writer at a time.
 */
export abstract class Editable implements AsyncDisposable {
  abstract readonly kind: "array" | "table" | "bytes" | "group";
  abstract readonly format: EditFormat;
  abstract readonly store: WritableStore;
  /** Key of the file or the folder in its store. */
  abstract readonly path: string;
  /** User attributes (metadata of a Bloscpack file). */
  abstract readonly attrs: JsonObject;
  /** Why this format lacks a verb. */
  protected abstract readonly reasons: Readonly<Record<string, string>>;

  /** Dtype of an item; for a table a struct with a field for each column. Throws `UNSUPPORTED` for a group. */
  get dtype(): DType {
    throw this.unsupported("dtype");
  }
  /** Includes rows that wait for `flush`. Throws `UNSUPPORTED` for a group. */
  get shape(): readonly number[] {
    throw this.unsupported("shape");
  }
  /** Rows. */
  get length(): number {
    const [rows = 1] = this.shape;
    return rows;
  }
  /** Rows of a chunk, if chunks end on rows. */
  get chunkLength(): number | undefined {
    return undefined;
  }
  /** Chunks of a full superchunk, in formats that have superchunks. */
  get superchunkLength(): number | undefined {
    return undefined;
  }
  /** Bytes of superchunks or chunk files written since opening; undefined for Zarr, which does not count them. */
  get bytesWritten(): number | undefined {
    return undefined;
  }
  /** Names of the columns that can be read alone; for a group, its known members. */
  get columnNames(): readonly string[] {
    return [];
  }
  /** Notes from the opener, see {@link warnings}. */
  readonly notes: string[] = [];
  /** Cleanups that failed, and views that no longer show these values, as text. No value depends on them. */
  get warnings(): readonly string[] {
    return this.notes;
  }

  /**
   * Appends rows along the first dimension; to a Bloscpack file without rows, bytes. Typed arrays, bytes and lists may wait in memory, up to
   * 32 MiB, until `flush` is called. The rows of a stream all count when this resolves; in an array of superchunks, once `flush` has resolved.
   * @throws BAD_ARGUMENT for values that do not fit, and for data that end inside a row; CONFLICT if another writer was faster; NO_SPACE,
   * IO; UNSUPPORTED for a Bloscpack file in Fortran order, and for Zarr grids with chunks of unequal lengths
   */
  append(values: unknown, options: AppendOptions = {}): Promise<void> {
    try {
      checkOptions(options, "onProgress publish signal");
      return this.appendRows(values, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }
  /** {@link append} of this format. */
  protected appendRows(_values: unknown, _options: AppendOptions): Promise<void> {
    return this.refuse("append");
  }
  /** Sets the selected values: as many as selected, or one for all. */
  set(_selection: Selection | null, _values: unknown, _options?: LongOptions): Promise<void> {
    return this.refuse("set");
  }
  /** Changes the shape or the number of rows: cuts off, or adds the default value. */
  resize(_shape: number | readonly number[], _options?: LongOptions): Promise<void> {
    return this.refuse("resize");
  }
  /** Deletes the rows `[start, end)`; later rows move up. Resolves with the number of rows written again. */
  deleteRows(_start: number, _end: number, _options?: LongOptions): Promise<number> {
    return this.refuse("deleteRows");
  }
  /** Changes user attributes; the others stay as written. */
  setAttributes(_changes: AttributeChanges): Promise<void> {
    return this.refuse("setAttributes");
  }
  /** Adds a column after the others, with one of `values` for each row, or the default value in all. */
  addColumn(_column: NewColumn, _values?: unknown): Promise<void> {
    return this.refuse("addColumn");
  }
  /** Renames a column. */
  renameColumn(_from: string, _to: string): Promise<void> {
    return this.refuse("renameColumn");
  }
  /** Removes a column; the last one cannot be removed. */
  deleteColumn(_name: string): Promise<void> {
    return this.refuse("deleteColumn");
  }
  /** Tidies the stored form; with other settings, encodes all chunks again. */
  compact(_changes?: ChunkSettings, _options?: LongOptions): Promise<void> {
    return this.refuse("compact");
  }
  /** For an array of superchunks: lists where its superchunks are, as of the last commit. */
  places(): Promise<readonly PlaceInfo[]> {
    return this.refuse("places");
  }
  /** For an array of superchunks: adds places for superchunks, and removes places without any. */
  changePlaces(_changes: PlaceChanges): Promise<void> {
    return this.refuse("places");
  }
  /** For an array of superchunks: moves some of them to a named place; `data` is the array's own folder. */
  moveSuperchunks(_to: string, _choice?: MoveChoice, _options?: LongOptions): Promise<Moved> {
    return this.refuse("places");
  }
  /** Reads the selected values, including those that wait for `flush`. */
  get<const S extends Selection | null | undefined = null>(
    _selection?: S,
    _options?: LongOptions,
  ): Promise<Selected<S>> {
    return this.refuse("get");
  }
  /** Reads the same as bytes: C order, stored byte order. */
  getBytes(_selection?: Selection | null, _options?: LongOptions): Promise<Uint8Array> {
    return this.refuse("getBytes");
  }

  /** For a group: lists the names of its members. */
  members(): Promise<readonly string[]> {
    return this.refuse("members");
  }
  /** For a group: creates an array or a group in it, with the options of `create`, and opens it. */
  create(_name: string, _options: object): Promise<Editable> {
    return this.refuse("create");
  }
  /** For a group: opens a member for editing. */
  edit(_name: string): Promise<Editable> {
    return this.refuse("edit");
  }
  /** For a group: removes a member and everything below it. */
  erase(_name: string, _options?: LongOptions): Promise<void> {
    return this.refuse("erase");
  }

  /** Returns what {@link resize} would do. Writes nothing. */
  async planResize(given: number | readonly number[]): Promise<ResizePlan> {
    if ("resize" in this.reasons) throw this.unsupported("resize");
    const shapeBefore = this.shape;
    const shape = givenShape(given, shapeBefore);
    return { shapeBefore, shape, ...this.costOfResize(shape, shapeBefore) };
  }
  /** Returns what {@link set} would do; any values passed must fit. Writes nothing. */
  async planSet(selection: Selection | null, values?: unknown): Promise<SetPlan> {
    if ("set" in this.reasons) throw this.unsupported("set");
    const extents = resolveSelection(selection, this.shape);
    if (values !== undefined) await collectItems(values, this.dtype, extents);
    const valuesSet = elementsOf(extents.map(({ count }) => count));
    return { valuesSet, ...(valuesSet === 0 ? this.noCost : await this.costOfSet(extents)) };
  }
  /** What a change of the shape costs in this format. */
  protected costOfResize(_shape: readonly number[], _before: readonly number[]): ChangeCost {
    throw this.unsupported("resize");
  }
  /** What setting no value costs in this format. */
  protected readonly noCost: SetCost = { chunksRewritten: 0, nbytesRewritten: 0 };
  /** What setting the values of a selection, which is not empty, costs in this format. */
  protected costOfSet(_extents: readonly Extent[]): SetCost | Promise<SetCost> {
    throw this.unsupported("set");
  }
  /** Returns what {@link compact} would do to committed data. Writes nothing. */
  planCompact(_changes?: ChunkSettings): Promise<CompactPlan> {
    return this.refuse("compact");
  }
  /** Returns what {@link deleteRows} would do. Writes nothing. Throws `BAD_ARGUMENT` for rows that do not exist: nothing is guessed. */
  async planDelete(start: number, end: number): Promise<DeletePlan> {
    const [rows = 0, ...rowShape] = this.shape;
    for (const [name, row] of Object.entries({ start, end }))
      if (!Number.isSafeInteger(row)) throw badArgument(name, row, "a row number, as in deleteRows(5, 10)");
    if (start < 0 || end < start || end > rows)
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `rows ${start}:${end} are not within the ${rows} ${rows === 1 ? "row" : "rows"} of the array`,
        {
          path: this.store.describe(this.path),
          field: "rows",
          expected: `0 to ${rows}`,
          found: `${start}:${end}`,
        },
      );
    const rowsDeleted = end - start;
    const rowsRewritten = rowsDeleted === 0 ? 0 : rows - end;
    const nbytesRewritten = rowsRewritten * elementsOf(rowShape) * this.dtype.itemSize;
    return {
      start,
      end,
      rowsBefore: rows,
      rows: rows - rowsDeleted,
      rowsDeleted,
      rowsRewritten,
      nbytesRewritten,
    };
  }

  /** Makes all pending changes durable. */
  abstract flush(): Promise<void>;
  /** Flushes, and releases the lock. */
  abstract close(): Promise<void>;
  /** Discards changes since the last flush, and releases the lock. */
  abstract abandon(): Promise<void>;

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** The error for a verb that the format lacks. */
  protected unsupported(verb: string): SuperchunkError {
    const reason = this.reasons[verb] ?? `the format "${this.format}" has no such verb for this ${this.kind}`;
    return new SuperchunkError("UNSUPPORTED", `${verb}: ${reason}`, {
      path: this.store.describe(this.path),
      field: verb,
    });
  }

  protected refuse(verb: string): Promise<never> {
    return Promise.reject(this.unsupported(verb));
  }

  /** The result of a change, whose errors name what is changed if they name nothing else. */
  protected async named<T>(change: Promise<T>): Promise<T> {
    try {
      return await change;
    } catch (error) {
      throw isSuperchunkError(error) ? error.at({ path: this.store.describe(this.path) }) : error;
    }
  }
}

/** Refuses options of a change that it does not have (`more` names those that only this one has), and a change that is aborted already. */
export function checkChange<Options extends LongOptions, const More extends string = "">(
  options: Options & Exactly<Options, `onProgress signal${More}`>,
  more?: More,
): void {
  checkOptions(options, `onProgress signal${more ?? ""}` as never);
  options.signal?.throwIfAborted();
}

/** Refuses a column to add that has other members, or a name that is not one part of a path. Throws `BAD_ARGUMENT`. */
export function checkColumn(column: NewColumn): void {
  if (typeof column !== "object") throw badArgument("the column", column, "an object with name and dtype");
  checkOptions(column, "dtype fillValue name shape");
  checkColumnName(column.name);
  const { shape = [] } = column;
  if (!Array.isArray(shape) || !shape.every((length) => Number.isSafeInteger(length) && length >= 0))
    throw badArgument("the shape of the column", shape, "a list of lengths, 0 or more");
}

export function checkColumnName(name: unknown): void {
  const reason = typeof name === "string" ? whyUnsafe(name) : "is not a text";
  if (reason !== undefined)
    throw badArgument("the name of the column", `${name}, which ${reason}`, "one plain part of a path");
}

/**
 * A whole shape, or a number of rows with the row shape of `before`. Without `before`, that of a new array. Throws `BAD_ARGUMENT`.
 */
export function givenShape(given: number | readonly number[], before?: readonly number[]): readonly number[] {
  const length = before?.length;
  const shape = typeof given === "number" ? [given, ...(before?.slice(1) ?? [])] : given;
  // Minus zero, as of -n % n, would be stored as -0.0, which readers refuse.
  if (isShape(shape) && shape.length === (length ?? Math.max(1, shape.length)))
    return shape.map((n) => n + 0);
  throw badArgument(
    "shape",
    Array.isArray(given) ? `[${given.join(", ")}]` : given,
    `rows, or a shape of ${length ?? "one or more"} ${length === 1 ? "length" : "lengths"}, 0 or more`,
  );
}

// Changes user attributes; what is not changed stays as its writer spelled it.

/** The changes one by one. Throws `BAD_ARGUMENT` for anything but an object. */
export function changesOf(changes: AttributeChanges): [name: string, value: JsonInput | undefined][] {
  if (isObject(changes as JsonValue)) return Object.entries(changes);
  throw badArgument("attributes", changes, "an object of names and values");
}

/**
 * Changes the members of the JSON object at a key. Durable when resolved, with all current members.
 * @throws CONFLICT if another writer put attributes in the meantime; and the codes of damage, NO_SPACE, IO
 */
export async function changeMembers(
  store: WritableStore,
  key: string,
  changes: AttributeChanges,
): Promise<JsonObject> {
  const path = store.describe(key);
  const info = await store.stat(key);
  const members = splitMembers((await store.get(key)) ?? new Uint8Array(0), path);
  for (const [name, value] of changesOf(changes))
    if (value === undefined) members.delete(name);
    else members.set(name, memberText(value));
  const text = `${joinMembers(members)}\n`;
  // Of two concurrent writers, one has not read what the other put.
  const condition = info === undefined ? { ifAbsent: true } : { ifVersion: info.version };
  await store.put(key, new TextEncoder().encode(text), { durable: true, ...condition });
  return parseJson(text, path) as JsonObject;
}

/**
 * Attributes with changes applied: a value sets one, undefined removes it. `strict`: NaN and infinities of the changes become strings;
 * those that are stored do not change.
 */
export function withAttributes(
  stored: JsonInput | undefined,
  changes: AttributeChanges,
  { strict = false }: { readonly strict?: boolean } = {},
): JsonObjectInput {
  const before = (stored ?? {}) as JsonObjectInput;
  // Not assigned by name: an attribute may be called __proto__.
  const attributes = new Map(Object.entries(before));
  for (const [name, value] of changesOf(changes))
    if (value === undefined) attributes.delete(name);
    else attributes.set(name, strict ? parseJson(stringifyJson(value), name, { floats: "kept" }) : value);
  return keepFloats(Object.fromEntries(attributes), before);
}

/** The chunks that hold a row of the extent, in order, each once. */
export function* touchedChunks({ start, step, count }: Extent, chunklen: number): Generator<number> {
  for (let i = 0; i < count; ) {
    const chunk = Math.floor((start + i * step) / chunklen);
    yield chunk;
    i = Math.max(i + 1, Math.ceil(((chunk + 1) * chunklen - start) / step));
  }
}

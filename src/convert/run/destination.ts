/**
 * Checks the destination of a conversion: whether it is free, may be replaced, or holds an unfinished conversion.
 *
 * An unfinished conversion leaves one record, the same for all formats, in the folder of a hierarchy, or beside a file or
 * folder. It says what is being converted, and how far that got. Knows stores; must not know archives.
 */
import { isSuperchunkError, SuperchunkError, valueOr } from "../../errors.ts";
import { jsonBytes, objectOf, parseJson, stringifyJson } from "../../format/json.ts";
import { CONVERT_RECORD, recordKey } from "../../format/naming.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey, splitKey } from "../../store/key.ts";
import { deleteTree, walkKeys } from "../../store/tree.ts";
import type {
  ObjectInfo,
  PutOptions,
  ReadableStore,
  StoreOptions,
  WritableStore,
} from "../../store/types.ts";
import type { ConvertOptions } from "../pipeline.ts";

/** The record is rewritten when more than 1/STEPS of its entries have changed. */
const STEPS = 20;

/** Identifies a conversion: its sources, and the options that decide the result. */
export interface ConversionIdentity {
  readonly sources: readonly string[];
  readonly options: JsonObject;
}

/** Options of a conversion, and those of the repair that it is part of. */
export type RunOptions = ConvertOptions & { readonly repair?: JsonObject };

type RecordOptions = Readonly<{ resume: boolean; overwrites: boolean; destination: string }>;

const DIFFERENCES = {
  sources:
    "the unfinished conversion there has another source, or the source has changed since; {overwrite: true} starts again from the beginning",
  options:
    "the unfinished conversion there was started with other options; {overwrite: true} starts again from the beginning",
  plan: "an unfinished plan is there; run and finish it, or give {overwrite: true}, which starts again from the beginning",
} as const;

/** A conversion asks this rarely whether another one has taken its place over, in milliseconds. */
const SEEN_MS = 1000;

const TAKEN_OVER = "another conversion has taken this place over meanwhile, so this one has ended";
const JUST_BEGUN = "another conversion to this place has just begun";

/** What is stored of a conversion. */
interface FoundRecord {
  readonly stored: JsonObject | undefined;
  readonly version: string | undefined;
  readonly isResumed: boolean;
}

/** How a record is written. `synced`: everything that the conversion wrote so far is durable. */
type WriteOptions = { readonly durable?: boolean; readonly synced?: boolean } & StoreOptions;

/** The record of one conversion. It exists from before the first object until all is done. */
export class ConversionRecord {
  /** True if an earlier run left it. */
  readonly isResumed: boolean;
  /** True if that run found the disk full, and has made all that it wrote durable. */
  readonly isSynced: boolean;
  readonly #store: WritableStore;
  readonly key: string;
  readonly #identity: ConversionIdentity;
  /** Fingerprints of finished sources, by node. */
  readonly #done: Map<string, string>;
  /** Fingerprints of started sources; an empty one only authorises deleting what they left. */
  readonly #begun: Map<string, string>;
  /** Version of the stored record that this run found or wrote; undefined if there is none. */
  #version: string | undefined;
  /** True once this run has written it. */
  #isOurs = false;
  /** Why this run must not write any more. */
  #lost: SuperchunkError | undefined;
  /** When it was last known to be ours. */
  #seen = 0;
  #changes = 0;
  #writing: Promise<unknown> = Promise.resolve();

  private constructor(
    store: WritableStore,
    key: string,
    identity: ConversionIdentity,
    { stored, version, isResumed }: FoundRecord,
  ) {
    this.#store = store;
    this.key = key;
    this.#identity = identity;
    this.isResumed = isResumed;
    this.isSynced = isResumed && stored?.["synced"] === true;
    this.#version = version;
    this.#done = textsOf(isResumed ? stored?.["done"] : undefined);
    this.#begun = textsOf(stored?.["begun"]);
    // A node that was done may have been changed since: it is not a leftover.
    if (!isResumed) for (const node of textsOf(stored?.["done"]).keys()) this.#begun.delete(node);
  }

  /** Skipped or filled rows change the result, so a conversion resumes only with the same choice. */
  static damagedSetting({ damaged = "stop", repair }: RunOptions): JsonObject {
    return { ...(damaged === "stop" ? {} : { damaged }), ...(repair === undefined ? {} : { repair }) };
  }

  /**
   * Opens the record of this conversion; with `resume`, the one that an earlier run left, if any. With `overwrites`, what an earlier run left
   * unfinished is known, and may be deleted. Writes nothing.
   * @throws CONFLICT if the existing record is of another source or other options
   */
  static async open(
    store: WritableStore,
    key: string,
    identity: ConversionIdentity,
    { resume, overwrites, destination }: RecordOptions,
  ): Promise<ConversionRecord> {
    // Before its bytes: if it changes in between, it has another version when it is taken over.
    const version = (await store.stat(key))?.version;
    const stored = resume || overwrites ? await readRecord(store, key) : undefined;
    if (stored === undefined || !resume)
      return new ConversionRecord(store, key, identity, { stored, version, isResumed: false });
    const wanted = parseJson(recordBytes({ ...identity }), key) as JsonObject;
    for (const part of ["options", "sources"] as const) {
      if (stringifyJson(stored[part] ?? null) === stringifyJson(wanted[part] ?? null)) continue;
      const reason = DIFFERENCES[stored["plan"] === undefined ? part : "plan"];
      throw conflict(store.describe(destination), reason, "overwrite");
    }
    return new ConversionRecord(store, key, identity, { stored, version, isResumed: true });
  }

  /** True if the source is done. Throws `CONFLICT` if it has changed since. */
  isDone(node: string, fingerprint: string, path: string): boolean {
    const known = this.#done.get(node);
    if (known === undefined) return false;
    if (known === fingerprint) return true;
    throw new SuperchunkError(
      "CONFLICT",
      "the source has changed since it was converted; {overwrite: true} starts again from the beginning",
      { path, field: "destination", expected: "overwrite" },
    );
  }

  /** Fingerprint of the source that the started result at the node was made from. */
  begunAs(node: string): string | undefined {
    return this.#begun.get(node);
  }

  /** True if the node holds what an earlier run left unfinished. */
  isLeftover(node: string): boolean {
    return this.#begun.has(node) && !this.#done.has(node);
  }

  /** True if an earlier run began the node, or this one may. */
  knows(node: string): boolean {
    return this.#begun.has(node) || this.#done.has(node);
  }

  /** Marks a source as started; recorded with the next {@link write}. */
  begin(node: string, fingerprint: string): void {
    this.#begun.set(node, fingerprint);
    this.#changes++;
  }

  /** Marks the only source as started. Throws `CONFLICT` if an earlier run had started with another state of it. */
  beginOnly(fingerprint: string, destination: string): void {
    const known = this.#begun.get("");
    if (known !== undefined && known !== fingerprint)
      throw conflict(destination, DIFFERENCES.sources, "overwrite");
    this.begin("", fingerprint);
  }

  /** Marks a source as done; recorded with the next {@link write}. */
  finish(node: string, fingerprint: string): void {
    this.#done.set(node, fingerprint);
    this.#begun.delete(node);
    this.#changes++;
  }

  /** Marks a node as free of unfinished results; recorded with the next {@link write}. */
  clear(node: string): void {
    this.#begun.delete(node);
  }

  /** True if enough changed to write the record. The threshold grows with the number of sources, of which there may be a million. */
  get isDue(): boolean {
    return this.#changes > (this.#done.size + this.#begun.size) / STEPS;
  }

  /** Writes the record, one write after the other. Throws `CONFLICT` if another conversion has made it, or taken it over, meanwhile. */
  write({ synced, ...options }: WriteOptions = {}): Promise<void> {
    this.#changes = 0;
    const [done, begun] = [this.#done, this.#begun].map((nodes) => Object.fromEntries(nodes));
    const mark = synced === true ? { synced } : {};
    return this.#put(() => ({ version: 2, ...this.#identity, ...mark, done, begun }), options);
  }

  /** Takes the folder of a hierarchy: until the next {@link write} it can only be overwritten. Throws `CONFLICT` like that. */
  async mark(options: StoreOptions): Promise<void> {
    await this.#put(() => ({ replacing: true }), options);
  }

  /**
   * Throws `CONFLICT` if another conversion has taken the place over, where nothing keeps it from that. Asks the store only if that is a
   * second ago, unless it has to be `exact`.
   */
  async assertOurs(exact: boolean): Promise<void> {
    if (this.#lost !== undefined) throw this.#lost;
    if (!exact && (this.#isClaimed || performance.now() - this.#seen < SEEN_MS)) return;
    await this.#inTurn(async () => {
      if (!this.#isOurs || this.#isClaimed) return;
      const version = (await this.#store.stat(this.key))?.version;
      if (version !== this.#version) throw this.#loseTo(TAKEN_OVER);
      this.#seen = performance.now();
    });
  }

  /** Puts the record: the first time only if it is as it was found. */
  #put(content: () => object, options: PutOptions): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#lost !== undefined) throw this.#lost;
      const bytes = recordBytes({ format: "superchunk-convert", ...content() });
      const found = this.#version;
      // A folder that is converted to may have the same mark, which is then put over it.
      const isSure = this.#isOurs && this.#isClaimed;
      const isOnly = isSure ? {} : found === undefined ? { ifAbsent: true } : { ifVersion: found };
      const put = (how: PutOptions): Promise<ObjectInfo> =>
        this.#store.put(this.key, bytes, { ...options, ...how });
      try {
        // Some servers do not know the condition.
        const info = await put(isOnly).catch((error: unknown) => {
          if (found === undefined || !isSuperchunkError(error, "UNSUPPORTED")) throw error;
          return put({});
        });
        this.#version = info.version;
      } catch (error) {
        if (!isSuperchunkError(error, "CONFLICT")) throw error;
        // A file may be in the way of its folder.
        if (found === undefined && (await this.#store.stat(this.key)) === undefined) throw error;
        throw this.#loseTo(this.#isOurs ? TAKEN_OVER : JUST_BEGUN);
      }
      this.#isOurs = true;
      this.#seen = performance.now();
    });
  }

  /** Removes it, but not its place. */
  async unmark(): Promise<void> {
    await this.assertOurs(true);
    await this.#store.delete(this.key);
    this.#version = undefined;
  }

  /** True if the store itself keeps other conversions away. */
  get #isClaimed(): boolean {
    return this.#store.claim !== undefined;
  }

  #loseTo(reason: string): SuperchunkError {
    this.#lost = conflict(
      this.#store.describe(this.key),
      `${reason}; wait for its end, or choose another place`,
    );
    return this.#lost;
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const working = this.#writing.then(work);
    this.#writing = working.catch(() => undefined); // thrown to the caller that asked for it
    return working;
  }

  /**
   * Removes the record, because all is done, and what killed runs have left of puts: of the record, of objects of `made`, and everywhere in
   * the folder of a hierarchy.
   */
  async end(made: readonly string[] = [], hierarchy?: string): Promise<void> {
    await this.assertOurs(true);
    if (this.isResumed && hierarchy !== undefined) await removeLeftoversBelow(this.#store, hierarchy);
    await this.#store.delete(this.key);
    this.#isOurs = false;
    await removeLeftoversOf(this.#store, [this.key, ...made]);
  }

  /** Removes the folder of a hierarchy, with the record, if it holds nothing else. */
  async endUnused(hierarchy: string): Promise<void> {
    await this.assertOurs(true);
    for await (const key of walkKeys(this.#store, hierarchy)) if (key !== this.key) return;
    await deleteTree(this.#store, hierarchy);
  }
}

/** Reads a record; undefined if there is none. One that cannot be parsed, as a power loss may leave it, counts as "nothing done". */
export async function readRecord(store: ReadableStore, key: string): Promise<JsonObject | undefined> {
  const bytes = await store.get(key);
  if (bytes === undefined) return undefined;
  return valueOr({}, "damage", () => objectOf(parseJson(bytes, store.describe(key))));
}

/** The string members of an object. */
function textsOf(value: JsonValue | undefined): Map<string, string> {
  const members = typeof value === "object" && value !== null ? Object.entries(value) : [];
  return new Map(members.filter((member): member is [string, string] => typeof member[1] === "string"));
}

function recordBytes(value: object): Uint8Array {
  return jsonBytes(value as JsonObject);
}

/** Names of entries that mark a folder as Zarr, of any version, or as an unfinished conversion. */
const ZARR_MARKS: ReadonlySet<string> = new Set(["zarr.json", ".zgroup", ".zarray", CONVERT_RECORD]);

export const EXISTS = "the destination exists; replace it with {overwrite: true}, or choose another";

const EXISTS_OF_MANY =
  "the destination exists; {resume: true} keeps it and converts what is missing, {overwrite: true} replaces it; or choose another";

export const UNFINISHED =
  "an unfinished conversion is there; {resume: true} continues it, {overwrite: true} replaces it";

/** Throws `CONFLICT` for a file that must not be replaced, before the source is read: a bucket refuses it only at the end. */
export async function refuseExisting(
  store: ReadableStore,
  key: string,
  { resume, overwrite, isMany, signal }: DestinationOptions,
): Promise<void> {
  if (
    key === "" ||
    resume === true ||
    overwrite === true ||
    (await store.stat(key, { signal })) === undefined
  )
    return;
  const isUnfinished = isMany !== true && (await store.stat(recordKey(key, false), { signal })) !== undefined;
  throw conflict(store.describe(key), isUnfinished ? UNFINISHED : existsText(isMany), "overwrite");
}

function existsText(isMany = false): string {
  return isMany ? EXISTS_OF_MANY : EXISTS;
}

/** How to treat what is at the destination. */
interface DestinationOptions extends StoreOptions {
  readonly resume?: boolean | undefined;
  readonly overwrite?: boolean | undefined;
  /** True if the source is a folder of many archives: a later conversion can add what is missing. */
  readonly isMany?: boolean;
}

/**
 * Checks whether a hierarchy may go there, before the source is read. Throws `CONFLICT` if something there must not be
 * replaced, `BAD_ARGUMENT` for contradicting options.
 */
export async function checkDestination(
  store: ReadableStore,
  prefix: string,
  options: DestinationOptions,
): Promise<"empty" | "taken"> {
  const { resume = false, overwrite = false, signal } = options;
  if (resume && overwrite)
    throw new SuperchunkError("BAD_ARGUMENT", "resume and overwrite exclude each other", {
      field: "resume, overwrite",
    });
  const path = store.describe(prefix);
  if (prefix !== "" && (await store.stat(prefix, { signal })) !== undefined)
    throw conflict(path, "the destination is a file; choose another");
  const names = await entryNames(store, prefix, signal);
  if (names.length === 0 || !(await holdsObjects(store, prefix, signal))) return "empty";
  if (resume) return "taken";
  if (!names.some((name) => ZARR_MARKS.has(name)))
    throw conflict(
      path,
      "the destination holds files, but no Zarr hierarchy, so it is never overwritten; choose another",
    );
  if (overwrite) return "taken";
  throw conflict(path, names.includes(CONVERT_RECORD) ? UNFINISHED : existsText(options.isMany), "overwrite");
}

/**
 * Empties a folder that is being replaced, except for a mark in it, whose key it returns; `put` puts the mark. If this is interrupted, it
 * can be replaced again, but a hierarchy never resumed.
 */
export async function emptyDestination(
  store: WritableStore,
  folder: string,
  signal?: AbortSignal,
  put?: () => Promise<unknown>,
): Promise<string> {
  const mark = joinKey(folder, CONVERT_RECORD);
  await (put?.() ?? store.put(mark, jsonBytes({ replacing: true }), { signal }));
  await store.delete(joinKey(folder, "zarr.json"), { signal });
  await deleteTree(store, folder, { keep: mark, signal });
  return mark;
}

/** True for the mark of a folder that is being replaced, by its key or name. */
export function isMark(key: string): boolean {
  return splitKey(key).name === CONVERT_RECORD;
}

/** Removes what killed processes have left of puts in a folder that belongs to the conversion, and below it. */
async function removeLeftoversBelow(store: WritableStore, folder: string): Promise<void> {
  if (store.removeLeftovers === undefined) return;
  const folders = [folder];
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    await store.removeLeftovers(next);
    for await (const { name, kind } of store.list(next))
      if (kind === "folder") folders.push(joinKey(next, name));
  }
}

/** The same of objects in folders that also hold other things. */
export async function removeLeftoversOf(store: WritableStore, keys: Iterable<string>): Promise<void> {
  if (store.removeLeftovers === undefined) return;
  const names = new Map<string, Set<string>>();
  for (const key of keys) {
    const { folder, name } = splitKey(key);
    names.set(folder, (names.get(folder) ?? new Set()).add(name));
  }
  for (const [folder, own] of names) await store.removeLeftovers(folder, { names: own });
}

/**
 * Refuses a destination that is the source, is inside it, or contains it. If the stores differ, the caller passes comparable
 * locations (absolute real paths). Throws `CONFLICT`.
 */
export function refuseOverlapping(source: string, destination: string): void {
  const contains = (outer: string, inner: string): boolean =>
    outer === inner || outer === "" || inner.startsWith(`${outer}/`);
  if (!contains(source, destination) && !contains(destination, source)) return;
  const how =
    source === destination
      ? "is the source itself"
      : contains(source, destination)
        ? "is inside the source"
        : "contains the source";
  throw conflict(destination, `the destination ${how} (${source}); name another`);
}

export async function entryNames(
  store: ReadableStore,
  folder: string,
  signal?: AbortSignal,
): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of store.list(folder, { signal })) names.push(name);
  return names;
}

async function holdsObjects(
  store: ReadableStore,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  for await (const key of walkKeys(store, folder, signal)) return key !== undefined;
  return false;
}

/** The error for a destination that is taken. `expected`: the option that would take it, if there is one. */
export function conflict(path: string, reason: string, expected?: "overwrite"): SuperchunkError {
  return new SuperchunkError("CONFLICT", reason, { path, field: "destination", expected });
}

/**
 * Writes sets of kerchunk references with their containers, and reads them back.
 *
 * Knows the order: everything that the set needs is written before the set, and then compared with the source.
 */
import { joinBytes, toHex } from "../../bytes/arrays.ts";
import { checkOptions } from "../../bytes/check-options.ts";
import { digest } from "../../bytes/checksum.ts";
import { noteOn } from "../../convert/plan/conversion-jobs.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { joinKey, splitKey } from "../../store/key.ts";
import type { PutSource, ReadableStore, StoreOptions, WritableStore } from "../../store/types.ts";
import { chunkKey } from "../../zarr/document/make-v3.ts";
import type { OpenContainer } from "../containers/container-reader.ts";
import {
  type Container,
  Containers,
  commonFolder,
  defaultContainer,
  formatContainers,
} from "../containers/containers.ts";
import type { ReferredSource } from "../containers/guard.ts";
import type { NativeChunk, ReferenceCounts, ReferencedArray, ReferencePlan } from "../plan/plan.ts";
import { type ReferenceItem, type StreamSettings, streamReferences } from "../plan/reference-stream.ts";
import {
  formatKerchunkJson,
  type ReferenceFormat,
  writeKerchunkParquet,
  zarr2ChunkKey,
} from "./kerchunk-forms.ts";
import { openKerchunkParquet, parseKerchunkJson, type ReferenceIndex } from "./kerchunk-index.ts";
import { assertSame, chunkFileAt, chunkFileKey, containersKey, openIndexed } from "./open-references.ts";

/** Options of writing a set of kerchunk references. */
export interface KerchunkOptions extends StoreOptions, Pick<StreamSettings, "onFailure"> {
  /** JSON, or Parquet, which supports only documents of Zarr v2. */
  readonly form: "json" | "parquet";
  /** Zarr version of the documents (default 3 for JSON). */
  readonly format?: ReferenceFormat | undefined;
  /** Containers of the objects (default: one for their common folder). Every location must be in one of them. */
  readonly containers?: Iterable<Container> | undefined;
  /** Container of the common folder, if none are passed (default: named after its kind of store; anonymous, except for local files). */
  readonly containerFor?: ((folder: string) => Container) | undefined;
  /** Opens containers to read the result back; undefined skips that. */
  readonly openContainer?: OpenContainer | undefined;
  /** Returns the sources of the references, once all are written. */
  readonly sources?: (() => readonly ReferredSource[]) | undefined;
  /** Rows of a Parquet file. */
  readonly recordSize?: number | undefined;
  /** Replaces an existing set (default false: `CONFLICT`). */
  readonly overwrite?: boolean | undefined;
  /**
   * JSON: returns the location by which readers reach an object of the target. Chunks that were made for the references are then stored
   * in objects next to the set, if they take more than 64 KiB (default: always in the set).
   */
  readonly locateChunks?: ((key: string) => string) | undefined;
}

/** What was written. */
export interface ReferenceResult extends ReferenceCounts {
  readonly arrays: number;
  readonly containers: readonly Container[];
  /** Chunks that were read back and compared with the source. */
  readonly sampled: number;
  readonly notes: readonly string[];
  /** Names of the objects next to a set in JSON that hold chunks (default: none). */
  readonly chunkFiles?: readonly string[];
}

/** Implements `writeKerchunk` of the entry. */
export async function writeKerchunk(
  plans: AsyncIterable<ReferencePlan>,
  target: WritableStore,
  path: string,
  options: KerchunkOptions,
): Promise<ReferenceResult> {
  checkOptions(
    options,
    "containerFor containers form format locateChunks onFailure openContainer overwrite recordSize signal sources",
  );
  const { form, overwrite, signal } = options;
  const format = form === "parquet" ? 2 : (options.format ?? 3);
  if (form === "parquet" && options.format === 3)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      "kerchunk's Parquet holds documents of Zarr v2 only; take JSON for Zarr v3",
      { field: "format", expected: 2, found: 3 },
    );
  await assertFree(target, path, options);
  const set = new ReferenceSet(plans, options.containers, options.containerFor);
  const files = new ChunkFiles(target, path, options);
  if (form === "json") await files.writeSet(set.items(options), format);
  else
    await writeKerchunkParquet(set.items(options), target, path, { recordSize: options.recordSize, signal });
  const containers = set.containers();
  const closed = [...set.used].find(isClosed);
  const described = new TextEncoder().encode(formatContainers(containers, options.sources?.()));
  await putAgain(target, containersKey(path), described, signal);
  const left = overwrite === true || files.names.length > 0 ? await files.removeOthers() : [];
  const sampled =
    options.openContainer === undefined || closed !== undefined
      ? 0
      : await readSamples(set, target, path, { ...options, format });
  const result = set.result();
  const notes = [...result.notes, ...left, ...(closed === undefined ? [] : [notReadBack(closed)])];
  return { ...result, notes, containers: [...containers], sampled, chunkFiles: files.names };
}

/** Bytes of made chunks up to which they are in the set itself: base64 makes them a third longer, and every reader loads them. */
const MOST_INLINED = 64 << 10;
/** Bytes of chunks from which on an object is written; they are in memory until then. */
const CHUNK_FILE_BYTES = 32 << 20;

/** Writes a set in JSON, and objects next to it with chunks that were made for it. Their names say what is in them, so none ever changes. @see FORMAT.md [FV-08] */
class ChunkFiles {
  readonly names: string[] = [];
  readonly #new: string[] = [];
  readonly #target: WritableStore;
  readonly #path: string;
  readonly #options: Pick<KerchunkOptions, "locateChunks" | "signal">;

  constructor(target: WritableStore, path: string, options: KerchunkOptions) {
    this.#target = target;
    this.#path = path;
    this.#options = options;
  }

  /** Writes the objects before the set that refers to them, and removes them if the set is not written. */
  async writeSet(items: AsyncIterable<ReferenceItem>, format: ReferenceFormat): Promise<void> {
    const { locateChunks, signal } = this.#options;
    const all = locateChunks === undefined ? items : this.#move(items, locateChunks);
    try {
      await putAgain(this.#target, this.#path, formatKerchunkJson(all, format), signal);
    } catch (error) {
      for (const key of this.#new) await this.#target.delete(key).catch(() => {});
      throw error;
    }
  }

  /** Yields the items, with references instead of the chunks that were moved. Chunks that the caller wants in the set stay there. */
  async *#move(
    items: AsyncIterable<ReferenceItem>,
    locate: (key: string) => string,
  ): AsyncGenerator<ReferenceItem> {
    const held: NativeChunk[] = [];
    let size = 0;
    for await (const item of items) {
      if (item.kind !== "native" || item.reason === "inlined") {
        yield item;
        continue;
      }
      held.push(item);
      size += item.bytes.length;
      if (size < CHUNK_FILE_BYTES) continue;
      yield* refer(held, locate(await this.#put(held)));
      held.length = 0;
      size = 0;
    }
    if (this.names.length === 0 && size <= MOST_INLINED) yield* held;
    else if (size > 0) yield* refer(held, locate(await this.#put(held)));
  }

  async #put(chunks: readonly NativeChunk[]): Promise<string> {
    const { signal } = this.#options;
    const bytes = joinBytes(chunks.map((chunk) => chunk.bytes));
    const key = chunkFileKey(this.#path, toHex((await digest("sha256", bytes)).subarray(0, 16)));
    if ((await this.#target.stat(key, { signal })) === undefined) this.#new.push(key);
    await putAgain(this.#target, key, bytes, signal);
    this.names.push(splitKey(key).name);
    return key;
  }

  /** Removes the objects of former states of the set. The result is a note if it fails: the set is right without it. */
  async removeOthers(): Promise<string[]> {
    try {
      for await (const { name, kind } of this.#target.list(splitKey(this.#path).folder)) {
        const key = kind === "object" ? chunkFileAt(this.#path, name) : undefined;
        if (key !== undefined && !this.names.includes(name)) await this.#target.delete(key);
      }
      return [];
    } catch (error) {
      return [`chunk files of former states were not removed: ${String(error)}`];
    }
  }
}

/** Puts an object, and removes what killed processes have left of it. */
async function putAgain(
  target: WritableStore,
  key: string,
  source: PutSource,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { folder, name } = splitKey(key);
  await target.removeLeftovers?.(folder, { names: new Set([name]), signal });
  await target.put(key, source, { signal });
}

/** True for a container that needs credentials: the writer of references may not have them. */
export function isClosed({ credentials, anonymous }: Container): boolean {
  return credentials !== undefined && anonymous !== true;
}

/** The note for a result with such a container. */
export function notReadBack({ name, credentials }: Container): string {
  return `nothing was read back: container "${name}" is for those with the credentials "${credentials}"`;
}

/** References to chunks that are one after the other in an object. */
function* refer(chunks: readonly NativeChunk[], location: string): Generator<ReferenceItem> {
  let offset = 0;
  for (const { node, index, bytes } of chunks) {
    yield { kind: "virtual", node, index, location, offset, length: bytes.length, guard: undefined };
    offset += bytes.length;
  }
}

/** Reads samples of every array through the written set. */
async function readSamples(
  set: ReferenceSet,
  target: WritableStore,
  path: string,
  { form, format, signal, openContainer, onFailure }: KerchunkOptions,
): Promise<number> {
  const keyOf = format === 2 ? zarr2ChunkKey : chunkKey;
  const wanted = set.arrays.flatMap((array) =>
    sampledCells(array).map((cell) => joinKey(array.node, keyOf(array.positionOf(cell)))),
  );
  const index =
    form === "json"
      ? await excerptKerchunkJson(target, path, new Set(wanted), { signal })
      : await openKerchunkParquet(target, path, { signal });
  const references = openIndexed(index, target, path, { containers: set.containers(), openContainer });
  try {
    return await sampleArrays(
      set.arrays,
      ({ node, sampledBytes }, index) => {
        const key = `/${joinKey(node, keyOf(index))}`;
        if (sampledBytes === undefined) return references.get(key, { signal });
        return references.getRange(key, { suffixLength: sampledBytes }, { signal });
      },
      onFailure,
    );
  } finally {
    await references.close();
  }
}

/** Collects the pieces of a set while they pass: counts them, matches their locations with containers, remembers their arrays. */
export class ReferenceSet {
  readonly arrays: ReferencedArray[] = [];
  /** The containers passed that references need. */
  readonly used: Set<Container> = new Set();
  readonly #plans: AsyncIterable<ReferencePlan>;
  readonly #given: Containers | undefined;
  readonly #containerFor: (folder: string) => Container;
  readonly #counts: ReferenceCounts = { virtual: 0, padded: 0, recoded: 0, inlined: 0 };
  readonly #notes: string[] = [];
  #common: string | undefined;
  #location: string | undefined;

  constructor(
    plans: AsyncIterable<ReferencePlan>,
    containers: Iterable<Container> | undefined,
    containerFor: (folder: string) => Container = defaultContainer,
  ) {
    this.#plans = plans;
    this.#containerFor = containerFor;
    this.#given = containers === undefined ? undefined : new Containers(containers);
  }

  /** Yields the pieces, in the order of `streamReferences`. */
  async *items(settings: StreamSettings): AsyncGenerator<ReferenceItem> {
    for await (const item of streamReferences(this.#noting(), this.#counts, settings)) {
      if (item.kind === "array") this.arrays.push(item.array);
      if (item.kind === "virtual" && item.location !== this.#location) this.#note(item.location);
      yield item;
    }
  }

  /** Returns the containers that the references need: those passed, or one for all. */
  containers(): Containers {
    if (this.#given !== undefined) return this.#given;
    return new Containers(this.#common === undefined ? [] : [this.#containerFor(this.#common)]);
  }

  result(): Omit<ReferenceResult, "containers" | "sampled"> {
    return { ...this.#counts, arrays: this.arrays.length, notes: this.#notes };
  }

  async *#noting(): AsyncGenerator<ReferencePlan> {
    for await (const plan of this.#plans) {
      this.#notes.push(...plan.notes.map((note) => noteOn(plan.node, note)));
      yield plan;
    }
  }

  #note(location: string): void {
    this.#location = location;
    if (this.#given !== undefined) {
      this.used.add(this.#given.match(location));
      return;
    }
    const known = this.#common;
    if (known !== undefined && location.startsWith(known)) return;
    this.#common = commonFolder(known === undefined ? [location] : [`${known}x`, location]);
    if (this.#common === undefined)
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `the archives have no common folder, ${known ?? ""} and ${location}; give a container for each`,
        { field: "container", found: location },
      );
  }
}

/** Chunks of an array that are read back: the first, a middle one and the last. */
function sampledCells({ count }: ReferencedArray): readonly number[] {
  return count === 0 ? [] : [...new Set([0, count >> 1, count - 1])];
}

/**
 * Compares the first, a middle and the last chunk of every array with the source. Resolves with their number. `onFailure`, if
 * given, is called for chunks that are damaged in the source.
 */
export async function sampleArrays(
  arrays: readonly ReferencedArray[],
  read: (array: ReferencedArray, index: readonly number[]) => Promise<Uint8Array | undefined>,
  onFailure?: StreamSettings["onFailure"],
): Promise<number> {
  let sampled = 0;
  for (const array of arrays)
    for (const cell of sampledCells(array)) {
      const index = array.positionOf(cell);
      const wanted = await array.sample(cell).catch((error: unknown) => {
        if (onFailure === undefined || !isSuperchunkError(error) || !error.isDamage) throw error;
        const { code, message } = error;
        onFailure({
          path: array.source,
          node: array.node,
          code,
          message: `is referenced, but damaged: ${message}`,
        });
        return undefined;
      });
      if (wanted === undefined) continue;
      assertSame(await read(array, index), wanted, joinKey(array.node, chunkKey(index)));
      sampled++;
    }
  return sampled;
}

async function assertFree(
  target: WritableStore,
  path: string,
  { form, overwrite, signal }: KerchunkOptions,
): Promise<void> {
  if (overwrite === true) return;
  const key = form === "json" ? path : joinKey(path, ".zmetadata");
  if ((await target.stat(key, { signal })) === undefined) return;
  throw new SuperchunkError(
    "CONFLICT",
    "a set of references exists here; remove it, or replace it with {overwrite: true}",
    { path: target.describe(key) },
  );
}

/** Bytes that are read at a time. */
const WINDOW = 1 << 20;

/** An excerpt of the set at `path`: only the `wanted` keys and their guards. */
async function excerptKerchunkJson(
  store: ReadableStore,
  path: string,
  wanted: ReadonlySet<string>,
  options: StoreOptions,
): Promise<ReferenceIndex> {
  const refs: Record<string, unknown> = {};
  const guards: Record<string, unknown> = {};
  const locations = new Set<string>();
  for await (const line of linesOf(store, path, options)) {
    const match = /^("(?:[^"\\]|\\.)*"):(.*?),?$/s.exec(line);
    if (match === null) continue;
    const [, quoted = "", value = ""] = match;
    const name = JSON.parse(quoted) as string;
    if (wanted.has(name)) {
      const reference = JSON.parse(value) as unknown;
      refs[name] = reference;
      if (Array.isArray(reference)) locations.add(String(reference[0]));
    } else if (locations.has(name)) guards[name] = JSON.parse(value);
  }
  return parseKerchunkJson(JSON.stringify({ version: 1, refs, guards }), store.describe(path));
}

async function* linesOf(store: ReadableStore, path: string, options: StoreOptions): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for (let offset = 0; ; offset += WINDOW) {
    const bytes = await store.getRange(path, { offset, length: WINDOW }, options);
    if (bytes === undefined)
      throw new SuperchunkError("NOT_FOUND", "the set of references has vanished", {
        path: store.describe(path),
      });
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
    if (bytes.length < WINDOW) break;
  }
  yield rest;
}

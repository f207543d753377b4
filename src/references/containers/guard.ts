/**
 * Guards: what shows whether an object is still the one whose chunks were found.
 *
 * Knows what a store reports about an object; must not know references' forms.
 */
import { SuperchunkError } from "../../errors.ts";
import { deflateZlib } from "../../format/encode-file.ts";
import { inflateUnchecked } from "../../format/inflate.ts";
import { runPooled } from "../../store/pool.ts";
import type { ObjectInfo, ReadableStore, StoreOptions } from "../../store/types.ts";

/** State of an object when its chunks were found. Readers refuse an object that has changed. */
export interface Guard {
  /** Bytes of the object. */
  readonly size: number;
  /** Strong ETag, quotes included; absent if the server has none. */
  readonly etag?: string;
  /** Seconds since 1970, rounded up. The object was not written to later. */
  readonly lastModified?: number;
}

/** Objects that are checked again at a time. */
const AT_ONCE = 16;

/** The guard of an object. Throws `UNSUPPORTED` if its store reports neither an ETag nor a time. */
export function guardOf(info: ObjectInfo, path: string): Guard {
  if (info.etag === undefined && info.modified === undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "the server reports neither an ETag nor a time of the last change for this object, so a change would go unnoticed; " +
        "allow references without guards if the object never changes",
      { path, field: "guard" },
    );
  return {
    size: info.size,
    ...(info.etag === undefined ? {} : { etag: info.etag }),
    // Icechunk 2 stores whole seconds. If they were rounded down, an unchanged object would be refused.
    ...(info.modified === undefined ? {} : { lastModified: Math.ceil(info.modified / 1000) }),
  };
}

/** State, when the references were written, of an object that every change of an archive replaces. @see FORMAT.md [FV-03] */
export interface ReferredSource extends Guard {
  readonly location: string;
}

/** The object in an array's folder that each writer replaces. */
const SIZES = "meta/sizes";

/** The source for an array in the folder `path`; undefined if no object of it shows changes. */
export async function sourceOf(
  store: ReadableStore,
  path: string,
  toLocation: (described: string) => string,
  options: StoreOptions,
): Promise<ReferredSource | undefined> {
  const key = path === "" ? SIZES : `${path}/${SIZES}`;
  const info = await store.stat(key, options);
  if (info === undefined || (info.etag === undefined && info.modified === undefined)) return undefined;
  const described = store.describe(key);
  return { location: toLocation(described), ...guardOf(info, described) };
}

/** Compares an object with its guard. Throws `STALE` if it has changed. */
export function checkGuard(guard: Guard, info: ObjectInfo, path: string): void {
  const refuse = (field: string, expected: unknown, found: unknown): SuperchunkError =>
    new SuperchunkError(
      "STALE",
      `the object has changed since it was referenced: its ${field} was ${String(expected)}, and is now ${String(found)}; ` +
        "write the references again",
      { path, field, expected, found },
    );
  if (info.size !== guard.size) throw refuse("size", guard.size, info.size);
  if (guard.etag !== undefined && info.etag !== undefined) {
    if (guard.etag !== info.etag) throw refuse("etag", guard.etag, info.etag);
    return;
  }
  if (guard.lastModified !== undefined && info.modified !== undefined) {
    const modified = info.modified / 1000;
    // An earlier time also means another object, such as a restored backup, but some stores round down. [FV-06]
    const isOther = modified > guard.lastModified || modified < guard.lastModified - 1;
    if (isOther) throw refuse("last-modified", guard.lastModified, modified);
    return;
  }
  throw new SuperchunkError(
    "UNSUPPORTED",
    "the references guard this object by a property that its store does not report, so a change would go unnoticed",
    { path, field: "guard" },
  );
}

/** Numbers kept of an object: a hash of its version, its size and its time. */
const SEEN = 3;
/** Objects whose numbers share an array: few, because most arrays have few objects, and arrays are never enlarged by copying. */
const TOGETHER = 256;

/** Remembers the state of objects, and compares it at the end of a scan. */
export class SeenObjects {
  readonly #store: ReadableStore;
  /** In the order in which the objects were seen: a million take 24 MB. */
  readonly #numbers: Float64Array[] = [];
  #count = 0;
  readonly #etags = new PackedTexts();

  constructor(store: ReadableStore) {
    this.#store = store;
  }

  /** Notes an object before it is read. Throws `INCOMPLETE` if it does not exist. */
  async see(key: string, options: StoreOptions): Promise<ObjectInfo> {
    const info = await this.#store.stat(key, options);
    if (info === undefined) throw this.#missing(key);
    this.note(info);
    return info;
  }

  /** Notes the state of the next object, as its reader saw it. */
  note({ version, size, modified, etag }: ObjectInfo): void {
    const n = this.#count++;
    if (n % TOGETHER === 0) this.#numbers.push(new Float64Array(SEEN * TOGETHER));
    this.#numbersOf(n).set([hashVersion(version), size, modified ?? Number.NaN]);
    this.#etags.add(etag ?? "");
  }

  /** ETags of the objects in the order in which they were seen; empty for those without one. */
  get etags(): Iterable<string> {
    return this.#etags;
  }

  /**
   * Checks objects again, starting with the `n`-th; `etags` are those seen before. Throws `STALE` if one has changed or is
   * gone.
   */
  async seeAgain(
    n: number,
    keys: readonly string[],
    etags: readonly string[],
    options: StoreOptions,
  ): Promise<readonly ObjectInfo[]> {
    const infos = await this.#statAll(keys, options);
    return keys.map((key, i) => {
      const info = infos[i];
      const [hash, size = 0, modified = Number.NaN] = this.#numbersOf(n + i);
      if (info !== undefined && hashVersion(info.version) === hash) return info;
      throw this.#changed(key, { size, modified, etag: etags[i] ?? "" }, info);
    });
  }

  #numbersOf(n: number): Float64Array {
    const at = SEEN * (n % TOGETHER);
    return this.#numbers[Math.floor(n / TOGETHER)]?.subarray(at, at + SEEN) ?? new Float64Array(0);
  }

  #changed(
    key: string,
    before: { readonly size: number; readonly modified: number; readonly etag: string },
    now: ObjectInfo | undefined,
  ): SuperchunkError {
    const path = this.#store.describe(key);
    const again = "try again when its writer is done";
    const { size, modified, etag } = before;
    if (now === undefined) {
      const [expected, found] = [`${size} bytes`, "nothing"];
      return new SuperchunkError(
        "STALE",
        `the object was removed while it was being referenced: it had ${expected}, and no longer exists; ${again}`,
        { path, field: "object", expected, found },
      );
    }
    const [field, expected, found] =
      size !== now.size
        ? (["size", size, now.size] as const)
        : etag !== "" && etag !== now.etag
          ? (["etag", etag, now.etag ?? "none"] as const)
          : modified !== now.modified && !Number.isNaN(modified)
            ? (["last-modified", isoTime(modified), isoTime(now.modified)] as const)
            : (["version", "the object that was there first", "another one in its place"] as const);
    return new SuperchunkError(
      "STALE",
      `the object was changed while it was being referenced: its ${field} was ${expected}, and is now ${found}; ${again}`,
      { path, field, expected, found },
    );
  }

  async #statAll(
    keys: readonly string[],
    options: StoreOptions,
  ): Promise<readonly (ObjectInfo | undefined)[]> {
    const heads = await this.#store.getHeads?.(keys, 0, options);
    if (heads !== undefined) return heads.map((head) => head?.info);
    const infos = new Array<ObjectInfo | undefined>(keys.length).fill(undefined);
    const look = async ([i, key]: [number, string], signal: AbortSignal): Promise<void> => {
      infos[i] = await this.#store.stat(key, { signal });
    };
    await runPooled(keys.entries(), AT_ONCE, look, options.signal);
    return infos;
  }

  #missing(key: string): SuperchunkError {
    return new SuperchunkError(
      "INCOMPLETE",
      "the file is missing, but the archive's metadata count it. The archive is incomplete; look for a complete copy",
      { path: this.#store.describe(key), expected: "a file", found: "nothing" },
    );
  }
}

function isoTime(modified: number | undefined): string {
  return modified === undefined ? "unknown" : new Date(modified).toISOString();
}

/** A 53-bit hash: two 32-bit FNV-1a hashes with different starts; the second gives the lower bits. */
function hashVersion(text: string): number {
  let first = 0x811c9dc5;
  let second = 0x01000193;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    first = Math.imul(first ^ code, 0x01000193);
    second = Math.imul(second ^ (code + i), 0x85ebca6b);
  }
  return (first >>> 0) * 2 ** 21 + (second >>> 11);
}

// Many texts that are read once more, in order, in little memory: a million file keys take some megabytes.
//
// Must not know what the texts mean.

const PIECE = 1 << 16;
/** Further characters that each text takes in a piece. */
const AROUND = 3;
/** The lowest level of compression is enough for texts that are as repetitive as keys. */
const LEVEL = 1;

/** A list of texts that only grows. */
export class PackedTexts {
  readonly #pieces: { readonly bytes: Uint8Array; readonly length: number }[] = [];
  #open: string[] = [];
  #characters = 0;

  add(text: string): void {
    this.#open.push(text);
    this.#characters += text.length + AROUND;
    if (this.#characters < PIECE) return;
    const plain = new TextEncoder().encode(JSON.stringify(this.#open));
    this.#pieces.push({ bytes: deflateZlib(plain, LEVEL), length: plain.length });
    this.#open = [];
    this.#characters = 0;
  }

  clear(): void {
    this.#pieces.length = 0;
    this.#open = [];
    this.#characters = 0;
  }

  *[Symbol.iterator](): Generator<string, void, undefined> {
    const decoder = new TextDecoder();
    for (const { bytes, length } of this.#pieces)
      yield* JSON.parse(decoder.decode(inflateUnchecked(bytes, length, "", 0))) as string[];
    yield* this.#open;
  }
}

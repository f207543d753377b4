/**
 * Stores in buckets: S3, Google Cloud Storage, Azure Blob Storage.
 *
 * Knows keys, versions, conditions and listings; the verbs are those of a `BucketClient`. Must not know archives.
 */

import { setMaxListeners } from "node:events";
import { keepFirst } from "../../bytes/arrays.ts";
import { checkOptions } from "../../bytes/check-options.ts";
import { SuperchunkError } from "../../errors.ts";
import { checkFolder, checkKey, checkRange, lengthOf } from "../../store/key.ts";
import { Turns } from "../../store/pool.ts";
import { readPieces } from "../../store/source.ts";
import type {
  ByteRange,
  DeleteOptions,
  ListEntry,
  ObjectHead,
  ObjectInfo,
  PutOptions,
  PutSource,
  StoreOptions,
  WritableStore,
} from "../../store/types.ts";
import type { BucketClient, Call, Provider, Putting } from "./client.ts";
import { type S3ClientOptions, s3Provider } from "./s3.ts";

/** Keys whose version is remembered; the oldest is forgotten first. */
const MAX_VERSIONS = 100_000;
/** Tries to read an interrupted body; the clients repeat whole requests by themselves. */
const BODY_TRIES = 4;
/** Bytes of a part, and most bytes of an object that is uploaded at once. S3 requires parts of at least 5 MiB. */
const PART_SIZE = 8 * 1024 * 1024;
/** S3 allows 10,000 parts. Their size doubles after this many parts, which makes room for 5 TiB. */
const PARTS_OF_A_SIZE = 1200;
/** Parts under way at a time. */
const PARTS_AT_ONCE = 4;

/** Where the objects of a store are in a bucket. */
interface BucketPlace {
  readonly bucket: string;
  /** Prefix of all keys, without a final `/`; default none. */
  readonly prefix?: string | undefined;
  /** Requests under way at a time, from 1; default 16. */
  readonly maxConcurrent?: number | undefined;
}

/** Options of an {@link S3Store}. */
export interface S3StoreOptions extends S3ClientOptions, BucketPlace {}

/** Result of a read. */
interface ReadObject extends ObjectHead {
  readonly version: string | undefined;
}

/**
 * Objects of a bucket below a prefix.
 *
 * - The first version seen for a key is remembered. A range of another version is refused with `STALE`, so that bytes of two versions never
 *   mix. `close` forgets the versions. `stat` and `get` see the current version.
 * - `put` with `ifAbsent` or `ifVersion` is a conditional request; losing it is `CONFLICT`. Large sources are uploaded in parts, and appear
 *   at once with the last part.
 */
export class BucketStore implements WritableStore {
  readonly #provider: Provider;
  readonly #place: BucketPlace;
  readonly #turns: Turns;
  readonly #versions = new Map<string, string>();
  /** The connections, which renewed stores share. */
  #shared: { client?: Promise<BucketClient> | undefined } = {};
  #isRenewed = false;
  /** After a write, this store reads each object in its present state. */
  #hasWritten = false;
  /** Resolves if the server obeys conditions of puts. */
  #checked: Promise<void> | undefined;

  constructor(provider: Provider, place: BucketPlace) {
    if (place.bucket === "")
      throw new SuperchunkError("BAD_ARGUMENT", `the address names no ${provider.holder}`, {
        field: "bucket",
      });
    checkFolder(place.prefix ?? "");
    this.#provider = provider;
    this.#place = place;
    this.#turns = new Turns(place.maxConcurrent ?? 16);
  }

  /** True until something is written through this store. */
  get pinsVersions(): boolean {
    return !this.#hasWritten;
  }

  unpin(key: string): void {
    this.#versions.delete(key);
  }

  renew(): BucketStore {
    const renewed = new BucketStore(this.#provider, this.#place);
    renewed.#shared = this.#shared;
    renewed.#isRenewed = true;
    return renewed;
  }

  describe(key: string): string {
    return `${this.#provider.scheme}://${this.#place.bucket}/${this.#keyOf(key)}`;
  }

  async identify(folder: string): Promise<readonly string[]> {
    return [this.describe(folder).replace(/\/+$/, "")];
  }

  async get(key: string, options: StoreOptions = {}): Promise<Uint8Array | undefined> {
    checkKey(key);
    const found = await this.#read(key, undefined, options);
    if (found !== undefined) keepFirst(this.#versions, key, found.version, MAX_VERSIONS);
    return found?.bytes;
  }

  async getRange(key: string, range: ByteRange, options: StoreOptions = {}): Promise<Uint8Array | undefined> {
    return (await this.#readPart(key, range, options))?.bytes;
  }

  getHead(key: string, length: number, options: StoreOptions = {}): Promise<ObjectHead | undefined> {
    return this.#readPart(key, { offset: 0, length }, options);
  }

  async stat(key: string, options: StoreOptions = {}): Promise<ObjectInfo | undefined> {
    checkKey(key);
    const found = await this.#request(key, options, (client, call) => client.stat(this.#keyOf(key), call));
    if (found === undefined) return undefined;
    const { mark: _, ...info } = found;
    keepFirst(this.#versions, key, info.version, MAX_VERSIONS);
    return info;
  }

  async *list(folder: string, options: StoreOptions = {}): AsyncIterable<ListEntry> {
    checkFolder(folder);
    const own = this.#keyOf(folder);
    const prefix = own === "" ? "" : `${own}/`;
    let token: string | undefined;
    do {
      const page = await this.#request(folder, options, (client, call) => client.list(prefix, token, call));
      // An existing bucket answers with an empty page.
      if (page === undefined) throw this.#noBucket(folder);
      for (const { key, size } of page.objects) {
        const name = key.slice(prefix.length);
        if (isName(name)) yield { name, kind: "object", ...(size === undefined ? {} : { size }) };
      }
      for (const each of page.prefixes) {
        const name = each.slice(prefix.length, -1);
        if (isName(name)) yield { name, kind: "folder" };
      }
      token = page.token;
    } while (token !== undefined);
  }

  async put(key: string, source: PutSource, options: PutOptions = {}): Promise<ObjectInfo> {
    checkKey(key);
    const { signal, ifAbsent, ifVersion } = options;
    signal?.throwIfAborted();
    if (ifVersion !== undefined && this.#provider.mayIgnoreConditions?.() === true) {
      this.#checked ??= this.#checkConditions(key);
      await this.#checked.catch((error: unknown) => {
        this.#checked = undefined;
        throw error;
      });
    }
    this.#hasWritten = true;
    const putting: Putting = { mark: crypto.randomUUID(), ifAbsent, ifVersion };
    const parts = cutParts(source, signal);
    const first = await parts.next();
    const second = first.done === true ? first : await parts.next();
    async function* all(): AsyncGenerator<Uint8Array> {
      if (first.done !== true) yield first.value;
      if (second.done !== true) yield second.value;
      yield* parts;
    }
    const whole = first.done === true ? new Uint8Array(0) : first.value;
    const info =
      second.done === true
        ? await this.#commit(key, options, putting, whole.length, (client, call) =>
            client.put(this.#keyOf(key), whole, putting, call),
          )
        : await this.#putParts(key, all(), putting, options);
    this.#versions.set(key, info.version);
    return info;
  }

  async delete(key: string, options: DeleteOptions = {}): Promise<void> {
    checkKey(key);
    this.#hasWritten = true;
    const { ifVersion } = options;
    const send = (client: BucketClient, call: Call) => client.delete(this.#keyOf(key), ifVersion, call);
    if (ifVersion === undefined) await this.#request(key, options, send);
    else await this.#commit(key, options, { mark: crypto.randomUUID(), ifVersion }, 0, send);
    this.#versions.delete(key);
  }

  /** Forgets the versions seen, and closes connections. */
  async close(): Promise<void> {
    this.#versions.clear();
    if (this.#isRenewed) return;
    const { client } = this.#shared;
    this.#shared.client = undefined;
    (await client?.catch(() => undefined))?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #keyOf(key: string): string {
    const { prefix = "" } = this.#place;
    return prefix === "" ? key : key === "" ? prefix : `${prefix}/${key}`;
  }

  /** Sends a request in its turn. Throws the client's errors. */
  async #send<T>(
    { signal }: StoreOptions,
    work: (client: BucketClient, call: Call) => Promise<T>,
  ): Promise<T> {
    signal?.throwIfAborted();
    // Each request under way listens for the abort, which is not a leak.
    if (signal !== undefined) setMaxListeners(0, signal);
    this.#shared.client ??= this.#provider.connect();
    const client = await this.#shared.client;
    try {
      return await this.#turns.run(() => work(client, signal === undefined ? {} : { abortSignal: signal }));
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    }
  }

  /** The same; undefined if the server says that the object does not exist. Throws our errors. */
  async #request<T>(
    key: string,
    options: StoreOptions,
    work: (client: BucketClient, call: Call) => Promise<T>,
  ): Promise<T | undefined> {
    try {
      return await this.#send(options, work);
    } catch (error) {
      if (options.signal?.aborted === true) throw error;
      const { status, isNoBucket } = this.#provider.failureOf(error);
      if (status === 404 && isNoBucket !== true) return undefined;
      throw this.#explain(key, error);
    }
  }

  async #readPart(key: string, range: ByteRange, options: StoreOptions): Promise<ObjectHead | undefined> {
    checkKey(key);
    checkRange(range, this.describe(key));
    if (lengthOf(range) === 0) {
      const info = await this.stat(key, options);
      return info && { bytes: new Uint8Array(0), info };
    }
    const found = await this.#read(key, range, options);
    if (found !== undefined) this.#checkPart(key, range, found);
    return found;
  }

  /** The bytes of an object or of a range; undefined if the object does not exist. */
  async #read(
    key: string,
    range: ByteRange | undefined,
    options: StoreOptions,
  ): Promise<ReadObject | undefined> {
    return this.#request(key, options, async (client, call) => {
      for (let tried = 1; ; tried++) {
        let isAnswered = false;
        try {
          const { version, info, length, body } = await client.get(this.#keyOf(key), range, call);
          isAnswered = true;
          const bytes = await body();
          if (length !== undefined && length !== bytes.length)
            throw new Error(`the body has ${bytes.length} bytes instead of ${length}`);
          return { bytes, version, info };
        } catch (error) {
          call.abortSignal?.throwIfAborted();
          if (this.#provider.failureOf(error).status === 416)
            return { bytes: new Uint8Array(0), version: undefined, info: undefined };
          // The client has already repeated all requests except those with an interrupted body.
          if (!isAnswered || tried >= BODY_TRIES) throw error;
        }
      }
    });
  }

  async #putParts(
    key: string,
    parts: AsyncIterable<Uint8Array>,
    putting: Putting,
    options: PutOptions,
  ): Promise<ObjectInfo> {
    const upload = await this.#request(key, options, (client, call) =>
      client.upload(this.#keyOf(key), putting, call),
    );
    if (upload === undefined) throw this.#noBucket(key);
    let size = 0;
    try {
      const running = new Set<Promise<void>>();
      let failure: { error: unknown } | undefined;
      let count = 0;
      for await (const part of parts) {
        const number = ++count;
        size += part.length;
        const sending: Promise<void> = this.#send(options, () => upload.part(number, part))
          .catch((error: unknown) => {
            failure ??= { error: options.signal?.aborted === true ? error : this.#explain(key, error) };
          })
          .finally(() => running.delete(sending));
        running.add(sending);
        if (running.size >= PARTS_AT_ONCE) await Promise.race(running);
        if (failure !== undefined) break;
      }
      await Promise.all(running);
      if (failure !== undefined) throw failure.error;
      return await this.#commit(key, options, putting, size, () => upload.finish());
    } catch (error) {
      await this.#turns.run(() => upload.abort()).catch(() => undefined);
      throw error;
    }
  }

  /**
   * Sends the request that makes an object visible. If its condition fails, another writer was faster, or this put succeeded, but its answer was
   * lost and it was repeated: then the object has its mark. Throws `CONFLICT`.
   */
  async #commit(
    key: string,
    options: PutOptions,
    { mark, ifAbsent, ifVersion }: Putting,
    size: number,
    work: (client: BucketClient, call: Call) => Promise<unknown>,
  ): Promise<ObjectInfo> {
    try {
      return { size, version: String((await this.#send(options, work)) ?? size) };
    } catch (error) {
      if (options.signal?.aborted === true) throw error;
      const { status, isNoBucket } = this.#provider.failureOf(error);
      const isRefused = status === 412 || status === 409 || (ifVersion !== undefined && status === 404);
      const isConditional = ifAbsent === true || ifVersion !== undefined;
      if (!isConditional || !isRefused || isNoBucket === true) throw this.#explain(key, error);
      const there = await this.#send(options, (client, call) => client.stat(this.#keyOf(key), call)).catch(
        () => undefined,
      );
      if (there?.mark === mark) return { size, version: there.version };
      throw new SuperchunkError(
        "CONFLICT",
        ifAbsent === true
          ? "the object exists already; another writer was faster"
          : "the object has changed; another writer was faster",
        { path: this.describe(key), expected: ifVersion ?? "nothing", found: there?.version ?? "nothing" },
      );
    }
  }

  /**
   * Throws `UNSUPPORTED` if the server ignores or refuses the condition of a put, as some S3-compatible servers do: two writers would delete
   * each other's rows. A put that replaces a version of an object which does not exist must fail, or at least a put of another version.
   */
  async #checkConditions(key: string): Promise<void> {
    const probe = this.#keyOf(`${key}.${crypto.randomUUID()}.tmp`);
    const isObeyed = () =>
      this.#send({}, (client, call) =>
        client.put(probe, new Uint8Array(0), { mark: "", ifVersion: '"0"' }, call),
      ).then(
        () => false,
        (error: unknown) => {
          const { status } = this.#provider.failureOf(error);
          if (status === 501) return false;
          if (status === 404 || status === 409 || status === 412) return true;
          throw this.#explain(key, error);
        },
      );
    if (await isObeyed()) return;
    const hasSecond = await isObeyed();
    await this.#send({}, (client, call) => client.delete(probe, undefined, call));
    if (hasSecond) return;
    const server = this.#provider.server();
    throw new SuperchunkError(
      "UNSUPPORTED",
      `${server} ignores the condition of a put (If-Match), so two writers could delete each other's rows; nothing was replaced. Use a server that obeys it, as Amazon S3 does, or change a copy on a disk and upload it`,
      { path: this.describe(key), field: "If-Match", found: server },
    );
  }

  /** Converts a client's failure to ours with its name and status, but without the client's text about the request, which is signed. */
  #explain(key: string, error: unknown): SuperchunkError {
    // A client that is not installed is not the fault of this object.
    if (error instanceof SuperchunkError) return error.at({ path: this.describe("") });
    const { server, endpointAt } = this.#provider;
    const { name, status, isNoBucket, advice: own } = this.#provider.failureOf(error);
    if (isNoBucket === true) return this.#noBucket(key);
    const words = [
      ...(name === "Error" ? [] : [name]),
      ...(status === undefined ? [] : [`status ${status}`]),
    ];
    const advice =
      own ??
      (status === 401 || status === 403
        ? `access denied by ${server()}; check the credentials and their permissions`
        : status === undefined
          ? `${server()} did not answer; check the endpoint ${endpointAt}`
          : status === 429 || status >= 500
            ? `${server()} is busy or has failed, even after retries; try later, or with fewer processes`
            : `${server()} refused`);
    return new SuperchunkError("IO", words.length === 0 ? advice : `${advice} (${words.join(", ")})`, {
      path: this.describe(key),
      found: status ?? name,
    });
  }

  /** The error for a missing bucket, or for a server of another kind. */
  #noBucket(key: string): SuperchunkError {
    const { holder, server, endpointAt } = this.#provider;
    return new SuperchunkError(
      "NOT_FOUND",
      `no such ${holder} at ${server()}; check its name, and the endpoint ${endpointAt}`,
      { path: this.describe(key), found: "NoSuchBucket" },
    );
  }

  /** Refuses a part of another version than seen before, and one that is longer than requested. */
  #checkPart(key: string, range: ByteRange, { bytes, version }: ReadObject): void {
    keepFirst(this.#versions, key, version, MAX_VERSIONS);
    const expected = this.#versions.get(key);
    const path = this.describe(key);
    if (version !== undefined && version !== expected)
      throw new SuperchunkError(
        "STALE",
        `the object was changed in its ${this.#provider.holder} since it was first read: its version was ${expected}, and is now ${version}; open it again`,
        { path, field: "etag", expected, found: version },
      );
    const asked = lengthOf(range);
    if (bytes.length <= asked) return;
    throw new SuperchunkError("UNSUPPORTED", "the server does not support Range requests; use another", {
      path,
      field: "Range",
      expected: asked,
      found: bytes.length,
    });
  }
}

/** Objects of a bucket in S3 below a prefix. Needs the package `@aws-sdk/client-s3`. */
export class S3Store extends BucketStore {
  constructor(options: S3StoreOptions) {
    checkOptions(options, "anonymous bucket credentials endpoint maxAttempts maxConcurrent prefix region");
    super(s3Provider(options), options);
  }
}

/** A bucket's keys may contain anything; parts that are not valid in our keys are skipped. */
function isName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && !/[\\\0]/.test(name);
}

/** Cuts the source into parts in new memory, which do not change while they are uploaded. */
async function* cutParts(source: PutSource, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
  if (source instanceof Uint8Array && source.length <= PART_SIZE) {
    yield source;
    return;
  }
  let size = PART_SIZE;
  // Grows with the first part, because most objects are smaller.
  let part = new Uint8Array(0);
  let filled = 0;
  let count = 0;
  for await (const piece of readPieces(source, signal))
    for (let from = 0; from < piece.length; ) {
      const length = Math.min(piece.length - from, size - filled);
      if (filled + length > part.length) {
        const room = new Uint8Array(Math.min(size, Math.max(filled + length, 2 * part.length)));
        room.set(part);
        part = room;
      }
      part.set(piece.subarray(from, from + length), filled);
      from += length;
      filled += length;
      if (filled < size) continue;
      yield part;
      if (++count % PARTS_OF_A_SIZE === 0) size *= 2;
      part = new Uint8Array(size);
      filled = 0;
    }
  if (filled > 0) yield part.slice(0, filled);
}

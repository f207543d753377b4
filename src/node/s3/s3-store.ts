/**
 * A bucket, or a part of it, as a writable store.
 *
 * Knows requests, versions and listings of S3; must not know what the bytes are.
 */
import { setMaxListeners } from "node:events";
import type { S3Client } from "@aws-sdk/client-s3";
import { SuperchunkError } from "../../errors.ts";
import { formatRange } from "../../store/http-response.ts";
import { checkFolder, checkKey, checkRange, isPlainPath } from "../../store/key.ts";
import type {
  ByteRange,
  ListEntry,
  ObjectHead,
  ObjectInfo,
  PutOptions,
  PutSource,
  StoreOptions,
  WritableStore,
} from "../../store/types.ts";
import {
  checkEndpoint,
  describeS3Failure,
  loadS3,
  makeClient,
  noSuchBucket,
  type S3ClientOptions,
  type S3Module,
  Turns,
  toS3Error,
} from "./s3-client.ts";
import { putObject } from "./s3-put.ts";

/** Keys whose version is remembered; the oldest is forgotten first. */
const MAX_VERSIONS = 100_000;
/** Tries to read an interrupted body; the SDK repeats whole requests by itself. */
const BODY_TRIES = 4;

/** Options of an {@link S3Store}. */
export interface S3StoreOptions extends S3ClientOptions {
  readonly bucket: string;
  /** Prefix of all keys, without a final `/`; default none. */
  readonly prefix?: string | undefined;
  /** Requests under way at a time, from 1; default 16. */
  readonly maxConcurrent?: number | undefined;
}

/** Result of a GET. */
interface ReadObject {
  readonly bytes: Uint8Array;
  readonly etag: string | undefined;
  /** Facts of the whole object, if the answer has its size. */
  readonly info: ObjectInfo | undefined;
}

/** The SDK and a client, created at the first request. */
interface Connection {
  readonly sdk: S3Module;
  readonly client: S3Client;
}

/**
 * Objects of a bucket below a prefix.
 *
 * - The first ETag seen for a key is remembered. A range of another version is refused with `STALE`, so that bytes of two versions never
 *   mix. `close` forgets the ETags. `stat` and `get` see the current version.
 * - `put` with `ifAbsent` or `ifVersion` is a conditional request; losing it is `CONFLICT`. Large sources are uploaded in parts, and appear
 *   at once with the last part.
 * - Needs the package `@aws-sdk/client-s3`. Credentials are never part of a message.
 */
export class S3Store implements WritableStore {
  readonly #options: S3StoreOptions;
  readonly #turns: Turns;
  readonly #versions = new Map<string, string>();
  #connection: Promise<Connection> | undefined;
  /** After a write, this store reads each object in its present state. */
  #hasWritten = false;

  constructor(options: S3StoreOptions) {
    if (options.bucket === "")
      throw new SuperchunkError("BAD_ARGUMENT", "the address names no bucket", { field: "bucket" });
    checkFolder(options.prefix ?? "");
    this.#options = options;
    this.#turns = new Turns(Math.max(1, options.maxConcurrent ?? 16));
  }

  /** True until something is written through this store. */
  get pinsVersions(): boolean {
    return !this.#hasWritten;
  }

  unpin(key: string): void {
    this.#versions.delete(key);
  }

  describe(key: string): string {
    return `s3://${this.#options.bucket}/${this.#keyOf(key)}`;
  }

  async identify(folder: string): Promise<readonly string[]> {
    return [this.describe(folder).replace(/\/+$/, "")];
  }

  async get(key: string, options: StoreOptions = {}): Promise<Uint8Array | undefined> {
    checkKey(key);
    const found = await this.#read(key, undefined, options);
    if (found !== undefined) this.#remember(key, found.etag);
    return found?.bytes;
  }

  async getRange(key: string, range: ByteRange, options: StoreOptions = {}): Promise<Uint8Array | undefined> {
    checkKey(key);
    const path = this.describe(key);
    checkRange(range, path);
    const header = formatRange(range);
    if (header === undefined) return (await this.stat(key, options)) && new Uint8Array(0);
    const found = await this.#read(key, header, options);
    if (found === undefined) return undefined;
    this.#checkPart(key, range, found);
    return found.bytes;
  }

  async getHead(key: string, length: number, options: StoreOptions = {}): Promise<ObjectHead | undefined> {
    checkKey(key);
    const range = { offset: 0, length };
    checkRange(range, this.describe(key));
    const header = formatRange(range);
    if (header === undefined) return { bytes: new Uint8Array(0), info: await this.stat(key, options) };
    const found = await this.#read(key, header, options);
    if (found === undefined) return undefined;
    this.#checkPart(key, range, found);
    return { bytes: found.bytes, info: found.info };
  }

  async stat(key: string, options: StoreOptions = {}): Promise<ObjectInfo | undefined> {
    checkKey(key);
    const where = { Bucket: this.#options.bucket, Key: this.#keyOf(key) };
    const answer = await this.#send(key, options, ({ sdk, client }, call) =>
      client.send(new sdk.HeadObjectCommand(where), call),
    );
    if (answer === undefined) return undefined;
    if (answer.ContentLength === undefined)
      throw new SuperchunkError("UNSUPPORTED", "the server does not report the size of the object", {
        path: this.describe(key),
      });
    this.#remember(key, answer.ETag);
    return describeObject(answer.ContentLength, answer.ETag, answer.LastModified);
  }

  async *list(folder: string, options: StoreOptions = {}): AsyncIterable<ListEntry> {
    checkFolder(folder);
    const own = this.#keyOf(folder);
    const prefix = own === "" ? "" : `${own}/`;
    let token: string | undefined;
    do {
      const query = {
        Bucket: this.#options.bucket,
        Prefix: prefix,
        Delimiter: "/",
        ...(token === undefined ? {} : { ContinuationToken: token }),
      };
      const page = await this.#send(folder, options, ({ sdk, client }, call) =>
        client.send(new sdk.ListObjectsV2Command(query), call),
      );
      // An existing bucket answers with an empty page.
      if (page === undefined) throw noSuchBucket(this.describe(folder), this.#options);
      for (const { Key = "", Size: size } of page.Contents ?? []) {
        const name = Key.slice(prefix.length);
        if (isName(name)) yield { name, kind: "object", ...(size === undefined ? {} : { size }) };
      }
      for (const { Prefix = "" } of page.CommonPrefixes ?? []) {
        const name = Prefix.slice(prefix.length, -1);
        if (isName(name)) yield { name, kind: "folder" };
      }
      token = page.IsTruncated === true ? page.NextContinuationToken : undefined;
    } while (token !== undefined);
  }

  async put(key: string, source: PutSource, options: PutOptions = {}): Promise<ObjectInfo> {
    checkKey(key);
    const { signal } = options;
    signal?.throwIfAborted();
    this.#hasWritten = true;
    allowListeners(signal);
    const { sdk, client } = await this.#connect();
    const path = this.describe(key);
    const where = { Bucket: this.#options.bucket, Key: this.#keyOf(key) };
    try {
      const info = await putObject({ sdk, client, where, path, turns: this.#turns }, source, options);
      this.#versions.set(key, info.version);
      return info;
    } catch (error) {
      signal?.throwIfAborted();
      throw isOfSdk(error) ? toS3Error(error, path, this.#options) : error;
    }
  }

  async delete(key: string, options: StoreOptions = {}): Promise<void> {
    checkKey(key);
    this.#hasWritten = true;
    const where = { Bucket: this.#options.bucket, Key: this.#keyOf(key) };
    await this.#send(key, options, ({ sdk, client }, call) =>
      client.send(new sdk.DeleteObjectCommand(where), call),
    );
    this.#versions.delete(key);
  }

  /** Forgets the versions seen, and closes connections. */
  async close(): Promise<void> {
    this.#versions.clear();
    const connection = this.#connection;
    this.#connection = undefined;
    (await connection?.catch(() => undefined))?.client.destroy();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #keyOf(key: string): string {
    const { prefix = "" } = this.#options;
    return prefix === "" ? key : key === "" ? prefix : `${prefix}/${key}`;
  }

  #connect(): Promise<Connection> {
    this.#connection ??= loadS3().then((sdk) => ({ sdk, client: makeClient(sdk, this.#options) }));
    return this.#connection;
  }

  /** The bytes of an object or of a range; undefined if the object does not exist. */
  async #read(
    key: string,
    range: string | undefined,
    options: StoreOptions,
  ): Promise<ReadObject | undefined> {
    const query = {
      Bucket: this.#options.bucket,
      Key: this.#keyOf(key),
      ...(range === undefined ? {} : { Range: range }),
    };
    return this.#send(key, options, async ({ sdk, client }, call) => {
      for (let tried = 1; ; tried++) {
        let isAnswered = false;
        try {
          const answer = await client.send(new sdk.GetObjectCommand(query), call);
          isAnswered = true;
          const { Body, ETag, ContentLength, ContentRange, LastModified } = answer;
          const bytes = (await Body?.transformToByteArray()) ?? new Uint8Array(0);
          if (ContentLength !== undefined && ContentLength !== bytes.length)
            throw new Error(`the body has ${bytes.length} bytes, its header promises ${ContentLength}`);
          // Copies, because the SDK's array may be a view of a larger buffer.
          const total = /\/(\d+)$/.exec(ContentRange ?? "")?.[1];
          const size = range === undefined ? bytes.length : total === undefined ? undefined : Number(total);
          return { bytes: new Uint8Array(bytes), etag: ETag, info: describeObject(size, ETag, LastModified) };
        } catch (error) {
          call.abortSignal?.throwIfAborted();
          const { name, status } = describeS3Failure(error);
          if (name === "InvalidRange" || status === 416)
            return { bytes: new Uint8Array(0), etag: undefined, info: undefined };
          // The SDK has already repeated all requests except those with an interrupted body.
          if (!isAnswered || tried >= BODY_TRIES) throw error;
        }
      }
    });
  }

  /** Sends a request in its turn; undefined if the server says that the object does not exist. */
  async #send<T>(
    key: string,
    { signal }: StoreOptions,
    work: (connection: Connection, call: { abortSignal?: AbortSignal }) => Promise<T>,
  ): Promise<T | undefined> {
    signal?.throwIfAborted();
    allowListeners(signal);
    const connection = await this.#connect();
    try {
      return await this.#turns.run(() =>
        work(connection, signal === undefined ? {} : { abortSignal: signal }),
      );
    } catch (error) {
      signal?.throwIfAborted();
      const { name, status } = describeS3Failure(error);
      if (name === "NoSuchKey" || name === "NotFound" || (status === 404 && name !== "NoSuchBucket"))
        return undefined;
      throw error instanceof SuperchunkError ? error : toS3Error(error, this.describe(key), this.#options);
    }
  }

  /** Refuses a part of another version than seen before, and one that is longer than requested. */
  #checkPart(key: string, range: ByteRange, { bytes, etag }: ReadObject): void {
    this.#remember(key, etag);
    const expected = this.#versions.get(key);
    const path = this.describe(key);
    if (etag !== undefined && etag !== expected)
      throw new SuperchunkError(
        "STALE",
        `the object was changed in its bucket since it was first read: its ETag was ${expected}, and is ${etag}; open it again`,
        { path, field: "etag", expected, found: etag },
      );
    const asked = "suffixLength" in range ? range.suffixLength : range.length;
    if (bytes.length <= asked) return;
    throw new SuperchunkError("UNSUPPORTED", "this is a server without Range support; use another", {
      path,
      field: "Range",
      expected: asked,
      found: bytes.length,
    });
  }

  #remember(key: string, version: string | undefined): void {
    if (version === undefined || this.#versions.has(key)) return;
    const [oldest] = this.#versions.size >= MAX_VERSIONS ? this.#versions.keys() : [];
    if (oldest !== undefined) this.#versions.delete(oldest);
    this.#versions.set(key, version);
  }
}

/** Each request under way listens for the abort, which is not a leak. */
function allowListeners(signal: AbortSignal | undefined): void {
  if (signal !== undefined) setMaxListeners(0, signal);
}

function describeObject(
  size: number | undefined,
  etag: string | undefined,
  modified: Date | undefined,
): ObjectInfo | undefined {
  if (size === undefined) return undefined;
  return {
    size,
    version: etag ?? String(size),
    ...(etag === undefined ? {} : { etag }),
    ...(modified === undefined ? {} : { modified: modified.getTime() }),
  };
}

/** A bucket's keys may contain anything; parts that are not valid in our keys are skipped. */
function isName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && !/[\\\0]/.test(name);
}

/** True for failures of the SDK and of the network. Errors of a put's source are thrown unchanged. */
function isOfSdk(error: unknown): boolean {
  return typeof error === "object" &&
    error !== null &&
    ("$metadata" in error || "$fault" in error || "code" in error)
    ? !(error instanceof SuperchunkError)
    : error instanceof Error && /Credentials|Provider|Timeout/.test(error.name);
}

// Addresses of objects in S3: `s3://bucket/key?endpoint=https://…&region=…&anonymous=true`.
//
// Bucket and key are written as in the AWS tools; the part after `?` sets the access. Credentials are not allowed, because
// messages show addresses.

const PARAMETERS = ["endpoint", "region", "anonymous"];

/** Bucket, prefix and settings of an address. Throws `BAD_ARGUMENT`. */
export function parseS3Address(address: string): S3StoreOptions {
  const match = /^s3:\/\/([^/?]*)\/?([^?]*)(?:\?(.*))?$/is.exec(address);
  const [, bucket = "", key = "", query = ""] = match ?? [];
  const path = `s3://${bucket.replace(/^.*@/, "")}/${key}`;
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/i.test(bucket))
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      bucket.includes("@")
        ? "an address of S3 has no user and no password: credentials are found as the AWS tools find them"
        : "an address of S3 is s3://bucket/key, and the name of a bucket has 3 to 63 letters, digits, dots and hyphens",
      { path, field: "bucket" },
    );
  const parameters = new URLSearchParams(query);
  for (const name of parameters.keys()) {
    if (PARAMETERS.includes(name)) continue;
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `unknown S3 setting "${name}"; expected one of ${PARAMETERS.join(", ")}`,
      { path, field: name },
    );
  }
  const endpoint = parameters.get("endpoint") ?? undefined;
  if (endpoint !== undefined) checkEndpoint(endpoint, path);
  const prefix = key.replace(/\/+$/, "");
  if (!isPlainPath(prefix))
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      'the key of an address has parts separated by "/", none of them empty, "." or "..", without backslash',
      { path, field: "key", found: prefix },
    );
  return {
    bucket,
    prefix,
    endpoint,
    region: parameters.get("region") ?? undefined,
    anonymous: ["true", "1", ""].includes(parameters.get("anonymous") ?? "false"),
  };
}
